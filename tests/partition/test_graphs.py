"""Neighbour graphs and their communities: neighbours are the nearest, and K is K."""

from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import block_diag, csr_matrix
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score
from tests.examples import Floats, Labels, blobs

from protocol_mvc.partition.graphs import (
    Communities,
    ViewSpace,
    compact,
    directed_graph,
    edge_weights,
    impute,
    join_views,
    kmeans,
    merge_groups,
    modularity,
    nearest_in_views,
    nearest_neighbors,
    one_hot,
)

Criterion = Literal["inner", "smaller", "modularity"]
seeds = st.integers(0, 1000)
every_criterion = pytest.mark.parametrize("by", get_args(Criterion))


def rows(n: int, d: int = 3, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(n, d))


def graph_of(x: Floats, n_neighbors: int = 10) -> csr_matrix:
    return ViewSpace([x], n_neighbors).graph("views", n_neighbors)


def random_weights(m: int, seed: int) -> Floats:
    """Edges between groups, symmetric, many of them 0."""
    rng = np.random.default_rng(seed)
    half = np.triu(rng.integers(0, 9, (m, m)) * (rng.random((m, m)) < 0.5)).astype(float)
    weights: Floats = half + half.T + np.diag(rng.integers(0, 20, m))
    return weights


def is_coarser(merged: Labels, groups: Labels) -> bool:
    """Whether no group is split."""
    return all(len(set(merged[groups == g])) == 1 for g in set(groups))


@settings(max_examples=25)
@given(st.integers(2, 40), st.integers(1, 50), seeds)
def test_neighbours_are_the_nearest_other_rows(n: int, k: int, seed: int):
    x = rows(n, seed=seed)
    distance = cdist(x, x)
    np.fill_diagonal(distance, np.inf)
    expected = np.argsort(distance, axis=1)[:, : min(k, n - 1)]
    found = nearest_neighbors(x, k)
    assert found.shape == expected.shape
    assert all(len({i, *near}) == 1 + len(near) for i, near in enumerate(found.tolist()))
    own = np.arange(n)[:, None]  # of equal distances in float32, either may come first
    np.testing.assert_allclose(distance[own, found], distance[own, expected], atol=1e-3)


def test_neighbours_of_repeated_rows_are_at_distance_0_and_never_the_row_itself():
    x = np.repeat(rows(4), 6, axis=0)
    found = nearest_neighbors(x, 5)
    np.testing.assert_array_equal(x[found], np.broadcast_to(x[:, None], (24, 5, 3)))
    assert (found != np.arange(24)[:, None]).all()


@pytest.mark.parametrize("n", [1, 2, 70, 700])
def test_neighbours_in_all_views_are_those_of_the_joined_views(n: int):
    views = [rows(n, 2, 0), 100 * rows(n, 3, 1)]
    *own, joined = nearest_in_views(views, 9, joined=True)
    for found, x in zip((*own, joined), (*views, join_views(views)), strict=True):
        np.testing.assert_array_equal(found, nearest_neighbors(x, 9))


def test_neighbours_within_tight_groups_far_apart_are_exact():
    x = 1e5 * np.repeat(rows(4, seed=1), 50, axis=0) + rows(200, seed=2)
    distance = cdist(x, x)
    np.fill_diagonal(distance, np.inf)
    np.testing.assert_array_equal(nearest_neighbors(x, 7), np.argsort(distance, axis=1)[:, :7])


def test_many_equal_distances_give_distinct_neighbours():
    found = nearest_neighbors(np.zeros((300, 2)), 5)
    assert all(len({i, *near}) == 6 for i, near in enumerate(found.tolist()))


def test_directed_graph_has_an_edge_to_each_of_the_first_neighbours():
    neighbors = np.array([[1, 2], [2, 0], [0, 1]])
    np.testing.assert_array_equal(directed_graph(neighbors, 2).toarray(), 1 - np.eye(3))
    np.testing.assert_array_equal(directed_graph(neighbors, 1).toarray(), np.eye(3)[[1, 2, 0]])


@settings(max_examples=10)
@given(st.integers(2, 30), st.integers(1, 3), seeds)
def test_graphs_are_symmetric_and_add_up(n: int, n_views: int, seed: int):
    space = ViewSpace([rows(n, d, seed + d) for d in range(2, 2 + n_views)], 6)
    views, joined, both = (space.graph(kind, 4).toarray() for kind in ("views", "joined", "all"))
    tables = [directed_graph(t, 4).toarray() for t in space.neighbors]
    np.testing.assert_array_equal(views, np.sum(tables, axis=0) + np.sum(tables, axis=0).T)
    np.testing.assert_array_equal(both, views + joined)
    for graph in (views, joined, both):
        np.testing.assert_array_equal(graph, graph.T)
        assert not graph.diagonal().any()


def test_neighbour_table_has_each_view_and_all_together():
    views = [rows(20, 2, 0), rows(20, 3, 1)]
    table = ViewSpace(views, 7).neighbor_table(4)
    parts = [nearest_neighbors(x, 4) for x in (*views, join_views(views))]
    np.testing.assert_array_equal(table, np.hstack(parts))


