"""Neighbour graphs of several views, and their communities."""

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, csr_matrix
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors

Features = npt.NDArray[np.floating]
Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
MIN_RESOLUTION, MAX_RESOLUTION = 0.02, 100.0  # of the Louvain method
MAX_SEARCHES = 12  # of a resolution


def kmeans(x: Features, n_clusters: int, seed: int, n_init: int = 10) -> Labels:
    """Return the labels of K-means (n,), without its warning about repeated rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels: Labels = KMeans(n_clusters, n_init=n_init, random_state=seed).fit_predict(x).astype(np.int64)
    return labels


def linked_kmeans(x: Features, n_clusters: int, over_clustering: float, seed: int) -> Labels:
    """Return the labels (n,) of K-means groups that average linkage of their centres joins to clusters.

    K-means alone cuts large clusters and joins small ones.

    Args:
        x: features (n, d) that are compared by their cosine.
        n_clusters: number of clusters.
        over_clustering: K-means groups for each cluster; with 1 the groups are the clusters.
        seed: seed of K-means.
    """
    groups = kmeans(x, min(round(over_clustering * n_clusters), len(x)), seed)
    centers = np.stack([x[groups == group].mean(0) for group in np.unique(groups)])
    if len(centers) <= n_clusters:  # of repeated rows
        return compact(groups)
    linkage = AgglomerativeClustering(n_clusters, metric="cosine", linkage="average")
    joined: Labels = linkage.fit_predict(centers).astype(np.int64)
    return joined[np.unique(groups, return_inverse=True)[1]]


def nearest_neighbors(x: Features, n_neighbors: int) -> Labels:
    """Return the nearest other rows of every row, nearest first (n, min(n_neighbors, n - 1))."""
    search = NearestNeighbors(n_neighbors=min(n_neighbors, len(x) - 1), algorithm="brute")
    found: Labels = search.fit(x.astype(np.float32)).kneighbors(return_distance=False).astype(np.int64)
    return found


def directed_graph(neighbors: Labels, n_neighbors: int) -> csr_array:
    """Return the 0/1 adjacency matrix (n, n) of the first `n_neighbors` neighbours of every row."""
    ends = neighbors[:, :n_neighbors].astype(np.int32)
    n, k = ends.shape
    return csr_array((np.ones(n * k), ends.ravel(), np.arange(0, n * k + 1, k, dtype=np.int32)), shape=(n, n))


class ViewSpace:
    """Features of several views with the nearest neighbours in each view and in all views together.

    Args:
        views: features (n, d_v) of each view; see `impute` for samples that lack a view.
        n_neighbors: number of nearest neighbours.

    Attributes:
        joined: the views side by side (n, sum d_v), each with rows of mean squared length 1.
        neighbors: nearest neighbours (n, n_neighbors) in each view.
    """

    def __init__(self, views: Sequence[Features], n_neighbors: int = 15) -> None:
        self.views, self.n_neighbors = list(views), n_neighbors
        self.joined = join_views(views)
        self.neighbors = [nearest_neighbors(x, n_neighbors) for x in views]

    @cached_property
    def joined_neighbors(self) -> Labels:
        """Nearest neighbours (n, n_neighbors) in all views together."""
        return nearest_neighbors(self.joined, self.n_neighbors) if len(self.views) > 1 else self.neighbors[0]

    def neighbor_table(self, n_neighbors: int) -> Labels:
        """Return the nearest neighbours in every view and in all views together, side by side."""
        tables = [*self.neighbors, self.joined_neighbors]
        return np.hstack([table[:, :n_neighbors] for table in tables])

    def graph(self, kind: Literal["views", "joined", "all"], n_neighbors: int) -> csr_matrix:
        """Return a symmetric graph (n, n): the sum of the views' graphs, that of joined views, or both."""
        tables = self.neighbors if kind == "views" else [self.joined_neighbors]
        tables = [*self.neighbors, self.joined_neighbors] if kind == "all" else tables
        total = sum(
            (directed_graph(t, n_neighbors) for t in tables[1:]), directed_graph(tables[0], n_neighbors)
        )
        return csr_matrix(total + total.T)

    def votes(self, labels: Labels) -> list[Floats]:
        """Return for each view how many neighbours of a sample are in each cluster (n, K)."""
        member = one_hot(labels)
        return [directed_graph(table, self.n_neighbors) @ member for table in self.neighbors]


def join_views(views: Sequence[Features]) -> Floats:
    """Return the views side by side (n, sum d_v), each with rows of mean squared length 1."""
    scales = [max(float(np.sqrt(np.square(x, dtype=np.float64).sum() / len(x))), 1e-150) for x in views]
    return np.hstack([np.asarray(x, np.float64) / scale for x, scale in zip(views, scales, strict=True)])


def impute(views: Sequence[Features], mask: Mask, n_neighbors: int = 15) -> list[Floats]:
    """Replace absent rows of a view by the mean of the samples that are nearest in another view.

    Args:
        views: features (n, d_v) of each view.
        mask: which sample has which view (n, V).
        n_neighbors: number of nearest samples that have both views.
    """
    filled = [np.array(x, dtype=np.float64) for x in views]
    for v, x in enumerate(filled):
        missing = ~mask[:, v]
        if missing.all():
            x[:] = 0
            continue
        for other in range(len(views)):
            both, rows = mask[:, v] & mask[:, other], np.flatnonzero(missing & mask[:, other])
            if other != v and both.any() and len(rows):
                search = NearestNeighbors(n_neighbors=min(n_neighbors, int(both.sum())), algorithm="brute")
                near = search.fit(views[other][both]).kneighbors(views[other][rows], return_distance=False)
                x[rows], missing[rows] = np.asarray(views[v])[both][near].mean(axis=1), False
        x[missing] = x[mask[:, v]].mean(axis=0)
    return filled


