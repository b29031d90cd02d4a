"""Three algorithms for the optimal potentials: Newton, Anderson acceleration and scaling."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from protocol_mvc.transport.problem import Problem, SampleSums

PATIENCE = 15  # iterations without improvement that indicate the rounding floor,
ROUNDING_FLOOR = 1e-6  # if the residual is below this
MAX_NEWTON_ITER = 40  # iterations after which Newton's method starts again from annealed potentials
N_ANNEALING_LEVELS, ANNEALING_FACTOR, ANNEALING_TOL = 8, 4.0, 1e-2  # of epsilon, and of each level's solution
ANDERSON_MEMORY = 8  # steps that Anderson acceleration combines
GRAM_REUSE_RESIDUAL = 1e-4  # residual below which the Gram matrix hardly changes
EMPTY_MASS = 1e-13  # columns with less mass are left out of the linear system of Newton's method
NEARLY_EMPTY = 1e-3  # mass / required mass below which a column needs a scaling step

ComputeSums = Callable[[Problem, Tensor, bool], SampleSums]  # the last argument asks for the Gram matrix


class Point(NamedTuple):
    """Potentials and the sums over the samples there."""

    g: Tensor
    sums: SampleSums
    residual: float  #: L1 distance of the column masses from the required ones
    value: float  #: dual value


class Search:
    """Evaluates potentials, counts iterations, decides when to stop, and keeps the best point.

    Args:
        problem: the problem.
        compute_sums: `Samples.sums`.
        tol: accepted residual.
        max_iter: largest number of evaluations.
    """

    def __init__(self, problem: Problem, compute_sums: ComputeSums, tol: float, max_iter: int) -> None:
        self.problem, self.compute_sums = problem, compute_sums
        self.tol, self.max_iter = tol, max_iter
        self.n_iter, self._n_stale, self.limit = 0, 0, max_iter
        self.best: Point | None = None

    def evaluate(self, g: Tensor, *, gram: bool = False) -> Point:
        """Return the point at potentials g, by one pass over the samples."""
        sums = self.compute_sums(self.problem, g, gram)
        self.n_iter += 1
        residual = float((sums.mass - self.problem.required_mass(g)).abs().sum())
        point = Point(g, sums, residual, self.problem.dual_value(g, sums.lse))
        if self.best is None or point.residual < self.best.residual:
            self.best, self._n_stale = point, 0
        else:
            self._n_stale += 1
        return point

    @property
    def converged(self) -> bool:
        """Whether the best point meets the tolerance."""
        return self.best is not None and self.best.residual <= self.tol

    def is_done(self, point: Point) -> bool:
        """Return whether the point meets the tolerance, or the iterations or improvements are at an end."""
        at_floor = self._n_stale >= PATIENCE and point.residual < ROUNDING_FLOOR
        return not point.residual > self.tol or self.n_iter >= self.limit or at_floor


def scaling(search: Search, g: Tensor) -> None:
    """Run the recursion of the paper (Algorithm 2): one scaling of all columns per iteration."""
    point = search.evaluate(g)
    while not search.is_done(point):
        point = search.evaluate(search.problem.scaling_step(point.g, point.sums.log_mass))


def anderson(search: Search, g: Tensor) -> None:
    """Run scaling with the best shift, extrapolated from the last steps (Anderson acceleration, type II)."""
    point = search.evaluate(search.problem.best_shift(g))
    steps: list[tuple[Tensor, Tensor]] = []  # potentials before and after a scaling step
    while not search.is_done(point):
        scaled = _scaled(search.problem, point)
        steps = [*steps, (point.g, scaled)][-ANDERSON_MEMORY:]
        new = search.evaluate(search.problem.best_shift(_extrapolate(steps)))
        if new.value < point.value and new.residual > point.residual and not search.is_done(new):
            steps, new = [], search.evaluate(scaled)
        point = new


def newton(search: Search, g: Tensor) -> None:
    """Run Newton's method on the dual; if it stalls, start again from solutions with a larger epsilon."""
    search.limit = min(MAX_NEWTON_ITER, search.max_iter)
    _newton(search, g)
    if not search.converged and search.n_iter < search.max_iter:
        search.limit = search.max_iter
        _newton(search, _anneal(search, g))


