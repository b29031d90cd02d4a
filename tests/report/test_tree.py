"""The picture of the tree: branches do not cross, and join at their evidence."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from protocol_mvc.evaluation.cluster_review import ClusterReview
from protocol_mvc.partition.n_clusters import ClusterCountSuggestion, Split
from protocol_mvc.report.tree import tree_data


def review(n_leaves: int, seed: int) -> ClusterReview:
    """A review with a random tree."""
    rng = np.random.default_rng(seed)
    alive, splits = list(range(n_leaves)), []
    for i, evidence in enumerate(np.sort(rng.random(n_leaves - 1))):
        left, right = (alive.pop(rng.integers(len(alive))) for _ in range(2))
        splits.append(Split(left, right, 5, 5, float(evidence), 0.5, 0.5, 1.0))
        alive.append(n_leaves + i)
    suggestion = ClusterCountSuggestion(2, 2, 2, 2, [], [], "")
    return ClusterReview(suggestion, splits, [10 + leaf for leaf in range(n_leaves)], [], {})


@given(st.integers(1, 12), st.integers(0, 100))
def test_every_cluster_and_every_split_is_drawn_once(n_leaves: int, seed: int):
    found = review(n_leaves, seed)
    tree = tree_data(found)
    assert sorted(tree.leaves) == found.clusters
    assert [join.x for join in tree.joins] == [split.evidence for split in found.tree]


@given(st.integers(2, 12), st.integers(0, 100))
def test_branches_go_right_and_do_not_cross(n_leaves: int, seed: int):
    tree = tree_data(review(n_leaves, seed))
    for join in tree.joins:
        assert max(join.left_x, join.right_x) <= join.x
        low, high = sorted((join.left_y, join.right_y))
        crossed = [
            other
            for other in tree.joins
            if other.x < join.x and (low < other.left_y < high) != (low < other.right_y < high)
        ]
        assert all(min(other.left_y, other.right_y) <= high for other in crossed)
    assert len({(join.left_y, join.right_y) for join in tree.joins}) == len(tree.joins)
