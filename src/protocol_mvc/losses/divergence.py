"""How far two views of the same samples are apart, as distributions."""

import math

import torch
from torch import Tensor

KERNELS = 4  # of the discrepancy, each four times as wide as the one before


def jensen_shannon(a: Tensor, b: Tensor) -> Tensor:
    r"""Mean over paired rows, p and q their softmax, of :math:`H((p + q) / 2) - (H(p) + H(q)) / 2`."""
    log_p, log_q = a.log_softmax(1), b.log_softmax(1)
    log_mean = torch.logaddexp(log_p, log_q) - math.log(2)
    parts = log_p.exp() * (log_p - log_mean) + log_q.exp() * (log_q - log_mean)
    return parts.sum(1).mean() / 2


def mean_discrepancy(a: Tensor, b: Tensor) -> Tensor:
    r"""Squared maximum mean discrepancy of the rows of a and b (n, d), the biased estimate.

    The kernel is :math:`\sum_{i<4} \exp(-D / w 4^i)` of squared distances D, with w a sixteenth of their mean
    over all pairs of different rows.
    """
    rows = torch.cat([a, b])
    distance = torch.cdist(rows, rows).square()
    mean = distance.sum() / (len(rows) * (len(rows) - 1))
    width = (mean / 4 ** (KERNELS // 2)).clamp_min(torch.finfo(rows.dtype).tiny)
    kernel = sum((torch.exp(-distance / (width * 4**i)) for i in range(KERNELS)), torch.zeros_like(distance))
    n = len(a)
    return kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2 * kernel[:n, n:].mean()
