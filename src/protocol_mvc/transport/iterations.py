"""Three ways to the optimal potentials: Newton, Anderson acceleration and plain scaling."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from protocol_mvc.transport.problem import Problem, Sums

PATIENCE = 15  # passes without improvement that tell the noise floor,
ROUNDING = 1e-6  # if the residual is below this
STALLED = 40  # passes after which Newton's method is helped
LEVELS, COOLING, ROUGHLY = 8, 4.0, 1e-2  # help: this often, this much more entropy, this well solved
MEMORY = 8  # steps that Anderson acceleration combines
CLOSE = 1e-4  # residual below which curvature hardly changes
NO_MASS = 1e-13  # a column with less does not count in the residual
NEARLY_EMPTY = 1e-3  # part of its wanted mass below which a column is better scaled than solved for

Sweep = Callable[[Problem, Tensor, bool], Sums]  # the last says whether to add up the Gram matrix


class Point(NamedTuple):
    """Potentials with what a pass found there."""

    g: Tensor
    sums: Sums
    residual: float  # L1 distance of the column masses from what g asks for
    value: float  # of the dual


class Search:
    """Counts passes and decides when to stop; keeps the best point."""

    def __init__(self, problem: Problem, sweep: Sweep, tolerance: float, max_passes: int) -> None:
        """Nothing is evaluated yet."""
        self.problem, self.sweep = problem, sweep
        self.tolerance, self.max_passes = tolerance, max_passes
        self.passes, self._stale, self._pause = 0, 0, max_passes
        self.best: Point | None = None

    def at(self, g: Tensor, *, gram: bool = False) -> Point:
        """Spend a pass on g."""
        sums = self.sweep(self.problem, g, gram)
        self.passes += 1
        residual = float((sums.mass - self.problem.wanted(g)).abs().sum())
        point = Point(g, sums, residual, self.problem.value(g, sums.lse))
        if self.best is None or point.residual < self.best.residual:
            self.best, self._stale = point, 0
        else:
            self._stale += 1
        return point

    @property
    def converged(self) -> bool:
        """Whether some point met the tolerance."""
        return self.best is not None and self.best.residual <= self.tolerance

    def pause_after(self, passes: int) -> None:
        """Let `over` say yes after so many more passes."""
        self._pause = min(self.passes + passes, self.max_passes)

    def over(self, point: Point) -> bool:
        """Whether the point is good enough, or passes or hope are used up."""
        floor = self._stale >= PATIENCE and point.residual < ROUNDING
        return not point.residual > self.tolerance or self.passes >= self._pause or floor


def scaling(search: Search, g: Tensor) -> None:
    """The paper's recursion: one scaling of all columns per pass."""
    point = search.at(g)
    while not search.over(point):
        point = search.at(search.problem.step(point.g, point.sums.log_mass))


def anderson(search: Search, g: Tensor) -> None:
    """Scaling with the best common shift, extrapolated from the last steps (Anderson, type II)."""
    point = search.at(search.problem.shifted(g))
    steps: list[tuple[Tensor, Tensor]] = []  # potentials and where scaling takes them
    while not search.over(point):
        mapped = _scaled(search.problem, point)
        steps = [*steps, (point.g, mapped)][-MEMORY:]
        new = search.at(search.problem.shifted(_extrapolated(steps)))
        if new.value < point.value and new.residual > point.residual and not search.over(new):
            steps, new = [], search.at(mapped)
        point = new


def newton(search: Search, g: Tensor) -> None:
    """Newton's method on the dual; where it stalls, it goes on from solutions with more entropy."""
    search.pause_after(STALLED)
    _newton(search, g)
    if not search.converged and search.passes < search.max_passes:
        start = _annealed(search, g)
        search.pause_after(search.max_passes)
        _newton(search, start)


