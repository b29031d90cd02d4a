"""Adversarial perturbation of views (PGD), and the divergence of predictions before and after it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Bounds = tuple[float, float]  # smallest and largest allowed value of a view

SMOOTHING = 1e-4  # added to every probability


def projected_ascent(
    loss: Callable[[list[Tensor]], Tensor],
    views: Sequence[Tensor],
    *,
    eps: float,
    step_size: float,
    n_steps: int,
    bounds: Sequence[Bounds | None],
    generator: torch.Generator,
) -> list[Tensor]:
    r"""Return perturbed views with a high loss, by projected gradient ascent (PGD).

    From :math:`x' = x + \delta, \; \delta \sim U[-\epsilon, \epsilon]`, it repeats

    .. math:: x' \leftarrow \Pi\left(x' + \epsilon \alpha\, \mathrm{sign} \nabla L(x')\right)

    where :math:`\Pi` projects onto the values within epsilon of x and the bounds of its view.

    Args:
        loss: the loss L to increase, a function of the views.
        views: x, (n, D_v) each.
        eps: largest change of an entry; in a view without bounds, in standard deviations of its column.
        step_size: alpha, length of a step relative to epsilon.
        n_steps: number of steps.
        bounds: smallest and largest allowed value of each view, or None.
        generator: source of the random start, on the CPU.
    """
    limits = []  # largest change, and smallest and largest value, of each entry
    for x, bound in zip(views, bounds, strict=True):
        radius = eps * (torch.ones_like(x[:1]) if bound else x.std(0, correction=0, keepdim=True))
        low, high = x - radius, x + radius
        limits.append((radius, low.clamp(*bound), high.clamp(*bound)) if bound else (radius, low, high))

    def move(start: Sequence[Tensor], change: list[Tensor]) -> list[Tensor]:
        parts = zip(start, change, limits, strict=True)
        return [(x + radius * d).detach().clamp(low, high) for x, d, (radius, low, high) in parts]

    moved = move(views, [2 * torch.rand(x.shape, generator=generator).to(x) - 1 for x in views])
    for _ in range(n_steps):
        leaves = [x.requires_grad_() for x in moved]
        gradients = torch.autograd.grad(loss(leaves), leaves)
        moved = move(leaves, [step_size * gradient.sign() for gradient in gradients])
    return moved


def smoothed_divergence(p: Tensor, q: Tensor) -> Tensor:
    r"""Return :math:`\frac{1}{n} \sum_{ij} \tilde p_{ij} \log (\tilde p_{ij} / \tilde q_{ij})`.

    The tilde adds 1e-4 to every probability (n, k), without renormalization; the gradient flows through both.
    """
    p, q = p + SMOOTHING, q + SMOOTHING
    return (p * (p / q).log()).sum(1).mean()