def test_all_views_together_of_one_view_is_that_view():
    space = ViewSpace([rows(20)], 5)
    np.testing.assert_array_equal(space.joined_neighbors, space.neighbors[0])


@given(seeds, st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=3))
def test_joined_views_have_equal_weight_in_any_unit(seed: int, units: list[float]):
    views = [rows(12, 2 + v, seed + v) for v in range(len(units))]
    joined = join_views(views)
    parts = np.split(joined, np.cumsum([x.shape[1] for x in views])[:-1], axis=1)
    np.testing.assert_allclose([np.square(part).sum(1).mean() for part in parts], 1)
    other = join_views([x * unit for x, unit in zip(views, units, strict=True)])
    np.testing.assert_allclose(other, joined, rtol=1e-9)


def test_views_of_zeros_stay_zeros():
    np.testing.assert_array_equal(join_views([np.zeros((3, 2)), np.zeros((3, 1))]), np.zeros((3, 3)))


def test_votes_count_the_neighbours_in_each_cluster():
    space, labels = ViewSpace([rows(15, 2), rows(15, 3, 1)], 4), np.arange(15) % 3
    for votes, neighbors in zip(space.votes(labels), space.neighbors, strict=True):
        expected = [[np.sum(labels[near] == c) for c in range(3)] for near in neighbors]
        np.testing.assert_array_equal(votes, expected)


class TestImpute:
    def test_absent_rows_are_the_mean_of_the_nearest_in_another_view(self):
        first = np.array([[0.0], [1.0], [10.0], [11.0], [0.4]])
        second = np.array([[5.0], [7.0], [100.0], [200.0], [0.0]])
        mask = np.array([[True, True]] * 4 + [[True, False]])
        filled = impute([first, second], mask, n_neighbors=2)
        assert filled[1][4] == (5 + 7) / 2

    def test_only_samples_with_both_views_are_neighbours(self):
        first = np.array([[0.0], [0.5], [10.0]])
        second = np.array([[3.0], [0.0], [0.0]])
        mask = np.array([[True, True], [True, False], [True, False]])
        np.testing.assert_array_equal(impute([first, second], mask)[1], [[3.0], [3.0], [3.0]])

    @given(seeds, st.integers(1, 30), st.integers(1, 4))
    def test_present_rows_stay_and_all_values_are_finite(self, seed: int, n: int, n_views: int):
        rng = np.random.default_rng(seed)
        mask = rng.random((n, n_views)) < 0.5
        mask[np.arange(n), rng.integers(n_views, size=n)] = True
        views = [np.where(mask[:, [v]], rng.normal(size=(n, 2 + v)), 0) for v in range(n_views)]
        before = [x.copy() for x in views]
        filled = impute(views, mask, n_neighbors=3)
        for v, x in enumerate(filled):
            assert np.isfinite(x).all()
            np.testing.assert_array_equal(x[mask[:, v]], views[v][mask[:, v]])
            np.testing.assert_array_equal(views[v], before[v])
            if mask[:, v].any():  # a mean of present rows
                assert (x >= views[v][mask[:, v]].min(0) - 1e-9).all()
                assert (x <= views[v][mask[:, v]].max(0) + 1e-9).all()

    def test_what_absent_rows_hold_changes_nothing(self):
        mask = np.random.default_rng(0).random((20, 2)) < 0.6
        mask[~mask.any(1)] = True
        views = [rows(20, 2), rows(20, 3, 1)]
        spoiled = [np.where(mask[:, [v]], x, 1e6) for v, x in enumerate(views)]
        for x, y in zip(impute(views, mask), impute(spoiled, mask), strict=True):
            np.testing.assert_array_equal(x, y)

    def test_view_that_no_sample_has_is_zero(self):
        mask = np.array([[True, False]] * 4)
        np.testing.assert_array_equal(impute([rows(4), rows(4)], mask)[1], np.zeros((4, 3)))

    def test_without_samples_that_share_views_the_mean_is_used(self):
        mask = np.array([[True, False], [True, False], [False, True]])
        first, second = impute([rows(3, 2), rows(3, 2, 1)], mask)
        np.testing.assert_allclose(first[2], first[:2].mean(0))
        np.testing.assert_allclose(second[:2], second[[2, 2]])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_one_hot_and_compact(labels: list[int]):
    array = np.array(labels, dtype=np.int64)
    np.testing.assert_array_equal(one_hot(array).argmax(1), array)
    assert (one_hot(array, 12).sum(1) == 1).all()
    assert one_hot(array, 12).shape == (len(labels), 12)
    small = compact(array)
    assert set(small) == set(range(len(set(labels))))
    assert adjusted_rand_score(array, small) == 1


