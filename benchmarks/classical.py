"""Methods without a network, as references: each has `fit`, `labels_` and `predict`."""

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
from protocol_mvc.partition.candidates import kmeans

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def joined(views: Views, scalings: Sequence[Scaler], chosen: Iterable[int] | None = None) -> Floats:
    """The scaled views side by side, zeros where a sample lacks one; None takes all of them."""
    each = range(views.n_views) if chosen is None else chosen
    return np.hstack([scaled_rows(views, v, slice(None), scalings[v]) for v in each])


class ViewKMeans:
    """K-means on scaled views side by side; on all of them it is what most people do today."""

    def __init__(self, n_clusters: int, seed: int, chosen: list[int] | None = None) -> None:
        """Keep the choice; None takes all views."""
        self.n_clusters, self.seed, self.chosen = n_clusters, seed, chosen

    def fit(self, views: Views) -> Self:
        """Cluster the samples."""
        self.scalings = fit_scalers(views)
        x = joined(views, self.scalings, self.chosen)
        self.labels_ = kmeans(x, self.n_clusters, self.seed)
        self.found, position = np.unique(self.labels_, return_inverse=True)
        self.centers = np.stack([x[position == k].mean(axis=0) for k in range(len(self.found))])
        return self

    def predict(self, views: Views) -> Labels:
        """The cluster whose centre is nearest."""
        x = joined(views, self.scalings, self.chosen)
        nearest: Labels = self.found[cdist(x, self.centers).argmin(axis=1)]
        return nearest


class BestViewKMeans:
    """K-means on each scaled view; the truth picks the best one, so this is an upper bound for one view."""

    def __init__(self, n_clusters: int, seed: int) -> None:
        """Keep the choice."""
        self.n_clusters, self.seed = n_clusters, seed

    def fit(self, views: Views, truth: Labels) -> Self:
        """Cluster by each view."""
        each = [ViewKMeans(self.n_clusters, self.seed, [v]).fit(views) for v in range(views.n_views)]
        self.best = max(each, key=lambda model: metrics.clustering_accuracy(truth, model.labels_))
        self.labels_ = self.best.labels_
        return self

    def predict(self, views: Views) -> Labels:
        """The cluster by the view that was best in `fit`."""
        return self.best.predict(views)


class ViewSpectral:
    """Spectral clustering on the sum of the views' neighbour graphs; new samples follow their nearest."""

    def __init__(self, n_clusters: int, seed: int) -> None:
        """Keep the choice."""
        self.n_clusters, self.seed = n_clusters, seed

    def fit(self, views: Views) -> Self:
        """Cluster the samples; nothing of the size n x n is ever dense."""
        self.scalings = fit_scalers(views)
        parts = [joined(views, self.scalings, [v]) for v in range(views.n_views)]
        model = SpectralClustering(self.n_clusters, affinity="precomputed", random_state=self.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of graphs in several pieces
            self.labels_: Labels = model.fit_predict(sum(map(affinity, parts))).astype(np.int64)
        self.known = NearestNeighbors(n_neighbors=1).fit(np.hstack(parts))
        return self

    def predict(self, views: Views) -> Labels:
        """The cluster of the nearest sample that was fitted."""
        nearest = self.known.kneighbors(joined(views, self.scalings), return_distance=False)
        found: Labels = self.labels_[nearest[:, 0]]
        return found


def affinity(x: Floats) -> csr_array:
    """1 between samples that are both among the nearest of the other, 1/2 if one is, else 0; sparse."""
    found = kneighbors_graph(x, min(15, len(x) - 1))
    index = (part.astype(np.int32) for part in (found.indices, found.indptr))  # as scikit-learn wants them
    graph = csr_array((found.data, *index), shape=found.shape)
    both: csr_array = (graph + graph.T) / 2
    return both
