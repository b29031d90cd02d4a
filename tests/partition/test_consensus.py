"""Labels from an embedding: small groups survive, where K-means swallows them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from tests.examples import Labels, blobs

from protocol_mvc.evaluation.metrics import mean_recall
from protocol_mvc.partition.candidates import (
    DEFAULT,
    Edges,
    _neighbor_graphs,
    drop_minor_components,
    kmeans,
    partition_candidates,
    principal_components,
)
from protocol_mvc.partition.config import CandidateOptions
from protocol_mvc.partition.consensus import (
    MIN_CLUSTER_SIZE,
    consensus_partition,
    most_agreed,
    pairwise_nmi,
    relabel_to_match,
    same_partition,
    simplified_silhouette,
    without_tiny_clusters,
)


def directions(sizes: tuple[int, ...], *, noise: float = 0.1, width: int = 8, seed: int = 0):
    """Unit rows around orthogonal directions, as embeddings are, and the group of each."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = np.eye(width)[truth] + noise * rng.normal(size=(len(truth), width))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), truth


@pytest.mark.parametrize("seed", range(3))
def test_very_unequal_groups_are_recovered_where_k_means_fails(seed: int):
    x, truth = directions((1000, 10, 10), noise=0.25, seed=seed)
    assert mean_recall(truth, consensus_partition(x, 3, seed)) > 0.95
    assert mean_recall(truth, kmeans(x, 3, seed)) < 0.85


@settings(max_examples=12)
@given(st.lists(st.integers(8, 60), min_size=2, max_size=5), st.integers(0, 5))
def test_separated_groups_get_one_label_each_in_any_order(sizes: list[int], seed: int):
    x, truth = directions(tuple(sizes), noise=0.03, seed=seed)
    order = np.random.default_rng(seed).permutation(len(x))
    labels = consensus_partition(x, len(sizes), seed)
    assert set(labels) == set(range(len(sizes)))
    assert adjusted_rand_score(truth, labels) == 1
    assert adjusted_rand_score(labels[order], consensus_partition(x[order], len(sizes), seed)) == 1


@pytest.mark.parametrize("cluster", [consensus_partition, kmeans])
def test_the_same_seed_gives_the_same_labels(cluster):
    x = np.hstack(blobs((40, 20, 10), noise=3)[0])
    np.testing.assert_array_equal(cluster(x, 3, 7), cluster(x, 3, 7))


@pytest.mark.parametrize("cluster", [consensus_partition, kmeans])
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
    labels = consensus_partition(np.eye(6)[rows], k, 0)
    assert all(len(set(labels[rows == row])) == 1 for row in range(distinct))
    assert len(set(labels)) == min(distinct, k)


def test_samples_outside_the_graph_follow_their_micro_cluster():
    x, truth = directions((300, 60, 30), noise=0.03)
    labels = consensus_partition(x, 3, 0, options=CandidateOptions(max_samples=100))
    assert adjusted_rand_score(truth, labels) == 1


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


def test_a_cluster_of_outliers_is_not_believed():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.normal(0, 1, (200, 2)), rng.normal(12, 1, (40, 2)), [[300.0, -300.0], [300.0, -301.0]]]
    )
    sizes = np.bincount(consensus_partition(np.hstack([x, np.ones((len(x), 1))]), 3, 0))
    assert sizes.min() >= MIN_CLUSTER_SIZE


