"""The picture of the tree of clusters."""

from collections.abc import Sequence
from typing import NamedTuple

from protocol_mvc.evaluation.cluster_review import ClusterReview
from protocol_mvc.partition.n_clusters import CERTAIN, WEAK, Split


class Join(NamedTuple):
    """Two branches that join: the evidence of the split, and the ends of both branches."""

    x: float
    left_x: float
    left_y: float
    right_x: float
    right_y: float
    is_weak: bool
    is_certain: bool


class Tree(NamedTuple):
    """A tree of clusters; rows are counted from the top."""

    leaves: list[int]  # clusters from top to bottom
    joins: list[Join]
    weak: float  # evidence below which two branches look like one group
    certain: float  # evidence from which there is no doubt


def tree_data(review: ClusterReview) -> Tree:
    """Return what the picture of the tree shows: leaves from top to bottom, and a line for every split.

    Branches join at the evidence of their split, from 0 on the left to 1 on the right: those that join on the
    left look like one group.
    """
    n = len(review.clusters)
    order = _leaf_order(review.tree, n)
    place = {leaf: (0.0, float(row)) for row, leaf in enumerate(order)}
    joins = []
    for i, split in enumerate(review.tree):
        x = split.evidence
        (left_x, left_y), (right_x, right_y) = place[split.left], place[split.right]
        joins.append(Join(x, left_x, left_y, right_x, right_y, x < WEAK, x >= CERTAIN))
        place[n + i] = x, (left_y + right_y) / 2
    return Tree([review.clusters[leaf] for leaf in order], joins, WEAK, CERTAIN)


def _leaf_order(tree: Sequence[Split], n_leaves: int) -> list[int]:
    """Return the leaves so that no branches cross."""
    below = {leaf: [leaf] for leaf in range(n_leaves)}
    for i, split in enumerate(tree):
        below[n_leaves + i] = below.pop(split.left) + below.pop(split.right)
    return [leaf for leaves in below.values() for leaf in leaves]
