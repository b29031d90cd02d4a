"""What the data say about given clusters: which are parts of one group, and which are several groups."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from protocol_mvc.data.views import Views
from protocol_mvc.estimators.cluster_count import Bounds, complete_samples, data_and_features, subsample
from protocol_mvc.partition.graphs import Features, Labels
from protocol_mvc.partition.n_clusters import (
    WEAK,
    ClusterCountSuggestion,
    Split,
    cluster_tree,
    count_clusters,
)

MIN_DIVISIBLE = 40  # samples of a cluster in which groups are looked for


class ClusterReview(NamedTuple):
    """Evidence for and against the clusters of a model."""

    suggestion: ClusterCountSuggestion  #: of the data, whatever the clusters are
    tree: list[Split]  #: of the clusters, which are the leaves; weakest splits first
    clusters: list[int]  #: number of the cluster that is leaf 0, 1, ... of the tree
    parts: list[list[int]]  #: hardly distinct clusters, each list like one group; none if all may overlap
    divisible: dict[int, int]  #: clusters that look like several groups, and how many


def review_clusters(views: Views, labels: Labels, seed: int = 0) -> ClusterReview:
    """Compare clusters with the groups that the data show.

    Args:
        views: the data; of more than 10,000 samples a random part is used.
        labels: cluster of each sample (n,).
        seed: seed of the search for groups.
    """
    rows = subsample(len(views), seed)
    views = views if len(rows) == len(views) else views[rows]
    spaces, complete = data_and_features(views, seed), complete_samples(views)
    most = min(Bounds().high, len(rows))
    suggestion = count_clusters(*spaces, max_clusters=most, seed=seed % 2**32, complete=complete)
    clusters, leaves = np.unique(labels[rows], return_inverse=True)
    tree = cluster_tree(*spaces, leaves.astype(np.int64), seed % 2**32)
    names = clusters.tolist()
    limit = suggestion.high if suggestion.overlap else 0
    limit = limit if suggestion.rank is None else suggestion.rank.n_clusters
    may_overlap = len(names) <= limit
    weak = [] if may_overlap else weak_groups(tree, len(names))
    parts = [[names[leaf] for leaf in group] for group in weak]
    divisible = {names[c]: n for c, n in _groups_within(spaces, leaves, seed, complete).items()}
    return ClusterReview(suggestion, tree, names, parts, divisible)


def weak_groups(tree: Sequence[Split], n_leaves: int) -> list[list[int]]:
    """Return the sets of leaves that only splits of weak evidence divide, without single leaves."""
    members = {leaf: [leaf] for leaf in range(n_leaves)}
    for i, split in enumerate(tree):
        if split.evidence >= WEAK:
            break
        members[n_leaves + i] = sorted(members.pop(split.left) + members.pop(split.right))
    return sorted(group for group in members.values() if len(group) > 1)


def _groups_within(
    spaces: Sequence[Sequence[Features]], leaves: Labels, seed: int, complete: npt.NDArray[np.bool_]
) -> dict[int, int]:
    """Return the number of groups in every leaf that has more than one; the fewest that the data allow."""
    found = {}
    for leaf, size in enumerate(np.bincount(leaves)):
        if size >= MIN_DIVISIBLE:
            rows = leaves == leaf
            data, learned = ([x[rows] for x in views] for views in spaces)
            inside = count_clusters(data, learned, seed=seed % 2**32, complete=complete[rows])
            if inside.low > 1 and not inside.overlap:  # a cluster is no cloud: it ends at its border
                found[leaf] = inside.low
    return found
