"""Labels from an embedding, made for groups of very unequal size."""

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.spatial.distance import cdist
from scipy.special import xlogy
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from protocol_mvc.exceptions import UnreliableClusterWarning

Features = npt.NDArray[np.floating]
Labels = npt.NDArray[np.int64]
Edges = tuple[Labels, Labels]

MICRO_PER_CLUSTER = (3, 4, 6, 8)  # micro-clusters per cluster; each gives candidates of its own
N_REPEATS = 2  # of the micro-clusters of every size: more candidates make agreement mean more
N_NEIGHBORS = 15
MIN_CLUSTER_SIZE = 5  # samples that make a cluster believable
N_COMPONENTS = 50  # of a view, in which its items are compared
MAX_FEATURES_COVARIANCE = 1000  # up to which the covariance gives them soonest
MAX_CHANGED_FRACTION = 0.01  # part of a cluster that may go elsewhere by chance
MAX_SAMPLES = 5000  # rows in the neighbour graph; the others follow their micro-cluster


def kmeans(x: Features, n_clusters: int, seed: int, starts: int = 10) -> Labels:
    """Plain K-means: cuts large groups and joins small ones, kept for parity with the papers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of repeated rows; `too_small` tells
        labels: Labels = KMeans(n_clusters, n_init=starts, random_state=seed).fit_predict(x).astype(np.int64)
    return labels


def relabel_to_match(labels: Labels, reference: Labels, n_clusters: int) -> Labels:
    """The same clusters under the names that make most samples agree with the reference."""
    overlap = np.bincount(labels * n_clusters + reference, minlength=n_clusters**2)
    _, name = linear_sum_assignment(overlap.reshape(n_clusters, n_clusters), maximize=True)
    return name[labels].astype(np.int64)


def same_partition(labels: Labels, reference: Labels, n_clusters: int) -> bool:
    """Whether two assignments are the same but for names and strays: of no cluster, small ones included."""
    named = relabel_to_match(labels, reference, n_clusters)
    kept, before, after = (
        np.bincount(found, minlength=n_clusters) for found in (named[named == reference], reference, named)
    )
    return bool(np.all(kept >= (1 - MAX_CHANGED_FRACTION) * np.maximum(before, after)))


def consensus_partition(x: Features, n_clusters: int, seed: int, n_views: int = 1) -> Labels:
    """The candidate that agrees most with the others, by mean normalised mutual information.

    Args:
        x: features (n, n_views d), those of the views side by side.
        n_clusters: number of clusters.
        seed: of the micro-clusters.
        n_views: in how many parts the features come.
    """
    return most_agreed(
        without_tiny_clusters(list(partition_candidates(x, n_clusters, seed, n_views)), n_clusters)
    )


def without_tiny_clusters(assignments: list[Labels], n_clusters: int) -> list[Labels]:
    """Those without a cluster of fewer than `SUPPORT` samples, mostly outliers; all, if all have one."""
    fit = [
        found for found in assignments if np.bincount(found, minlength=n_clusters).min() >= MIN_CLUSTER_SIZE
    ]
    return fit or assignments


def warn_unreliable(doubts: list[str]) -> None:
    """Tell the caller's caller what speaks against the clusters, if anything does."""
    if doubts:
        warnings.warn(" ".join(doubts), UnreliableClusterWarning, stacklevel=3)


def tiny_cluster_messages(sizes: npt.NDArray[np.integer]) -> list[str]:
    """A sentence about the clusters with too few samples to be believed, if there are some."""
    small = np.flatnonzero(sizes < MIN_CLUSTER_SIZE).tolist()
    sentence = f"Clusters {small} have fewer than {MIN_CLUSTER_SIZE} samples: n_clusters may be too large."
    return [sentence] if small else []


def most_agreed(assignments: list[Labels], eligible: npt.NDArray[np.bool_] | None = None) -> Labels:
    """The one with the largest mean normalised mutual information with the others; the first of several.

    Only the eligible ones are taken, but all have a say.
    """
    score = pairwise_nmi(assignments).sum(1)
    return assignments[int(np.argmax(score if eligible is None else np.where(eligible, score, -np.inf)))]


