"""Rows hold what was counted, and bars stay within their column."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.made import made, sized

from protocol_mvc import Stability
from protocol_mvc.report.tables import BINS, MOST_DOUBTS, cluster_rows, doubt_rows, histogram, view_rows

LABELS = st.lists(st.integers(0, 7), min_size=1, max_size=40)


@given(LABELS)
def test_every_cluster_has_a_row_and_the_longest_bar_is_full(labels):
    rows = cluster_rows(made(labels, 8))
    assert [row.number for row in rows] == list(range(8))
    assert sum(row.size for row in rows) == len(labels)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert max(max(row.bar, row.mark) for row in rows) == pytest.approx(1)
    assert all((row.confidence is None) == (row.size == 0) for row in rows)


def test_views_by_hand():
    first, second = view_rows(sized([3, 2]), np.array([[1.0, 0.5], [np.nan, np.nan]]))
    assert (first.name, first.features, first.present, first.weight, first.chance) == (
        "view_0",
        2,
        5,
        0.6,
        0.75,
    )
    assert second.chance is None
    assert (first.bar, second.bar) == pytest.approx((1, 2 / 3))


@given(LABELS, st.integers(0, 99))
def test_the_histogram_counts_every_sample_once(labels, seed):
    sure = np.random.default_rng(seed).choice([0, 0.1, 0.5, 0.99, 1.0], len(labels))
    facts = made(labels, 8, confidence=sure)
    counts = np.array(histogram(facts))
    assert counts.shape == (9, BINS)
    np.testing.assert_array_equal(counts[1:].sum(1), facts.sizes)
    np.testing.assert_array_equal(counts[1:].sum(0), counts[0])
    assert counts[0, -1] == np.sum(sure >= 0.9)


def test_the_least_sure_are_listed_first():
    stable = Stability(np.ones(2), np.linspace(0, 1, 60), [])
    facts = sized([40, 20], confidence=np.linspace(1, 0.5, 60), stability=stable)
    rows = doubt_rows(facts)
    assert [row.id for row in rows] == [str(59 - i) for i in range(MOST_DOUBTS)]
    assert (rows[0].cluster, rows[0].other, rows[0].stability) == (1, 0, 1.0)
    assert doubt_rows(sized([2]))[0].stability is None
