"""Candidate partitions of several views whose groups may be of very unequal size.

Communities of a neighbour graph at exactly K clusters tend to equal sizes: they split large groups and merge
small ones. Other candidates therefore start from more communities than clusters and merge those that are hard
to tell apart, where a small community counts as much as a large one. Candidates come from several spaces:
the prepared data, the learned features, and discriminant directions of both.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.linalg import eigh

from protocol_mvc.partition.communities import find_communities
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
from protocol_mvc.partition.merging import Merging, merge_by

MIN_SAMPLES_FEWER = 500  # from which on fewer candidates are as good


def candidate_partitions(
    data: ViewSpace, learned: Sequence[Features], n_clusters: int, seed: int, options: PartitionOptions
) -> Iterator[Labels]:
    """Yield partitions (n,) into K clusters.

    From `MIN_SAMPLES_FEWER` samples on there are fewer candidates: none of the prepared data themselves, and
    only those of the first of `groups_per_cluster_learned`.

    Args:
        data: the prepared data of every view.
        learned: learned features (n, d) of every view.
        n_clusters: number of clusters K.
        seed: seed of the communities.
        options: options of the search.
    """
    o, fewer = options, len(data.joined) >= MIN_SAMPLES_FEWER
    learned_factors = o.groups_per_cluster_learned[: 1 if fewer else None]
    features = ViewSpace(learned, o.n_neighbors)
    for space, factors in ((features, learned_factors), (data, o.groups_per_cluster_data)):
        communities = _communities(space, seed, o)
        if not fewer or space is features:
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
    return [find_communities(graph, seed) for graph in graphs]


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
    x = np.asarray(x, np.float64) - np.mean(x, axis=0, dtype=np.float64)
    means, whiten = group_means(x, groups), whitening(x, groups, shrinkage)
    between = (means - means.mean(axis=0)) @ whiten
    directions = np.linalg.eigh(between.T @ between)[1][:, ::-1][:, : min(len(means) - 1, x.shape[1])]
    projected: Floats = x @ whiten @ directions
    return projected


def whitening(x: Floats, groups: Labels, shrinkage: float) -> Floats:
    """Return the matrix (d, d) that makes the covariance within the groups the identity.

    Args:
        x: features of mean 0 (n, d).
        groups: group of each sample (n,).
        shrinkage: weight of a multiple of the identity in the covariance within the groups.
    """
    residual, width = x - group_means(x, groups)[groups], x.shape[1]
    within = residual.T @ residual / len(x)
    ridge = (shrinkage * np.trace(within) + 1e-6 * np.square(x).sum() / len(x)) / width + 1e-30
    # scipy's eigh: with many equal eigenvalues that of NumPy may not converge
    values, vectors = eigh((1 - shrinkage) * within + ridge * np.eye(width))
    whiten: Floats = (vectors / np.sqrt(values)) @ vectors.T
    return whiten


def group_means(x: Features, groups: Labels) -> Floats:
    """Return the mean of the features of every group (m, d)."""
    member = one_hot(groups)
    means: Floats = (member.T @ x) / np.maximum(member.sum(axis=0), 1)[:, None]
    return means


def merge_confused(space: ViewSpace, groups: Labels, n_clusters: int) -> Labels:
    """Merge the two groups that the neighbours of their members tell apart least, until K remain.

    Args:
        space: neighbours of the samples in every view.
        groups: group of each sample (n,).
        n_clusters: number of clusters K.

    Returns:
        The merged labels (n,), which have more than K clusters only if no edges connect them.
    """
    merging = Merging(np.sum(space.votes(groups), axis=0), groups)
    for _ in merge_by(merging, merging.margin):
        if len(merging.members) <= n_clusters:
            break
    return merging.labels()
