"""The Louvain method and communities that start from small groups."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from sknetwork.clustering import Louvain  # type: ignore[import-untyped]

from protocol_mvc.partition.communities import GroupedCommunities
from protocol_mvc.partition.graphs import Communities, ViewSpace, modularity


def graph_of(n: int):
    x = np.random.default_rng(n).normal(size=(n, 3))
    return ViewSpace([x], 10).graph("views", 10)


@pytest.mark.parametrize("resolution", [0.1, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("n", [12, 90, 400])
def test_communities_are_those_of_scikit_network(n: int, resolution: float):
    graph = graph_of(n)
    expected = Louvain(resolution, shuffle_nodes=True, random_state=3).fit_predict(graph)
    found = Communities(graph, 3).find(resolution)
    assert adjusted_rand_score(expected, found) == 1


@pytest.mark.parametrize("k", [2, 5, 12])
def test_communities_from_small_groups_are_as_good(k: int):
    graph = graph_of(600)
    found, separate = GroupedCommunities(graph, 0).exactly(k), Communities(graph, 0).exactly(k)
    assert set(found) == set(range(k))
    assert modularity(graph, found) > modularity(graph, separate) - 0.01


def test_moves_of_nodes_raise_the_modularity():
    graph = graph_of(600)
    communities = GroupedCommunities(graph, 0)
    coarse = communities.find(1.0)
    fine = communities.refine(coarse, 1.0)
    assert modularity(graph, fine) >= modularity(graph, coarse)
    np.testing.assert_array_equal(fine, GroupedCommunities(graph, 0).refine(coarse, 1.0))
