"""The review of given clusters: too many, too few, and right ones."""

import numpy as np
from tests.examples import blobs, overlapping_groups

from protocol_mvc import as_views
from protocol_mvc.evaluation.cluster_review import review_clusters

VIEWS, TRUTH = blobs((120, 60, 40), dims=(6, 5), noise=0.5, seed=3)
DATA = as_views(VIEWS)


def test_right_clusters_are_neither_parts_nor_several():
    found = review_clusters(DATA, TRUTH)
    assert found.suggestion.n_clusters == 3
    assert (found.parts, found.divisible) == ([], {})
    assert len(found.tree) == 2
    assert found.tree[0].evidence > 0.5


def test_halves_of_a_group_are_parts_of_one():
    halves = np.where((TRUTH == 0) & (np.random.default_rng(0).random(len(TRUTH)) < 0.5), 3, TRUTH)
    found = review_clusters(DATA, halves)
    assert found.parts == [[0, 3]]
    assert found.suggestion.n_clusters == 3
    assert found.tree[0].evidence < 0.25


def test_merged_groups_are_several():
    found = review_clusters(DATA, np.minimum(TRUTH, 1))
    assert found.divisible == {1: 2}
    assert found.parts == []


def test_numbers_of_clusters_are_those_of_the_labels():
    names = np.array([7, 2, 5])
    found = review_clusters(DATA, names[TRUTH])
    assert found.clusters == [2, 5, 7]


def test_one_cluster_has_no_tree():
    found = review_clusters(DATA, np.zeros(len(TRUTH), dtype=np.int64))
    assert found.tree == []
    assert found.divisible == {0: 3}


def test_groups_that_overlap_are_no_parts_if_the_views_tell_their_number():
    views, truth = overlapping_groups((700, 500, 300, 100), n_views=2, seed=0)
    found = review_clusters(as_views(views), truth)
    assert found.suggestion.rank is not None
    assert found.suggestion.low <= 4 <= found.suggestion.high
    assert found.parts == []
