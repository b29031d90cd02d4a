"""The methods of the benchmark by name: estimators with `fit`, `labels_` and `predict`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.records import as_stored
from benchmarks.references import Imported, Reference
from protocol_mvc.data import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import ESTIMATORS, PROTOCOL
from protocol_mvc.evaluation.comparison import REFERENCES
from protocol_mvc.training.stage import Callback
from protocol_mvc.utils.config import make_config, update_config

Labels = npt.NDArray[np.int64]
Config = dict[str, Any]  # as a record holds it
Changes = Mapping[str, Any]  # values by the names of config fields, with dots: {"losses.rebalanced": False}

NO_REBALANCING: Config = {"schedule.n_epochs_rebalance": 0}  # ends the training after the alignment
# The ablation of the paper: alignment alone, with POT labels, with POT labels and rebalanced losses.
ABLATION: dict[str, Config] = {
    "base": NO_REBALANCING,
    "base+pot": {"losses.rebalanced": False},
    "base+pot+clr": {},
}
# The same with the preset "paper", whose last variant is the preset itself. In the second, every prediction
# learns the POT labels: without the class-level loss, those of the mixture alone are less stable.
PAPER_ABLATION = {
    "paper-base": ABLATION["base"],
    "paper-base+pot": {**ABLATION["base+pot"], "losses.pseudo_label_loss": "per_head"},
    "protocol-paper": ABLATION["base+pot+clr"],
}
AUTO = "protocol-auto"  # finds the number of clusters
VARIANTS = [*ABLATION, "paper-base", "paper-base+pot"]  # methods of the ablation alone


class Network(NamedTuple):
    """A method with a config: its estimator, a preset, and changes of the preset."""

    estimator: type[MultiViewClusterer]
    preset: str
    changes: Changes


# "csot" has the default preset, "csot-published" the preset of that name.
NETWORKS: dict[str, Network] = {
    name if preset == "default" else f"{name}-{preset}": Network(estimator, preset, {})
    for name, estimator in ESTIMATORS.items()
    for preset in estimator._presets
}
NETWORKS |= {name: Network(PROTOCOL, "default", changes) for name, changes in ABLATION.items()}
NETWORKS |= {name: Network(PROTOCOL, "paper", changes) for name, changes in PAPER_ABLATION.items()}

NETWORKS[AUTO] = Network(PROTOCOL, "default", {})

METHODS = [*REFERENCES, *NETWORKS]
FIVE = ["kmeans", "gmm", "ward", "spectral", "leiden"]  # references that users would pick
COMPARED = [*FIVE, *ESTIMATORS, "ardmvc-am"]  # the meaning of "all"
# Methods for samples with missing views; references impute them.
INCOMPLETE = [*REFERENCES, *(name for name, (kind, *_) in NETWORKS.items() if kind._method.incomplete)]


def is_imported(method: str) -> bool:
    """Return whether a method is a class of one's own, named by its place ``package.module:Class``."""
    return ":" in method


def make_estimator(method: str, n_clusters: int, seed: int, config: Config) -> Any:
    """Return the estimator of a method, not fitted."""
    if is_imported(method):
        return Imported(method, n_clusters, seed)
    if method in REFERENCES:
        return Reference(method, n_clusters, seed)
    estimator = NETWORKS[method].estimator
    fields = make_config(type(estimator._presets["default"]), config)
    return estimator("auto" if method == AUTO else n_clusters, config=fields, random_state=seed)


def fit_method(
    method: str,
    views: Views,
    seed: int,
    config: Config,
    labels_true: Labels,
    callbacks: Sequence[Callback] = (),
) -> Any:
    """Return the fitted estimator; it gets no more of the true labels than their number."""
    estimator = make_estimator(method, len(np.unique(labels_true)), seed, config)
    return estimator.fit(views, callbacks=callbacks) if callbacks else estimator.fit(views)


def config_of(method: str, changes: Changes | None = None) -> Config:
    """Return the full config of a method as a record holds it; empty for methods without one.

    Args:
        method: name of the method.
        changes: fields that differ from the preset; those that define a variant of the ablation stay.

    Raises:
        ValueError: If there is no such field, or its value is not allowed.
    """
    if method not in NETWORKS:
        return {}
    estimator, preset, own = NETWORKS[method]
    config = update_config(estimator._presets[preset], with_underscores({**(changes or {}), **own}))
    fields: Config = as_stored(config.model_dump())
    return fields


def with_underscores(changes: Changes) -> Config:
    """Return changes with the names of `update_config`: `losses__rebalanced` for `losses.rebalanced`."""
    return {name.replace(".", "__"): value for name, value in changes.items()}


def get_field(config: Config, name: str) -> Any:
    """Return the value of a field, named with dots."""
    value: Any = config
    for part in name.split("."):
        value = value[part]
    return value
