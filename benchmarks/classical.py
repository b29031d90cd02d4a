"""Reference methods without a network: estimators with `fit`, `labels_` and `predict`."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.cluster import SpectralClustering
from sklearn.neighbors import NearestNeighbors, kneighbors_graph

from protocol_mvc.data import Views, fit_scalers, scaled_rows
from protocol_mvc.data.scaling import Scaler
from protocol_mvc.evaluation import metrics
from protocol_mvc.partition.graphs import kmeans

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]

N_NEIGHBORS = 15


def concatenate_views(views: Views, scalers: Sequence[Scaler], used: Iterable[int] | None = None) -> Floats:
    """Return the scaled views side by side, with zeros for missing rows; None uses all views."""
    each = range(views.n_views) if used is None else used
    return np.hstack([scaled_rows(views, v, slice(None), scalers[v]) for v in each])


class ViewKMeans:
    """K-means of the concatenated scaled views.

    Args:
        n_clusters: Number of clusters.
        seed: Random seed.
        used: Indices of the views to use; None uses all.
    """

    def __init__(self, n_clusters: int, seed: int, used: list[int] | None = None) -> None:
        self.n_clusters, self.seed, self.used = n_clusters, seed, used

    def fit(self, views: Views) -> Self:
        """Cluster the samples."""
        self.scalers_ = fit_scalers(views)
        x = concatenate_views(views, self.scalers_, self.used)
        self.labels_ = kmeans(x, self.n_clusters, self.seed)
        self.clusters_, position = np.unique(self.labels_, return_inverse=True)
        self.centers_ = np.stack([x[position == k].mean(axis=0) for k in range(len(self.clusters_))])
        return self

    def predict(self, views: Views) -> Labels:
        """Return the cluster with the nearest center."""
        x = concatenate_views(views, self.scalers_, self.used)
        nearest: Labels = self.clusters_[cdist(x, self.centers_).argmin(axis=1)]
        return nearest


class BestViewKMeans:
    """K-means of each scaled view; the true labels select the view, so this is an upper bound."""

    def __init__(self, n_clusters: int, seed: int) -> None:
        self.n_clusters, self.seed = n_clusters, seed

    def fit(self, views: Views, labels_true: Labels) -> Self:
        """Cluster the samples by each view."""
        each = [ViewKMeans(self.n_clusters, self.seed, [v]).fit(views) for v in range(views.n_views)]
        self.best_ = max(each, key=lambda model: metrics.clustering_accuracy(labels_true, model.labels_))
        self.labels_ = self.best_.labels_
        return self

    def predict(self, views: Views) -> Labels:
        """Return the cluster by the view that was best in `fit`."""
        return self.best_.predict(views)


class ViewSpectral:
    """Spectral clustering of the summed nearest-neighbor graphs of the views."""

    def __init__(self, n_clusters: int, seed: int) -> None:
        self.n_clusters, self.seed = n_clusters, seed

    def fit(self, views: Views) -> Self:
        """Cluster the samples; the graphs are sparse."""
        self.scalers_ = fit_scalers(views)
        parts = [concatenate_views(views, self.scalers_, [v]) for v in range(views.n_views)]
        model = SpectralClustering(self.n_clusters, affinity="precomputed", random_state=self.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of graphs that are not connected
            self.labels_: Labels = model.fit_predict(sum(map(neighbor_graph, parts))).astype(np.int64)
        self.neighbors_ = NearestNeighbors(n_neighbors=1).fit(np.hstack(parts))
        return self

    def predict(self, views: Views) -> Labels:
        """Return the cluster of the nearest training sample."""
        x = concatenate_views(views, self.scalers_)
        found: Labels = self.labels_[self.neighbors_.kneighbors(x, return_distance=False)[:, 0]]
        return found


def neighbor_graph(x: Floats) -> csr_array:
    """Return affinities (n, n): 1 between mutual nearest neighbors, 1/2 if one is a neighbor of the other."""
    found = kneighbors_graph(x, min(N_NEIGHBORS, len(x) - 1))
    index = (part.astype(np.int32) for part in (found.indices, found.indptr))  # as scikit-learn needs them
    graph = csr_array((found.data, *index), shape=found.shape)
    mutual: csr_array = (graph + graph.T) / 2
    return mutual
