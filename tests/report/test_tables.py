"""Every sample and cluster is counted once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.factories import facts_of_sizes, make_facts

from protocol_mvc.evaluation.metrics import all_scores
from protocol_mvc.report.page import (
    MAX_TABLE_WIDTH,
    N_BINS,
    N_TYPICAL,
    SCORES,
    cluster_rows,
    compare_labels,
    confidence_histogram,
    rare_cluster_rows,
    score_rows,
)

LABELS = st.lists(st.integers(0, 7), min_size=1, max_size=60)


@given(LABELS)
def test_every_cluster_has_a_row(labels):
    rows = cluster_rows(make_facts(labels, 8))
    assert [row["cluster"] for row in rows] == list(range(8))
    assert sum(row["size"] for row in rows) == len(labels)
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert all(np.isnan(row["confidence"]) == (row["size"] == 0) for row in rows)


@given(LABELS)
def test_rare_clusters_or_else_the_smallest_third_smallest_first(labels):
    facts = make_facts(labels, 8)
    rows = rare_cluster_rows(facts, np.full((2, 8), 0.7))
    found = facts.nonempty_clusters
    shown = facts.rare_clusters or found[len(found) - max(len(found) // 3, 1) :]
    assert [row["cluster"] for row in rows] == shown[::-1]
    for row in rows:
        members = {facts.sample_ids[i] for i in np.flatnonzero(facts.labels == row["cluster"])}
        assert set(row["typical_samples"]) <= members
        assert len(row["typical_samples"]) == min(N_TYPICAL, row["size"])
        assert row["second_choice"] is None or facts.cluster_sizes[row["second_choice"]] > 0
        assert 0 <= row["second_choice_share"] <= 1
        assert row["is_warning"] == (row["cluster"] in facts.tiny_clusters)


def test_the_best_view_of_rare_clusters():
    auc = np.array([[0.9, 0.8, 0.7, np.nan], [0.5, 0.9, np.nan, np.nan]])
    rows = rare_cluster_rows(facts_of_sizes([9, 7, 5, 1]), auc)
    assert [(row["cluster"], row["best_view"]) for row in rows] == [(3, None)]
    (row,) = rare_cluster_rows(facts_of_sizes([9, 7]), auc[:, :2])
    assert (row["cluster"], row["best_view"], row["view_auc"]) == (1, 1, [0.8, 0.9])


def test_typical_samples_have_the_highest_confidence():
    confidence = np.r_[np.full(60, 0.9), 0.8, 0.99, 0.7, 0.9, 0.95]
    facts = facts_of_sizes([60, 5], confidence=confidence, second_choice=np.zeros(65, dtype=np.int64))
    (row,) = rare_cluster_rows(facts, np.full((2, 2), 0.9))
    assert row["typical_samples"] == ["61", "64", "63"]
    assert (row["second_choice"], row["second_choice_share"]) == (0, 1.0)


@given(LABELS, st.integers(0, 99))
def test_the_histogram_counts_every_sample_once(labels, seed):
    confidence = np.random.default_rng(seed).choice([0, 0.1, 0.5, 0.99, 1.0], len(labels))
    facts = make_facts(labels, 8, confidence=confidence)
    counts = np.array(confidence_histogram(facts))
    assert counts.shape == (9, N_BINS)
    np.testing.assert_array_equal(counts[1:].sum(1), facts.cluster_sizes)
    np.testing.assert_array_equal(counts[1:].sum(0), counts[0])
    assert counts[0, -1] == np.sum(confidence >= 0.9)


def test_no_scores_without_labels():
    assert score_rows(make_facts([0, 1])) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=2, max_size=60))
def test_every_sample_is_in_the_contingency_table_once(pairs):
    labels, labels_true = np.array(pairs).T
    found = compare_labels(labels_true, labels)
    table = np.array(found["contingency"])
    assert table.sum() == len(pairs)
    assert sorted(found["clusters"]) == np.unique(labels).tolist()
    for row, name in zip(table, [row["name"] for row in found["classes"]], strict=True):
        for count, cluster in zip(row, found["clusters"], strict=True):
            assert count == np.sum((labels_true == name) & (labels == cluster))
    assert np.all(np.diff([row["size"] for row in found["classes"]]) <= 0)
    assert all((row["cluster"] is None) == (row["recall"] == 0) for row in found["classes"])


def test_comparison_by_hand():
    labels_true = np.array(["b"] * 5 + ["a"] * 3 + ["c"])
    found = compare_labels(labels_true, np.array([1, 1, 1, 0, 2, 0, 0, 0, 0]))
    assert [tuple(row.values()) for row in found["classes"]] == [
        ("b", 5, 1, 0.6, [(0, 1), (2, 1)]),
        ("a", 3, 0, 1.0, []),
        ("c", 1, None, 0.0, [(0, 1)]),
    ]
    assert found["clusters"] == [1, 0, 2]
    assert found["contingency"] == [[3, 1, 1], [0, 3, 0], [0, 1, 0]]


def test_all_scores_are_shown_and_described():
    labels_true = np.array([0, 0, 1, 1])
    rows = score_rows(make_facts([0, 0, 1, 1], labels_true=labels_true))
    assert SCORES.keys() == all_scores(labels_true, labels_true).keys()
    assert {value for _, value, _ in rows[: len(SCORES)]} == {1.0}
    assert all(description for _, _, description in rows)


def test_classes_without_a_cluster_and_a_table_too_wide_to_read():
    found = compare_labels(np.arange(41), np.array([0] * 40 + [1]))
    assert found["contingency"] is None
    assert sum(row["cluster"] is None for row in found["classes"]) == 39 > MAX_TABLE_WIDTH
