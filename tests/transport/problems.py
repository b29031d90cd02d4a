"""Transport problems and an independent implementation of objective and optimality, shared by the tests."""

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from protocol_mvc.transport.chunks import Samples, row_chunks
from protocol_mvc.transport.problem import AllReduce, Problem
from protocol_mvc.transport.solver import Transport

Result = TypeVar("Result")

few = settings(max_examples=20)
seeds = st.integers(0, 2**32)
masses = st.sampled_from([0.05, 0.3, 0.7, 1 - 1e-6, 1.0])
methods = st.sampled_from(["newton", "anderson", "scaling"])
sizes = st.tuples(st.integers(1, 12), st.integers(1, 5))
knobs = st.fixed_dictionaries(
    {"epsilon": st.sampled_from([0.05, 0.1, 0.5]), "prior_strength": st.sampled_from([0.1, 1.0, 3.0])}
)


def numbers(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def predictions(seed: int, n: int = 9, k: int = 4, spread: float = 1.0) -> Tensor:
    """Log-probabilities (n, k)."""
    logits = torch.randn(n, k, dtype=torch.float64, generator=numbers(seed))
    return torch.log_softmax(spread * logits, dim=1)


def positive(seed: int, k: int = 4) -> Tensor:
    """A prior or row weights (k,), not summing to 1."""
    return torch.rand(k, dtype=torch.float64, generator=numbers(seed)) + 0.2


def long_tailed(seed: int, n: int, k: int, *, scale: float = 1.0, dead: int = 0) -> Tensor:
    """Log-probabilities of n samples in classes of sizes from 10 down to 1, margin 3, some classes empty."""
    generator = numbers(seed)
    sizes = 10 ** -torch.linspace(0, 1, k, dtype=torch.float64)
    labels = torch.multinomial(sizes, n, replacement=True, generator=generator)
    logits = torch.randn(n, k, dtype=torch.float64, generator=generator)
    logits[torch.arange(n), labels] += 3
    logits[:, :dead] -= 6
    return torch.log_softmax(scale * logits, dim=1)


def wild(seed: int) -> tuple[Tensor, dict[str, Any]]:
    """Log-probabilities and arguments of a problem that may be hard in any way."""
    generator = numbers(seed)
    size, width, warmth, share, steepness, strength = torch.rand(6, generator=generator).tolist()
    n, k = int(200**size), int(300**width)
    logits = 100**steepness * torch.randn(n, k, dtype=torch.float64, generator=generator)
    if seed % 3 == 0:
        logits[:, : k // 3] -= 6 * logits.abs().mean()  # dead clusters
    if seed % 4 == 0:
        logits = logits[torch.randint(n, (n,), generator=generator)]  # rows occur twice
    prior_strength = math.inf if seed % 5 == 0 else 10 ** (4 * strength - 2)
    mass = 1.0 if seed % 7 == 0 else 0.01**share
    return logits.log_softmax(1), {
        "mass": mass,
        "epsilon": 0.01 * 1000**warmth,
        "prior_strength": prior_strength,
    }


def problem(
    seed: int, k: int = 4, mass: float = 0.6, epsilon: float = 0.2, prior_strength: float = 0.7
) -> Problem:
    c = positive(seed, k)
    return Problem(mass * c / c.sum(), mass, epsilon, prior_strength)


def single_process(sums: Tensor) -> Tensor:
    """Return the sums: `all_reduce` of a single process."""
    return sums


def samples(
    log_p: Tensor, chunk_rows: int | None = None, all_reduce: AllReduce = single_process, total: int = 0
) -> Samples:
    weight = torch.full((len(log_p),), 1 / (total or len(log_p)), dtype=torch.float64)
    return Samples(row_chunks(log_p, chunk_rows), weight, all_reduce)


def in_threads(parts: Sequence[Tensor], work: Callable[[Tensor, AllReduce], Result]) -> list[Result]:
    """Do the work of each part in a thread of its own; `all_reduce` sums over the threads."""
    barrier, shared = threading.Barrier(len(parts)), list(parts)

    def run(index: int) -> Result:
        def all_reduce(sums: Tensor) -> Tensor:
            shared[index] = sums.clone()
            barrier.wait()
            total = torch.stack(shared).sum(0)
            barrier.wait()
            return total

        try:
            return work(parts[index], all_reduce)
        except BaseException:
            barrier.abort()  # or the others wait for ever
            raise

    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(run, range(len(parts))))


def with_virtual(log_p: Tensor, t: Transport, weight: Tensor | None = None) -> Tensor:
    """The plan with its virtual column (n, k + 1), from the potentials single_process."""
    r = torch.full_like(log_p[:, 0], 1 / len(log_p)) if weight is None else weight / weight.sum()
    logits = torch.cat([log_p, torch.zeros_like(log_p[:, :1])], dim=1) + t.potentials
    return (logits / t.epsilon).softmax(1) * r[:, None]


def kkt_error(full: Tensor, t: Transport, target: Tensor, prior_strength: float) -> float:
    """L1 error of the optimality conditions of a plan with its virtual column."""
    wanted = target * torch.exp(-t.potentials[:-1] / prior_strength)
    rest = 1 - target.sum()
    return float((full[:, :-1].sum(0) - wanted).abs().sum() + (full[:, -1].sum() - rest).abs())


def entropy(plan: Tensor) -> float:
    return float(-torch.xlogy(plan, plan).sum())


def primal(log_p: Tensor, full: Tensor, target: Tensor, epsilon: float, prior_strength: float) -> float:
    """The objective F of a plan with its virtual column, all constants included (Eqs. 15, 37)."""
    plan = full[:, :-1]
    m = plan.sum(0)
    penalty = float((torch.xlogy(m, m / target) - m + target).sum())
    return (
        float(-(plan * log_p).sum())
        - epsilon * (entropy(full) + float(full.sum()))
        + prior_strength * penalty
    )


def dual(log_p: Tensor, g: Tensor, target: Tensor, epsilon: float, prior_strength: float) -> float:
    """The dual function D, all constants included; its maximum is the minimum of F."""
    real, rest = g[:-1], 1 - float(target.sum())
    logits = torch.cat([log_p + real, g[-1].expand(len(log_p), 1)], dim=1) / epsilon
    penalty = float((target * torch.expm1(-real / prior_strength)).sum())
    left = rest * float(g[-1]) if torch.isfinite(g[-1]) else 0.0
    return (
        left
        - epsilon * (math.log(len(log_p)) + float(logits.logsumexp(1).mean()) + 1)
        - prior_strength * penalty
    )
