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
    epsilon: float,
    step: float,
    steps: int,
    box: Box | None,
    generator: torch.Generator,
) -> list[Tensor]:
    r"""Views within epsilon of the given ones at which the loss is high, by projected gradient ascent (PGD).

    From :math:`\delta \sim U[-\epsilon, \epsilon]` in every entry, so many times

    .. math:: \delta \leftarrow \mathrm{clip}(\delta + \alpha\, \mathrm{sign} \nabla_\delta L(x + \delta),
              -\epsilon, \epsilon)

    and then x + delta is brought back into the box.

    Args:
        loss: what is climbed, of the views.
        views: x, (n, D_v) each.
        epsilon: largest change of an entry; without a box, times the standard deviation of its column.
        step: alpha, in the same unit.
        steps: number of steps.
        box: least and largest value an entry may have, or None.
        generator: of the start, on the cpu, so that it is the same on every device.
    """
    unit = [torch.ones_like(x[:1]) if box else x.std(0, unbiased=False, keepdim=True) for x in views]
    start = [torch.rand(x.shape, generator=generator).to(x) * 2 - 1 for x in views]
    delta = [
        _within(x, epsilon * s * u, epsilon * u, box) for x, s, u in zip(views, start, unit, strict=True)
    ]
    for _ in range(steps):
        moved = [(x + d).requires_grad_() for x, d in zip(views, delta, strict=True)]
        value = loss(moved)
        if not value.requires_grad:  # it does not depend on the views: there is nothing to climb
            break
        slopes = torch.autograd.grad(value, moved)
        climbed = [d + step * u * slope.sign() for d, u, slope in zip(delta, unit, slopes, strict=True)]
        delta = [_within(x, d, epsilon * u, box) for x, d, u in zip(views, climbed, unit, strict=True)]
    return [x + d for x, d in zip(views, delta, strict=True)]


def _within(x: Tensor, delta: Tensor, radius: Tensor, box: Box | None) -> Tensor:
    """The change of x, no larger than allowed and not out of the box."""
    delta = torch.clamp(delta, -radius, radius)
    return delta if box is None else (x + delta).clamp(*box) - x


def smoothed_divergence(p: Tensor, q: Tensor) -> Tensor:
    r""":math:`\frac{1}{n} \sum_{ij} \tilde p_{ij} \log (\tilde p_{ij} / \tilde q_{ij})`, both plus 1e-4.

    The sums of the rows are left as they are; the gradient flows through both.
    """
    p, q = p + SMOOTHING, q + SMOOTHING
    return (p * (p / q).log()).sum(1).mean()
