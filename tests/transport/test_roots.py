"""The weight of the virtual column: it keeps exactly its mass, wherever the samples are."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.transport.problems import alone, few, numbers, positive, seeds, together
from torch import Tensor

from protocol_mvc.transport.roots import coin_divergence, virtual_logit

rests = st.sampled_from([1e-12, 1e-3, 0.3, 0.5, 0.9, 1 - 1e-3, 1 - 1e-12])
spreads = st.sampled_from([0.0, 0.1, 10.0, 1e3, 1e4, 1e6])


def shares(s: float, lse: Tensor, weight: Tensor) -> tuple[float, float]:
    """Mass left behind and mass moved."""
    return float(weight @ torch.sigmoid(s - lse)), float(weight @ torch.sigmoid(lse - s))


def weights(seed: int, n: int) -> Tensor:
    weight = positive(seed, n)
    return weight / weight.sum()


def check(s: float, lse: Tensor, weight: Tensor, rest: float, tolerance: float) -> None:
    """The smaller of both masses is right to a relative error."""
    left, moved = shares(s, lse, weight)
    found, wanted = (left, rest) if rest < 0.5 else (moved, 1 - rest)
    assert found == pytest.approx(wanted, rel=tolerance, abs=0)


@given(seeds, st.integers(1, 300), spreads, rests, st.sampled_from([1e-3, 1e-15]))
@few
def test_the_virtual_column_keeps_its_mass(seed, n, spread, rest, tolerance):
    lse = spread * torch.randn(n, dtype=torch.float64, generator=numbers(seed))
    weight = weights(seed, n)
    s = virtual_logit(lse, weight, rest, alone, tolerance)
    # The root of a steep curve far from zero is known as well as floating point numbers are dense there.
    check(s, lse, weight, rest, 1.01 * tolerance + 1e-13 + 4e-16 * spread)


@given(seeds, rests)
@few
def test_one_sample_has_a_closed_form(seed, rest):
    lse = 50 * torch.randn(1, dtype=torch.float64, generator=numbers(seed))
    s = virtual_logit(lse, torch.ones_like(lse), rest, alone, 1e-14)
    assert s == pytest.approx(float(lse) + math.log(rest / (1 - rest)), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("rest", [1e-12, 0.01, 0.5, 0.99, 1 - 1e-12])
def test_samples_far_from_one_another(rest):
    """The mass is a staircase, flat to the last digit between its steps."""
    lse = torch.linspace(-1e4, 1e4, 60, dtype=torch.float64)
    weight = torch.full_like(lse, 1 / 60)
    check(virtual_logit(lse, weight, rest, alone, 1e-15), lse, weight, rest, 1e-10)


def test_half_of_the_samples_stay_behind():
    """On the flat stretch between both halves every s is right, and Newton's step has no bound."""
    lse = torch.tensor([-1070.0, -1070.2, 400.0, 405.0], dtype=torch.float64)
    weight = torch.full_like(lse, 0.25)
    s = virtual_logit(lse, weight, 0.5, alone, 1e-15)
    assert -1070 < s < 400
    check(s, lse, weight, 0.5, 1e-13)


def test_samples_that_no_cluster_can_take_do_not_disturb():
    lse = torch.cat([torch.full((2,), -1e31, dtype=torch.float64), torch.arange(8, dtype=torch.float64)])
    weight = torch.full_like(lse, 0.1)
    check(virtual_logit(lse, weight, 0.5, alone, 1e-14), lse, weight, 0.5, 1e-13)


@given(seeds, rests)
@few
def test_an_error_of_rounding_is_not_chased(seed, rest):
    """A tolerance that no number meets ends where the numbers do."""
    lse = 0.1 * torch.randn(6, dtype=torch.float64, generator=numbers(seed))
    weight = weights(seed, 6)
    check(virtual_logit(lse, weight, rest, alone, 0.0), lse, weight, rest, 1e-12)


@given(seeds, rests)
@few
def test_processes_agree(seed, rest):
    lse = 10 * torch.randn(12, dtype=torch.float64, generator=numbers(seed))
    weight = torch.full_like(lse, 1 / 12)
    whole = virtual_logit(lse, weight, rest, alone, 1e-14)
    work = lambda part, merge: virtual_logit(part, weight[: len(part)], rest, merge, 1e-14)
    first, second = together([lse[:5], lse[5:]], work)
    assert first == second == pytest.approx(whole, rel=1e-9, abs=1e-9)


@given(seeds, st.sampled_from([0.1, 0.5, 0.9]), st.sampled_from([0.1, 1.0, 3.0]), st.sampled_from([0, 1e6]))
@few
def test_a_few_looks_at_the_samples_are_enough_wherever_they_are(seed, rest, spread, place):
    looks = []

    def counted(sums: Tensor) -> Tensor:
        looks.append(1)
        return sums

    lse = place + spread * torch.randn(100, dtype=torch.float64, generator=numbers(seed))
    virtual_logit(lse, weights(seed, 100), rest, counted, 1e-14 + 1e-15 * place)
    assert len(looks) <= 10


@given(seeds)
@few
def test_coins_differ_by_their_divergence(seed):
    logit, other = torch.randn(2, 5, dtype=torch.float64, generator=numbers(seed))
    p, q = logit.sigmoid(), other.sigmoid()
    expected = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    torch.testing.assert_close(coin_divergence(logit, other), expected)


def test_no_number_ends_the_search():
    lse = torch.tensor([0.0, math.nan], dtype=torch.float64)
    assert math.isnan(virtual_logit(lse, torch.full_like(lse, 0.5), 0.5, alone, 1e-9))