@settings(max_examples=20)
@given(seeds, st.integers(1, 5))
def test_edge_weights_and_modularity_equal_the_double_loop(seed: int, k: int):
    graph, labels = (
        graph_of(rows(12, seed=seed), 3),
        compact(np.random.default_rng(seed).integers(k, size=12)),
    )
    a, m = graph.toarray(), labels.max() + 1
    expected = np.zeros((m, m))
    for i in range(12):
        for j in range(12):
            expected[labels[i], labels[j]] += a[i, j]
    np.testing.assert_array_equal(edge_weights(graph, labels), expected)
    degree, total = a.sum(1), a.sum()
    same = labels[:, None] == labels
    value = ((a / total - np.outer(degree, degree) / total**2) * same).sum()
    assert modularity(graph, labels) == pytest.approx(value)


@settings(max_examples=10)
@given(st.integers(8, 120), st.data())
def test_communities_are_exactly_k(n: int, data: Any):
    k = data.draw(st.integers(2, n // 4))
    labels = Communities(graph_of(rows(n, seed=n)), 0).exactly(k)
    assert labels.shape == (n,)
    assert labels.dtype == np.int64
    assert set(labels) == set(range(k))


@pytest.mark.parametrize("k", [2, 3, 6, 11, 30])
def test_communities_of_a_graph_in_parts_are_exactly_k(k: int):
    parts = [graph_of(rows(n, seed=n), 5) for n in (6, 14, 20, 24, 26, 30)]
    labels = Communities(csr_matrix(block_diag(parts)), 0).exactly(k)
    assert set(labels) == set(range(k))


@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_communities_of_repeated_rows_are_exactly_k(k: int):
    labels = Communities(graph_of(np.repeat(rows(5), 8, axis=0), 5), 0).exactly(k)
    assert set(labels) == set(range(k))


def test_parts_of_a_graph_are_its_communities():
    sizes = (30, 12, 60)
    graph = csr_matrix(block_diag([graph_of(rows(n, seed=n), 8) for n in sizes]))
    labels = Communities(graph, 0).exactly(3)
    assert adjusted_rand_score(np.repeat(range(3), sizes), labels) == 1


@pytest.mark.parametrize("n_groups", [3, 10, 40])
def test_about_as_many_communities_as_asked_for(n_groups: int):
    labels = Communities(graph_of(rows(200)), 0).about(n_groups)
    assert abs(labels.max() + 1 - n_groups) <= max(2, 0.15 * n_groups)


def test_the_same_seed_gives_the_same_communities_whatever_was_asked_before():
    graph = graph_of(rows(90))
    first, second = Communities(graph, 3).exactly(7), Communities(graph, 3)
    np.testing.assert_array_equal(first, second.exactly(7))
    np.testing.assert_array_equal(first, second.exactly(7))
    about = second.about(20)
    np.testing.assert_array_equal(about, second.about(20))
    assert set(second.exactly(5)) == set(range(5))


def test_no_resolution_is_solved_twice(monkeypatch):
    solved = list[float]()
    find = Communities.find

    def solve(self: Communities, resolution: float) -> Labels:
        solved.append(resolution)
        return find(self, resolution)

    monkeypatch.setattr(Communities, "find", solve)
    found = Communities(graph_of(rows(90)), 0)
    for n_groups in (3, 7, 3, 12, 7):
        found.exactly(n_groups)
        found.about(2 * n_groups)
    assert len(set(solved)) == len(solved)


@every_criterion
@settings(max_examples=25)
@given(m=st.integers(1, 12), k=st.integers(1, 12), seed=seeds)
def test_merging_groups_leaves_k(by: Criterion, m: int, k: int, seed: int):
    weights = random_weights(m, seed)
    before = weights.copy()
    merged = merge_groups(weights, k, by)
    assert set(merged) == set(range(min(m, k)))
    np.testing.assert_array_equal(weights, before)


@every_criterion
def test_fewer_clusters_are_unions_of_more(by: Criterion):
    weights = random_weights(12, 0)
    found = [merge_groups(weights, k, by) for k in range(1, 13)]
    assert all(is_coarser(few, more) for few, more in pairwise(found))


def test_merges_by_hand():
    # Groups 0 and 1 are large, 2 is small and tied to 1; 3 is large with a few more edges to 0.
    weights = np.array([[100.0, 8, 0, 12], [8, 100, 6, 0], [0, 6, 2, 0], [12, 0, 0, 100]])
    for by in ("inner", "smaller"):
        assert merge_groups(weights, 3, by).tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize(("n", "k"), [(2, 2), (7, 7), (16, 15), (40, 13)])
def test_kmeans_labels_are_below_k(n: int, k: int):
    labels = kmeans(rows(n, 4), k, 0)
    assert labels.shape == (n,)
    assert labels.dtype == np.int64
    assert 0 <= labels.min() <= labels.max() < k
    if k == n:
        assert len(set(labels)) == k


@pytest.mark.filterwarnings("error")
def test_kmeans_of_repeated_rows_gives_no_warning_and_the_same_labels():
    x = np.repeat(np.eye(2), 10, axis=0)
    assert adjusted_rand_score(np.repeat([0, 1], 10), kmeans(x, 3, 0)) > 0.5
    noisy = np.hstack(blobs((40, 20, 10), noise=3)[0])
    np.testing.assert_array_equal(kmeans(noisy, 3, 7), kmeans(noisy, 3, 7))
