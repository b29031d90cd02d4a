"""Partial and unbalanced optimal transport from samples to clusters: the exact plan in few passes."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from protocol_mvc.transport.iterations import METHODS, Point, Search
from protocol_mvc.transport.passes import LOWEST, Chunks, Samples, chunks_of, tensor_of
from protocol_mvc.transport.problem import Merge, Problem
from protocol_mvc.transport.roots import virtual_logit

NEWTON_UP_TO = 512  # clusters; beyond, the Gram matrix costs more than the passes it saves
TINY = 1e-300  # for what a column that nothing can reach asks for

Matrix = Any  # a tensor, array or memory map (n, k), or a callable that makes an iterator of row chunks


class Transport(NamedTuple):
    """The optimal plan, as the K + 1 numbers it follows from, and how it was reached."""

    potentials: Tensor  #: (k + 1,) dual potentials g, the last of the virtual column (-inf without one)
    column_mass: Tensor  #: (k,) mass that each cluster receives
    residual: float  #: L1 error of the optimality conditions; the whole mass is 1
    gap: float  #: primal value of a feasible plan nearby minus dual value
    n_iter: int  #: sweeps over the n x k entries
    converged: bool
    epsilon: float

    def row_probabilities(self, log_p: Any) -> Tensor:
        """How each row, also an unseen one, is split over the clusters (n, k): rows sum to at most 1."""
        log_p = tensor_of(log_p).double().clamp_min(LOWEST)
        logits = (torch.nn.functional.pad(log_p, (0, 1)) + self.potentials) / self.epsilon
        return torch.softmax(logits, dim=1)[:, :-1]

    def plan(self, log_p: Any, row_marginal: Any = None) -> Tensor:
        """The plan T (n, k) for all rows: their split times their weight, scaled as in `solve`."""
        split = self.row_probabilities(log_p)
        weight = split.new_ones(len(split)) if row_marginal is None else tensor_of(row_marginal).to(split)
        return split * (weight / weight.sum())[:, None]


def solve(
    log_p: Matrix,
    *,
    mass: float = 1.0,
    epsilon: float = 0.1,
    prior_strength: float = 1.0,
    row_marginal: Tensor | None = None,
    prior: Tensor | None = None,
    init: Tensor | None = None,
    tol: float = 1e-9,
    max_iter: int = 10_000,
    method: str = "auto",
    chunk_rows: int | None = None,
    all_reduce: Merge = lambda sums: sums,
) -> Transport:
    r"""Transport a fraction of the samples' mass to clusters whose sizes are only softly prescribed.

    Minimises over plans :math:`T \ge 0` with :math:`T 1 + \xi = r` and :math:`1^\top \xi = 1 - \lambda`

    .. math:: \langle T, -\log P \rangle + \epsilon \sum_{T, \xi} t (\log t - 1)
              + \beta \sum_j \left[ m_j \log \frac{m_j}{\lambda c_j} - m_j + \lambda c_j \right],
              \qquad m = T^\top 1

    where the virtual column :math:`\xi` takes the mass that is left behind (Eqs. 15, 29-38). The optimal
    plan is :math:`T_{ij} = r_i\, softmax_j((g_j + \log P_{ij}) / \epsilon)` for K + 1 potentials g that
    maximise a concave dual, so only these are iterated, in the log domain: nothing overflows, and memory is
    that of a chunk of rows and a few numbers per row.

    Args:
        log_p: log-probabilities (n, k) of any float type as a tensor, array or memory map; or a callable
            that returns an iterator of their row chunks, called once per pass. Sums are in float64.
        mass: fraction :math:`\lambda` in (0, 1] of the mass to transport; 1 has no virtual column.
        epsilon: entropic regularisation :math:`\epsilon`.
        prior_strength: strength :math:`\beta` of the prior; infinite makes cluster sizes a hard constraint.
        row_marginal: r (n,), uniform by default; scaled to sum to 1.
        prior: class distribution c (k,), uniform by default; scaled to sum to 1.
        start: potentials of an earlier solve with as many clusters.
        tolerance: accepted L1 error of the optimality conditions.
        max_iter: bound on the sweeps over the data.
        method: "newton", "anderson", "scaling" (the paper's recursion), or "auto": Newton up to 512 clusters.
        chunk_rows: rows held at once.
        merge: adds up a vector of sums over processes that hold different rows.

    Example:
        >>> import torch
        >>> from protocol_mvc.transport import solve
        >>> log_p = torch.log(torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]]))
        >>> result = solve(log_p, mass=0.5, epsilon=0.1, prior_strength=1.0)
        >>> round(float(result.column_mass.sum()), 6), result.converged
        (0.5, True)
    """
    if max_iter < 1 or (chunk_rows is not None and chunk_rows < 1):
        raise ValueError(f"need max_iter >= 1 and chunk_rows >= 1, got {max_iter} and {chunk_rows}")
    first = _first_chunk(log_p, chunk_rows)
    problem = _problem(first, mass, epsilon, prior_strength, prior)
    samples = _samples(log_p, first, row_marginal, chunk_rows, all_reduce)
    search = Search(problem, samples.sweep, tol, max_iter)
    _method(method, len(problem.target))(search, _start(problem, samples, init))
    return _result(problem, samples, search)


def _first_chunk(log_p: Matrix, chunk_rows: int | None) -> Tensor:
    """Some rows, to learn width and device from."""
    first = next(chunks_of(log_p, chunk_rows)(), None)
    if first is None or first.ndim != 2 or 0 in first.shape:
        shape = None if first is None else tuple(first.shape)
        raise ValueError(f"log_p must make non-empty (rows, k) chunks, got shape {shape}")
    return first


def _problem(
    first: Tensor, mass: float, epsilon: float, prior_strength: float, prior: Tensor | None
) -> Problem:
    """Validate the numbers."""
    if not 0 < mass <= 1 or not 0 < epsilon < math.inf or not prior_strength > 0:
        raise ValueError(
            "need 0 < mass <= 1, epsilon > 0 and prior_strength > 0, "
            f"got mass={mass}, epsilon={epsilon}, prior_strength={prior_strength}"
        )
    k = first.shape[1]
    c = torch.ones(k) if prior is None else torch.as_tensor(prior).detach()
    c = c.to(first.device, torch.float64)
    if c.shape != (k,) or not bool(((c > 0) & (c < math.inf)).all()):
        raise ValueError(f"prior must hold {k} positive class frequencies, got {c.tolist()}")
    return Problem(mass * c / c.sum(), mass, epsilon, prior_strength)


def _samples(
    log_p: Matrix, first: Tensor, row_marginal: Tensor | None, chunk_rows: int | None, merge: Merge
) -> Samples:
    """The data with weights that sum to 1 over all processes."""
    chunks = chunks_of(log_p, chunk_rows)
    n = _rows(chunks, first.shape[1]) if callable(log_p) else len(log_p)
    weight = torch.ones(n) if row_marginal is None else torch.as_tensor(row_marginal).detach()
    weight = weight.to(first.device, torch.float64)
    if weight.shape != (n,) or not bool(((weight > 0) & (weight < math.inf)).all()):
        raise ValueError(f"row_marginal must hold {n} positive numbers, one per row")
    return Samples(chunks, weight / merge(weight.sum()[None]), merge)


def _rows(chunks: Chunks, k: int) -> int:
    n = 0
    for chunk in chunks():
        if chunk.ndim != 2 or chunk.shape[1] != k:
            raise ValueError(
                f"log_p must make chunks of {k} columns like the first, got {tuple(chunk.shape)}"
            )
        n += len(chunk)
    return n


def _method(name: str, k: int) -> Callable[[Search, Tensor], None]:
    if name == "auto":
        name = "newton" if k <= NEWTON_UP_TO else "anderson"
    if name not in METHODS:
        raise ValueError(f"method must be one of {['auto', *METHODS]}, got {name!r}")
    return METHODS[name]


def _start(problem: Problem, samples: Samples, start: Tensor | None) -> Tensor:
    """Earlier potentials if there are any, else zeros; the virtual column gets about its mass."""
    k = len(problem.target)
    given = torch.zeros(k + 1) if start is None else torch.as_tensor(start).detach().clone()
    if given.shape != (k + 1,) or not bool(torch.isfinite(given[:k]).all()):
        raise ValueError(f"start must hold {k + 1} potentials, {k} of them finite, as an earlier result does")
    g = given.to(problem.target)
    if problem.rest == 0:
        return g[:k]
    if start is not None and bool(torch.isfinite(g[k])):
        return g
    lse = samples.real_lse(problem, g)
    g[k] = problem.epsilon * virtual_logit(lse, samples.weight, problem.rest, samples.merge, tolerance=1e-3)
    return g


def _result(problem: Problem, samples: Samples, search: Search) -> Transport:
    point = search.best
    if point is None or not math.isfinite(point.residual):
        raise ValueError("log_p holds NaN or +infinity: transport needs log-probabilities")
    k = len(problem.target)
    virtual = point.g[k:] if problem.rest else point.g.new_tensor([-math.inf])
    return Transport(
        potentials=torch.cat([point.g[:k], virtual]),
        column_mass=point.sums.mass[:k],
        residual=point.residual,
        gap=_gap(problem, samples, point),
        n_iter=search.passes,
        converged=search.converged,
        epsilon=problem.epsilon,
    )


def _gap(problem: Problem, samples: Samples, point: Point) -> float:
    r"""Primal minus dual value, for the plan with the virtual column corrected to exactly its mass.

    It is :math:`\beta KL(m \| wanted) + \epsilon KL(T \| T_g)`, sums of non-negative terms that do not
    cancel. With a hard prior, whose sizes no correction of one column reaches, :math:`|g \cdot (m - c)|`
    is the first.
    """
    k, g = len(problem.target), point.g
    mass, moved = point.sums.mass[:k], 0.0
    if problem.rest:
        lse = point.sums.real_lse
        s = virtual_logit(lse, samples.weight, problem.rest, samples.merge, tolerance=1e-15)
        mass, moved = samples.corrected(problem, g, s)
    wanted = problem.wanted(g)[:k]
    if problem.hard:
        return float((g[:k] @ (mass - wanted)).abs()) + problem.epsilon * moved
    sizes = torch.special.xlogy(mass, mass / wanted.clamp_min(TINY)) - mass + wanted
    return problem.prior_strength * float(sizes.sum()) + problem.epsilon * moved
