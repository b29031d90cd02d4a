"""Comparison of partitions, and how well their clusters are separated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, normalized_mutual_info_score
from tests.partition.test_candidates import directions

from protocol_mvc.exceptions import UnreliableClusterWarning
from protocol_mvc.partition.consensus import (
    contingency,
    pairwise_nmi,
    relabel_to_match,
    simplified_silhouette,
    tiny_cluster_messages,
    warn_unreliable,
)


@given(st.integers(0, 1000), st.integers(2, 5))
def test_contingency_counts_pairs_of_clusters(seed: int, k: int):
    a, b = np.random.default_rng(seed).integers(k, size=(2, 30))
    np.testing.assert_array_equal(contingency(a, b, k), confusion_matrix(a, b, labels=np.arange(k)))


def test_small_clusters_are_named_in_one_warning():
    assert tiny_cluster_messages(np.array([5, 90])) == []
    (message,) = tiny_cluster_messages(np.array([50, 4, 0]))
    assert "[1, 2]" in message
    with pytest.warns(UnreliableClusterWarning, match="one two"):
        warn_unreliable(["one", "two"])
    warn_unreliable([])


@given(st.integers(0, 50), st.floats(0.01, 100), st.floats(-10, 10))
def test_separation_ignores_names_order_place_and_unit(seed: int, factor: float, shift: float):
    rng = np.random.default_rng(seed)
    x, labels = rng.normal(size=(30, 3)), rng.integers(3, size=30)
    value = simplified_silhouette(x, labels)
    order, names = rng.permutation(30), np.array([7, -1, 4])
    assert -1 <= value <= 1
    assert simplified_silhouette(x[order], labels[order]) == pytest.approx(value)
    assert simplified_silhouette(x, names[labels]) == pytest.approx(value)
    assert simplified_silhouette(factor * x + shift, labels) == pytest.approx(value, abs=1e-6)


def test_separation_by_hand():
    x = np.array([[0.0], [2.0], [10.0]])  # centres 1 and 10
    assert simplified_silhouette(x, np.array([0, 0, 1])) == pytest.approx(
        ((10 - 1) / 10 + (8 - 1) / 8 + 1) / 3
    )


def test_separation_prefers_the_truth_and_falls_with_noise():
    x, truth = directions((50, 20, 10), noise=0.05)
    noisy, _ = directions((50, 20, 10), noise=0.5)
    shuffled = np.random.default_rng(0).permutation(truth)
    assert (
        simplified_silhouette(x, truth)
        > simplified_silhouette(noisy, truth)
        > simplified_silhouette(noisy, shuffled)
    )


def test_one_cluster_is_not_separated():
    assert simplified_silhouette(np.eye(3), np.zeros(3, dtype=np.int64)) == -1


def test_rows_all_alike_are_as_near_to_one_cluster_as_to_another():
    assert simplified_silhouette(np.ones((4, 2)), np.array([0, 0, 1, 1])) == 0


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 6))
def test_agreement_is_the_mutual_information_of_every_pair(seed: int, count: int, k: int):
    found = list(np.random.default_rng(seed).integers(k, size=(count, 30)))
    each = [[normalized_mutual_info_score(first, second) for second in found] for first in found]
    np.testing.assert_allclose(pairwise_nmi(found), each, atol=1e-10)


@given(st.permutations(range(4)), st.integers(0, 2**32))
def test_clusters_get_their_names_back(order, seed):
    labels = np.random.default_rng(seed).integers(4, size=40)
    assert relabel_to_match(np.array(order)[labels], labels, 4).tolist() == labels.tolist()


def test_names_are_those_of_most_members():
    labels, reference = np.array([0, 0, 0, 1, 1, 2]), np.array([1, 1, 0, 0, 0, 0])
    assert relabel_to_match(labels, reference, 3).tolist() == [1, 1, 1, 0, 0, 2]
