"""Perturbations that drive views apart, and how little a prediction should mind them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Box = tuple[float, float]

SMOOTHING = 1e-4  # added to every probability


class Ball(NamedTuple):
    """The views that are near enough to a given one, entry by entry."""

    center: Tensor  # (n, D)
    radius: Tensor  # (1, D)
    box: Box | None  # least and largest value of an entry

    def project(self, x: Tensor) -> Tensor:
        """The nearest view that is near enough."""
        near = self.center + (x - self.center).clamp(-self.radius, self.radius)
        return near if self.box is None else near.clamp(*self.box)


def projected_ascent(
    loss: Callable[[list[Tensor]], Tensor],
    views: Sequence[Tensor],
    *,
    epsilon: float,
    step: float,
    steps: int,
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
    balls = [Ball(x, epsilon * _unit(x, box), box) for x, box in zip(views, boxes, strict=True)]
    noise = [2 * torch.rand(x.shape, generator=generator).to(x) - 1 for x in views]
    moved = [ball.project(ball.center + ball.radius * d) for ball, d in zip(balls, noise, strict=True)]
    for _ in range(steps):
        leaves = [x.requires_grad_() for x in moved]
        value = loss(leaves)
        if not value.requires_grad:  # it does not depend on the views: there is nothing to climb
            break
        slopes = torch.autograd.grad(value, leaves)
        moved = [
            ball.project(x.detach() + step * ball.radius * slope.sign())
            for ball, x, slope in zip(balls, leaves, slopes, strict=True)
        ]
    return [x.detach() for x in moved]


def _unit(x: Tensor, box: Box | None) -> Tensor:
    """What epsilon is measured in."""
    return x.std(0, correction=0, keepdim=True) if box is None else torch.ones_like(x[:1])


def smoothed_divergence(p: Tensor, q: Tensor) -> Tensor:
    r""":math:`\frac{1}{n} \sum_{ij} \tilde p_{ij} \log (\tilde p_{ij} / \tilde q_{ij})`, both plus 1e-4.

    The sums of the rows are left as they are; the gradient flows through both.
    """
    p, q = p + SMOOTHING, q + SMOOTHING
    return (p * (p / q).log()).sum(1).mean()
