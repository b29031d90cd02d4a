"""Newton, Anderson and scaling: how many iterations they take, and when they stop."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.transport.problems import (
    few,
    knobs,
    long_tailed,
    methods,
    positive,
    predictions,
    problem,
    samples,
    seeds,
)

from protocol_mvc.transport import iterations
from protocol_mvc.transport.iterations import (
    EMPTY_MASS,
    GRAM_REUSE_RESIDUAL,
    MAX_NEWTON_ITER,
    METHODS,
    PATIENCE,
    ROUNDING_FLOOR,
    Point,
    Search,
)
from protocol_mvc.transport.problem import SampleSums
from protocol_mvc.transport.solver import solve


def make_search(seed, tolerance=1e-9, max_iter=1000, **case):
    return Search(problem(seed, **case), samples(predictions(seed)).sums, tolerance, max_iter)


def stalling():
    """Sharp predictions under a hard prior that one cluster does not fit: pure Newton creeps."""
    return {"log_p": long_tailed(0, 60, 10, scale=30, dead=1), "prior_strength": math.inf, "epsilon": 0.01}


@pytest.mark.parametrize("n", [256, 2000])
@pytest.mark.parametrize("prior_strength", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("mass", [0.1, 0.5, 0.9, 1.0])
def test_newton_takes_few_iterations(n, prior_strength, mass):
    t = solve(long_tailed(0, n, 10), mass=mass, prior_strength=prior_strength, method="newton")
    assert t.converged
    assert t.n_iter <= 11


def test_scaling_takes_many_more_iterations():
    passes = {m: solve(long_tailed(0, 256, 10), mass=0.5, method=m).n_iter for m in METHODS}
    assert passes["scaling"] >= 20 * passes["newton"]
    assert passes["newton"] < passes["anderson"] < passes["scaling"]


def test_scaling_is_the_recursion_of_the_paper():
    """Eqs. 18, 48 on the exponentials themselves, which the solver never forms."""
    p, log_p = problem(0), predictions(0)
    kernel = torch.cat([log_p / p.epsilon, torch.zeros(9, 1, dtype=torch.float64)], 1).exp()
    f = torch.full((5,), p.prior_strength / (p.prior_strength + p.epsilon), dtype=torch.float64)
    f[-1] = 1
    visited = []

    def sweep(p, g, gram):
        visited.append(g)
        assert not gram  # scaling needs none
        return samples(log_p).sums(p, g, gram)

    iterations.scaling(Search(p, sweep, 0.0, 6), torch.zeros(5, dtype=torch.float64))
    b = torch.ones(5, dtype=torch.float64)
    for g in visited:
        torch.testing.assert_close((g / p.epsilon).exp(), b)
        a = 1 / 9 / (kernel @ b)
        b = (p.column_target / (kernel.T @ a)) ** f


@given(seeds, methods, knobs, st.integers(1, 60), st.sampled_from([0.4, 1.0]))
@few
def test_iterations_are_bounded(seed, method, knob, most, mass):
    t = solve(predictions(seed), method=method, max_iter=most, mass=mass, tol=0.0, **knob)
    assert 1 <= t.n_iter <= most


@pytest.mark.parametrize(
    "most", [MAX_NEWTON_ITER - 1, MAX_NEWTON_ITER, MAX_NEWTON_ITER + 1, MAX_NEWTON_ITER + 2, 100]
)
def test_iterations_are_bounded_with_annealing(most):
    t = solve(**stalling(), max_iter=most, tol=0.0)
    assert t.n_iter <= most


def test_annealing_helps_where_newton_stalls(monkeypatch):
    helped = solve(**stalling())
    assert helped.converged
    assert helped.n_iter > MAX_NEWTON_ITER
    monkeypatch.setattr(iterations, "N_ANNEALING_LEVELS", 0)
    assert solve(**stalling()).n_iter > helped.n_iter


@given(seeds, methods, knobs)
@few
def test_the_dual_ends_higher_than_it_started(seed, method, knob):
    """Newton and Anderson never trade the optimum for a smaller residual elsewhere."""
    search = make_search(seed, **knob)
    g = torch.zeros(5, dtype=torch.float64)
    start = search.evaluate(search.problem.best_shift(g))
    METHODS[method](search, g)
    assert search.best is not None
    assert search.best.value >= start.value - 1e-12


def test_the_best_point_is_kept():
    search = make_search(0)
    points = [search.evaluate(search.problem.best_shift(k * positive(3, 5))) for k in (3.0, 0.1, 1.0)]
    assert search.n_iter == 3
    assert search.best is points[1]
    assert search.best.residual == min(point.residual for point in points)


def test_a_search_is_done_at_the_tolerance_and_at_the_last_iteration():
    search = make_search(0, tolerance=1e-3, max_iter=30)
    point = search.evaluate(torch.zeros(5, dtype=torch.float64))
    assert not search.is_done(point)
    assert not search.converged
    assert search.is_done(point._replace(residual=1e-3))
    search.n_iter = 30
    assert search.is_done(point)


def test_a_residual_equal_to_the_tolerance_has_converged():
    search = make_search(0)
    point = search.evaluate(torch.zeros(5, dtype=torch.float64))
    assert not search.converged
    search.tol = point.residual
    assert search.converged
    assert search.is_done(point)


def test_a_search_is_done_at_nan():
    search = make_search(0)
    assert search.is_done(search.evaluate(torch.full((5,), math.nan, dtype=torch.float64)))


def test_a_search_gives_up_at_the_rounding_floor_alone():
    search = make_search(0, tolerance=0.0, max_iter=10**6)
    point = search.evaluate(torch.zeros(5, dtype=torch.float64))
    for _ in range(PATIENCE):
        assert not search.is_done(point._replace(residual=1e-12))
        point = search.evaluate(point.g)
    assert search.is_done(point._replace(residual=1e-12))
    assert not search.is_done(point._replace(residual=1e-3))
    assert not search.is_done(point._replace(residual=ROUNDING_FLOOR))


def test_limited_iterations_end_before_the_last_one():
    search = make_search(0, max_iter=10)
    point = search.evaluate(torch.zeros(5, dtype=torch.float64))
    search.limit = 2
    assert not search.is_done(point)
    assert search.is_done(search.evaluate(point.g))
    search.limit = 3
    assert not search.is_done(point)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("prior_strength", [0.3, math.inf])
def test_an_unreachable_tolerance_ends_at_the_rounding_floor(method, prior_strength):
    t = solve(predictions(0), mass=0.5, prior_strength=prior_strength, tol=0.0, method=method)
    assert t.n_iter < 5000
    assert t.residual < 1e-13


def test_annealing_leaves_one_iteration():
    search = make_search(0, max_iter=2)
    iterations._anneal(search, torch.zeros(5, dtype=torch.float64))
    assert search.n_iter == 1


def test_annealing_lowers_epsilon_level_by_level_to_four_times_the_given_one(monkeypatch):
    search, seen = make_search(0), []
    monkeypatch.setattr(iterations, "_newton", lambda part, g: seen.append(part.problem.epsilon))
    iterations._anneal(search, torch.zeros(5, dtype=torch.float64))
    assert seen == [search.problem.epsilon * 4.0**level for level in range(len(seen), 0, -1)]
    assert len(seen) > 5


@pytest.mark.parametrize("mass", [0.0, EMPTY_MASS])
def test_columns_without_mass_follow_their_scaling_step(mass: float):
    search = make_search(0)
    point = search.evaluate(search.problem.best_shift(torch.zeros(5, dtype=torch.float64)), gram=True)
    masses = point.sums.mass.clone()
    masses[1] = mass
    point = point._replace(sums=point.sums._replace(mass=masses))
    direction = iterations._newton_direction(search.problem, point)
    assert direction is not None
    scaled = iterations._scaled(search.problem, point) - point.g
    assert (direction == scaled).tolist() == [False, True, False, False, False]


@given(seeds, st.integers(2, 5))
@few
def test_extrapolation_is_a_least_squares_solution(seed: int, count: int):
    rng = np.random.default_rng(seed)
    g, mapped = rng.normal(size=(2, count, 6))
    residual = (mapped - g) - (mapped - g).mean(1, keepdims=True)  # a common shift is no change
    weight = np.linalg.lstsq(np.diff(residual, axis=0).T, residual[-1], rcond=None)[0]
    expected = mapped[-1] - weight @ np.diff(mapped, axis=0)
    steps = list(zip(torch.from_numpy(g), torch.from_numpy(mapped), strict=True))
    np.testing.assert_allclose(iterations._extrapolate(steps), expected, atol=1e-6)


def test_repeated_steps_can_be_extrapolated():
    step = (tensor(0.0, 0.0, 0.0), tensor(1.0, 0.0, -1.0))
    assert iterations._extrapolate([step, step]).tolist() == [1, 0, -1]


class Scripted:
    """A search with given values and residuals; scaling adds (1, 0), the slope is (0.5, 0)."""

    def __init__(self, *found: tuple[float, float]) -> None:
        self.found = list(found)
        self.asked: list[list[float]] = []
        self.grams: list[bool] = []
        self.sums = SUMS
        self.problem = SimpleNamespace(
            best_shift=lambda g: g,
            scaling_step=lambda g, log_mass: g + log_mass,
            required_mass=lambda g: tensor(0.75, 0.25),
        )

    def evaluate(self, g, *, gram: bool = False) -> Point:
        self.asked.append(g.tolist())
        self.grams.append(gram)
        value, residual = self.found.pop(0)
        return Point(g, self.sums, residual, value)

    def is_done(self, point: Point) -> bool:
        return not self.found


def tensor(*numbers: float):
    return torch.tensor(numbers, dtype=torch.float64)


SUMS = SampleSums(tensor(0.25, 0.25), tensor(1.0, 0.0), 0.0, tensor(), None)


def advance(*found: tuple[float, float], radius: float = math.inf, residual: float = 1.0):
    """From value 0 along (2, 0), where the model grows by 1: points asked for, and the new radius."""
    search: Any = Scripted(*found)
    start = Point(tensor(0.0, 0.0), SUMS, residual, 0.0)
    _, radius = iterations._trust_region_step(search, start, tensor(2.0, 0.0), radius)
    return [x for x, _ in search.asked], radius


class TestAdvance:
    """A step is trusted as far as steps like it have been right."""

    def test_a_step_that_is_not_bounded_is_whole(self):
        assert advance((1, 1)) == ([2.0], math.inf)

    def test_a_step_stays_within_the_radius_and_widens_it(self):
        assert advance((1, 1), radius=0.5) == ([0.5], 2.0)

    def test_a_wide_radius_stays(self):
        assert advance((1, 1), radius=100.0) == ([2.0], 100.0)

    def test_refused_steps_are_cut(self):
        assert advance((-1, 1), (-1, 1), (1, 1)) == ([2.0, 0.5, 0.125], 0.5)

    def test_at_the_end_the_last_radius_is_returned(self):
        assert advance((-1, 1), (-1, 1)) == ([2.0, 0.5], 0.5)

    @pytest.mark.parametrize(("value", "taken"), [(0.0, False), (5e-5, False), (1e-4, True), (1.5e-4, True)])
    def test_the_value_must_grow_by_some_of_what_the_model_says(self, value: float, taken: bool):
        asked, _ = advance((value, 1), (1, 1))
        assert (len(asked) == 1) is taken

    @pytest.mark.parametrize(("residual", "taken"), [(0.4e-3, True), (0.5e-3, True), (0.9e-3, False)])
    def test_a_halved_residual_is_progress_too(self, residual: float, taken: bool):
        asked, _ = advance((-1, residual), (1, 1e-3), residual=1e-3)
        assert (len(asked) == 1) is taken


@pytest.mark.parametrize(
    ("residual", "gram"), [(2 * GRAM_REUSE_RESIDUAL, True), (GRAM_REUSE_RESIDUAL, False)]
)
def test_the_gram_matrix_is_reused_close_to_the_optimum_alone(residual: float, gram: bool):
    search: Any = Scripted((1, 0.1))
    old = tensor(7.0)
    start = Point(tensor(0.0, 0.0), SUMS._replace(gram=old), residual, 0.0)
    new, _ = iterations._trust_region_step(search, start, tensor(1.0, 0.0), math.inf)
    assert search.grams == [gram]
    assert (new.sums.gram is old) is not gram


def test_a_nearly_empty_column_is_scaled():
    search: Any = Scripted((0, 1), (1, 0.5), (2, 0.4))
    search.sums = SUMS._replace(mass=tensor(0.25, 1e-5))
    iterations._newton(search, tensor(0.0, 0.0))
    assert [x for x, _ in search.asked] == [0, 1, 2]
    assert search.grams == [False, True, True]


@pytest.mark.parametrize(
    ("found", "again"),
    [((-1, 0.9), True), ((0, 0.9), False), ((1, 0.9), False), ((-1, 0.5), False), ((-1, 0.1), False)],
    ids=str,
)
def test_an_extrapolation_that_is_worse_in_value_and_residual_is_replaced_by_scaling(found, again: bool):
    search: Any = Scripted((0, 1), (0, 0.5), found, (1, 0.4), (2, 0.3))
    iterations.anderson(search, tensor(0.0, 0.0))
    assert [x for x, _ in search.asked] == ([0, 1, 2, 2, 3] if again else [0, 1, 2, 3, 4])
