"""Deep divergence-based clustering: clusters that are compact, apart, and sure of their members."""

import torch
from torch import Tensor

FLOOR = 1e-9  # of a similarity between clusters, and of the width of the kernel
RELATIVE_WIDTH = 0.15  # rho, of the median squared distance


def ddc(hidden: Tensor, proba: Tensor, relative_width: float = RELATIVE_WIDTH) -> dict[str, Tensor]:
    r"""The three terms for soft assignments A = `proba` (n, k) of samples with features H = `hidden` (n, d).

    .. math:: \mathrm{ddc1} = CS(A), \quad
              \mathrm{ddc2} = \frac{2}{n (n-1)} \sum_{i<j} A_i \cdot A_j, \quad
              \mathrm{ddc3} = CS(M), \; M_{ij} = \exp(-\|A_i - e_j\|^2)

    The first sets clusters apart in the space of H, the second gives different samples different clusters,
    the third pulls assignments to the corners of the simplex.
    """
    kernel = gaussian_kernel(hidden, relative_width)
    return {
        "ddc1": cauchy_schwarz(proba, kernel),
        "ddc2": orthogonality(proba),
        "ddc3": cauchy_schwarz(closeness_to_corners(proba), kernel),
    }


def gaussian_kernel(x: Tensor, relative_width: float = RELATIVE_WIDTH) -> Tensor:
    r""":math:`K_{ij} = \exp(-D_{ij} / 2 s^2)` of squared distances D; :math:`s^2` is rho times their median.

    The median is the lower one of all n^2 entries, the zeros of the diagonal among them; no gradient flows
    through it.
    """
    square = x.square().sum(1)
    distance = (square[:, None] - 2 * x @ x.T + square).clamp_min(0)
    width = (relative_width * distance.detach().median()).clamp_min(FLOOR)
    return torch.exp(-distance / (2 * width))


def cauchy_schwarz(member: Tensor, kernel: Tensor) -> Tensor:
    r"""Mean similarity of two clusters, with :math:`N = B^T K B` for memberships B (n, k).

    .. math:: CS(B) = \frac{2}{k (k-1)} \sum_{a<b} \frac{\max(N_{ab}, 10^{-9})}
              {\sqrt{\max(N_{aa} N_{bb}, 10^{-18})}}
    """
    k = member.shape[1]
    n = member.T @ kernel @ member
    size = n.diagonal()
    ratio = n.clamp_min(FLOOR) / (size[:, None] * size).clamp_min(FLOOR**2).sqrt()
    return 2 / (k * (k - 1)) * ratio.triu(1).sum()


def orthogonality(proba: Tensor) -> Tensor:
    r"""Mean of :math:`A_i \cdot A_j` over pairs of samples; least for clusters of one size.

    It is :math:`(\|\sum_i A_i\|^2 - \sum_i \|A_i\|^2) / n (n-1)`, and 0 for a sample without company.
    """
    n = len(proba)
    return (proba.sum(0).square().sum() - proba.square().sum()) / max(n * (n - 1), 1)


def closeness_to_corners(proba: Tensor) -> Tensor:
    r"""M (n, k), :math:`M_{ij} = \exp(-\|A_i - e_j\|^2)` with the corners :math:`e_j` of the simplex."""
    return torch.exp(2 * proba - 1 - proba.square().sum(1, keepdim=True))
