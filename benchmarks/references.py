"""Methods that are not the library's, as estimators with `fit`, `labels_` and `predict`.

They are the references of `protocol_mvc.compare`, and classes of one's own.
"""

import pkgutil
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.neighbors import NearestNeighbors

from protocol_mvc.data import Views
from protocol_mvc.estimators.cluster_count import components_of, prepare
from protocol_mvc.evaluation.comparison import cluster, result_name
from protocol_mvc.partition.graphs import join_views

Labels = npt.NDArray[np.int64]


class Reference:
    """A method of `evaluation.comparison.REFERENCES`.

    Args:
        method: Its name.
        n_clusters: Number of clusters.
        seed: Random seed.

    Raises:
        ImportError: For Leiden without igraph; a record of it must not be of the Louvain method.
    """

    def __init__(self, method: str, n_clusters: int, seed: int) -> None:
        if result_name(method) != method:
            raise ImportError(f"{method} needs igraph: pip install -c constraints.txt -e '.[bench]'")
        self.method, self.n_clusters, self.seed = method, n_clusters, seed

    def fit(self, views: Views) -> Self:
        """Cluster the samples."""
        self.scalers_, self.components_ = prepare(views)
        self.labels_ = cluster(self.method, views, self.components_, self.n_clusters, self.seed)
        return self

    def predict(self, views: Views) -> Labels:
        """Return the cluster of the nearest training sample; absent views are zeros."""
        parts = zip(self.components_, components_of(views, self.scalers_), strict=True)
        x = join_views([np.vstack(part) for part in parts])
        n = len(self.labels_)
        nearest = NearestNeighbors(n_neighbors=1).fit(x[:n]).kneighbors(x[n:], return_distance=False)[:, 0]
        found: Labels = self.labels_[nearest]
        return found


class Imported:
    """A class of one's own: ``Class(n_clusters=..., random_state=...)`` with scikit-learn's `fit_predict`.

    Args:
        place: Its place, such as ``package.module:Class``.
        n_clusters: Number of clusters.
        seed: Random seed.
    """

    def __init__(self, place: str, n_clusters: int, seed: int) -> None:
        self.estimator: Any = pkgutil.resolve_name(place)(n_clusters=n_clusters, random_state=seed)

    def fit(self, views: Views) -> Self:
        """Cluster the samples; the method gets the list of views, arrays of shape (n, d_v)."""
        self.labels_: Labels = np.asarray(self.estimator.fit_predict(list(views.arrays)))
        return self

    def predict(self, views: Views) -> Labels:
        """Return the clusters of new samples, if the method has a `predict`."""
        return np.asarray(self.estimator.predict(list(views.arrays)))
