"""Losses that tie predictions to labels, and clusters to sizes."""

import math

from torch import Tensor


def soft_cross_entropy(log_p: Tensor, label: Tensor) -> Tensor:
    r"""Cross-entropy of soft labels, :math:`-\frac{1}{n} \sum_{ik} T_{ik} \log \hat P_{ik}` (Eqs. 10-11).

    Rows of the labels that sum to less than one, samples left for later, count for less.
    """
    return -(label * log_p).sum(1).mean()


def kl_to_uniform(p: Tensor) -> Tensor:
    r"""How unequal clusters are, :math:`\log K + \sum_k m_k \log m_k`, with m the mean of p (n, k).

    It is the divergence of m from the uniform distribution, so it is least, 0, for clusters of one size.
    """
    mean = p.mean(0)
    return math.log(len(mean)) + (mean * mean.clamp_min(1e-8).log()).sum()
