"""Labels of a plan, and the schedule of the mass."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol_mvc.transport import PotLabels, mass_schedule, pot_labels, solve

few = settings(max_examples=20)
seeds = st.integers(0, 2**32)
unit = st.floats(0, 1)
masses = st.sampled_from([0.1, 0.5, 1.0])


def predictions(seed, n=9, k=4):
    return torch.randn(n, k, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).log_softmax(
        1
    )


@given(unit, unit)
def test_the_schedule_ends_at_the_largest_mass(start, end):
    assert mass_schedule(1, start, end) == pytest.approx(end, abs=1e-15)
    assert mass_schedule(0, start, end) == pytest.approx(start + (end - start) * math.exp(-5))


@given(st.lists(unit, min_size=2, max_size=2).map(sorted), unit, unit)
def test_the_schedule_is_monotone_and_stays_between_its_ends(progress, start, end):
    first, second = (mass_schedule(p, start, end) for p in progress)
    assert (second - first) * (end - start) >= -1e-15
    assert min(start, end) - 1e-15 <= first <= max(start, end) + 1e-15


def test_the_schedule_of_the_paper_by_hand():
    assert mass_schedule(0.5, 0.1, 1.0) == pytest.approx(0.1 + 0.9 * math.exp(-1.25))


def labels_of(log_p, **arguments):
    return pot_labels(log_p, solve(log_p, **arguments))


@given(seeds, masses)
@few
def test_soft_labels_hold_the_mass(seed, mass):
    labels = labels_of(predictions(seed), mass=mass)
    assert (labels.soft >= 0).all()
    assert (labels.soft.sum(1) <= 1 + 1e-12).all()
    assert labels.soft.sum().item() == pytest.approx(9 * mass, abs=1e-7)


@given(seeds, masses)
@few
def test_hard_labels_are_the_largest_soft_labels(seed, mass):
    labels = labels_of(predictions(seed), mass=mass)
    chosen = labels.soft.gather(1, labels.hard[:, None])
    assert (chosen >= labels.soft).all()


@given(seeds)
@few
def test_without_a_prior_the_hard_labels_are_the_predicted_ones(seed):
    log_p = predictions(seed)
    assert labels_of(log_p, prior_strength=1e-9).hard.tolist() == log_p.argmax(1).tolist()


@given(seeds, masses)
@few
def test_frequencies_are_those_of_the_plan(seed, mass):
    log_p = predictions(seed)
    transport = solve(log_p, mass=mass)
    frequency = pot_labels(log_p, transport).log_frequency.exp()
    expected = (transport.column_mass / transport.column_mass.sum()).clamp_min(0.5 / 9)
    torch.testing.assert_close(frequency, expected)


def test_frequencies_sum_to_one_for_any_mass():
    log_p = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]).log()
    for mass in (0.2, 0.6, 1.0):
        assert labels_of(log_p, mass=mass).log_frequency.exp().sum().item() == pytest.approx(1)


def test_an_empty_cluster_counts_as_half_a_sample():
    log_p = torch.tensor([[0.0, -900.0]]).repeat(10, 1).log_softmax(1)
    labels = labels_of(log_p, prior_strength=0.1)
    assert labels.log_frequency.tolist() == pytest.approx([0.0, math.log(0.05)])


@given(seeds, st.permutations(range(9)))
@few
def test_the_order_of_samples_is_free(seed, order):
    log_p = predictions(seed)
    labels, permuted = (labels_of(x, mass=0.5) for x in (log_p, log_p[order]))
    torch.testing.assert_close(permuted.soft, labels.soft[order])
    torch.testing.assert_close(permuted.log_frequency, labels.log_frequency)


def test_rows_select_samples_and_keep_frequencies():
    labels = labels_of(predictions(0))
    index = torch.tensor([4, 0, 7])
    some = labels.rows(index)
    assert isinstance(some, PotLabels)
    torch.testing.assert_close(some.soft, labels.soft[index])
    torch.testing.assert_close(some.hard, labels.hard[index])
    torch.testing.assert_close(some.log_frequency, labels.log_frequency)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_labels_are_as_precise_as_the_predictions(dtype):
    labels = labels_of(predictions(0).to(dtype))
    assert labels.soft.dtype == labels.log_frequency.dtype == dtype
