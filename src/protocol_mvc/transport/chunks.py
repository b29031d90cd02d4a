"""Sums over the samples, chunk by chunk: the only module that reads the n x k log-probabilities."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.transport.problem import AllReduce, Problem, SampleSums

CHUNK_ENTRIES = 2**19  # default size of a chunk: a few megabytes, enough to use all cores
MIN_LOG_P = -1e30  # log of probability 0; unlike -inf it has finite differences
MAX_EXPONENT = 600.0  # exp of it is well inside the range of float64
MIN_MASS = 1e-250  # smaller column masses are summed again in the log domain
ROOT_CHUNK_ROWS = 2**18  # samples summed at once in the search for the virtual logit
ROOT_MAX_ITER = 500
ROOT_MAX_LSE = 1e9  # bound in its initial guess, for samples that no cluster can take
ROOT_MAX_STEP = 64.0  # first bound on the length of a step; a longer step doubles it

Chunks = Callable[[], Iterator[Tensor]]


def row_chunks(log_p: Any, chunk_rows: int | None) -> Chunks:
    """Return a function that iterates over the row chunks of log-probabilities.

    Args:
        log_p: tensor, array or memory map (n, k), or a callable that returns an iterator of chunks.
        chunk_rows: rows of a chunk; None takes `CHUNK_ENTRIES` entries. Of no effect for a callable.

    Raises:
        ValueError: If log_p is neither, or not a non-empty matrix.
    """
    if callable(log_p):
        return lambda: (as_tensor(chunk) for chunk in log_p())
    if not hasattr(log_p, "shape"):
        raise ValueError(f"log_p must be a tensor, an array or a callable, got {type(log_p).__name__}")
    if log_p.ndim != 2 or 0 in log_p.shape:
        raise ValueError(f"log_p must be a non-empty (n, k) matrix, got shape {tuple(log_p.shape)}")
    rows = chunk_rows or max(1, CHUNK_ENTRIES // log_p.shape[1])
    return lambda: (as_tensor(log_p[first : first + rows]) for first in range(0, len(log_p), rows))


def as_tensor(values: Any) -> Tensor:
    """Return a tensor without gradient; arrays are copied, since torch refuses read-only memory maps."""
    if not isinstance(values, Tensor):
        return torch.from_numpy(np.array(values))
    return values.detach().cpu() if values.device.type == "mps" else values.detach()  # mps has no float64


@dataclass(frozen=True)
class Samples:
    """Log-probabilities and weights of the samples of this process.

    Args:
        chunks: function that iterates over the row chunks; it is called once per pass.
        weight: row marginal r (n,); it sums to 1 over all processes.
        all_reduce: sums a tensor over all processes.
    """

    chunks: Chunks
    weight: Tensor
    all_reduce: AllReduce

    def sums(self, problem: Problem, g: Tensor, gram: bool = False) -> SampleSums:
        """Return the sums over all samples at potentials g (c,), from one pass over the data."""
        columns = len(g)
        total = g.new_zeros(columns + 1 + gram * columns * columns)
        lse = torch.empty_like(self.weight)
        for chunk, rows in self._chunks_with_rows():
            part, lse[rows] = _chunk_sums(problem, chunk, self.weight[rows], g, gram)
            total += part
        total = self.all_reduce(total)
        log_mass = self._log_mass(problem, g, total[:columns])
        matrix = total[columns + 1 :].reshape(columns, columns) if gram else None
        return SampleSums(total[:columns], log_mass, float(total[columns]), lse, matrix)

    def corrected_plan(self, problem: Problem, g: Tensor, s: float) -> tuple[Tensor, float]:
        """Return cluster masses (k,) with the virtual logit s, and the KL divergence from the plan of g."""
        total = torch.zeros(len(problem.target) + 1).to(g)
        for chunk, rows in self._chunks_with_rows():
            p, row_sum, lse = _cluster_exponentials(problem, chunk, g)
            weight = self.weight[rows]
            total[:-1] += (weight * torch.sigmoid(lse - s) / row_sum) @ p
            total[-1] += weight @ bernoulli_divergence(s - lse, g[-1] / problem.epsilon - lse)
        total = self.all_reduce(total)
        return total[:-1], float(total[-1])

    def _chunks_with_rows(self) -> Iterator[tuple[Tensor, slice]]:
        first = 0
        for chunk in self.chunks():
            yield chunk, slice(first, first + len(chunk))
            first += len(chunk)
        if first != len(self.weight):
            raise ValueError(
                f"log_p gave {first} rows after {len(self.weight)} before: a callable must return a new "
                "iterator of all chunks at every call"
            )

    def _log_mass(self, problem: Problem, g: Tensor, mass: Tensor) -> Tensor:
        """Return the logs of the masses (c,); columns that underflow are summed again in the log domain."""
        log_mass, underflow = mass.log(), (mass < MIN_MASS).nonzero()[:, 0]
        if len(underflow) == 0:
            return log_mass
        parts = []
        for chunk, rows in self._chunks_with_rows():
            virtual = _virtual_logit(problem, g).expand(len(chunk), 1)
            logits = torch.cat([_cluster_logits(problem, chunk, g), virtual], 1)
            log_p = logits[:, underflow] - torch.logsumexp(logits, 1, keepdim=True)
            parts.append(torch.logsumexp(log_p + self.weight[rows].log()[:, None], 0))
        exact = torch.logsumexp(torch.stack(parts), 0)
        log_mass[underflow] = _all_reduce_logsumexp(exact, self.all_reduce)
        return log_mass


def _all_reduce_logsumexp(log: Tensor, all_reduce: AllReduce) -> Tensor:
    """Return the log of the sum over processes of exp(log), entry by entry, by sums over processes alone.

    The sum of exp((log - center) / unit), whose exponents do not overflow, gives a better center and a
    smaller unit, until the unit is 1.
    """
    count = all_reduce(torch.ones_like(log))
    center = all_reduce(log) / count
    unit = all_reduce((log - center).abs()) / MAX_EXPONENT
    while bool((unit > 1).any()):
        unit = unit.clamp_min(1)
        center = center + unit * all_reduce(torch.exp(((log - center) / unit).clamp_min(-700))).log()
        unit = unit * count.log() / MAX_EXPONENT
    return center + all_reduce(torch.exp((log - center).clamp_min(-700))).log()


def _cluster_logits(problem: Problem, log_p: Tensor, g: Tensor) -> Tensor:
    """Return (g + log P) / epsilon for the clusters (rows, k), in float64."""
    h = g[: len(problem.target)] / problem.epsilon
    return torch.add(h, log_p, alpha=1 / problem.epsilon).clamp_min_(MIN_LOG_P)


def _virtual_logit(problem: Problem, g: Tensor) -> Tensor:
    """Return the logit of the virtual column; -inf without one."""
    return g[-1] / problem.epsilon if problem.virtual_mass else g.new_tensor(-torch.inf)


def _cluster_exponentials(problem: Problem, log_p: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return exp(logits) / max of the row (rows, k), their row sums, and the log-sum-exp of the logits.

    The division by the row sums is the update of a (Eq. 47), which makes the rows exact (Eqs. 17 and 46).
    """
    p = _cluster_logits(problem, log_p, g)
    top = p.amax(1)
    total = p.sub_(top[:, None]).exp_().sum(1)
    return p, total, top + total.log()


