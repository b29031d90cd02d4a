"""Neighbour graphs of several views, and their communities."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import islice
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, csr_matrix
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors

from protocol_mvc.partition.louvain import Network, louvain

Features = npt.NDArray[np.floating]
Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Linkage = Literal["inner", "smaller", "modularity"]  # see `greedy_merges`
MIN_RESOLUTION, MAX_RESOLUTION = 0.02, 100.0  # of the Louvain method
MAX_SEARCHES = 12  # of a resolution


def kmeans(x: Features, n_clusters: int, seed: int, n_init: int = 10) -> Labels:
    """Return the labels of K-means (n,), without its warning about repeated rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels: Labels = KMeans(n_clusters, n_init=n_init, random_state=seed).fit_predict(x).astype(np.int64)
    return labels


def nearest_neighbors(x: Features, n_neighbors: int) -> Labels:
    """Return the nearest other rows of every row, nearest first (n, min(n_neighbors, n - 1))."""
    return nearest_in_views([x], n_neighbors)[0]


def nearest_in_views(views: Sequence[Features], n_neighbors: int, *, joined: bool = False) -> list[Labels]:
    """Return the nearest other rows (n, min(n_neighbors, n - 1)) in every view, nearest first.

    The squared distances of all views together are the sum of those of the views, so one product for each
    view is enough. Products are in float32; rows whose neighbours are too near for it are searched again.

    Args:
        views: features (n, d_v) of each view.
        n_neighbors: number of nearest neighbours.
        joined: also return those in all views together, as `join_views` joins them.
    """
    n, scaled = len(views[0]), [x - x.mean(axis=0) for x in (join_views([x]) for x in views)]
    if n < 2:
        return [np.empty((n, 0), dtype=np.int64)] * (len(views) + joined)
    k, group = min(n_neighbors, n - 1), max(1, min(16, n // (4 * n_neighbors)))
    factors = [_distance_factors(x, -(-n // group) * group) for x in scaled]
    tables = [np.empty((n, k), dtype=np.int64) for _ in range(len(views) + joined)]
    height = max(16, 2**20 // n)  # so that the products stay in the cache
    for first in range(0, n, height):
        place = slice(first, first + height)
        distances = [left[place] @ right for left, right in factors]
        distances += [reduce(np.add, distances)] if joined else []
        for table, distance in zip(tables, distances, strict=True):
            rows = np.arange(len(distance))
            distance[rows, first + rows] = np.inf
            table[place] = _smallest(distance, k, group)
    spaces = [*scaled, np.hstack(scaled)] if joined else scaled
    return [_search_again(x, table) for x, table in zip(spaces, tables, strict=True)]


def _distance_factors(x: Floats, width: int) -> tuple[Features, Features]:
    """Return factors of half the squared distances of rows, less the squared length of the first (n, width).

    Columns beyond n are far from all rows.
    """
    n, d = x.shape
    left, right = np.ones((n, d + 1), np.float32), np.zeros((d + 1, width), np.float32)
    left[:, :d], right[:d, :n] = x, -x.T
    right[d, :n], right[d, n:] = np.square(x).sum(axis=1) / 2, 1e30
    return left, right


def _smallest(distance: Features, k: int, group: int) -> Labels:
    """Return the columns of the k smallest entries of each row (m, k), in order.

    The k-th smallest minimum of groups of columns bounds them, so that few entries are compared.
    """
    m, width = distance.shape
    least = distance.reshape(m, group, -1).min(axis=1)
    found = np.flatnonzero(distance <= np.partition(least, k - 1, axis=1)[:, k - 1 : k])
    if len(found) > 16 * m * k:  # equal distances
        near = np.argpartition(distance, k - 1, axis=1)[:, :k]
        order = np.take_along_axis(distance, near, 1).argsort(axis=1, kind="stable")
        return np.take_along_axis(near, order, 1)
    row, column = np.divmod(found, width)
    order = np.lexsort((distance.ravel()[found], row))
    first = np.searchsorted(row, np.arange(m))
    smallest: Labels = column[order][first[:, None] + np.arange(k)]
    return smallest


def _search_again(x: Floats, table: Labels) -> Labels:
    """Replace neighbours that are too near for the rounding of float32, by a search in float64."""
    last = np.square(x - x[table[:, -1]]).sum(axis=1)
    rows = np.flatnonzero(last < 1e-3 * np.square(x).sum(axis=1))
    if len(rows):
        k = table.shape[1]
        search = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(x)
        near = search.kneighbors(x[rows], return_distance=False)
        own = near == rows[:, None]
        own[~own.any(axis=1), -1] = True  # of repeated rows, the row itself may be missing
        table[rows] = near[~own].reshape(len(rows), k)
    return table


def directed_graph(neighbors: Labels, n_neighbors: int) -> csr_array:
    """Return the 0/1 adjacency matrix (n, n) of the first `n_neighbors` neighbours of every row."""
    ends = neighbors[:, :n_neighbors].astype(np.int32)
    n, k = ends.shape
    return csr_array((np.ones(n * k), ends.ravel(), np.arange(0, n * k + 1, k, dtype=np.int32)), shape=(n, n))


def symmetric_graph(tables: Sequence[Labels], n_neighbors: int) -> csr_matrix:
    """Return the sum (n, n) of the graphs of the first `n_neighbors` neighbours and of their transposes."""
    first, *rest = (directed_graph(table, n_neighbors) for table in tables)
    total = sum(rest, first)
    return csr_matrix(total + total.T)


class ViewSpace:
    """Features of several views with the nearest neighbours in each view and in all views together.

    Args:
        views: features (n, d_v) of each view; see `impute` for samples that lack a view.
        n_neighbors: number of nearest neighbours.

    Attributes:
        joined: the views side by side (n, sum d_v), each with rows of mean squared length 1.
        neighbors: nearest neighbours (n, n_neighbors) in each view.
        joined_neighbors: nearest neighbours (n, n_neighbors) in all views together.
    """

    def __init__(self, views: Sequence[Features], n_neighbors: int = 15) -> None:
        self.views, self.n_neighbors = list(views), n_neighbors
        self.joined = join_views(views)
        several = len(views) > 1
        tables = nearest_in_views(views, n_neighbors, joined=several)
        self.neighbors, self.joined_neighbors = tables[: len(views)], tables[-1]

    def neighbor_table(self, n_neighbors: int) -> Labels:
        """Return the nearest neighbours in every view and in all views together, side by side."""
        tables = [*self.neighbors, self.joined_neighbors]
        return np.hstack([table[:, :n_neighbors] for table in tables])

    def graph(self, kind: Literal["views", "joined", "all"], n_neighbors: int) -> csr_matrix:
        """Return a symmetric graph (n, n): the sum of the views' graphs, that of joined views, or both."""
        tables = self.neighbors if kind == "views" else [self.joined_neighbors]
        tables = [*self.neighbors, self.joined_neighbors] if kind == "all" else tables
        return symmetric_graph(tables, n_neighbors)

    def votes(self, labels: Labels) -> list[Floats]:
        """Return for each view how many neighbours of a sample are in each cluster (n, K)."""
        return [count_votes(table, labels) for table in self.neighbors]


def count_votes(neighbors: Labels, labels: Labels) -> Floats:
    """Return how many of its neighbours (n, k) each sample has in each cluster (n, K)."""
    n, k = len(labels), int(labels.max()) + 1
    place = (k * np.arange(n))[:, None]
    counts = np.bincount((place + labels[neighbors]).ravel(), minlength=n * k)
    return counts.reshape(n, k).astype(np.float64)


def total_votes(tables: Sequence[Labels], labels: Labels) -> Floats:
    """Return the number of neighbours in each group (n, m), over the tables (n, k) of all views."""
    votes: Floats = np.sum([count_votes(table, labels) for table in tables], axis=0)
    return votes


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


class Communities:
    """Communities of a graph at several numbers of groups; no resolution is solved twice.

    Args:
        graph: symmetric adjacency matrix (n, n).
        seed: seed of the order in which the Louvain method visits the nodes.
    """

    def __init__(self, graph: csr_matrix, seed: int) -> None:
        self.graph, self.seed = graph, seed
        self._found: dict[float, Labels] = {}  # by the logarithm of the resolution

    @cached_property
    def _order(self) -> Labels:
        """Random order of the nodes (n,)."""
        return np.random.RandomState(self.seed).permutation(self.graph.shape[0])

    @cached_property
    def _network(self) -> Network:
        """The graph with its nodes in random order."""
        graph = self.graph[self._order][:, self._order]
        graph.sort_indices()
        return Network(graph)

    def _unshuffled(self, labels: Labels) -> Labels:
        """Return labels (n,) of the nodes of the network in the order of the graph."""
        found = np.empty_like(labels)
        found[self._order] = labels
        return found

    def exactly(self, n_clusters: int) -> Labels:
        """Return K communities: the resolution is searched, and surplus communities are merged."""
        self._search(n_clusters, 0)
        enough = {x: labels for x, labels in self._found.items() if labels.max() + 1 >= n_clusters}
        x, labels = min((enough or self._found).items(), key=lambda z: abs(int(z[1].max()) + 1 - n_clusters))
        merged = merge_groups(edge_weights(self.graph, labels), n_clusters, "modularity")[labels]
        return self.refine(merged, float(np.exp(x)))

    def about(self, n_groups: int) -> Labels:
        """Return about `n_groups` communities, within 8 % or 1 where the search finds them."""
        self._search(n_groups, max(1, round(0.08 * n_groups)))
        x, labels = min(self._found.items(), key=lambda z: abs(np.log((z[1].max() + 1) / n_groups)))
        return self.refine(labels, float(np.exp(x)))

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
        return self._unshuffled(louvain(self._network, resolution))

    def refine(self, labels: Labels, resolution: float) -> Labels:
        """Return the communities to use in place of those that the search found at a resolution."""
        return labels


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


def merge_groups(weights: Floats, n_clusters: int, by: Linkage) -> Labels:
    """Merge groups two at a time until K remain.

    Args:
        weights: edges between any two groups (m, m).
        n_clusters: number of clusters K.
        by: see `greedy_merges`.

    Returns:
        The cluster of each group (m,).
    """
    group = np.arange(len(weights))
    for a, b in islice(greedy_merges(weights, by), max(0, len(weights) - n_clusters)):
        group[group == b] = a
    return compact(group)


def greedy_merges(weights: Floats, by: Linkage) -> Iterator[tuple[int, int]]:
    """Merge groups two at a time until one is left, and yield a and b of each merge of b into a.

    Args:
        weights: edges between any two groups (m, m).
        by: merge the pair with the most edges in relation to the geometric mean of their inner edges
            ("inner"), or to all edges of the smaller one ("smaller"); or with the largest modularity.
    """
    weights, alive = weights.copy(), list(range(len(weights)))
    while len(alive) > 1:
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
        yield a, b
