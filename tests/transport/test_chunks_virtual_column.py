"""The logit of the virtual column gives it exactly its mass."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.transport.problems import few, in_threads, numbers, positive, seeds, single_process
from torch import Tensor

from protocol_mvc.transport.chunks import bernoulli_divergence, virtual_logit

virtual_masses = st.sampled_from([1e-12, 1e-3, 0.3, 0.5, 0.9, 1 - 1e-3, 1 - 1e-12])
spreads = st.sampled_from([0.0, 0.1, 10.0, 1e3, 1e4, 1e6])


def shares(s: float, lse: Tensor, weight: Tensor) -> tuple[float, float]:
    """Mass left behind and mass moved."""
    return float(weight @ torch.sigmoid(s - lse)), float(weight @ torch.sigmoid(lse - s))


def weights(seed: int, n: int) -> Tensor:
    weight = positive(seed, n)
    return weight / weight.sum()


def check(s: float, lse: Tensor, weight: Tensor, virtual_mass: float, tolerance: float) -> None:
    """The smaller of both masses is right to a relative error."""
    left, moved = shares(s, lse, weight)
    found, expected = (left, virtual_mass) if virtual_mass < 0.5 else (moved, 1 - virtual_mass)
    assert found == pytest.approx(expected, rel=tolerance, abs=0)


@given(seeds, st.integers(1, 300), spreads, virtual_masses, st.sampled_from([1e-3, 1e-15]))
@few
def test_the_virtual_column_gets_its_mass(seed, n, spread, virtual_mass, tolerance):
    lse = spread * torch.randn(n, dtype=torch.float64, generator=numbers(seed))
    weight = weights(seed, n)
    s = virtual_logit(lse, weight, virtual_mass, single_process, tolerance)
    # The root of a steep curve far from zero is known as well as floating point numbers are dense there.
    check(s, lse, weight, virtual_mass, 1.01 * tolerance + 1e-13 + 4e-16 * spread)


@given(seeds, virtual_masses)
@few
def test_one_sample_has_a_closed_form(seed, virtual_mass):
    lse = 50 * torch.randn(1, dtype=torch.float64, generator=numbers(seed))
    s = virtual_logit(lse, torch.ones_like(lse), virtual_mass, single_process, 1e-14)
    assert s == pytest.approx(float(lse) + math.log(virtual_mass / (1 - virtual_mass)), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("virtual_mass", [1e-12, 0.01, 0.5, 0.99, 1 - 1e-12])
def test_samples_far_from_one_another(virtual_mass):
    """The mass is a staircase, flat to the last digit between its steps."""
    lse = torch.linspace(-1e4, 1e4, 60, dtype=torch.float64)
    weight = torch.full_like(lse, 1 / 60)
    check(virtual_logit(lse, weight, virtual_mass, single_process, 1e-15), lse, weight, virtual_mass, 1e-10)


def test_half_of_the_mass_between_two_groups_far_apart():
    """On the flat stretch between both halves every s is right, and Newton's step has no bound."""
    lse = torch.tensor([-1070.0, -1070.2, 400.0, 405.0], dtype=torch.float64)
    weight = torch.full_like(lse, 0.25)
    s = virtual_logit(lse, weight, 0.5, single_process, 1e-15)
    assert -1070 < s < 400
    check(s, lse, weight, 0.5, 1e-13)


def test_samples_that_no_cluster_can_take_are_harmless():
    lse = torch.cat([torch.full((2,), -1e31, dtype=torch.float64), torch.arange(8, dtype=torch.float64)])
    weight = torch.full_like(lse, 0.1)
    check(virtual_logit(lse, weight, 0.5, single_process, 1e-14), lse, weight, 0.5, 1e-13)


@given(seeds, virtual_masses)
@few
def test_a_tolerance_of_zero_ends_at_rounding_errors(seed, virtual_mass):
    """A tolerance that no number meets ends where the numbers do."""
    lse = 0.1 * torch.randn(6, dtype=torch.float64, generator=numbers(seed))
    weight = weights(seed, 6)
    check(virtual_logit(lse, weight, virtual_mass, single_process, 0.0), lse, weight, virtual_mass, 1e-12)


@given(seeds, virtual_masses)
@few
def test_processes_agree(seed, virtual_mass):
    lse = 10 * torch.randn(12, dtype=torch.float64, generator=numbers(seed))
    weight = torch.full_like(lse, 1 / 12)
    whole = virtual_logit(lse, weight, virtual_mass, single_process, 1e-14)
    work = lambda part, all_reduce: virtual_logit(part, weight[: len(part)], virtual_mass, all_reduce, 1e-14)
    first, second = in_threads([lse[:5], lse[5:]], work)
    assert first == second == pytest.approx(whole, rel=1e-9, abs=1e-9)


@given(seeds, st.sampled_from([0.1, 0.5, 0.9]), st.sampled_from([0.1, 1.0, 3.0]), st.sampled_from([0, 1e6]))
@few
def test_few_iterations_are_enough_wherever_the_samples_are(seed, virtual_mass, spread, place):
    calls = []

    def counted(sums: Tensor) -> Tensor:
        calls.append(1)
        return sums

    lse = place + spread * torch.randn(100, dtype=torch.float64, generator=numbers(seed))
    virtual_logit(lse, weights(seed, 100), virtual_mass, counted, 1e-14 + 1e-15 * place)
    assert len(calls) <= 10


@given(seeds)
@few
def test_bernoulli_divergence_equals_its_definition(seed):
    logit, other = torch.randn(2, 5, dtype=torch.float64, generator=numbers(seed))
    p, q = logit.sigmoid(), other.sigmoid()
    expected = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    torch.testing.assert_close(bernoulli_divergence(logit, other), expected)


def test_nan_ends_the_search():
    lse = torch.tensor([0.0, math.nan], dtype=torch.float64)
    assert math.isnan(virtual_logit(lse, torch.full_like(lse, 0.5), 0.5, single_process, 1e-9))
