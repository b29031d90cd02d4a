"""The methods of the benchmark, each an estimator with `fit`, `labels_` and `predict`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.classical import BestViewKMeans, ViewKMeans, ViewSpectral
from benchmarks.records import as_stored
from protocol_mvc.data import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import ESTIMATORS, PROTOCOL
from protocol_mvc.methods.protocol.config import PRESETS
from protocol_mvc.utils.config import make_config

Labels = npt.NDArray[np.int64]
Fields = Mapping[str, Any]

DEFAULT = dict(PRESETS["default"])
ALIGNED = {"rounds": 0}  # what stops a config after the alignment
# The paper's ablation: alignment alone, with POT labels, with POT labels and rebalanced losses.
ABLATION: dict[str, dict[str, Any]] = {"base": ALIGNED, "base+pot": {"rebalance": False}, "base+pot+clr": {}}


def _named() -> dict[str, tuple[type[MultiViewClusterer], dict[str, Any]]]:
    """Every estimator with every preset: "csot" has the default one, "csot-published" the other."""
    return {
        name if preset == "default" else f"{name}-{preset}": (kind, dict(config))
        for name, kind in ESTIMATORS.items()
        for preset, config in kind._presets.items()
    }


# Estimator and fields of the config of every method that has one.
NETWORKS = _named() | {name: (PROTOCOL, DEFAULT | removed) for name, removed in ABLATION.items()}
CONFIGS = {name: fields for name, (_, fields) in NETWORKS.items()}
CLASSICAL: dict[str, Callable[[int, int], Any]] = {
    "kmeans": ViewKMeans,
    "kmeans-best-view": BestViewKMeans,
    "spectral": ViewSpectral,
}
UPPER_BOUNDS = {"kmeans-best-view"}  # the methods that are given the truth
COMPARED = [*CLASSICAL, *ESTIMATORS, "ardmvc-am"]  # what "all" means: no variants of one method
# The methods for samples that lack views; to K-means these are zeros.
FOR_GAPS = ["kmeans", *(name for name, (kind, _) in NETWORKS.items() if kind._method.incomplete)]


def _classical(make: Callable[[int, int], Any], n_clusters: int, seed: int, fields: Fields) -> Any:
    return make(n_clusters, seed)


def _network(
    kind: type[MultiViewClusterer], n_clusters: int, seed: int, fields: Fields
) -> MultiViewClusterer:
    config = make_config(type(kind._presets["default"]), dict(fields))
    return kind(n_clusters, config=config, random_state=seed)


# (number of clusters, seed, fields of the config) -> estimator
METHODS: dict[str, Callable[[int, int, Fields], Any]] = {
    **{name: partial(_classical, make) for name, make in CLASSICAL.items()},
    **{name: partial(_network, kind) for name, (kind, _) in NETWORKS.items()},
}


def config_of(method: str, changes: Fields | None = None) -> dict[str, Any]:
    """The config a method runs with, as a record holds it; changes are for methods that have a config.

    Raises:
        ValueError: If a change is not one of a config field, or its value not allowed.
    """
    if method not in NETWORKS:
        return {}
    kind, own = NETWORKS[method]
    # What a variant of the ablation lacks stays away, whatever else is changed.
    fields = own | dict(changes or {}) | ABLATION.get(method, {})
    stored: dict[str, Any] = as_stored(dict(make_config(type(kind._presets["default"]), fields)))
    return stored


def before(method: str) -> dict[str, Any]:
    """What was done before some fields of the config of a method were there."""
    return type(NETWORKS[method][0]._presets["default"]).before if method in NETWORKS else {}


def fitted(method: str, views: Views, seed: int, fields: Fields, truth: Labels) -> Any:
    """The fitted estimator of a method; the truth tells all of them no more than the number of clusters."""
    model = METHODS[method](len(np.unique(truth)), seed, fields)
    return model.fit(views, truth) if method in UPPER_BOUNDS else model.fit(views)
