"""Other contrasts of paired rows: spectral and robust."""

import math

import torch
from torch import Tensor


def spectral_contrast(a: Tensor, b: Tensor, *, radius: float = 3.0) -> Tensor:
    r"""The part (n,) of each sample in the spectral contrast of paired rows; their sum is the loss.

    .. math:: -\frac{2}{n} a_i \cdot b_i + \frac{1}{n (n - 1)} \sum_{j \ne i} (a_i \cdot b_j)^2

    Rows longer than the square root of the radius are cut to that length first.
    """
    n = len(a)
    product = _within(a, radius) @ _within(b, radius).T
    positive = product.diagonal()
    negative = product.square().sum(1) - positive.square()
    return negative / max(n * (n - 1), 1) - 2 / n * positive


def robust_contrast(
    a: Tensor, b: Tensor, *, temperature: float = 0.5, density: float = 1e-3, exponent: float = 0.5
) -> Tensor:
    r"""Contrast that does not trust every pair (RINCE), over the 2n stacked rows i of a and b.

    .. math:: \frac{1}{2n} \sum_i \frac{-p_i^e + (\lambda (p_i + n_i))^e}{e}

    with p the exponential of the positive's similarity, divided by the temperature, n the sum of those of
    all negatives, :math:`\lambda` the density and e the exponent.
    """
    stacked = torch.cat([a, b])
    positive = torch.exp((a * b).sum(1) / temperature).repeat(2)
    itself = torch.eye(len(stacked), dtype=torch.bool, device=a.device)
    every = torch.exp(stacked @ stacked.T / temperature).masked_fill(itself, 0)  # the positive among them
    return ((density * every.sum(1)) ** exponent - positive**exponent).mean() / exponent


def _within(x: Tensor, radius: float) -> Tensor:
    longest = math.sqrt(radius)
    length: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x * longest / length.clamp_min(longest)
