"""Known classes beside clusters: every sample is counted once, and lost classes are named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.factories import make_facts

from protocol_mvc.evaluation.metrics import all_scores
from protocol_mvc.report.truth import FOUND, LOST, MAX_TABLE_WIDTH, SCORES, compare_labels, score_rows

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=2, max_size=60)


@given(PAIRS)
def test_every_sample_is_in_the_contingency_table_once(pairs):
    labels, labels_true = np.array(pairs).T
    found = compare_labels(labels_true, labels)
    table = np.array(found.contingency)
    assert table.sum() == len(pairs)
    assert sorted(found.clusters) == np.unique(labels).tolist()
    for row, name in zip(table, [row.name for row in found.classes], strict=True):
        for count, cluster in zip(row, found.clusters, strict=True):
            assert count == np.sum((labels_true == name) & (labels == cluster))
    assert np.all(np.diff([row.size for row in found.classes]) <= 0)


@given(PAIRS)
def test_a_class_is_matched_only_to_a_cluster_that_holds_some_of_it(pairs):
    labels, labels_true = np.array(pairs).T
    for row in compare_labels(labels_true, labels).classes:
        assert (row.cluster is None) == (row.recall == 0)
        if row.cluster is not None:
            assert np.mean(labels[labels_true == row.name] == row.cluster) == row.recall


@given(PAIRS)
def test_outcomes_agree_with_the_recall(pairs):
    labels, labels_true = np.array(pairs).T
    for row in compare_labels(labels_true, labels).classes:
        assert (row.outcome == "found") == (row.recall >= FOUND)
        assert row.outcome != "lost" or row.recall < LOST


def test_comparison_by_hand():
    labels_true = np.array(["b"] * 5 + ["a"] * 3 + ["c"])
    found = compare_labels(labels_true, np.array([1, 1, 1, 0, 2, 0, 0, 0, 0]))
    assert [tuple(row) for row in found.classes] == [
        ("b", 5, 1, 0.6, [(1, 3), (0, 1), (2, 1)], "split"),
        ("a", 3, 0, 1.0, [(0, 3)], "found"),
        ("c", 1, None, 0.0, [(0, 1)], "lost"),
    ]
    assert found.clusters == [1, 0, 2]
    assert found.contingency == [[3, 1, 1], [0, 3, 0], [0, 1, 0]]


def test_a_class_of_which_a_half_is_elsewhere_is_found_in_part():
    labels_true = np.repeat([0, 1], [10, 10])
    labels = np.repeat([0, 1], [15, 5])
    (row,) = compare_labels(labels_true, labels).having("in part")
    assert (row.name, row.recall) == (1, 0.5)


def test_classes_without_a_cluster_and_a_table_too_wide_to_read():
    found = compare_labels(np.arange(41), np.array([0] * 40 + [1]))
    assert found.contingency is None
    assert sum(row.cluster is None for row in found.classes) == 39 > MAX_TABLE_WIDTH


def test_all_scores_are_shown_and_described():
    labels_true = np.array([0, 0, 1, 1])
    rows = score_rows(make_facts([0, 0, 1, 1], labels_true=labels_true))
    assert SCORES.keys() == all_scores(labels_true, labels_true).keys()
    assert [value for _, value, _ in rows[: len(SCORES)]] == pytest.approx([1.0] * len(SCORES))
    assert all(description for _, _, description in rows)
    assert score_rows(make_facts([0, 1])) == []
