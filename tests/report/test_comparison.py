"""Clusters beside the truth: nothing lost, matched pairs in front."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.report.made import made

from protocol_mvc.evaluation.metrics import all_scores
from protocol_mvc.report.comparison import HEATS, MOST_COLUMNS, SCORES, compare


def test_without_a_truth_there_is_nothing():
    assert compare(made([0, 1])) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=2, max_size=60))
def test_every_sample_is_in_the_table_once(pairs):
    labels, truth = np.array(pairs).T
    found = compare(made(labels.tolist(), 6, truth=truth))
    assert found is not None
    table = np.array(found.table)
    assert table.sum() == len(pairs)
    assert sorted(found.columns) == np.unique(labels).tolist()
    for row, name in zip(table, [row.name for row in found.classes], strict=True):
        for count, cluster in zip(row, found.columns, strict=True):
            assert count == np.sum((truth == int(name)) & (labels == cluster))
    assert np.all(np.diff([row.size for row in found.classes]) <= 0)
    assert 0 <= np.min(found.heats) <= np.max(found.heats) < HEATS


def test_by_hand():
    truth = np.array(["b"] * 5 + ["a"] * 3 + ["c"])
    found = compare(made([1, 1, 1, 0, 2, 0, 0, 0, 0], truth=truth))
    assert found is not None
    assert [tuple(row) for row in found.classes] == [
        ("b", 5, 1, 0.6, [(0, 1), (2, 1)]),
        ("a", 3, 0, 1.0, []),
        ("c", 1, 2, 0.0, [(0, 1)]),
    ]
    assert found.columns == [1, 0, 2]
    assert found.table == [[3, 1, 1], [0, 3, 0], [0, 1, 0]]
    assert found.heats == [[6, 2, 2], [0, 9, 0], [0, 9, 0]]


def test_all_scores_are_shown_and_explained():
    truth = np.array([0, 0, 1, 1])
    found = compare(made([0, 0, 1, 1], truth=truth))
    assert found is not None
    assert SCORES.keys() == all_scores(truth, truth).keys()
    assert {row.value for row in found.scores[: len(SCORES)]} == {1.0}
    assert all(row.meaning for row in found.scores)


def test_a_class_without_a_cluster_and_a_table_too_wide_to_read():
    found = compare(made([0] * 40 + [1], truth=np.arange(41)))
    assert found is not None
    assert found.table is None
    assert sum(row.cluster is None for row in found.classes) == 39 > MOST_COLUMNS