def _anneal(search: Search, g: Tensor) -> Tensor:
    """Return potentials that follow the solution from a large epsilon down to four times the given one."""
    for level in range(N_ANNEALING_LEVELS, 0, -1):
        max_iter = min(MAX_NEWTON_ITER, search.max_iter - search.n_iter - 1)
        if max_iter < 1:
            break
        smoother = replace(search.problem, epsilon=search.problem.epsilon * ANNEALING_FACTOR**level)
        part = Search(smoother, search.compute_sums, ANNEALING_TOL, max_iter)
        _newton(part, g)
        search.n_iter += part.n_iter
        g = g if part.best is None else part.best.g
    return g


def _newton(search: Search, g: Tensor) -> None:
    """Make Newton steps in a trust region, and scaling steps while a column is nearly empty."""
    problem, radius = search.problem, math.inf
    point = search.evaluate(problem.best_shift(g))
    if not search.is_done(point):
        point = search.evaluate(_scaled(problem, point), gram=True)
    while not search.is_done(point):
        nearly_empty = bool((point.sums.mass < NEARLY_EMPTY * problem.required_mass(point.g)).any())
        direction = None if nearly_empty else _newton_direction(problem, point)
        if direction is None:
            point = search.evaluate(_scaled(problem, point), gram=True)
        else:
            point, radius = _trust_region_step(search, point, direction, radius)


def _scaled(problem: Problem, point: Point) -> Tensor:
    return problem.best_shift(problem.scaling_step(point.g, point.sums.log_mass))


def _newton_direction(problem: Problem, point: Point) -> Tensor | None:
    """Return the step to the maximum of the quadratic model of the dual, or None if it has none.

    Columns without mass have no curvature; their scaling step is exact.
    """
    occupied = (point.sums.mass > EMPTY_MASS).nonzero()[:, 0]
    gradient = (problem.required_mass(point.g) - point.sums.mass)[occupied, None]
    hessian = problem.negative_hessian(point.g, point.sums)[occupied][:, occupied]
    factor, failed = torch.linalg.cholesky_ex(hessian)
    if failed:
        return None
    direction = _scaled(problem, point) - point.g
    direction[occupied] = torch.cholesky_solve(gradient, factor)[:, 0]
    return direction


def _trust_region_step(search: Search, point: Point, direction: Tensor, radius: float) -> tuple[Point, float]:
    """Return the point after a step of sufficient increase along the direction, and the next radius."""
    gradient = search.problem.required_mass(point.g) - point.sums.mass
    length, slope = float(direction.abs().max()), float(gradient @ direction)
    step, reuse_gram = min(1.0, radius / length), point.residual <= GRAM_REUSE_RESIDUAL
    while True:
        new = search.evaluate(search.problem.best_shift(point.g + step * direction), gram=not reuse_gram)
        if reuse_gram:
            new = new._replace(sums=new.sums._replace(gram=point.sums.gram))
        # Near the optimum rounding hides the increase of the dual: a halved residual is accepted as well.
        if new.value >= point.value + 1e-4 * step * slope or new.residual <= 0.5 * point.residual:
            return new, max(radius, 4 * step * length) if math.isfinite(radius) else radius
        if search.is_done(new):
            return new, radius
        step, radius = step / 4, step * length / 4


def _extrapolate(steps: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the combination of scaled potentials whose residuals cancel best, by least squares."""
    residual = torch.stack([scaled - g for g, scaled in steps], 1)  # (c, s)
    residual = residual - residual.mean(0)
    scaled = torch.stack([scaled for _, scaled in steps], 1)
    change, last = residual.diff(dim=1), residual[:, -1]
    norm = change.norm(dim=0).clamp_min(1e-300)
    unit = change / norm
    ridge = 1e-12 * torch.eye(unit.shape[1], dtype=unit.dtype, device=unit.device)
    weight: Tensor = torch.linalg.solve(unit.T @ unit + ridge, unit.T @ last) / norm
    return scaled[:, -1] - scaled.diff(dim=1) @ weight


METHODS = {"newton": newton, "anderson": anderson, "scaling": scaling}
