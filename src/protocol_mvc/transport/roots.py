"""The one-dimensional problem inside: how heavy must the virtual column be to keep exactly its mass?"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.transport.problem import Merge

PIECE = 2**18  # samples looked at together
MOST_STEPS = 500
FAR = 1e9  # samples further out, as those that no cluster can take, do not decide where to start
LEAP = 64.0  # longest step at first; every step that wants to be longer doubles it


def virtual_logit(lse: Tensor, weight: Tensor, rest: float, merge: Merge, tolerance: float) -> float:
    r"""The s with :math:`\sum_i w_i\, sigmoid(s - L_i) = rest`, where L_i is the log-sum-exp of the clusters.

    Newton's method on the log-odds of both sides, which are nearly linear in s, kept inside a bracket.
    """
    goal = math.log(rest / (1 - rest))
    s = goal + float(merge((weight @ lse.clamp(-FAR, FAR))[None]))
    low, high, leap = -math.inf, math.inf, LEAP
    for _ in range(MOST_STEPS):
        left, moved, slope = (float(x) for x in merge(_shares(s, lse, weight)))
        missing = rest - left if rest < 0.5 else moved - (1 - rest)  # of the two the more precise
        if abs(missing) <= tolerance * min(rest, 1 - rest) or not low < s < high:
            break
        low, high = (s, high) if missing > 0 else (low, s)
        step = math.copysign(leap, missing)
        if min(left, moved, slope) > 0:
            step = (goal - math.log(left / moved)) * left * moved / slope
        if abs(step) >= leap:  # the mass hardly changes here, between samples that are far apart
            step, leap = math.copysign(leap, missing), 2 * leap
        if not low < s + step < high:
            step = (low + high) / 2 - s
        if not math.isfinite(step):  # a rounding error away from the root
            break
        s += step
    return s


def _shares(s: float, lse: Tensor, weight: Tensor) -> Tensor:
    """Mass left behind, mass moved, and the derivative of the former, added up in pieces."""
    total = weight.new_zeros(3)
    for logit, w in zip((s - part for part in lse.split(PIECE)), weight.split(PIECE), strict=True):
        left, moved = torch.sigmoid(logit), torch.sigmoid(-logit)
        total += torch.stack([w @ left, w @ moved, w @ (left * moved)])
    return total


def coin_divergence(logit: Tensor, other: Tensor) -> Tensor:
    """KL divergence between coins of the given log-odds."""
    left, kept = functional.logsigmoid(logit), functional.logsigmoid(-logit)
    more_left, more_kept = left - functional.logsigmoid(other), kept - functional.logsigmoid(-other)
    return left.exp() * more_left + kept.exp() * more_kept
