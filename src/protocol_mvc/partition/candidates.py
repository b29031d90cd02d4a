"""Candidate partitions of several views whose groups may be of very unequal size.

Communities of a neighbour graph at exactly K clusters tend to equal sizes: they split large groups and merge
small ones. Other candidates therefore start from more communities than clusters and merge those that are hard
to tell apart, where a small community counts as much as a large one. Candidates come from several spaces:
the prepared data, the learned features, and discriminant directions of both.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from protocol_mvc.partition.config import PartitionOptions
from protocol_mvc.partition.graphs import (
    Communities,
    Features,
    Floats,
    Labels,
    ViewSpace,
    edge_weights,
    merge_groups,
    one_hot,
)

N_NEAREST_GROUPS = 6  # groups with which a group is compared before a merge


def candidate_partitions(
    data: ViewSpace, learned: Sequence[Features], n_clusters: int, seed: int, options: PartitionOptions
) -> Iterator[Labels]:
    """Yield partitions (n,) into K clusters.

    Args:
        data: the prepared data of every view.
        learned: learned features (n, d) of every view.
        n_clusters: number of clusters K.
        seed: seed of the communities.
        options: options of the search.
    """
    o = options
    features = ViewSpace(learned, o.n_neighbors)
    for space, factors in ((features, o.groups_per_cluster_learned), (data, o.groups_per_cluster_data)):
        communities = _communities(space, seed, o)
        yield from _partitions_of_space(space, communities, n_clusters, o)
        for factor in factors:
            n_groups = max(n_clusters + 2, min(round(factor * n_clusters), len(data.joined) // 5))
            groups = communities[0].about(n_groups)
            directions = [discriminant_directions(x, groups, o.shrinkage) for x in data.views]
            sharpened = ViewSpace(directions, o.n_neighbors)
            yield from _partitions_of_space(sharpened, _communities(sharpened, seed, o), n_clusters, o)


def _communities(space: ViewSpace, seed: int, options: PartitionOptions) -> list[Communities]:
    """Return the communities of two graphs of a space: of all views, and of the joined views."""
    graphs = (space.graph("all", options.n_neighbors_graph), space.graph("joined", options.n_neighbors))
    return [Communities(graph, seed) for graph in graphs]


def _partitions_of_space(
    space: ViewSpace, communities: Sequence[Communities], n_clusters: int, options: PartitionOptions
) -> Iterator[Labels]:
    """Yield the communities of the graphs of a space at K, and those of over-clusterings merged to K."""
    o = options
    for each in communities:
        graph, found = each.graph, [each.exactly(n_clusters)]
        for factor in o.over_clustering:
            groups = each.about(max(n_clusters + 1, round(factor * n_clusters)))
            weights = edge_weights(graph, groups)
            found.append(merge_confused(space, groups, n_clusters))
            found.append(merge_groups(weights, n_clusters, "smaller")[groups])
            found.append(merge_groups(weights, n_clusters, "inner")[groups])
        yield from (labels for labels in found if labels.max() + 1 == n_clusters)


def discriminant_directions(x: Features, groups: Labels, shrinkage: float) -> Floats:
    """Return the discriminant coordinates (n, min(m - 1, d)) of m groups, each of which has the same weight.

    The covariance within the groups becomes the identity, up to the shrinkage.

    Args:
        x: features (n, d).
        groups: group of each sample (n,).
        shrinkage: weight of a multiple of the identity in the covariance within the groups.
    """
    x, member = np.asarray(x, np.float64) - np.mean(x, axis=0, dtype=np.float64), one_hot(groups)
    means = (member.T @ x) / np.maximum(member.sum(axis=0), 1)[:, None]
    residual, width = x - means[groups], x.shape[1]
    within = residual.T @ residual / len(x)
    ridge = (shrinkage * np.trace(within) + 1e-6 * np.square(x).sum() / len(x)) / width + 1e-30
    values, vectors = np.linalg.eigh((1 - shrinkage) * within + ridge * np.eye(width))
    whiten = (vectors / np.sqrt(values)) @ vectors.T
    between = (means - means.mean(axis=0)) @ whiten
    directions = np.linalg.eigh(between.T @ between)[1][:, ::-1][:, : min(len(means) - 1, width)]
    projected: Floats = x @ whiten @ directions
    return projected


def merge_confused(space: ViewSpace, groups: Labels, n_clusters: int) -> Labels:
    """Merge the two groups that the neighbours of their members tell apart least, until K remain.

    The margin of group a against group b is the mean over the members of a of
    ``(own - other) / (own + other + 1)``, with the numbers of neighbours in a and in b. A pair is judged by
    the mean of its two margins, so a small group counts as much as a large one.

    Args:
        space: neighbours of the samples in every view.
        groups: group of each sample (n,).
        n_clusters: number of clusters K.

    Returns:
        The merged labels (n,), which have more than K clusters only if no edges connect them.
    """
    votes = np.sum(space.votes(groups), axis=0)
    members = {c: np.flatnonzero(groups == c) for c in range(int(groups.max()) + 1)}
    edges = np.stack([votes[rows].sum(axis=0) for rows in members.values()])
    edges = edges + edges.T
    margins: dict[tuple[int, int], float] = {}

    def margin(a: int, b: int) -> float:
        own, other = votes[members[a], a], votes[members[a], b]
        return float(np.mean((own - other) / (own + other + 1)))

    def compare(a: int) -> None:
        rest = np.array([c for c in members if c != a], dtype=np.int64)
        strength = edges[a, rest] / np.sqrt(np.maximum(edges[rest].sum(axis=1), 1e-9))
        for b in rest[np.argsort(-strength, kind="stable")[:N_NEAREST_GROUPS]]:
            pair = (min(a, int(b)), max(a, int(b)))
            if pair not in margins and edges[pair] > 0:
                margins[pair] = (margin(*pair) + margin(*pair[::-1])) / 2

    for c in members:
        compare(c)
    while len(members) > n_clusters and margins:
        a, b = min(margins, key=lambda pair: (margins[pair], pair))
        votes[:, a] += votes[:, b]
        edges[a] += edges[b]
        edges[:, a] += edges[:, b]
        members[a] = np.concatenate([members[a], members.pop(b)])
        margins = {pair: value for pair, value in margins.items() if not {a, b} & {*pair}}
        compare(a)
    merged = np.zeros(len(groups), dtype=np.int64)
    for c, rows in enumerate(members.values()):
        merged[rows] = c
    return merged
