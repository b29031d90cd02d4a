"""Exact solver of partial, semi-relaxed optimal transport from samples to clusters, and its pseudo-labels."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.transport.chunks import MIN_LOG_P, Chunks, Samples, as_tensor, row_chunks, virtual_logit
from protocol_mvc.transport.iterations import METHODS, Point, Search
from protocol_mvc.transport.problem import AllReduce, Problem

MAX_CLUSTERS_NEWTON = 512  # with more clusters the Gram matrix costs more than the iterations it saves
TINY = 1e-300  # smallest required mass of a column in the duality gap


class Transport(NamedTuple):
    """The optimal plan, given by K + 1 potentials, and how it was reached."""

    potentials: Tensor  #: dual potentials g (k + 1,); the last is of the virtual column, -inf without one
    column_mass: Tensor  #: mass that each cluster receives (k,)
    residual: float  #: L1 error of the optimality conditions; the whole mass is 1
    gap: float  #: primal value of a feasible plan nearby minus dual value
    n_iter: int  #: passes over the n x k entries
    converged: bool  #: whether the residual is at most `tol`
    epsilon: float  #: entropic regularization of the problem

    def row_probabilities(self, log_p: Any) -> Tensor:
        """Return the part of each row that each cluster gets (Eq. 49).

        Args:
            log_p: log-probabilities (n, k), also of rows that the plan was not solved for.

        Returns:
            Probabilities (n, k) in float64; rows sum to 1, or less if mass is left behind.
        """
        log_p = as_tensor(log_p).double().clamp_min(MIN_LOG_P)
        logits = (functional.pad(log_p, (0, 1)) + self.potentials) / self.epsilon
        return torch.softmax(logits, dim=1)[:, :-1]

    def plan(self, log_p: Any, row_marginal: Any = None) -> Tensor:
        """Return the plan T (n, k) of all rows: `row_probabilities` times the row marginal of `solve`."""
        p = self.row_probabilities(log_p)
        weight = p.new_ones(len(p)) if row_marginal is None else as_tensor(row_marginal).to(p)
        return p * (weight / weight.sum())[:, None]


def solve(
    log_p: Any,
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
    all_reduce: AllReduce = lambda sums: sums,
) -> Transport:
    r"""Solve partial optimal transport from samples to clusters whose sizes are softly prescribed.

    Minimizes over plans :math:`T \ge 0` with :math:`T 1 + \xi = r` and :math:`1^\top \xi = 1 - \lambda`

    .. math:: \langle T, -\log P \rangle + \epsilon \sum_{T, \xi} t (\log t - 1)
              + \beta \sum_j \left[ m_j \log \frac{m_j}{\lambda c_j} - m_j + \lambda c_j \right],
              \qquad m = T^\top 1

    where the virtual column :math:`\xi` takes the mass that is left behind (Eqs. 15, 29-38). The optimal
    plan is :math:`T_{ij} = r_i\, softmax_j((g_j + \log P_{ij}) / \epsilon)` for K + 1 potentials g that
    maximize a concave dual. Only these are iterated, in the log domain and in float64, so that nothing
    overflows, and only one chunk of rows and a few numbers per row are in memory.

    Args:
        log_p: log-probabilities (n, k) of any float type as a tensor, array or memory map; or a callable
            that returns an iterator of their row chunks, called once per iteration.
        mass: fraction :math:`\lambda` in (0, 1] of the mass to transport; 1 has no virtual column.
        epsilon: entropic regularization :math:`\epsilon`.
        prior_strength: strength :math:`\beta` of the prior; infinite makes cluster sizes a hard constraint.
        row_marginal: r (n,), uniform by default; scaled to sum to 1.
        prior: class distribution c (k,), uniform by default; scaled to sum to 1.
        init: potentials (k + 1,) of an earlier solution with as many clusters.
        tol: accepted L1 error of the optimality conditions.
        max_iter: largest number of passes over the data.
        method: "newton", "anderson", "scaling" (the paper's recursion), or "auto": Newton up to 512 clusters.
        chunk_rows: rows in memory at once.
        all_reduce: sums a tensor over the processes that hold different rows.

    Returns:
        The plan. `converged` is False if `max_iter` or the rounding floor was reached before `tol`.

    Raises:
        ValueError: If an argument is out of range, or log_p holds NaN or +infinity.

    Example:
        >>> import torch
        >>> from protocol_mvc.transport import solve
        >>> log_p = torch.log(torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]]))
        >>> result = solve(log_p, mass=0.5, epsilon=0.1, prior_strength=1.0)
        >>> round(float(result.column_mass.sum()), 6), result.converged
        (0.5, True)
    """
    if not 0 < mass <= 1 or not 0 < epsilon < math.inf or not prior_strength > 0:
        raise ValueError(
            "need 0 < mass <= 1, epsilon > 0 and prior_strength > 0, "
            f"got mass={mass}, epsilon={epsilon}, prior_strength={prior_strength}"
        )
    if max_iter < 1 or (chunk_rows is not None and chunk_rows < 1):
        raise ValueError(f"need max_iter >= 1 and chunk_rows >= 1, got {max_iter} and {chunk_rows}")
    if method not in ("auto", *METHODS):
        raise ValueError(f"method must be one of {['auto', *METHODS]}, got {method!r}")
    chunks = row_chunks(log_p, chunk_rows)
    first, n = _first_chunk(log_p, chunks)
    k, device = first.shape[1], first.device
    c = _positive("prior", prior, k).to(device)
    r = _positive("row_marginal", row_marginal, n).to(device)
    problem = Problem(mass * c / c.sum(), mass, epsilon, prior_strength)
    samples = Samples(chunks, r / all_reduce(r.sum()[None]), all_reduce)
    search = Search(problem, samples.sums, tol, max_iter)
    if method == "auto":
        method = "newton" if k <= MAX_CLUSTERS_NEWTON else "anderson"
    METHODS[method](search, _initial_potentials(problem, samples, init))
    return _result(problem, samples, search)


def _first_chunk(log_p: Any, chunks: Chunks) -> tuple[Tensor, int]:
    """Return the first chunk, whose width and device are those of the problem, and the number of all rows."""
    first = next(chunks(), None)
    shapes = [chunk.shape for chunk in chunks()] if callable(log_p) else [log_p.shape]
    widths = {tuple(shape[1:]) for shape in shapes}
    if first is None or first.ndim != 2 or 0 in first.shape or len(widths) > 1:
        got = [tuple(shape) for shape in shapes[:10]]
        raise ValueError(f"log_p must give non-empty (rows, k) chunks of one width, got shapes {got}")
    return first, sum(shape[0] for shape in shapes)


def _positive(name: str, values: Tensor | None, length: int) -> Tensor:
    """Return positive numbers (length,) in float64; None gives ones."""
    given = torch.ones(length) if values is None else torch.as_tensor(values).detach()
    if given.shape != (length,) or not bool(((given > 0) & (given < math.inf)).all()):
        raise ValueError(f"{name} must hold {length} positive numbers")
    return given.double()


def _initial_potentials(problem: Problem, samples: Samples, init: Tensor | None) -> Tensor:
    """Return `init`, or zeros with a virtual column of about its mass."""
    k = len(problem.target)
    given = torch.zeros(k + 1) if init is None else torch.as_tensor(init).detach().clone()
    if given.shape != (k + 1,) or not bool(torch.isfinite(given[:k]).all()):
        raise ValueError(f"init must hold {k + 1} potentials, the first {k} finite")
    g = given.to(problem.target)
    if problem.virtual_mass == 0:
        return g[:k]
    if init is not None and bool(torch.isfinite(g[k])):
        return g
    lse = samples.sums(problem, g).cluster_lse
    s = virtual_logit(lse, samples.weight, problem.virtual_mass, samples.all_reduce, tol=1e-3)
    g[k] = problem.epsilon * s
    return g


def _result(problem: Problem, samples: Samples, search: Search) -> Transport:
    point = search.best
    if point is None or not math.isfinite(point.residual):
        raise ValueError("log_p holds NaN or +infinity: transport needs log-probabilities")
    k = len(problem.target)
    virtual = point.g[k:] if problem.virtual_mass else point.g.new_tensor([-math.inf])
    return Transport(
        potentials=torch.cat([point.g[:k], virtual]),
        column_mass=point.sums.mass[:k],
        residual=point.residual,
        gap=_duality_gap(problem, samples, point),
        n_iter=search.n_iter,
        converged=search.converged,
        epsilon=problem.epsilon,
    )


def _duality_gap(problem: Problem, samples: Samples, point: Point) -> float:
    r"""Return primal minus dual value, for the plan whose virtual column is corrected to exactly its mass.

    It is :math:`\beta KL(m \| m_g) + \epsilon KL(T \| T_g)` with the required masses m_g and the plan T_g of
    the potentials: non-negative terms that do not cancel. With a hard prior, whose sizes the correction of
    one column does not reach, the first term is :math:`|g \cdot (m - m_g)|`.
    """
    k, g = len(problem.target), point.g
    mass, divergence = point.sums.mass[:k], 0.0
    if problem.virtual_mass:
        lse = point.sums.cluster_lse
        s = virtual_logit(lse, samples.weight, problem.virtual_mass, samples.all_reduce, tol=1e-15)
        mass, divergence = samples.corrected_plan(problem, g, s)
    required = problem.required_mass(g)[:k]
    if problem.is_hard:
        return float((g[:k] @ (mass - required)).abs()) + problem.epsilon * divergence
    sizes = torch.special.xlogy(mass, mass / required.clamp_min(TINY)) - mass + required
    return problem.prior_strength * float(sizes.sum()) + problem.epsilon * divergence


def mass_schedule(progress: float, min_mass: float, max_mass: float) -> float:
    r"""Return the mass to transport at a progress in [0, 1] (Eq. 16).

    .. math:: \lambda_{base} + (\lambda_{max} - \lambda_{base}) \exp(-5 (1 - progress)^2)
    """
    return min_mass + (max_mass - min_mass) * math.exp(-5 * (1 - progress) ** 2)


class PotLabels(NamedTuple):
    """Labels of the samples by partial optimal transport (POT)."""

    #: T (n, k), the part of each sample that each cluster gets; rows sum to 1, or less if mass is left behind
    soft: Tensor
    hard: Tensor  #: (n,) the cluster that gets the largest part of a sample
    log_frequency: Tensor  #: (k,) log of the class frequencies of the plan

    def rows(self, index: Tensor) -> "PotLabels":
        """Return the labels of some samples; the frequencies stay those of all samples."""
        index = index.to(self.soft.device)
        return self._replace(soft=self.soft.index_select(0, index), hard=self.hard.index_select(0, index))


def pot_labels(log_p: Tensor, transport: Transport) -> PotLabels:
    """Return the labels of a plan.

    Args:
        log_p: log-probabilities (n, k) that the plan was solved for.
        transport: the plan.

    Returns:
        The labels, in the dtype of `log_p`; the frequency of an empty cluster is that of half a sample.
    """
    n, dtype = len(log_p), log_p.dtype
    frequency = transport.column_mass / transport.column_mass.sum()
    log_frequency = frequency.clamp_min(0.5 / n).log()
    soft = transport.row_probabilities(log_p)
    return PotLabels(soft.to(dtype), soft.argmax(1), log_frequency.to(dtype))
