"""Partial and unbalanced optimal transport from samples to clusters, solved in the log domain."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

WHOLE_MASS = 1.0 - 1e-12  # a larger mass leaves the virtual column empty, so the column is dropped
BISECTIONS = 60


class Transport(NamedTuple):
    """The optimal plan and how it was reached."""

    plan: Tensor  # (n, k) transported mass, rows sum to at most 1 / n
    potentials: Tensor  # (k + 1,) dual potentials g; the last one belongs to the virtual column
    column_mass: Tensor  # (k,) mass that each cluster received
    residual: float  # L1 error of the optimality conditions; the whole mass is 1
    passes: int  # sweeps over the n x k entries
    converged: bool


class _Problem(NamedTuple):
    """What stays fixed during the iteration."""

    log_p: Tensor  # (n, k)
    target: Tensor  # (k,) c, sums to the mass
    rest: float  # mass of the virtual column, 1 - lambda
    epsilon: float
    kl_weight: float


def solve(
    log_p: Tensor,
    *,
    mass: float = 1.0,
    epsilon: float = 0.1,
    kl_weight: float = 1.0,
    prior: Tensor | None = None,
    start: Tensor | None = None,
    tolerance: float = 1e-7,
    max_passes: int = 5000,
) -> Transport:
    r"""Transport a fraction of the samples' mass to clusters whose sizes are only softly prescribed.

    Minimises over plans :math:`T \ge 0` with :math:`T 1 \le 1/n` and :math:`1^\top T 1 = \lambda`

    .. math:: \langle T, -\log P \rangle - \epsilon H(T, \xi) + \beta\, KL(T^\top 1 \,\|\, \lambda c)

    where :math:`\xi = 1/n - T 1` is the virtual cluster of the mass left behind (Eqs. 15, 29-38).
    The optimality conditions :math:`T_{ij} = \exp((f_i + g_j + \log P_{ij}) / \epsilon)` and
    :math:`g_j = -\beta \log(m_j / (\lambda c_j))` are iterated as in Eqs. 17-18 and 39-49, on potentials
    instead of exponentials (nothing can overflow) and with the best common shift of g after every pass,
    which removes the slowest direction of the plain scaling.

    Args:
        log_p: log-probabilities (n, k), for example from ``log_softmax``.
        mass: fraction :math:`\lambda` in (0, 1] of the samples' mass to transport.
        epsilon: entropic regularisation.
        kl_weight: strength :math:`\beta` of the class prior; infinite makes it a hard constraint.
        prior: class distribution c (k,), uniform by default.
        start: potentials of an earlier call with as many clusters.
        tolerance: accepted L1 error of the optimality conditions.
        max_passes: bound on the sweeps over the data.
    """
    if max_passes < 1:
        raise ValueError(f"max_passes must be at least 1, got {max_passes}")
    problem = _check(log_p, mass, epsilon, kl_weight, prior)
    g = _start(problem, start)
    passes = 0
    while True:
        passes += 1
        log_plan = _log_plan(problem, g)
        log_mass = torch.logsumexp(log_plan, dim=0)
        residual = float((log_mass.exp() - _wanted(problem, g)).abs().sum())
        if passes == max_passes or not residual > tolerance:  # also where it is no number any more
            break
        g = _shifted(problem, _scaling_step(problem, g, log_mass))
    plan = log_plan[:, :-1].exp()
    return Transport(plan, g, plan.sum(0), residual, passes, residual <= tolerance)


def _check(log_p: Tensor, mass: float, epsilon: float, kl_weight: float, prior: Tensor | None) -> _Problem:
    """Validate the numbers and bring everything to float64."""
    if log_p.ndim != 2 or 0 in log_p.shape:
        raise ValueError(f"log_p must be a non-empty (n, k) matrix, got shape {tuple(log_p.shape)}")
    if not 0 < mass <= 1 or not 0 < epsilon < math.inf or not kl_weight > 0:
        raise ValueError(
            f"need 0 < mass <= 1, a finite epsilon > 0 and kl_weight > 0, "
            f"got mass={mass}, epsilon={epsilon}, kl_weight={kl_weight}"
        )
    log_p = log_p.detach().double()
    k = log_p.shape[1]
    c = torch.full_like(log_p[0], 1 / k) if prior is None else prior.to(log_p)
    if c.shape != (k,) or not bool(((c > 0) & c.isfinite()).all()):
        raise ValueError(f"prior must hold {k} positive class frequencies, got {c.tolist()}")
    rest = 0.0 if mass > WHOLE_MASS else 1.0 - mass
    return _Problem(log_p, (1.0 - rest) * c / c.sum(), rest, epsilon, kl_weight)


def _log_plan(problem: _Problem, g: Tensor) -> Tensor:
    """The log-plan with its virtual column (n, k + 1); every row holds exactly 1 / n."""
    logits = (torch.nn.functional.pad(problem.log_p, (0, 1)) + g) / problem.epsilon
    return torch.log_softmax(logits, dim=1) - math.log(len(logits))


def _wanted(problem: _Problem, g: Tensor) -> Tensor:
    """The column masses (k + 1,) that the potentials ask for; the plan is optimal where it has them."""
    tilt = torch.exp(-g[:-1] / problem.kl_weight)  # 1 where the weight is infinite
    return torch.cat([problem.target * tilt, g.new_tensor([problem.rest])])


def _scaling_step(problem: _Problem, g: Tensor, log_mass: Tensor) -> Tensor:
    """One scaling of the columns, b <- (c / (M^T a))^f with f = beta / (beta + epsilon) (Eq. 18)."""
    f = 1 / (1 + problem.epsilon / problem.kl_weight)
    real = f * (g[:-1] + problem.epsilon * (problem.target.log() - log_mass[:-1]))
    if problem.rest == 0:
        return torch.cat([real, g[-1:]])
    virtual = g[-1:] + problem.epsilon * (math.log(problem.rest) - log_mass[-1:])
    return torch.cat([real, virtual])


def _shifted(problem: _Problem, g: Tensor) -> Tensor:
    """Add the constant to g that maximises the dual: it does not change the plan."""
    if math.isinf(problem.kl_weight):
        return g
    tilt = torch.logsumexp(problem.target.log() - g[:-1] / problem.kl_weight, dim=0)
    return g + problem.kl_weight * (tilt - math.log(1 - problem.rest))


def _start(problem: _Problem, start: Tensor | None) -> Tensor:
    """Earlier potentials if usable, else g = 0 with the virtual column holding exactly its mass."""
    k = len(problem.target)
    g = torch.zeros_like(problem.log_p[0]) if start is None else start.to(problem.log_p)[:-1]
    if g.shape != (k,) or not bool(torch.isfinite(g).all()):
        raise ValueError(
            f"start must hold {k + 1} potentials with {k} finite ones, as an earlier result does"
        )
    if problem.rest == 0:
        return torch.cat([g, g.new_tensor([-math.inf])])
    real = torch.logsumexp((problem.log_p + g) / problem.epsilon, dim=1)  # (n,)
    low, high = real.min() - 50, real.max() + 50
    low, high = low + math.log(problem.rest), high - math.log1p(-problem.rest)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        too_heavy = torch.sigmoid(middle - real).mean() > problem.rest
        low, high = (low, middle) if too_heavy else (middle, high)
    return torch.cat([g, (problem.epsilon * (low + high) / 2)[None]])
