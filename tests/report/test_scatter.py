"""The map shows samples fairly and somewhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol_mvc.report.scatter import (
    MOST_PATTERNS,
    SPAN,
    fair_rows,
    least_points,
    nearest_clusters,
    patterns,
    places,
)

RNG = np.random.default_rng(0)


@given(st.lists(st.integers(0, 400), min_size=2, max_size=30), st.integers(60, 500))
def test_small_clusters_stay_whole_and_there_are_not_too_many_points(sizes, most):
    labels = RNG.permutation(np.repeat(np.arange(len(sizes)), sizes))
    rows = fair_rows(labels, len(sizes), most)
    shown = np.bincount(labels[rows], minlength=len(sizes))
    assert np.all(np.diff(rows) > 0)
    if len(labels) <= most:
        assert len(rows) == len(labels)
    else:
        assert len(rows) <= most
        assert np.all(shown >= np.minimum(sizes, least_points(len(sizes), most)))
        np.testing.assert_array_equal(rows, fair_rows(labels, len(sizes), most))


def test_a_thinned_map_is_nearly_full_and_keeps_the_order_of_sizes():
    labels = np.repeat(np.arange(4), [5000, 3000, 60, 7])
    rows = fair_rows(labels, 4, 1000)
    shown = np.bincount(labels[rows])
    assert len(rows) >= 997
    assert shown[3] == 7
    assert np.all(np.diff(shown) < 0)


@pytest.mark.parametrize("shape", [(2, 5), (3, 40), (40, 1), (40, 100)])
def test_every_sample_has_a_place_on_the_map(shape: tuple[int, int]):
    place = places(RNG.normal(size=shape).astype(np.float32))
    assert place.shape == (shape[0], 2)
    assert place.min() == 0
    assert place.max() == SPAN


def test_samples_that_are_all_alike_share_one_place():
    assert len(np.unique(places(np.ones((5, 4), dtype=np.float32)))) == 1


def test_the_nearest_cluster_by_hand():
    x = np.array([[0.0], [1.0], [1.2], [9.0]])
    assert nearest_clusters(x, np.array([0, 1, 2, 4]), 5) == [1, 2, 1, None, 2]
    assert nearest_clusters(x, np.array([1, 1, 1, 1]), 2) == [None, None]


@given(st.integers(1, 6), st.integers(1, 60), st.integers(0, 9))
def test_kinds_are_few_and_the_frequent_ones_come_first(n_views, n, seed):
    mask = np.random.default_rng(seed).random((n, n_views)) < 0.6
    found = patterns(mask, tuple("abcdef"[:n_views]))
    counts = np.bincount(found.kind)
    assert len(found.names) == len(counts) <= MOST_PATTERNS + 1
    named = counts[:MOST_PATTERNS]
    assert np.all(np.diff(named) <= 0)
    assert len(set(found.names)) == len(found.names)


def test_kinds_have_names():
    mask = np.array([[1, 1, 1]] * 3 + [[1, 1, 0]] * 2 + [[0, 1, 0]], dtype=bool)
    found = patterns(mask, ("a", "b", "c"))
    assert found.names == ["every view", "without c", "only b"]
    assert found.kind.tolist() == [0, 0, 0, 1, 1, 2]