def pairwise_nmi(assignments: list[Labels]) -> Features:
    """Normalised mutual information of every two assignments, from one product of matrices for all."""
    count, k = len(assignments), 1 + max(int(labels.max()) for labels in assignments)
    column = np.stack(assignments, axis=1) + k * np.arange(count)  # (n, count), of the members below
    joint = np.zeros((count * k, count * k))
    for rows in np.array_split(column, -(-len(column) // MAX_SAMPLES)):
        members = np.zeros((len(rows), count * k), dtype=np.float32)
        np.put_along_axis(members, rows, 1, axis=1)
        joint += members.T @ members
    joint = joint.reshape(count, k, count, k) / len(column)
    both = -xlogy(joint, joint).sum((1, 3))  # entropies of two together; of one alone on the diagonal
    sums = both.diagonal()[:, None] + both.diagonal()
    shared: Features = np.where(sums > 0, 2 * (sums - both) / np.where(sums > 0, sums, 1), 1.0)
    return shared.round(12)  # equal ones stay equal, in whatever order they were summed


def partition_candidates(
    x: Features, n_clusters: int, seed: int, n_views: int = 1, *, lost: float = 0.0
) -> Iterator[Labels]:
    """Assignments by micro-clusters of several sizes, each joined along neighbour graphs and by linkage.

    They are made in fewer dimensions, if some part of the features may be `lost`.
    """
    rng = np.random.default_rng(seed)
    sample = np.sort(rng.permutation(len(x))[:MAX_SAMPLES])
    graphs = _graphs(x[sample], n_views)
    x = drop_minor_components(x, lost) if lost else x
    for factor in MICRO_PER_CLUSTER * N_REPEATS:
        n_micro = min(factor * n_clusters, len(x))
        if n_micro <= n_clusters:
            yield kmeans(x, n_clusters, int(rng.integers(2**31)))
            continue
        micro, centers = micro_clusters(x, n_micro, int(rng.integers(2**31)))
        if len(centers) <= n_clusters:
            yield micro
            continue
        for edges in graphs:
            yield _join_by_edges(micro[sample], edges, len(centers), n_clusters)[micro]
        yield _join_by_linkage(centers, n_clusters)[micro]


def drop_minor_components(x: Features, lost: float) -> Features:
    """The rows turned, so that few columns hold all but a lost part of their squared length.

    Distances and angles hardly change, and K-means takes a fraction of the time.
    """
    power, axes = np.linalg.eigh((x.T @ x).astype(np.float64))  # ascending
    least = int(np.searchsorted(np.cumsum(power), lost * power.sum()))
    return x @ axes[:, min(least, x.shape[1] - 1) :].astype(x.dtype)


def _graphs(x: Features, n_views: int) -> list[Edges]:
    """Graphs to join along: of all features together, and of the views each on its own."""
    joint = _neighbour_pairs(x)
    if n_views == 1:
        return [joint]
    return [joint, _union([_neighbour_pairs(part) for part in np.split(x, n_views, axis=1)])]


def _union(graphs: list[Edges]) -> Edges:
    rows, near = zip(*graphs, strict=True)
    return np.concatenate(rows), np.concatenate(near)


def micro_clusters(x: Features, n_micro: int, seed: int) -> tuple[Labels, Features]:
    """Labels and centres of small groups; repeated rows make fewer, so that none is empty."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # "fewer than asked for" is no one's concern
        model = KMeans(n_micro, n_init=1, random_state=seed).fit(x)
    found, micro = np.unique(model.labels_, return_inverse=True)
    return micro.astype(np.int64), model.cluster_centers_[found]


def principal_components(views: Sequence[Features], mask: npt.NDArray[np.bool_], seed: int) -> list[Features]:
    """The principal components of each view, of the samples that have it; zeros for the others."""
    found = []
    for x, here in zip(views, mask.T, strict=True):
        size = min(N_COMPONENTS, here.sum(), x.shape[1])
        place = np.zeros((len(x), max(size, 1)), dtype=x.dtype)
        if size:
            own = x[here]
            own -= own.mean(0)  # a covariance of data far from zero has few digits left
            solver = "covariance_eigh" if own.shape[1] <= min(len(own), MAX_FEATURES_COVARIANCE) else "auto"
            with np.errstate(invalid="ignore"):  # a constant view has no variance to divide by
                place[here] = PCA(size, svd_solver=solver, random_state=seed).fit_transform(own)
        found.append(place)
    return found


def _neighbour_pairs(x: Features) -> Edges:
    """Rows and their nearest rows by cosine, as two index arrays."""
    k = min(N_NEIGHBORS, len(x) - 1)
    on_sphere = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(normalize(x))  # same order, faster
    near = on_sphere.kneighbors(return_distance=False)
    return np.repeat(np.arange(len(x)), k), near.ravel()


def _join_by_edges(micro: Labels, edges: Edges, n_micro: int, n_clusters: int) -> Labels:
    """Join the pair of groups with the most edges between them / sqrt(product of sizes) until K remain."""
    pairs = (micro[edges[0]], micro[edges[1]])
    cross = coo_array((np.ones(len(pairs[0])), pairs), shape=(n_micro, n_micro)).toarray()
    cross = cross + cross.T
    np.fill_diagonal(cross, -np.inf)
    size = np.maximum(np.bincount(micro, minlength=n_micro), 1).astype(float)
    group = np.arange(n_micro)
    for _ in range(n_micro - n_clusters):
        i, j = np.unravel_index(np.argmax(cross / np.sqrt(np.outer(size, size))), cross.shape)
        cross[i] += cross[j]
        cross[:, i] = cross[i]
        cross[[i, j], [i, j]] = cross[j] = cross[:, j] = -np.inf
        size[i] += size[j]
        group[group == group[j]] = group[i]
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _join_by_linkage(centers: Features, n_clusters: int) -> Labels:
    """Average linkage of the micro-centres by cosine."""
    tree = linkage(centers.astype(np.float64), method="average", metric="cosine")
    return (fcluster(tree, n_clusters, criterion="maxclust") - 1).astype(np.int64)


def simplified_silhouette(x: Features, labels: Labels) -> float:
    r"""Simplified silhouette, the mean of :math:`(b - a) / \max(a, b)` in [-1, 1].

    Here a is the distance of a sample to the centre of its cluster and b to the nearest other centre,
    so the cost is linear in the number of samples. A single cluster scores -1.
    """
    found, position = np.unique(labels, return_inverse=True)
    if len(found) < 2:
        return -1.0
    sums = coo_array((np.ones(len(x)), (position, np.arange(len(x))))).tocsr() @ x.astype(np.float64)
    centers = sums / np.bincount(position)[:, None]
    distance = cdist(x, centers)
    own = distance[np.arange(len(x)), position]
    distance[np.arange(len(x)), position] = np.inf
    other = distance.min(1)
    larger = np.maximum(np.maximum(own, other), np.finfo(float).tiny)
    return float(np.mean((other - own) / larger))
