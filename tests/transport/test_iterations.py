"""Three ways to one optimum: how many passes they take, and when they stop."""

import math

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
from protocol_mvc.transport.iterations import METHODS, PATIENCE, STALLED, Search
from protocol_mvc.transport.solver import solve


def search(seed, tolerance=1e-9, max_passes=1000, **case):
    return Search(problem(seed, **case), samples(predictions(seed)).sweep, tolerance, max_passes)


def stalling():
    """Sharp predictions under a hard prior that one cluster does not fit: pure Newton creeps."""
    return {"log_p": long_tailed(0, 60, 10, scale=30, dead=1), "kl_weight": math.inf, "epsilon": 0.01}


@pytest.mark.parametrize("n", [256, 2000])
@pytest.mark.parametrize("kl_weight", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("mass", [0.1, 0.5, 0.9, 1.0])
def test_newton_takes_a_handful_of_passes(n, kl_weight, mass):
    t = solve(long_tailed(0, n, 10), mass=mass, kl_weight=kl_weight, method="newton")
    assert t.converged
    assert t.passes <= 11


def test_scaling_takes_many_times_more():
    passes = {m: solve(long_tailed(0, 256, 10), mass=0.5, method=m).passes for m in METHODS}
    assert passes["scaling"] >= 20 * passes["newton"]
    assert passes["newton"] < passes["anderson"] < passes["scaling"]


def test_scaling_is_the_recursion_of_the_paper():
    """Eqs. 18, 48 on the exponentials themselves, which the solver never forms."""
    p, log_p = problem(0), predictions(0)
    kernel = torch.cat([log_p / p.epsilon, torch.zeros(9, 1, dtype=torch.float64)], 1).exp()
    f = torch.full((5,), p.kl_weight / (p.kl_weight + p.epsilon), dtype=torch.float64)
    f[-1] = 1
    visited = []

    def sweep(p, g, gram):
        visited.append(g)
        return samples(log_p).sweep(p, g, gram)

    iterations.scaling(Search(p, sweep, 0.0, 6), torch.zeros(5, dtype=torch.float64))
    b = torch.ones(5, dtype=torch.float64)
    for g in visited:
        torch.testing.assert_close((g / p.epsilon).exp(), b)
        a = 1 / 9 / (kernel @ b)
        b = (p.goal / (kernel.T @ a)) ** f


@given(seeds, methods, knobs, st.integers(1, 60), st.sampled_from([0.4, 1.0]))
@few
def test_passes_are_bounded(seed, method, knob, most, mass):
    t = solve(predictions(seed), method=method, max_passes=most, mass=mass, tolerance=0.0, **knob)
    assert 1 <= t.passes <= most


@pytest.mark.parametrize("most", [STALLED - 1, STALLED, STALLED + 1, STALLED + 2, 100])
def test_passes_are_bounded_also_when_newton_is_helped(most):
    t = solve(**stalling(), max_passes=most, tolerance=0.0)
    assert t.passes <= most


def test_newton_is_helped_where_it_stalls(monkeypatch):
    helped = solve(**stalling())
    assert helped.converged
    assert helped.passes > STALLED
    monkeypatch.setattr(iterations, "LEVELS", 0)
    assert solve(**stalling()).passes > helped.passes


@given(seeds, methods, knobs)
@few
def test_the_dual_ends_higher_than_it_started(seed, method, knob):
    """Newton and Anderson never trade the optimum for a smaller residual elsewhere."""
    way = search(seed, **knob)
    g = torch.zeros(5, dtype=torch.float64)
    start = way.at(way.problem.shifted(g))
    METHODS[method](way, g)
    assert way.best is not None
    assert way.best.value >= start.value - 1e-12


def test_the_best_point_is_kept():
    way = search(0)
    points = [way.at(way.problem.shifted(k * positive(3, 5))) for k in (3.0, 0.1, 1.0)]
    assert way.passes == 3
    assert way.best is points[1]
    assert way.best.residual == min(point.residual for point in points)


def test_a_search_is_over_at_the_tolerance_and_at_the_last_pass():
    way = search(0, tolerance=1e-3, max_passes=30)
    point = way.at(torch.zeros(5, dtype=torch.float64))
    assert not way.over(point)
    assert not way.converged
    assert way.over(point._replace(residual=1e-3))
    way.passes = 30
    assert way.over(point)


def test_the_tolerance_itself_is_good_enough():
    way = search(0)
    point = way.at(torch.zeros(5, dtype=torch.float64))
    assert not way.converged
    way.tolerance = point.residual
    assert way.converged
    assert way.over(point)


def test_a_search_is_over_where_there_are_no_numbers():
    way = search(0)
    assert way.over(way.at(torch.full((5,), math.nan, dtype=torch.float64)))


def test_a_search_gives_up_at_the_noise_floor_alone():
    way = search(0, tolerance=0.0, max_passes=10**6)
    point = way.at(torch.zeros(5, dtype=torch.float64))
    for _ in range(PATIENCE):
        assert not way.over(point._replace(residual=1e-12))
        point = way.at(point.g)
    assert way.over(point._replace(residual=1e-12))
    assert not way.over(point._replace(residual=1e-3))


def test_a_pause_ends_before_the_last_pass():
    way = search(0, max_passes=10)
    point = way.at(torch.zeros(5, dtype=torch.float64))
    way.pause_after(1)
    assert not way.over(point)
    assert way.over(way.at(point.g))
    way.pause_after(100)
    way.passes = 10
    assert way.over(point)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kl_weight", [0.3, math.inf])
def test_an_unreachable_tolerance_ends_at_the_noise_floor(method, kl_weight):
    t = solve(predictions(0), mass=0.5, kl_weight=kl_weight, tolerance=0.0, method=method)
    assert t.passes < 5000
    assert t.residual < 1e-13
