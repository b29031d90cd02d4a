"""The logit of the virtual column that gives it exactly its mass: a root of one equation."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.transport.problem import AllReduce

CHUNK_ROWS = 2**18  # samples summed at once
MAX_ITER = 500
MAX_ABS_LSE = 1e9  # bound in the initial guess, for samples that no cluster can take
MAX_STEP = 64.0  # first bound on the length of a step; a longer step doubles it


def virtual_logit(
    lse: Tensor, weight: Tensor, virtual_mass: float, all_reduce: AllReduce, tol: float
) -> float:
    r"""Return the s with :math:`\sum_i w_i\, sigmoid(s - L_i) = 1 - \lambda`.

    Newton's method on the log-odds of both sides, which are nearly linear in s, within a bracket.

    Args:
        lse: L (n,), the log-sum-exp of the clusters' logits of each sample.
        weight: w (n,); they sum to 1 over all processes.
        virtual_mass: 1 - lambda.
        all_reduce: sums a tensor over all processes.
        tol: accepted error relative to the smaller of both masses.
    """
    target_logit = math.log(virtual_mass / (1 - virtual_mass))
    s = target_logit + float(all_reduce((weight @ lse.clamp(-MAX_ABS_LSE, MAX_ABS_LSE))[None]))
    low, high, max_step = -math.inf, math.inf, MAX_STEP
    for _ in range(MAX_ITER):
        left, moved, slope = (float(x) for x in all_reduce(_masses(s, lse, weight)))
        # Of the two masses the smaller one is more precise.
        missing = virtual_mass - left if virtual_mass < 0.5 else moved - (1 - virtual_mass)
        if abs(missing) <= tol * min(virtual_mass, 1 - virtual_mass) or not low < s < high:
            break
        low, high = (s, high) if missing > 0 else (low, s)
        step = math.copysign(max_step, missing)
        if min(left, moved, slope) > 0:
            step = (target_logit - math.log(left / moved)) * left * moved / slope
        if abs(step) >= max_step:  # the mass is nearly constant here, between samples that are far apart
            step, max_step = math.copysign(max_step, missing), 2 * max_step
        if not low < s + step < high:
            step = (low + high) / 2 - s
        if not math.isfinite(step):  # a rounding error away from the root
            break
        s += step
    return s


def _masses(s: float, lse: Tensor, weight: Tensor) -> Tensor:
    """Return the mass of the virtual column, that of the clusters, and the derivative of the former."""
    total = weight.new_zeros(3)
    for logit, w in zip((s - part for part in lse.split(CHUNK_ROWS)), weight.split(CHUNK_ROWS), strict=True):
        left, moved = torch.sigmoid(logit), torch.sigmoid(-logit)
        total += torch.stack([w @ left, w @ moved, w @ (left * moved)])
    return total


def bernoulli_divergence(logit: Tensor, other: Tensor) -> Tensor:
    """Return the KL divergence between Bernoulli distributions of the given log-odds, entry by entry."""
    log_p, log_1_p = functional.logsigmoid(logit), functional.logsigmoid(-logit)
    ratio, ratio_1 = log_p - functional.logsigmoid(other), log_1_p - functional.logsigmoid(-other)
    return log_p.exp() * ratio + log_1_p.exp() * ratio_1
