"""The methods of the benchmark, each an estimator with `fit`, `labels_` and `predict`."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from protocol_mvc import metrics
from protocol_mvc.assignment import kmeans
from protocol_mvc.bench.records import as_stored
from protocol_mvc.data import Views, fit_scalings, scaled_rows
from protocol_mvc.estimator import PROTOCOL, make_config
from protocol_mvc.methods.protocol_config import PRESETS

Labels = npt.NDArray[np.int64]
Fields = Mapping[str, Any]

DEFAULT = dict(PRESETS["default"])
ALIGNED = {"rounds": 0}  # what stops a config after the alignment
# The paper's ablation: alignment alone, with POT labels, with POT labels and rebalanced losses.
ABLATION: dict[str, dict[str, Any]] = {"base": ALIGNED, "base+pot": {"rebalance": False}, "base+pot+clr": {}}
CONFIGS = {
    "protocol": DEFAULT,
    "protocol-paper": dict(PRESETS["paper"]),
    **{name: DEFAULT | removed for name, removed in ABLATION.items()},
}


class ViewKMeans:
    """K-means on scaled views side by side; on all of them it is what most people do today."""

    def __init__(self, n_clusters: int, seed: int, chosen: list[int] | None = None) -> None:
        """Keep the choice; None takes all views."""
        self.n_clusters, self.seed, self.chosen = n_clusters, seed, chosen

    def fit(self, views: Views) -> Self:
        """Cluster the samples."""
        self.scalings = fit_scalings(views)
        x = self._joined(views)
        self.labels_ = kmeans(x, self.n_clusters, self.seed)
        self.found, position = np.unique(self.labels_, return_inverse=True)
        self.centers = np.stack([x[position == k].mean(axis=0) for k in range(len(self.found))])
        return self

    def predict(self, views: Views) -> Labels:
        """The cluster whose centre is nearest."""
        nearest: Labels = self.found[cdist(self._joined(views), self.centers).argmin(axis=1)]
        return nearest

    def _joined(self, views: Views) -> npt.NDArray[np.float32]:
        chosen = range(views.n_views) if self.chosen is None else self.chosen
        return np.hstack([scaled_rows(views, v, slice(None), self.scalings[v]) for v in chosen])


class BestViewKMeans:
    """K-means on each scaled view; the truth picks the best one, so this is an upper bound for one view."""

    def __init__(self, n_clusters: int, seed: int) -> None:
        """Keep the choice."""
        self.n_clusters, self.seed = n_clusters, seed

    def fit(self, views: Views, truth: Labels) -> Self:
        """Cluster by each view."""
        each = [ViewKMeans(self.n_clusters, self.seed, [v]).fit(views) for v in range(views.n_views)]
        self.best = max(each, key=lambda model: metrics.accuracy(truth, model.labels_))
        self.labels_ = self.best.labels_
        return self

    def predict(self, views: Views) -> Labels:
        """The cluster by the view that was best in `fit`."""
        return self.best.predict(views)


def _protocol(n_clusters: int, seed: int, fields: Fields) -> PROTOCOL:
    return PROTOCOL(n_clusters, config=make_config(dict(fields)), random_state=seed)


# (number of clusters, seed, fields of the config) -> estimator
METHODS: dict[str, Callable[[int, int, Fields], Any]] = {
    "kmeans": lambda n_clusters, seed, fields: ViewKMeans(n_clusters, seed),
    "kmeans-best-view": lambda n_clusters, seed, fields: BestViewKMeans(n_clusters, seed),
    **dict.fromkeys(CONFIGS, _protocol),
}
UPPER_BOUNDS = {"kmeans-best-view"}  # the methods that are given the truth


def config_of(method: str, changes: Fields | None = None) -> dict[str, Any]:
    """The config a method runs with, as a record holds it; changes are for methods that have a config.

    Raises:
        ValueError: If a change is not one of a config field, or its value not allowed.
    """
    if method not in CONFIGS:
        return {}
    # What a variant of the ablation lacks stays away, whatever else is changed.
    fields = CONFIGS[method] | dict(changes or {}) | ABLATION.get(method, {})
    stored: dict[str, Any] = as_stored(dict(make_config(fields)))
    return stored


def fitted(method: str, views: Views, seed: int, fields: Fields, truth: Labels) -> Any:
    """The fitted estimator of a method; the truth tells all of them no more than the number of clusters."""
    model = METHODS[method](len(np.unique(truth)), seed, fields)
    return model.fit(views, truth) if method in UPPER_BOUNDS else model.fit(views)
