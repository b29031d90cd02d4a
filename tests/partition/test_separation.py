"""Evidence that two groups differ is measured on their members, and a group cut in two has none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import Floats, Labels

from protocol_mvc.partition.separation import MAX_SEPARATION, dip, mean_separation, project_apart, valley

samples = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=60).map(np.array)


def two_groups(n_a: int, n_b: int, distance: float, *, width: int = 10, seed: int = 0):
    """Two normal groups, and the positions of their members."""
    x = np.random.default_rng(seed).normal(size=(n_a + n_b, width))
    x[:n_a, 0] += distance
    return x, np.arange(n_a), np.arange(n_a, n_a + n_b)


def cut(x: Floats, size: int) -> tuple[Labels, Labels]:
    """Cut the samples that are furthest along one direction from the others."""
    order = np.argsort(x @ np.random.default_rng(1).normal(size=x.shape[1]))
    return order[-size:], order[:-size]


class TestDip:
    @given(samples)
    def test_lies_between_its_bounds(self, x: Floats):
        least = 1 / (2 * len(x))
        assert least <= dip(x) <= max(0.25, least) + 1e-9

    @given(samples, st.floats(0.1, 10), st.floats(-10, 10))
    def test_unit_place_direction_and_order_do_not_matter(self, x: Floats, unit: float, shift: float):
        assert dip(-unit * x[::-1] + shift) == pytest.approx(dip(x), abs=1e-6)

    @pytest.mark.parametrize("n", [4, 10, 101])
    def test_equal_steps_have_the_least_dip(self, n: int):
        assert dip(np.arange(n, dtype=float)) == pytest.approx(1 / (2 * n))

    def test_two_points_of_equal_mass_have_the_largest_dip(self):
        assert dip(np.repeat([0.0, 1.0], 500)) == 0.25
        assert dip(np.repeat([0.0, 1.0, 2.0], [10, 500, 10])) == pytest.approx(10 / 1040)  # one mode

    def test_quantiles_of_uniform_samples_are_those_of_the_table_of_hartigan_and_hartigan(self):
        rng = np.random.default_rng(0)
        found = np.quantile([dip(rng.uniform(size=50)) for _ in range(400)], [0.5, 0.95])
        np.testing.assert_allclose(found, [0.0471, 0.0702], rtol=0.06)


def test_projection_leaves_out_the_sample_that_is_projected():
    x, a, b = two_groups(6, 9, 2.0)
    rest = a[a != 2]
    line = x[rest].mean(0) - x[b].mean(0)
    expected = (x[2] - (x[rest].mean(0) + x[b].mean(0)) / 2) @ line / np.linalg.norm(line)
    assert project_apart(x, a, b)[0][2] == pytest.approx(expected)


def test_random_halves_are_not_separated_even_in_many_dimensions():
    x, a, b = two_groups(15, 15, 0.0, width=200)
    assert abs(mean_separation([x], a, b)) < 1


@given(st.integers(0, 100))
def test_both_measures_are_the_same_if_the_groups_change_places(seed: int):
    x, a, b = two_groups(20, 30, 2.0, seed=seed)
    assert valley(x, a, b) == pytest.approx(valley(x, b, a))
    assert mean_separation([x, x[:, :3]], a, b) == pytest.approx(mean_separation([x, x[:, :3]], b, a))


def test_a_view_counts_at_most_the_largest_separation():
    x, a, b = two_groups(30, 30, 1000.0)
    assert mean_separation([x], a, b) == MAX_SEPARATION
    noise = two_groups(30, 30, 0.0, seed=1)[0]
    assert mean_separation([x, noise], a, b) < 0.6 * MAX_SEPARATION


@pytest.mark.parametrize("size", [15, 100, 500])
def test_a_cut_cloud_has_no_valley_and_a_group_beside_it_has_one(size: int):
    cut_in_two, beside = [], []
    for seed in range(9):
        cloud = np.random.default_rng(seed).normal(size=(1000, 5))
        cut_in_two.append(valley(cloud, *cut(cloud, size)))
        beside.append(valley(*two_groups(size, 1000, 7.0, width=5, seed=seed)))
    assert np.median(cut_in_two) < 0.45
    assert np.median(beside) > 0.55


def test_a_rare_group_has_the_same_valley_beside_a_group_of_any_size():
    small, large = (valley(*two_groups(15, n, 8.0, width=5)) for n in (15, 3000))
    assert min(small, large) > 0.7
    assert abs(small - large) < 0.4


@pytest.mark.filterwarnings("error")
def test_equal_samples_and_single_members_give_finite_numbers():
    x = np.ones((6, 2))
    for a in (np.array([0]), np.array([0, 1, 2])):
        b = np.setdiff1d(np.arange(6), a)
        assert np.isfinite([valley(x, a, b), mean_separation([x], a, b)]).all()
