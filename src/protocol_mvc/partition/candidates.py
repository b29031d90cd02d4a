"""Candidate partitions of an embedding whose groups may be of very unequal size.

K-means splits large groups and merges small ones. A candidate therefore starts from many small clusters
("micro-clusters"), which are merged along neighbour graphs or by average linkage until K clusters remain.
"""

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import coo_array
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from protocol_mvc.partition.config import CandidateOptions

Features = npt.NDArray[np.floating]
Labels = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Edges = tuple[Labels, Labels]
DEFAULT = CandidateOptions()


def kmeans(x: Features, n_clusters: int, seed: int, n_init: int = 10) -> Labels:
    """Return the labels of K-means (n,), without its warning about repeated rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels: Labels = KMeans(n_clusters, n_init=n_init, random_state=seed).fit_predict(x).astype(np.int64)
    return labels


def partition_candidates(
    x: Features,
    n_clusters: int,
    seed: int,
    n_views: int = 1,
    *,
    dropped_variance: float = 0.0,
    options: CandidateOptions = DEFAULT,
) -> Iterator[Labels]:
    """Yield partitions made from micro-clusters of several sizes.

    The micro-clusters of each run are merged in three ways: along the neighbour graph of all features, along
    the neighbour graphs of the single views, and by average linkage of their centres.

    Args:
        x: features (n, n_views * d), those of the views side by side.
        n_clusters: number of clusters K.
        seed: seed of the micro-clusters.
        n_views: number of equal blocks of columns in `x`.
        dropped_variance: fraction of the squared length of the rows that the micro-clusters may ignore.
        options: sizes and numbers of runs.
    """
    o = options
    rng = np.random.default_rng(seed)
    sample = np.sort(rng.permutation(len(x))[: o.max_samples])
    graphs = _neighbor_graphs(x[sample], n_views, o.n_neighbors)
    x = drop_minor_components(x, dropped_variance) if dropped_variance else x
    for factor in o.micro_per_cluster * o.n_repeats:
        n_micro = min(factor * n_clusters, len(x))
        if n_micro <= n_clusters:
            yield kmeans(x, n_clusters, int(rng.integers(2**31)))
            continue
        micro, centers = micro_clusters(x, n_micro, int(rng.integers(2**31)))
        if len(centers) <= n_clusters:
            yield micro
            continue
        for edges in graphs:
            yield _merge_along_edges(micro[sample], edges, len(centers), n_clusters)[micro]
        yield _merge_by_linkage(centers, n_clusters)[micro]


def micro_clusters(x: Features, n_micro: int, seed: int) -> tuple[Labels, Features]:
    """Return labels (n,) and centres of at most `n_micro` non-empty clusters; repeated rows give fewer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(n_micro, n_init=1, random_state=seed).fit(x)
    used, labels = np.unique(model.labels_, return_inverse=True)
    return labels.astype(np.int64), model.cluster_centers_[used]


def drop_minor_components(x: Features, dropped_variance: float) -> Features:
    """Rotate the rows and drop the columns that hold at most this fraction of their squared length.

    Distances and angles hardly change, and K-means is several times faster.
    """
    power, axes = np.linalg.eigh((x.T @ x).astype(np.float64))  # ascending
    first = int(np.searchsorted(np.cumsum(power), dropped_variance * power.sum()))
    return x @ axes[:, min(first, x.shape[1] - 1) :].astype(x.dtype)


def principal_components(
    views: Sequence[Features], mask: Mask, seed: int, options: CandidateOptions = DEFAULT
) -> list[Features]:
    """Return the principal components of each view.

    Args:
        views: data (n, D_v) of each view.
        mask: which sample has which view (n, V).
        seed: seed of randomised solvers.
        options: number of components.

    Returns:
        One array (n, n_components) per view; zeros for samples without the view.
    """
    o = options
    found = []
    for x, present in zip(views, mask.T, strict=True):
        size = min(o.n_components, present.sum(), x.shape[1])
        components = np.zeros((len(x), max(size, 1)), dtype=x.dtype)
        if size:
            own = x[present]
            own -= own.mean(0)  # the covariance of data far from zero loses digits
            narrow = own.shape[1] <= min(len(own), o.max_covariance_features)
            with np.errstate(invalid="ignore"):  # a constant view has no variance to divide by
                pca = PCA(size, svd_solver="covariance_eigh" if narrow else "auto", random_state=seed)
                components[present] = pca.fit_transform(own)
        found.append(components)
    return found


def _neighbor_graphs(x: Features, n_views: int, n_neighbors: int) -> list[Edges]:
    """Return the neighbour graph of all features and, for several views, the union of those of the views."""
    joint = _neighbor_pairs(x, n_neighbors)
    if n_views == 1:
        return [joint]
    single = [_neighbor_pairs(part, n_neighbors) for part in np.split(x, n_views, axis=1)]
    rows, neighbors = zip(*single, strict=True)
    return [joint, (np.concatenate(rows), np.concatenate(neighbors))]


def _neighbor_pairs(x: Features, n_neighbors: int) -> Edges:
    """Return each row with its nearest rows by cosine similarity, as two index arrays."""
    k = min(n_neighbors, len(x) - 1)
    model = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(
        normalize(x)
    )  # faster than metric="cosine"
    neighbors = model.kneighbors(return_distance=False)
    return np.repeat(np.arange(len(x)), k), neighbors.ravel()


def _merge_along_edges(micro: Labels, edges: Edges, n_micro: int, n_clusters: int) -> Labels:
    """Merge the pair with the largest (edges between i and j) / sqrt(n_i n_j) until K clusters remain."""
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


def _merge_by_linkage(centers: Features, n_clusters: int) -> Labels:
    """Merge centres by average linkage with cosine distance."""
    tree = linkage(centers.astype(np.float64), method="average", metric="cosine")
    return (fcluster(tree, n_clusters, criterion="maxclust") - 1).astype(np.int64)
