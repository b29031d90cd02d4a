"""Configs by which every method fits small data in a moment."""

from typing import Any

from tests.examples import QUICK, seeded

from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.nn.seeded import build
from protocol_mvc.utils.config import update_config

# Fields of any config; each takes those that it has.
FIELDS: dict[str, Any] = {
    "hidden_dims": (16,),
    "latent_dim": 8,
    "feature_dim": 8,
    "dim_feedforward": 8,
    "n_epochs_reconstruct": 3,
    "n_rounds": 1,
    "n_epochs_contrast": 3,
    "n_steps_match": 2,
    "n_anchors": 16,
    "kmeans_n_init": 2,
    "n_epochs_imputer_reconstruct": 2,
    "n_epochs_imputer_contrast": 2,
    "n_steps": 3,
    "n_epochs": 8,
    "n_attack_steps": 2,
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
