"""Passes over the samples, chunk by chunk: the only place that touches the n x k numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protocol_mvc.transport.problem import Merge, Problem, Sums
from protocol_mvc.transport.roots import coin_divergence

CHUNK_ENTRIES = 2**19  # entries of a chunk by default: a few megabytes, enough to keep all cores busy
LOWEST = -1e30  # log of a probability of zero; finite, so that differences are
EXPONENT = 600.0  # of e, well inside what float64 holds
UNDERFLOW = 1e-250  # masses below are summed again in the log domain

Chunks = Callable[[], Iterator[Tensor]]


def chunks_of(log_p: Any, chunk_rows: int | None) -> Chunks:
    """Row chunks of a tensor, array or memory map; a callable already makes them."""
    if callable(log_p):
        return lambda: (tensor_of(chunk) for chunk in log_p())
    if not hasattr(log_p, "shape"):
        raise ValueError(
            f"log_p must be a tensor, an array or make chunks when called, got {type(log_p).__name__}"
        )
    if log_p.ndim != 2 or 0 in log_p.shape:
        raise ValueError(f"log_p must be a non-empty (n, k) matrix, got shape {tuple(log_p.shape)}")
    rows = chunk_rows or max(1, CHUNK_ENTRIES // log_p.shape[1])
    return lambda: (tensor_of(log_p[first : first + rows]) for first in range(0, len(log_p), rows))


def tensor_of(part: Any) -> Tensor:
    """Numbers for torch, without gradient; numpy's are copied, as torch refuses read-only memory maps."""
    if not isinstance(part, Tensor):
        return torch.from_numpy(np.array(part))
    return part.detach().cpu() if part.device.type == "mps" else part.detach()  # mps has no float64


@dataclass(frozen=True)
class Samples:
    """The log-probabilities and weights of the samples, readable again and again."""

    chunks: Chunks
    weight: Tensor  # (n,) of the samples of this process; sums to 1 over all processes
    merge: Merge  # adds up sums across processes

    def sweep(self, problem: Problem, g: Tensor, gram: bool = False) -> Sums:
        """One pass: column masses, log-sum-exps and, if asked for, the Gram matrix."""
        columns, first = len(g), 0
        total = g.new_zeros(columns + 1 + gram * columns * columns)
        lse = torch.empty_like(self.weight)
        for chunk, weight in self._weighted():
            part, lse[first : first + len(chunk)] = _added_up(problem, chunk, weight, g, gram)
            total += part
            first += len(chunk)
        total = self.merge(total)
        log_mass = self._log_mass(problem, g, total[:columns])
        matrix = total[columns + 1 :].reshape(columns, columns) if gram else None
        return Sums(total[:columns], log_mass, float(total[columns]), lse, matrix)

    def real_lse(self, problem: Problem, g: Tensor) -> Tensor:
        """Log-sum-exp over the clusters alone (n,)."""
        lse, first = torch.empty_like(self.weight), 0
        for chunk, _ in self._weighted():
            lse[first : first + len(chunk)] = _exponentials(problem, chunk, g)[2]
            first += len(chunk)
        return lse

    def corrected(self, problem: Problem, g: Tensor, s: float) -> tuple[Tensor, float]:
        """Cluster masses (k,) with the virtual logit s, and the KL divergence from the plan of g."""
        total = torch.zeros(len(problem.target) + 1).to(g)
        for chunk, weight in self._weighted():
            p, row, lse = _exponentials(problem, chunk, g)
            total[:-1] += (weight * torch.sigmoid(lse - s) / row) @ p
            total[-1] += weight @ coin_divergence(s - lse, g[-1] / problem.epsilon - lse)
        total = self.merge(total)
        return total[:-1], float(total[-1])

    def _weighted(self) -> Iterator[tuple[Tensor, Tensor]]:
        first = 0
        for chunk in self.chunks():
            yield chunk, self.weight[first : first + len(chunk)]
            first += len(chunk)
        if first != len(self.weight):
            raise ValueError(
                f"log_p made {first} rows after {len(self.weight)}: a callable starts anew each time"
            )

    def _log_mass(self, problem: Problem, g: Tensor, mass: Tensor) -> Tensor:
        """Log of the masses; columns that underflow are summed again in the log domain."""
        log_mass = mass.log()
        empty = (mass < UNDERFLOW).nonzero()[:, 0]
        if len(empty):
            log_mass[empty] = self._exact_log_mass(problem, g, empty)
        return log_mass

    def _exact_log_mass(self, problem: Problem, g: Tensor, columns: Tensor) -> Tensor:
        parts = []
        for chunk, weight in self._weighted():
            virtual = _virtual(problem, g).expand(len(chunk), 1)
            logits = torch.cat([_logits(problem, chunk, g), virtual], 1)
            log_p = logits[:, columns] - torch.logsumexp(logits, 1, keepdim=True)
            parts.append(torch.logsumexp(log_p + weight.log()[:, None], 0))
        return _log_of_sum(torch.logsumexp(torch.stack(parts), 0), self.merge)


