"""Losses of cluster assignments: soft labels, cluster sizes, and deep divergence-based clustering (DDC)."""

import math

import torch
from torch import Tensor

REL_SIGMA = 0.15  # default of the relative kernel width of DDC
MIN_SIMILARITY = 1e-9  # lower bound of similarities between clusters and of the kernel width


def soft_cross_entropy(log_p: Tensor, soft_labels: Tensor) -> Tensor:
    r"""Return the cross-entropy of soft labels (Eqs. 10-11).

    .. math:: -\frac{1}{n} \sum_{ik} T_{ik} \log \hat P_{ik}

    Args:
        log_p: predicted log-probabilities (n, k), or those of several heads (V, n, k).
        soft_labels: T (n, k); rows may sum to less than one, and then count less.

    Returns:
        The scalar loss, or that of each head (V,).
    """
    return -(soft_labels * log_p).sum((-2, -1)) / len(soft_labels)


def kl_to_uniform(p: Tensor) -> Tensor:
    r"""Return the KL divergence of the mean prediction from the uniform distribution.

    It is :math:`\log K + \sum_k m_k \log m_k` with m the mean of p (n, k); 0 if clusters have equal sizes.
    """
    mean = p.mean(0)
    return math.log(len(mean)) + (mean * mean.clamp_min(1e-8).log()).sum()


def ddc(hidden: Tensor, p: Tensor, rel_sigma: float = REL_SIGMA) -> dict[str, Tensor]:
    r"""Return the three terms of deep divergence-based clustering.

    .. math:: \mathrm{ddc1} = CS(A), \quad
              \mathrm{ddc2} = \frac{2}{n (n-1)} \sum_{i<j} A_i \cdot A_j, \quad
              \mathrm{ddc3} = CS(M), \; M_{ij} = \exp(-\|A_i - e_j\|^2)

    The first separates clusters in feature space, the second makes assignments of different samples
    orthogonal, the third pulls assignments to the corners of the simplex.

    Args:
        hidden: features (n, d) from which the kernel is computed.
        p: soft assignments A (n, k).
        rel_sigma: relative width of the kernel, see `gaussian_kernel`.
    """
    kernel, n = gaussian_kernel(hidden, rel_sigma), len(p)
    ddc1 = cauchy_schwarz(p, kernel)
    ddc2 = (p.sum(0).square().sum() - p.square().sum()) / max(n * (n - 1), 1)
    corners = torch.exp(2 * p - 1 - p.square().sum(1, keepdim=True))  # M
    return {"ddc1": ddc1, "ddc2": ddc2, "ddc3": cauchy_schwarz(corners, kernel)}


def gaussian_kernel(x: Tensor, rel_sigma: float = REL_SIGMA) -> Tensor:
    r"""Return the kernel :math:`K_{ij} = \exp(-D_{ij} / 2 \sigma^2)` (n, n) of the rows of x (n, d).

    D are squared distances. :math:`\sigma^2` is `rel_sigma` times the lower median of all n^2 entries of D,
    without gradient.
    """
    square = x.square().sum(1)
    distance = (square[:, None] - 2 * x @ x.T + square).clamp_min(0)
    sigma_squared = (rel_sigma * distance.detach().median()).clamp_min(MIN_SIMILARITY)
    return torch.exp(-distance / (2 * sigma_squared))


def cauchy_schwarz(member: Tensor, kernel: Tensor) -> Tensor:
    r"""Return the mean Cauchy-Schwarz similarity of two clusters.

    With memberships B (n, k), kernel K (n, n) and :math:`N = B^T K B`:

    .. math:: CS(B) = \frac{2}{k (k-1)} \sum_{a<b} \frac{\max(N_{ab}, 10^{-9})}
              {\sqrt{\max(N_{aa} N_{bb}, 10^{-18})}}
    """
    k = member.shape[1]
    n = member.T @ kernel @ member
    size = n.diagonal()
    ratio = n.clamp_min(MIN_SIMILARITY) / (size[:, None] * size).clamp_min(MIN_SIMILARITY**2).sqrt()
    return 2 / max(k * (k - 1), 1) * ratio.triu(1).sum()