def one_hot(labels: Labels, n_clusters: int = 0) -> Floats:
    """Return the indicator matrix (n, K) of labels (n,)."""
    return np.eye(max(n_clusters, int(labels.max()) + 1))[labels]


def compact(labels: npt.NDArray[np.integer]) -> Labels:
    """Renumber labels from 0 without gaps."""
    renumbered: Labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return renumbered


def edge_weights(graph: csr_matrix, labels: Labels) -> Floats:
    """Return the total weight of the edges between any two clusters (K, K)."""
    member = csr_array((np.ones(len(labels)), (np.arange(len(labels)), labels)))
    weights: Floats = (member.T @ (csr_array(graph) @ member)).toarray()
    return weights


def modularity(graph: csr_matrix, labels: Labels) -> float:
    r"""Return the modularity :math:`\sum_k w_{kk} / w - (w_k / w)^2` of a partition."""
    weights = edge_weights(graph, labels)
    total, volume = weights.sum(), weights.sum(axis=1)
    return float(np.trace(weights) / total - np.square(volume / total).sum())


def louvain(graph: csr_matrix, resolution: float, seed: int) -> Labels:
    """Return the communities (n,) that the Louvain method finds."""
    from sknetwork.clustering import Louvain  # type: ignore[import-untyped]  # slow to import

    model = Louvain(
        resolution, shuffle_nodes=True, random_state=seed, return_probs=False, return_aggregate=False
    )
    return compact(model.fit_predict(graph))


class Communities:
    """Communities of a graph at several numbers of groups; no resolution is solved twice.

    Args:
        graph: symmetric adjacency matrix (n, n).
        seed: seed of the Louvain method.
    """

    def __init__(self, graph: csr_matrix, seed: int) -> None:
        self.graph, self.seed = graph, seed
        self._found: dict[float, Labels] = {}  # by the logarithm of the resolution

    def exactly(self, n_clusters: int) -> Labels:
        """Return K communities: the resolution is searched, and surplus communities are merged."""
        self._search(n_clusters, 0)
        enough = [labels for labels in self._found.values() if labels.max() + 1 >= n_clusters]
        labels = min(enough or self._found.values(), key=lambda z: abs(int(z.max()) + 1 - n_clusters))
        merged: Labels = merge_groups(edge_weights(self.graph, labels), n_clusters, "modularity")[labels]
        return merged

    def about(self, n_groups: int) -> Labels:
        """Return about `n_groups` communities, within 8 % or 1 where the search finds them."""
        self._search(n_groups, max(1, round(0.08 * n_groups)))
        return min(self._found.values(), key=lambda z: abs(np.log((z.max() + 1) / n_groups)))

    def _search(self, target: int, slack: int) -> None:
        """Search the resolution until the number of communities is within the slack."""
        for _ in range(MAX_SEARCHES):
            counts = {x: int(labels.max()) + 1 for x, labels in self._found.items()}
            if any(abs(count - target) <= slack for count in counts.values()):
                return
            x = next_resolution(counts, target)
            if x in self._found:
                return
            self._found[x] = self.find(float(np.exp(x)))

    def find(self, resolution: float) -> Labels:
        """Return the communities (n,) at a resolution."""
        return louvain(self.graph, resolution, self.seed)


def next_resolution(counts: Mapping[float, int], target: int) -> float:
    """Return where to look for a number of communities: the next logarithm of the resolution.

    The logarithm of the number of communities is interpolated between the nearest resolutions with too few
    and with too many; outside of those it is taken to grow by 1 / 1.3 of the logarithm of the resolution.

    Args:
        counts: numbers of communities by the logarithm of the resolution.
        target: wanted number of communities.
    """
    few = max((x for x, count in counts.items() if count < target), default=None)
    many = min((x for x, count in counts.items() if count > target), default=None)
    distance = {x: abs(np.log(target / count)) for x, count in counts.items()}
    if few is not None and many is not None:
        share = distance[few] / (distance[few] + distance[many])
        x = few + (many - few) * np.clip(share, 0.1, 0.9)
    elif few is not None:
        x = few + max(1.3 * distance[few], 0.1)
    else:
        x = 0.0 if many is None else many - max(1.3 * distance[many], 0.1)
    return float(np.clip(x, np.log(MIN_RESOLUTION), np.log(MAX_RESOLUTION)))


def merge_groups(weights: Floats, n_clusters: int, by: Literal["inner", "smaller", "modularity"]) -> Labels:
    """Merge groups two at a time until K remain.

    Args:
        weights: edges between any two groups (m, m).
        n_clusters: number of clusters K.
        by: merge the pair with the most edges in relation to the geometric mean of their inner edges
            ("inner"), or to all edges of the smaller one ("smaller"); or with the largest modularity.

    Returns:
        The cluster of each group (m,).
    """
    weights, group, alive = weights.copy(), np.arange(len(weights)), list(range(len(weights)))
    while len(alive) > n_clusters:
        part = weights[np.ix_(alive, alive)]
        volume = part.sum(axis=1)
        if by == "inner":
            score = part / np.sqrt(np.outer(np.diag(part) + 1e-9, np.diag(part) + 1e-9))
        elif by == "smaller":
            score = part / np.maximum(np.minimum.outer(volume, volume), 1e-9)
        else:
            score = part / volume.sum() - np.outer(volume, volume) / volume.sum() ** 2
        np.fill_diagonal(score, -np.inf)
        i, j = np.unravel_index(score.argmax(), score.shape)
        a, b = alive[i], alive.pop(int(j))
        weights[a] += weights[b]
        weights[:, a] += weights[:, b]
        group[group == b] = a
    return compact(group)