def styles(n_clusters: int, n_views: int = 2, *, size: int = 120, noise: float = 0.05, seed: int = 0):
    """Groups whose items come in two unlike styles; every view shows another item of the group."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(n_clusters), size))
    shown = [2 * truth + rng.integers(2, size=len(truth)) for _ in range(n_views)]
    parts = [np.eye(2 * n_clusters)[s] + noise * rng.normal(size=(len(truth), 2 * n_clusters)) for s in shown]
    return [part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts], truth


def connected_parts(edges: Edges, n: int) -> Labels:
    """The connected parts of a graph of n samples."""
    graph = coo_array((np.ones(len(edges[0])), edges), shape=(n, n))
    return connected_components(graph)[1].astype(np.int64)


@settings(max_examples=4)
@given(st.integers(0, 50), st.integers(2, 4))
def test_one_view_is_the_plain_assignment(seed: int, k: int):
    x = np.hstack(blobs((30, 20, 10), noise=3, seed=seed)[0])
    np.testing.assert_array_equal(consensus_partition(x, k, seed, n_views=1), consensus_partition(x, k, seed))
    np.testing.assert_array_equal(
        most_agreed(without_tiny_clusters(list(partition_candidates(x, k, seed)), k, MIN_CLUSTER_SIZE)),
        consensus_partition(x, k, seed),
    )


@settings(max_examples=6)
@given(st.permutations(range(3)), st.integers(0, 5))
def test_the_order_of_the_views_does_not_matter_to_separated_groups(order: list[int], seed: int):
    x, truth = directions((60, 30, 10), noise=0.03)
    noise = np.random.default_rng(0).normal(size=(3, *x.shape))
    parts = [x[:, np.roll(np.arange(8), v)] + 0.01 * noise[v] for v in range(3)]
    labels = consensus_partition(np.hstack([parts[v] for v in order]), 3, seed, 3)
    assert adjusted_rand_score(truth, labels) == 1


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_by_each_view_join_what_the_joint_distance_leaves_apart(seed: int):
    parts, truth = styles(5, seed=seed)
    x = np.hstack(parts)
    joint, each = (connected_parts(edges, len(x)) for edges in _neighbor_graphs(x, 2, 15))
    assert len(set(joint)) == 4 * 5  # one for every pair of styles of a group
    assert adjusted_rand_score(truth, each) == 1
    assert any(adjusted_rand_score(truth, found) == 1 for found in partition_candidates(x, 5, seed, 2))


@pytest.mark.parametrize("n_views", [1, 2, 4])
def test_every_size_of_micro_clusters_gives_a_candidate_in_every_way(n_views: int):
    ways = 3 if n_views > 1 else 2
    x = np.hstack([directions((60, 40, 20), noise=0.05)[0]] * n_views)
    found = list(partition_candidates(x, 3, 0, n_views))
    assert len(found) == ways * DEFAULT.n_repeats * len(DEFAULT.micro_per_cluster)
    assert all(c.shape == (120,) and c.dtype == np.int64 for c in found)


@settings(max_examples=6)
@given(st.lists(st.integers(1, 30), min_size=3, max_size=5), st.integers(1, 2), st.integers(0, 9))
def test_candidates_are_all_supported_or_all_kept(sizes: list[int], n_views: int, seed: int):
    x, _ = directions(tuple(sizes), noise=0.1, seed=seed)
    k = min(3, len(x))
    found = list(partition_candidates(x, k, seed, n_views))
    smallest = [np.bincount(c, minlength=k).min() for c in without_tiny_clusters(found, k, MIN_CLUSTER_SIZE)]
    every = (1 + n_views) * DEFAULT.n_repeats * len(DEFAULT.micro_per_cluster)
    assert min(smallest) >= MIN_CLUSTER_SIZE or max(smallest) < MIN_CLUSTER_SIZE
    assert 1 <= len(smallest) <= every


def test_the_most_agreed_by_hand():
    halves = np.repeat([0, 1], 4)
    nearly = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    across = np.tile([0, 1], 4)
    np.testing.assert_array_equal(most_agreed([across, nearly, halves, 1 - halves]), halves)


def test_of_several_equally_agreed_the_first_is_taken():
    first = np.array([0, 1, 1, 0])
    assert most_agreed([first, 1 - first, first.copy()]) is first
    assert most_agreed([first]) is first


def test_only_the_eligible_are_taken_but_all_have_a_say():
    halves, across = np.repeat([0, 1], 4), np.tile([0, 1], 4)
    nearly = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    eligible = np.array([True, True, False, False])
    np.testing.assert_array_equal(most_agreed([across, nearly, halves, 1 - halves], eligible), nearly)


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 6))
def test_agreement_is_the_mutual_information_of_every_pair(seed: int, count: int, k: int):
    found = list(np.random.default_rng(seed).integers(k, size=(count, 30)))
    each = [[normalized_mutual_info_score(first, second) for second in found] for first in found]
    np.testing.assert_allclose(pairwise_nmi(found), each, atol=1e-10)


@settings(max_examples=20)
@given(st.integers(0, 200), st.integers(1, 6), st.integers(2, 4))
def test_the_most_agreed_is_the_medoid(seed: int, count: int, k: int):
    rng = np.random.default_rng(seed)
    assignments = [rng.integers(k, size=25) for _ in range(count)]
    nmi = normalized_mutual_info_score
    total = [sum(nmi(a, b) for b in assignments if b is not a) for a in assignments]
    found = [a is most_agreed(assignments) for a in assignments]
    assert found.count(True) == 1
    assert total[found.index(True)] == pytest.approx(max(total))
    renamed = [rng.permutation(k)[a] for a in assignments]
    assert total[[a is most_agreed(renamed) for a in renamed].index(True)] == pytest.approx(max(total))


@given(st.integers(2, 40), st.integers(1, 12), st.integers(0, 5))
def test_compact_features_keep_lengths_and_angles(n: int, d: int, seed: int):
    x = np.random.default_rng(seed).normal(size=(n, d))
    z = drop_minor_components(x, 0.01)
    assert 1 <= z.shape[1] <= d
    whole = (x**2).sum()
    assert -1e-9 < 1 - (z**2).sum() / whole <= 0.01 + 1e-9
    assert np.abs(x @ x.T - z @ z.T).max() <= 0.01 * whole + 1e-9


def test_features_of_few_directions_become_narrow():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 30))
    assert drop_minor_components(x, 0.01).shape[1] <= 2
    assert np.isfinite(drop_minor_components(np.zeros((4, 3)), 0.01)).all()


@given(st.permutations(range(4)), st.integers(0, 2**32))
def test_clusters_get_their_names_back(order, seed):
    labels = np.random.default_rng(seed).integers(4, size=40)
    assert relabel_to_match(np.array(order)[labels], labels, 4).tolist() == labels.tolist()


@given(st.permutations(range(3)), st.integers(0, 20), st.booleans())
def test_assignments_are_settled_if_no_cluster_has_lost_or_won_more_than_strays(order, strays, swap):
    labels = np.repeat([0, 1, 2], [1000, 1000, 100])
    moved = labels.copy()
    moved[-strays or len(labels) :] = 0  # of the small one
    one, other = (labels, np.array(order)[moved]) if swap else (np.array(order)[moved], labels)
    assert same_partition(one, other, 3) is (strays <= 1)


def test_an_empty_cluster_is_settled_if_it_stays_empty():
    labels = np.repeat([0, 1], 50)
    assert same_partition(labels, 2 - labels, 3)
    assert not same_partition(labels, np.where(np.arange(100) < 3, 2, labels), 3)


def test_names_are_those_of_most_members():
    labels, reference = np.array([0, 0, 0, 1, 1, 2]), np.array([1, 1, 0, 0, 0, 0])
    assert relabel_to_match(labels, reference, 3).tolist() == [1, 1, 1, 0, 0, 2]


def test_components_are_of_the_samples_that_have_the_view():
    rng = np.random.default_rng(0)
    x, mask = rng.normal(size=(60, 70)), np.ones((60, 3), dtype=bool)
    mask[:20, 0], mask[:, 1] = False, False
    partly, nowhere, whole = principal_components([x, x, x[:, :4]], mask, 0)
    assert partly.shape == (60, 40)
    assert (partly[:20] == 0).all()
    assert np.allclose(partly[20:].mean(0), 0)
    assert (nowhere == 0).all()
    assert np.allclose(np.linalg.norm(whole, axis=1), np.linalg.norm(x[:, :4] - x[:, :4].mean(0), axis=1))


@pytest.mark.parametrize("d", [60, 1200])  # by the covariance, and as scikit-learn chooses
@pytest.mark.parametrize("place", [0.0, 1e4])
def test_components_keep_what_can_be_kept_of_the_distances_wherever_the_data_lie(d: int, place: float):
    rng = np.random.default_rng(d)
    x = rng.normal(size=(400, 5)) @ rng.normal(size=(5, d)) + 0.01 * rng.normal(size=(400, d))
    (found,) = principal_components([(x + place).astype(np.float32)], np.ones((400, 1), bool), 0)
    centred = x - x.mean(0)
    assert found.shape == (400, 50)
    np.testing.assert_allclose(found.mean(0), 0, atol=0.01)
    np.testing.assert_allclose(found @ found.T, centred @ centred.T, atol=0.005 * (centred**2).sum(1).max())
