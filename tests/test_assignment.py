"""Labels from an embedding: small groups survive, where K-means swallows them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from tests.examples import blobs

from protocol_mvc.assignment import SUPPORT, kmeans, perceive, separation
from protocol_mvc.metrics import mean_recall


def directions(sizes: tuple[int, ...], *, noise: float = 0.1, width: int = 8, seed: int = 0):
    """Unit rows around orthogonal directions, as embeddings are, and the group of each."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = np.eye(width)[truth] + noise * rng.normal(size=(len(truth), width))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), truth


@pytest.mark.parametrize("seed", range(3))
def test_very_unequal_groups_are_recovered_where_k_means_fails(seed: int):
    x, truth = directions((1000, 10, 10), noise=0.25, seed=seed)
    assert mean_recall(truth, perceive(x, 3, seed)) > 0.95
    assert mean_recall(truth, kmeans(x, 3, seed)) < 0.85


@settings(max_examples=12)
@given(st.lists(st.integers(8, 60), min_size=2, max_size=5), st.integers(0, 5))
def test_separated_groups_get_one_label_each_in_any_order(sizes: list[int], seed: int):
    x, truth = directions(tuple(sizes), noise=0.03, seed=seed)
    order = np.random.default_rng(seed).permutation(len(x))
    labels = perceive(x, len(sizes), seed)
    assert set(labels) == set(range(len(sizes)))
    assert adjusted_rand_score(truth, labels) == 1
    assert adjusted_rand_score(labels[order], perceive(x[order], len(sizes), seed)) == 1


@pytest.mark.parametrize("cluster", [perceive, kmeans])
def test_the_same_seed_gives_the_same_labels(cluster):
    x = np.hstack(blobs((40, 20, 10), noise=3)[0])
    np.testing.assert_array_equal(cluster(x, 3, 7), cluster(x, 3, 7))


@pytest.mark.parametrize("cluster", [perceive, kmeans])
@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 2), (4, 3), (7, 7), (16, 15), (40, 13)])
def test_small_data_get_labels_below_k(cluster, n: int, k: int):
    x = np.random.default_rng(0).normal(size=(n, 4))
    labels = cluster(x, k, 0)
    assert labels.shape == (n,)
    assert labels.dtype == np.int64
    assert 0 <= labels.min() <= labels.max() < k
    if k == n:
        assert len(set(labels)) == k


@pytest.mark.parametrize(("distinct", "k"), [(5, 3), (3, 3), (2, 3), (1, 3)])
def test_repeated_rows_stay_together_and_use_the_labels_there_are(distinct: int, k: int):
    rows = np.repeat(np.arange(distinct), 10)
    labels = perceive(np.eye(6)[rows], k, 0)
    assert all(len(set(labels[rows == row])) == 1 for row in range(distinct))
    assert len(set(labels)) == min(distinct, k)


def test_more_rows_than_the_graph_holds_follow_their_micro_cluster(monkeypatch):
    monkeypatch.setattr("protocol_mvc.assignment.MOST_ROWS", 100)
    x, truth = directions((300, 60, 30), noise=0.03)
    assert adjusted_rand_score(truth, perceive(x, 3, 0)) == 1


@given(st.integers(0, 50), st.floats(0.01, 100), st.floats(-10, 10))
def test_separation_ignores_names_order_place_and_unit(seed: int, factor: float, shift: float):
    rng = np.random.default_rng(seed)
    x, labels = rng.normal(size=(30, 3)), rng.integers(3, size=30)
    value = separation(x, labels)
    order, names = rng.permutation(30), np.array([7, -1, 4])
    assert -1 <= value <= 1
    assert separation(x[order], labels[order]) == pytest.approx(value)
    assert separation(x, names[labels]) == pytest.approx(value)
    assert separation(factor * x + shift, labels) == pytest.approx(value, abs=1e-6)


def test_separation_by_hand():
    x = np.array([[0.0], [2.0], [10.0]])  # centres 1 and 10
    assert separation(x, np.array([0, 0, 1])) == pytest.approx(((10 - 1) / 10 + (8 - 1) / 8 + 1) / 3)


def test_separation_prefers_the_truth_and_falls_with_noise():
    x, truth = directions((50, 20, 10), noise=0.05)
    noisy, _ = directions((50, 20, 10), noise=0.5)
    shuffled = np.random.default_rng(0).permutation(truth)
    assert separation(x, truth) > separation(noisy, truth) > separation(noisy, shuffled)


def test_one_cluster_is_not_separated():
    assert separation(np.eye(3), np.zeros(3, dtype=np.int64)) == -1


def test_rows_all_alike_are_as_near_to_one_cluster_as_to_another():
    assert separation(np.ones((4, 2)), np.array([0, 0, 1, 1])) == 0


def test_a_cluster_of_outliers_is_not_believed():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.normal(0, 1, (200, 2)), rng.normal(12, 1, (40, 2)), [[300.0, -300.0], [300.0, -301.0]]]
    )
    sizes = np.bincount(perceive(np.hstack([x, np.ones((len(x), 1))]), 3, 0))
    assert sizes.min() >= SUPPORT
