"""The dual: gradient, Hessian, best shift and fixed point."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.transport.problems import few, numbers, positive, predictions, problem, samples, seeds
from torch import Tensor

from protocol_mvc.transport.problem import MAX_PARTIAL_MASS, Problem
from protocol_mvc.transport.solver import solve

cases = st.fixed_dictionaries(
    {
        "mass": st.sampled_from([0.2, 0.8, 1.0]),
        "epsilon": st.sampled_from([0.1, 1.0]),
        "prior_strength": st.sampled_from([0.1, 1.0, 10.0, math.inf]),
    }
)
STEP = 1e-5


def potentials(p: Problem, seed: int) -> Tensor:
    return 0.2 * torch.randn(len(p.column_target), dtype=torch.float64, generator=numbers(seed + 7))


def value(p: Problem, g: Tensor, log_p: Tensor) -> float:
    return p.dual_value(g, samples(log_p).sums(p, g).lse)


def gradient(p: Problem, g: Tensor, log_p: Tensor) -> Tensor:
    return p.required_mass(g) - samples(log_p).sums(p, g).mass


def shifted_gradient(p: Problem, g: Tensor, log_p: Tensor) -> Tensor:
    """Of the dual with the best constant put in."""
    return gradient(p, p.best_shift(g), log_p)


@given(seeds, cases)
@few
def test_the_gradient_is_required_minus_received_mass(seed, case):
    p, log_p = problem(seed, **case), predictions(seed)
    g = potentials(p, seed)
    step = STEP * torch.eye(len(g), dtype=torch.float64)
    differences = [(value(p, g + h, log_p) - value(p, g - h, log_p)) / (2 * STEP) for h in step]
    torch.testing.assert_close(gradient(p, g, log_p), g.new_tensor(differences), rtol=1e-5, atol=1e-8)


@given(seeds, cases)
@few
def test_the_matrix_is_minus_the_hessian_except_along_the_constant(seed, case):
    p, log_p = problem(seed, **case), predictions(seed)
    g = p.best_shift(potentials(p, seed))
    matrix = p.negative_hessian(g, samples(log_p).sums(p, g, True))
    c = len(g)
    projection = torch.eye(c, dtype=torch.float64) - 1 / c
    step = STEP * torch.eye(c, dtype=torch.float64)
    differences = [shifted_gradient(p, g + h, log_p) - shifted_gradient(p, g - h, log_p) for h in step]
    hessian = torch.stack(differences) / (2 * STEP)
    torch.testing.assert_close(
        projection @ matrix @ projection, projection @ -hessian @ projection, rtol=1e-5, atol=1e-7
    )


@given(seeds, cases)
@few
def test_the_matrix_is_definite_also_along_the_constant(seed, case):
    p, log_p = problem(seed, **case), predictions(seed)
    g = p.best_shift(potentials(p, seed))
    matrix = p.negative_hessian(g, samples(log_p).sums(p, g, True))
    torch.testing.assert_close(matrix, matrix.T)
    assert (torch.linalg.eigvalsh(matrix) > 0).all()


@given(seeds, cases)
@few
def test_the_matrix_along_the_constant_is_one_over_epsilon(seed, case):
    p, log_p = problem(seed, **case), predictions(seed)
    g = p.best_shift(potentials(p, seed))
    matrix = p.negative_hessian(g, samples(log_p).sums(p, g, True))
    assert matrix.sum().item() == pytest.approx(1 / p.epsilon, rel=1e-6)


@given(seeds, cases, st.floats(-3, 3))
@few
def test_the_best_shift_maximizes_the_dual_over_a_constant(seed, case, constant):
    p, log_p = problem(seed, **case), predictions(seed)
    best = p.best_shift(potentials(p, seed))
    assert value(p, best, log_p) >= value(p, best + constant, log_p) - 1e-12
    torch.testing.assert_close(p.best_shift(best + constant), best)


@given(seeds, cases)
@few
def test_the_best_shift_does_not_change_the_plan(seed, case):
    p, log_p = problem(seed, **case), predictions(seed)
    g = potentials(p, seed)
    torch.testing.assert_close(
        samples(log_p).sums(p, p.best_shift(g)).mass, samples(log_p).sums(p, g).mass, rtol=1e-10, atol=0
    )


@given(seeds, cases)
@few
def test_after_the_best_shift_the_required_masses_sum_to_one(seed, case):
    p = problem(seed, **case)
    assert p.required_mass(p.best_shift(potentials(p, seed))).sum().item() == pytest.approx(1, abs=1e-12)
    assert p.column_target.sum().item() == pytest.approx(1, abs=1e-12)


def test_a_hard_prior_has_no_best_constant():
    p, log_p = problem(0, prior_strength=math.inf), predictions(0)
    g = potentials(p, 0)
    assert value(p, g + 3, log_p) == pytest.approx(value(p, g, log_p), abs=1e-12)
    torch.testing.assert_close(p.required_mass(g), p.column_target)


@given(seeds, cases)
@few
def test_the_optimum_is_the_fixed_point_of_scaling(seed, case):
    p, log_p = problem(seed, **case), predictions(seed)
    t = solve(log_p, prior=positive(seed), tol=1e-13, **case)
    g = t.potentials[: len(p.column_target)]
    torch.testing.assert_close(p.scaling_step(g, samples(log_p).sums(p, g).log_mass), g, rtol=0, atol=1e-9)


def test_one_scaling_step_by_hand():
    p = Problem(torch.tensor([0.2, 0.4], dtype=torch.float64), 0.6, epsilon=0.5, prior_strength=1.5)
    g = torch.tensor([0.1, -0.3, 0.2], dtype=torch.float64)
    mass = torch.tensor([0.5, 0.1, 0.4], dtype=torch.float64)
    real = [0.75 * (0.1 + 0.5 * math.log(0.2 / 0.5)), 0.75 * (-0.3 + 0.5 * math.log(0.4 / 0.1))]
    torch.testing.assert_close(p.scaling_step(g, mass.log()), g.new_tensor([*real, 0.2]))


@pytest.mark.parametrize(("mass", "columns"), [(0.5, 5), (1 - 1e-11, 5), (1 - 1e-13, 4), (1.0, 4)])
def test_the_whole_mass_has_no_virtual_column(mass, columns):
    p = problem(0, mass=mass)
    assert len(p.column_target) == columns
    assert (p.virtual_mass > 0) == (columns == 5)


def test_a_flat_dual_has_a_definite_matrix():
    p, log_p = problem(0, prior_strength=math.inf), predictions(0)
    sums = samples(log_p).sums(p, torch.zeros(5, dtype=torch.float64), True)
    assert sums.gram is not None
    flat = p.negative_hessian(torch.zeros(5), sums._replace(gram=torch.zeros_like(sums.gram)))
    assert int(torch.linalg.cholesky_ex(flat).info) == 0


def test_the_virtual_column_exists_up_to_the_last_digits():
    whole = problem(0, mass=1.0)
    assert whole.virtual_mass == 0
    assert dataclasses.replace(whole, mass=MAX_PARTIAL_MASS).virtual_mass > 0


def test_a_problem_is_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem(0).mass = 0.5  # type: ignore[misc]
