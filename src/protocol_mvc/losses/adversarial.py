"""Perturbations that drive views apart, and how little a prediction should mind them."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Box = tuple[float, float]

SMOOTHING = 1e-4  # added to every probability


def projected_ascent(
    loss: Callable[[list[Tensor]], Tensor],
    views: Sequence[Tensor],
    *,
    eps: float,
    step_size: float,
    n_steps: int,
    boxes: Sequence[Box | None],
    generator: torch.Generator,
) -> list[Tensor]:
    r"""Views within epsilon of the given ones at which the loss is high, by projected gradient ascent (PGD).

    From :math:`x + \delta, \; \delta \sim U[-\epsilon, \epsilon]` in every entry, so many times

    .. math:: x' \leftarrow \Pi\left(x' + \epsilon \alpha\, \mathrm{sign} \nabla L(x')\right)

    where :math:`\Pi` goes to the nearest point within epsilon of x and inside the box.

    Args:
        loss: what is climbed, of the views.
        views: x, (n, D_v) each.
        epsilon: largest change of an entry; in a view without a box, times the deviation of its column.
        step: alpha, length of a step as a share of epsilon.
        steps: number of steps.
        boxes: least and largest value that an entry of each view may have, or None.
        generator: of the start, on the cpu, so that it is the same on every device.
    """
    around = [_around(x, eps, box) for x, box in zip(views, boxes, strict=True)]

    def moved(start: Sequence[Tensor], change: list[Tensor]) -> list[Tensor]:
        parts = zip(start, change, around, strict=True)
        return [(x + radius * d).detach().clamp(low, high) for x, d, (radius, low, high) in parts]

    found = moved(views, [2 * torch.rand(x.shape, generator=generator).to(x) - 1 for x in views])
    for _ in range(n_steps):
        leaves = [x.requires_grad_() for x in found]
        found = moved(
            leaves, [step_size * slope.sign() for slope in torch.autograd.grad(loss(leaves), leaves)]
        )
    return found


def _around(x: Tensor, epsilon: float, box: Box | None) -> tuple[Tensor, Tensor, Tensor]:
    """How far entries may go, and the least and the largest value that they may have."""
    radius = epsilon * (torch.ones_like(x[:1]) if box else x.std(0, correction=0, keepdim=True))
    low, high = x - radius, x + radius
    return (radius, low.clamp(*box), high.clamp(*box)) if box else (radius, low, high)


def smoothed_divergence(p: Tensor, q: Tensor) -> Tensor:
    r""":math:`\frac{1}{n} \sum_{ij} \tilde p_{ij} \log (\tilde p_{ij} / \tilde q_{ij})`, both plus 1e-4.

    The sums of the rows are left as they are; the gradient flows through both.
    """
    p, q = p + SMOOTHING, q + SMOOTHING
    return (p * (p / q).log()).sum(1).mean()
