"""The rank of the dependence between views: how many groups are behind it, even if they overlap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import Floats, overlapping_groups

from protocol_mvc.partition.rank import count_by_rank, held_out_correlations, memberships

SIZES = (700, 500, 300, 100)


def views_of_groups(n_views: int, seed: int, shared: float = 0.0) -> list[Floats]:
    return overlapping_groups(SIZES, n_views, seed, shared)[0]


@pytest.mark.parametrize("n_views", [2, 3])
def test_counts_groups_that_overlap(n_views: int):
    for seed in range(2):
        found = count_by_rank(views_of_groups(n_views, seed), seed)
        assert found is not None
        assert found.low <= found.n_clusters == len(SIZES) <= found.high


def test_says_nothing_of_views_with_more_in_common_than_the_group():
    assert count_by_rank(views_of_groups(2, 0, shared=1.0), 0) is None


@pytest.mark.parametrize("n", [100, 1500])
def test_says_nothing_of_independent_views(n: int):
    rng = np.random.default_rng(0)
    assert count_by_rank([rng.normal(size=(n, 4)) for _ in range(2)], 0) is None


def test_says_nothing_of_one_view():
    assert count_by_rank(views_of_groups(1, 0), 0) is None


@pytest.mark.parametrize("n_values", [1, 3])
def test_says_nothing_of_a_view_of_few_values(n_values: int):
    views = views_of_groups(3, 0)
    views[1] = (np.arange(len(views[1])) % n_values)[:, None].astype(np.float64)
    assert count_by_rank(views, 0) is None


def test_same_seed_same_count():
    views = views_of_groups(2, 1)
    assert count_by_rank(views, 3) == count_by_rank(views, 3)


@settings(max_examples=20)
@given(st.integers(0, 100), st.integers(2, 20))
def test_memberships_are_shares_of_the_centres(seed: int, n_centers: int):
    x = np.random.default_rng(seed).normal(size=(60, 3))
    shares = memberships(x, n_centers, seed)
    assert shares.shape == (60, n_centers)
    assert (shares >= 0).all()
    assert shares.sum(axis=1) == pytest.approx(np.ones(60))


def test_correlations_of_unrelated_features_are_noise():
    """Those in the samples that chose the directions would be large: 20 features of 400 samples."""
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=(5, 2, 400, 20))
    found = np.concatenate([held_out_correlations(a, b, seed) for seed, (a, b) in enumerate(pairs)])
    assert abs(found.mean()) < 0.3
    assert found.std() == pytest.approx(1, abs=0.3)


def test_a_few_samples_are_no_dependence():
    """A correlation of 1 that rests on five samples is five samples' worth of evidence."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2000, 5))
    a[:5, 0] = b[:5, 0] = 1000.0
    assert held_out_correlations(a, b, 0)[0] < 3