def _log_of_sum(log: Tensor, merge: Merge) -> Tensor:
    """Log of the sum over processes of numbers given by their logs, when sums are all that can be shared.

    A sum of powers whose exponents fit finds the largest log nearly, and with it a scale for the next sum.
    """
    count = merge(torch.ones_like(log))
    centre = merge(log) / count
    unit = merge((log - centre).abs()) / EXPONENT
    while bool((unit > 1).any()):
        unit = unit.clamp_min(1)
        centre = centre + unit * merge(torch.exp(((log - centre) / unit).clamp_min(-700))).log()
        unit = unit * count.log() / EXPONENT
    return centre + merge(torch.exp((log - centre).clamp_min(-700))).log()


def _logits(problem: Problem, log_p: Tensor, g: Tensor) -> Tensor:
    """(g + log P) / epsilon over the clusters, in float64 whatever the storage."""
    h = g[: len(problem.target)] / problem.epsilon
    return torch.add(h, log_p, alpha=1 / problem.epsilon).clamp_min_(LOWEST)


def _virtual(problem: Problem, g: Tensor) -> Tensor:
    """Logit of the virtual column; -inf where there is none."""
    return g[-1] / problem.epsilon if problem.rest else g.new_tensor(-torch.inf)


def _exponentials(problem: Problem, log_p: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Exponentials of the logits up to a factor per row, their row sums, and the logits' log-sum-exp."""
    p = _logits(problem, log_p, g)
    top = p.amax(1)
    total = p.sub_(top[:, None]).exp_().sum(1)
    return p, total, top + total.log()


def _added_up(
    problem: Problem, log_p: Tensor, weight: Tensor, g: Tensor, gram: bool
) -> tuple[Tensor, Tensor]:
    """Sums over a chunk (masses, log-sum-exp, Gram matrix), flat, and the log-sum-exp of its clusters."""
    p, total, real = _exponentials(problem, log_p, g)
    virtual = _virtual(problem, g)
    left, share = torch.sigmoid(virtual - real), torch.sigmoid(real - virtual) / total
    mass = torch.cat([(weight * share) @ p, (weight @ left)[None]])[: len(g)]
    parts = [mass, (weight @ torch.logaddexp(real, virtual))[None]]
    if gram:
        root = weight.sqrt()
        parts.append(_gram(p.mul_((root * share)[:, None]), root * left)[: len(g), : len(g)].flatten())
    return torch.cat(parts), real


def _gram(split: Tensor, left: Tensor) -> Tensor:
    """Gram matrix of clusters and virtual column.

    Single precision is enough: it bends the steps of Newton's method, not the point they lead to.
    """
    split, left = split.float(), left.float()
    border = (split.T @ left)[:, None]
    below = torch.cat([border.T, (left @ left)[None, None]], 1)
    return torch.cat([torch.cat([split.T @ split, border], 1), below]).double()