def _chunk_sums(
    problem: Problem, log_p: Tensor, weight: Tensor, g: Tensor, gram: bool
) -> tuple[Tensor, Tensor]:
    """Return masses, log-sum-exp and Gram matrix of a chunk as one vector, and its clusters' log-sum-exp."""
    p, total, lse = _cluster_exponentials(problem, log_p, g)
    virtual = _virtual_logit(problem, g)
    left, share = torch.sigmoid(virtual - lse), torch.sigmoid(lse - virtual) / total
    mass = torch.cat([(weight * share) @ p, (weight @ left)[None]])[: len(g)]
    parts = [mass, (weight @ torch.logaddexp(lse, virtual))[None]]
    if gram:  # in single precision: it changes the steps of Newton's method, not where they converge to
        root = weight.sqrt()
        clusters, rest = p.mul_((root * share)[:, None]).float(), (root * left).float()
        border = (clusters.T @ rest)[:, None]
        below = torch.cat([border.T, (rest @ rest)[None, None]], 1)
        matrix = torch.cat([torch.cat([clusters.T @ clusters, border], 1), below]).double()
        parts.append(matrix[: len(g), : len(g)].flatten())
    return torch.cat(parts), lse


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
    s = target_logit + float(all_reduce((weight @ lse.clamp(-ROOT_MAX_LSE, ROOT_MAX_LSE))[None]))
    low, high, max_step = -math.inf, math.inf, ROOT_MAX_STEP
    for _ in range(ROOT_MAX_ITER):
        left, moved, slope = (float(x) for x in all_reduce(_root_masses(s, lse, weight)))
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


def _root_masses(s: float, lse: Tensor, weight: Tensor) -> Tensor:
    """Return the mass of the virtual column, that of the clusters, and the derivative of the former."""
    total = weight.new_zeros(3)
    for part, w in zip(lse.split(ROOT_CHUNK_ROWS), weight.split(ROOT_CHUNK_ROWS), strict=True):
        left, moved = torch.sigmoid(s - part), torch.sigmoid(part - s)
        total += torch.stack([w @ left, w @ moved, w @ (left * moved)])
    return total


def bernoulli_divergence(logit: Tensor, other: Tensor) -> Tensor:
    """Return the KL divergence between Bernoulli distributions of the given log-odds, entry by entry."""
    log_p, log_1_p = functional.logsigmoid(logit), functional.logsigmoid(-logit)
    ratio, ratio_1 = log_p - functional.logsigmoid(other), log_1_p - functional.logsigmoid(-other)
    return log_p.exp() * ratio + log_1_p.exp() * ratio_1
