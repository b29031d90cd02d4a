"""Clusters of two partitions are matched, and births, deaths, splits and merges are told."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from protocol_mvc.partition.changes import count_pairs, find_changes, match, number_like

SIZES = np.array([50, 30, 20])


@given(st.permutations(range(4)))
def test_equal_partitions_by_other_numbers_are_kept(order):
    counts = np.diag([40, 30, 20, 10])[:, order]
    changes = find_changes(counts)
    assert changes.kept == {c: order[c] for c in range(4)}
    assert [*changes.born, *changes.died, *changes.split, *changes.merged] == []
    assert [order[c] for c in number_like(counts)] == [0, 1, 2, 3]


def test_a_split_a_merge_a_birth_and_a_death():
    counts = np.array([[40, 30, 0, 0], [0, 0, 20, 0], [0, 0, 30, 0], [3, 3, 3, 0]])
    changes = find_changes(counts, np.array([43, 33, 53, 25]))
    assert changes.split == {0: [0, 1]}
    assert changes.merged == {2: [1, 2]}
    assert changes.born == [3]
    assert changes.died == [3]
    text = changes.sentences("abcd", "wxyz")
    assert text == [
        "Cluster z is new.",
        "Cluster d is gone.",
        "Cluster a was split into w and x.",
        "Clusters b and c were merged into y.",
    ]


def test_a_cluster_of_mostly_new_samples_is_born():
    changes = find_changes(np.array([[50, 5], [0, 0]]), np.array([50, 60]))
    assert changes.born == [1]


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 999))
def test_numbers_are_a_permutation_and_matches_are_one_to_one(n_old, n_new, seed):
    rng = np.random.default_rng(seed)
    old, new = rng.integers(n_old, size=30), rng.integers(n_new, size=30)
    counts = count_pairs(old, new, (n_old, n_new))
    assert counts.sum() == 30
    assert counts[old[0], new[0]] == np.sum((old == old[0]) & (new == new[0]))
    order, found = number_like(counts), match(counts)
    assert sorted(order) == list(range(n_new))
    assert len(set(found.values())) == len(found)
    assert all(order[o] == c for c, o in found.items() if o < n_new)
