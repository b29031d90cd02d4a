"""How distinct the clusters of several partitions are, at every number of clusters.

Communities are merged in several ways until two clusters are left. At each number of clusters, the two
clusters of a partition that the neighbours of their members tell apart least are compared. If the number is
too large, at least two clusters of every partition are parts of one group, whichever way was taken.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.isotonic import isotonic_regression

from protocol_mvc.partition.evidence import Space, compare
from protocol_mvc.partition.graphs import (
    Floats,
    Labels,
    compact,
    edge_weights,
    greedy_merges,
    one_hot,
    total_votes,
)
from protocol_mvc.partition.merging import Merging, merge_by

NUMBERS = (*range(2, 17), 18, 20, 22, 25, 28)  # of clusters that are looked at; others are interpolated
NOTHING = 0.1  # mean evidence after which no larger number is looked at

Merges = Iterable[tuple[int, int]]


def cut_path(
    spaces: Sequence[Space],
    groups: Sequence[Labels],
    graphs: Sequence[csr_matrix],
    neighbors: Sequence[Sequence[Labels]],
    length: int,
) -> Floats:
    """Return the mean evidence of the least distinct clusters at 2, 3, ... clusters, in descending order.

    Args:
        spaces: features in which clusters are compared.
        groups: communities (n,) of every graph.
        graphs: neighbour graphs (n, n) whose communities were found.
        neighbors: nearest neighbours (n, k) in every view, for every graph.
        length: number of values.
    """
    votes = [[total_votes(space.neighbors, labels) for space in spaces] for labels in groups]
    ways = [
        (own, labels, nested_cuts(int(labels.max()) + 1, merges))
        for own, labels, graph, tables in zip(votes, groups, graphs, neighbors, strict=True)
        for merges in _ways(labels, graph, tables)
    ]
    mean: list[float] = []
    for k in NUMBERS:
        if any(k not in cuts for _, _, cuts in ways) or (mean and mean[-1] < NOTHING):
            break
        mean.append(float(np.mean([least_distinct(spaces, own, g, cuts[k]) for own, g, cuts in ways])))
    if not mean:
        return np.zeros(length)
    path = np.interp(np.arange(2, length + 2), NUMBERS[: len(mean)], mean)
    return np.asarray(isotonic_regression(path, increasing=False), dtype=np.float64)


def _ways(groups: Labels, graph: csr_matrix, tables: Sequence[Labels]) -> Iterator[Merges]:
    """Yield the merges of communities by confusion, and by the edges between them in two ways."""
    yield _by_confusion(Merging(total_votes(tables, groups), groups))
    weights = edge_weights(graph, groups)
    yield greedy_merges(weights, "smaller")
    yield greedy_merges(weights, "inner")


def _by_confusion(merging: Merging) -> Merges:
    """Yield the merges of the groups that are confused most, then of those that no edges connect."""
    for merge in merge_by(merging, merging.margin):
        yield merge.a, merge.b
    first, *others = merging.members
    yield from ((first, c) for c in others)


def nested_cuts(n_groups: int, merges: Merges) -> dict[int, Labels]:
    """Return the cluster of each group (m,) by the number of clusters; each merge adds group b to group a."""
    cluster = np.arange(n_groups)
    cuts = {n_groups: cluster.copy()}
    for k, (a, b) in enumerate(merges, 1):
        cluster[cluster == b] = a
        cuts[n_groups - k] = compact(cluster)
    return cuts


def least_distinct(spaces: Sequence[Space], votes: Sequence[Floats], groups: Labels, cut: Labels) -> float:
    """Return the evidence of the two clusters with the least margin, mean over the spaces.

    Args:
        spaces: features in which clusters are compared.
        votes: number of neighbours of each sample in each group (n, m), in every space.
        groups: group of each sample (n,).
        cut: cluster of each group (m,).
    """
    labels, member = cut[groups], one_hot(cut)
    margins = [_margins(table @ member, labels) for table in votes]
    a, b = np.unravel_index(np.mean(margins, axis=0).argmin(), margins[0].shape)
    rows = np.flatnonzero(labels == a), np.flatnonzero(labels == b)
    each = [compare(s, float(m[a, b]), *rows)[0] for s, m in zip(spaces, margins, strict=True)]
    return float(np.mean(each))


def _margins(votes: Floats, labels: Labels) -> Floats:
    """Return `Merging.margin` of every pair of clusters (K, K), infinite on the diagonal."""
    own = votes[np.arange(len(labels)), labels][:, None]
    sums = one_hot(labels).T @ ((own - votes) / (own + votes + 1))
    means = sums / np.bincount(labels)[:, None]
    margins: Floats = (means + means.T) / 2
    np.fill_diagonal(margins, np.inf)
    return margins
