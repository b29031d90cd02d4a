"""Configs by which every method fits small data in a moment."""

from typing import Any

from tests.examples import QUICK, seeded

from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.nn.seeded import build
from protocol_mvc.utils.config import update_config

# Fields of any config; each takes those that it has.
FIELDS: dict[str, Any] = {
    "hidden": (16,),
    "latent": 8,
    "feature": 8,
    "feedforward": 8,
    "reconstruct_length": 3,
    "rounds": 1,
    "contrast_length": 3,
    "match_length": 2,
    "anchors": 16,
    "kmeans_starts": 2,
    "helper_reconstruct_length": 2,
    "helper_contrast_length": 2,
    "iterations": 3,
    "cluster_length": 8,
    "attack_steps": 2,
}


def small_config(name: str, **fields: Any) -> Any:
    """The default config of a method, made small."""
    config = ESTIMATORS[name]._presets["default"]
    if name == "protocol":
        return update_config(config, QUICK | fields)
    known = {field: value for field, value in FIELDS.items() if field in type(config).model_fields}
    return type(config)(**dict(config) | known | fields)


def small(name: str, n_clusters: int = 3, **params: Any) -> MultiViewClusterer:
    """An estimator that fits in a moment."""
    given: dict[str, Any] = {"config": small_config(name), "random_state": 0, "batch_size": 32}
    return ESTIMATORS[name](n_clusters, **given | params)


def made(name: str, dims: list[int], n_clusters: int = 3, **fields: Any) -> Any:
    """The untrained method itself."""
    config = small_config(name, **fields)
    return build(lambda: ESTIMATORS[name]._method(config, dims, n_clusters), seeded())