def _annealed(search: Search, g: Tensor) -> Tensor:
    """Potentials carried from much entropy down to little, each solved roughly."""
    for level in range(LEVELS, 0, -1):
        budget = min(STALLED, search.max_passes - search.passes - 1)
        if budget < 1:
            break
        blurred = replace(search.problem, epsilon=search.problem.epsilon * COOLING**level)
        part = Search(blurred, search.sweep, ROUGHLY, budget)
        _newton(part, g)
        search.passes += part.passes
        g = g if part.best is None else part.best.g
    return g


def _newton(search: Search, g: Tensor) -> None:
    """Newton steps within a trusted distance, with scaling steps where a column is nearly empty."""
    problem, radius = search.problem, math.inf
    point = search.at(problem.shifted(g))
    if not search.over(point):
        point = search.at(_scaled(problem, point), gram=True)
    while not search.over(point):
        starving = bool((point.sums.mass < NEARLY_EMPTY * problem.wanted(point.g)).any())
        direction = None if starving else _newton_direction(problem, point)
        if direction is None:
            point = search.at(_scaled(problem, point), gram=True)
        else:
            point, radius = _advance(search, point, direction, radius)


def _scaled(problem: Problem, point: Point) -> Tensor:
    return problem.shifted(problem.step(point.g, point.sums.log_mass))


def _newton_direction(problem: Problem, point: Point) -> Tensor | None:
    """Where the quadratic model of the dual has its maximum; nothing if it has none.

    Columns without mass bend nothing and follow their scaling step, which is exact for them.
    """
    alive = (point.sums.mass > NO_MASS).nonzero()[:, 0]
    gradient = (problem.wanted(point.g) - point.sums.mass)[alive, None]
    curvature = problem.curvature(point.g, point.sums)[alive][:, alive]
    factor, failed = torch.linalg.cholesky_ex(curvature)
    if failed:
        return None
    direction = _scaled(problem, point) - point.g
    direction[alive] = torch.cholesky_solve(gradient, factor)[:, 0]
    return direction


def _advance(search: Search, point: Point, direction: Tensor, radius: float) -> tuple[Point, float]:
    """Go as far as the model can be trusted; returns the new point and how far to trust it next time."""
    gradient = search.problem.wanted(point.g) - point.sums.mass
    length, slope = float(direction.abs().max()), float(gradient @ direction)
    step = min(1.0, radius / length)
    while True:
        new = _next(search, point, search.problem.shifted(point.g + step * direction))
        # Near the optimum the dual's rounding hides its growth: a halved residual is progress as well.
        if new.value >= point.value + 1e-4 * step * slope or new.residual <= 0.5 * point.residual:
            return new, max(radius, 4 * step * length) if math.isfinite(radius) else radius
        if search.over(new):
            return new, radius
        step, radius = step / 4, step * length / 4


def _next(search: Search, point: Point, g: Tensor) -> Point:
    """A pass at g; close to the optimum the Gram matrix of the last point serves again."""
    if point.residual > CLOSE:
        return search.at(g, gram=True)
    new = search.at(g)
    return new._replace(sums=new.sums._replace(gram=point.sums.gram))


def _extrapolated(steps: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The combination of mapped points whose residuals cancel best."""
    if len(steps) == 1:
        return steps[0][1]
    residual = torch.stack([mapped - g for g, mapped in steps], 1)  # (c, s)
    residual = residual - residual.mean(0)
    mapped = torch.stack([mapped for _, mapped in steps], 1)
    change, last = residual.diff(dim=1), residual[:, -1]
    norm = change.norm(dim=0).clamp_min(1e-300)
    scaled = change / norm
    ridge = 1e-12 * torch.eye(scaled.shape[1], dtype=scaled.dtype, device=scaled.device)
    weight: Tensor = torch.linalg.solve(scaled.T @ scaled + ridge, scaled.T @ last) / norm
    return mapped[:, -1] - mapped.diff(dim=1) @ weight


METHODS = {"newton": newton, "anderson": anderson, "scaling": scaling}
