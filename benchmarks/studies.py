"""The studies of the paper besides its main tables; each function makes the measured part of a record."""

from collections.abc import Callable, Iterator
from itertools import count, product
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from benchmarks.datasets import load_dataset
from benchmarks.methods import (
    NO_REBALANCING,
    Changes,
    Config,
    config_of,
    fit_method,
    get_field,
    with_underscores,
)
from benchmarks.records import Record, timed
from benchmarks.runs import (
    Unit,
    class_recalls,
    cluster,
    group_recalls,
    rounded_scores,
    shared_stages,
    timed_fit,
)
from benchmarks.shared_stages import is_long
from protocol_mvc.data import Views, data_hash, imbalanced_subset
from protocol_mvc.data.batches import Source
from protocol_mvc.evaluation import metrics
from protocol_mvc.evaluation.robustness import pgd_attack
from protocol_mvc.methods.base import Inferred, infer_all
from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.nn.seeded import build
from protocol_mvc.partition.consensus import simplified_silhouette
from protocol_mvc.report.charts import tsne_embedding
from protocol_mvc.training.stage import Callback, EpochRecord
from protocol_mvc.utils.config import update_config

Labels = npt.NDArray[np.int64]
Observe = Callable[[Any, Source, EpochRecord], None]

TEST_FRACTION = 0.2  # of the smallest class; the test part has as many samples of every class
MAX_POINTS = 1000  # of a t-SNE
LONG_INTERVAL = 5  # epochs between two points of the curve of a long run
# Pairs of config fields, as in the figures of the paper; `grid` adds the default where it is missing.
GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "temperatures": {
        "losses.temperature_feature": (0.1, 0.3, 0.5, 0.7, 1.0),
        "losses.temperature_class": (0.1, 0.3, 0.5, 0.7, 1.0),
    },
    "pseudo-labels": {
        "pseudo_labels.consensus_weight": (0.1, 0.3, 0.5, 0.7, 0.9),
        "pseudo_labels.min_mass": (0.1, 0.3, 0.5, 0.7, 0.9),
    },
}
# Single changes of the default preset, where paper, released code and this library differ.
DEFAULT_CHANGES: dict[str, Changes] = {
    "default": {},
    "logit adjustment of the opposite sign": {"losses.logit_adjustment": -1.0},
    "no logit adjustment": {"losses.logit_adjustment": 0.0},
    "logit adjustment of the pseudo-label loss": {"losses.pseudo_label_logit_adjustment": 1.0},
    "no pseudo-label loss": {"losses.pseudo_label_weight": 0.0},
    "pseudo-label loss of the mixture": {"losses.pseudo_label_loss": "mixture"},
    "softmax twice": {"pseudo_labels.double_softmax": True},
    "transport of a batch, uniform prior": {"pseudo_labels": {"kind": "batch"}},
    "weak prior": {"pseudo_labels.prior_strength": 0.1},
    "no warm-up": {"pseudo_labels.warmup_fraction": 0.0},
    "no class-level loss": {"losses.class_loss_weight": 0.0},
    "no rebalanced losses": {"losses.rebalanced": False},
    "one round of alignment": {"structure.n_rounds": 1},
    "learning rate 1e-3 in stage 3": {"schedule.lr_rebalance": 1e-3},
}


def change_default(unit: Unit, config: Config, *, change: str) -> Record:
    """Run a method with one of `DEFAULT_CHANGES`, which is in the config already."""
    return cluster(unit, config)


def attack(unit: Unit, config: Config, *, eps: float) -> Record:
    """Fit, then perturb the views by at most `eps` so that the views of a sample differ."""
    views, labels_true = _load(unit)
    with timed() as times:
        model = fit_method(unit.method, views, unit.seed, config, labels_true)
        result = pgd_attack(model, views, eps, random_state=unit.seed)
    return {
        "data_hash": data_hash(views),
        "n_samples": len(views),
        **times,
        "scores": rounded_scores(labels_true, model.labels_),
        "attacked_scores": rounded_scores(labels_true, result.labels),
    }


def balanced_test(unit: Unit, config: Config) -> Record:
    """Fit to imbalanced data and predict a balanced part of the data that was held out."""
    views, labels_true = load_dataset(unit.dataset, imbalance_ratio=None, random_state=unit.seed)
    test, rest = balanced_split(labels_true)
    ratio = unit.imbalance_ratio
    train = rest if ratio is None else rest[imbalanced_subset(labels_true[rest], ratio, unit.seed)]
    with timed() as times:
        model = fit_method(unit.method, views[train], unit.seed, config, labels_true[train])
    labels_pred = model.predict(views[test])
    recalls = class_recalls(labels_true[test], labels_pred, sizes_of=labels_true[train])
    return {
        "data_hash": data_hash(views[train]),
        "n_samples": len(train),
        "n_test_samples": len(test),
        **times,
        "train_scores": rounded_scores(labels_true[train], model.labels_),
        "scores": rounded_scores(labels_true[test], labels_pred) | group_recalls(recalls["class_recalls"]),
        **recalls,
    }


def balanced_split(labels_true: Labels) -> tuple[Labels, Labels]:
    """Return the rows of a test part with equally many samples of each class, and all other rows."""
    classes, sizes = np.unique(labels_true, return_counts=True)
    n_each = max(1, round(TEST_FRACTION * int(sizes.min())))
    if sizes.min() <= n_each:
        raise ValueError(f"the smallest class has {sizes.min()} samples: too few to hold out {n_each}")
    test = np.sort(np.concatenate([np.flatnonzero(labels_true == label)[:n_each] for label in classes]))
    return test, np.setdiff1d(np.arange(len(labels_true)), test)


def convergence(unit: Unit, config: Config) -> Record:
    """Return loss, ACC and NMI of every epoch, as if the training ended with it; of long runs every fifth."""
    views, labels_true = _load(unit)
    curve, numbers = list[Record](), count(1)
    interval = LONG_INTERVAL if is_long(config) else 1

    def observe(method: Any, source: Source, epoch: EpochRecord) -> None:
        number = next(numbers)
        is_last = {stage.name: stage.n_epochs for stage in method.stages()}[epoch.stage] == epoch.epoch + 1
        if number % interval and not is_last:
            return
        labels = infer_early(method, source, epoch.stage).log_proba.argmax(1).numpy()
        values = {
            "loss": sum(epoch.losses.values()),
            "acc": metrics.clustering_accuracy(labels_true, labels),
            "nmi": metrics.nmi(labels_true, labels),
        }
        rounded = {name: round(value, 4) for name, value in values.items()}
        curve.append({"stage": epoch.stage, "epoch": number, **rounded})

    stored = shared_stages(unit, config, views, labels_true, resume=False)
    with timed() as times:
        fit_method(unit.method, views, unit.seed, config, labels_true, [*stored, Observer(observe)])
    return {"data_hash": data_hash(views), "n_samples": len(views), **times, "curve": curve}


def tsne(unit: Unit, config: Config) -> Record:
    """Return a t-SNE of the embedding of a method, and the silhouette of the true classes in it."""
    views, labels_true = _load(unit)
    model, times = timed_fit(unit, config, views, labels_true)
    x = model.embedding_
    rows = np.random.default_rng(unit.seed).permutation(len(views))[:MAX_POINTS]
    return {
        "data_hash": data_hash(views),
        "n_samples": len(views),
        **times,
        "scores": rounded_scores(labels_true, model.labels_),
        "silhouette": round(simplified_silhouette(x, labels_true), 4),
        "labels_true": labels_true[rows].tolist(),
        "tsne": tsne_embedding(x[rows], unit.seed).astype(np.float64).round(1).tolist(),
    }


class Observer(Callback):
    """Calls ``observe(method, source, record)`` after every epoch."""

    def __init__(self, observe: Observe) -> None:
        self.observe = observe

    def on_train_start(self, module: nn.Module, source: Source) -> None:
        """Keep the method and its data."""
        self.module, self.source = module, source

    def on_epoch_end(self, record: EpochRecord) -> None:
        """Observe the method."""
        self.observe(self.module, self.source, record)


def infer_early(method: Protocol, source: Source, stage: str) -> Inferred:
    """Return the inference of a copy of the method whose training ends now, in this stage."""
    early = not stage.startswith("rebalance")
    config = update_config(method.config, with_underscores(NO_REBALANCING if early else {}))
    dims = [scaler.n_outputs for scaler in source.scalers]
    copy = build(lambda: Protocol(config, dims, method.n_clusters), torch.Generator()).to(source.device)
    copy.load_state_dict(method.state_dict())
    if early:
        copy.prior.fill_(1 / method.n_clusters)  # it is estimated in stage 3
    assign_labels = copy.eval().stages()[-1].on_start
    if assign_labels is not None:
        assign_labels(source, torch.Generator().manual_seed(0))
    return infer_all(copy, source)


def grid(name: str, method: str = "protocol", *, one_at_a_time: bool = False) -> Iterator[dict[str, Any]]:
    """Yield all combinations of a pair of fields with the preset's among them; the first varies slowest.

    Args:
        name: name of the pair of fields, see `GRIDS`.
        method: method whose preset is changed.
        one_at_a_time: leave out combinations that change both fields of the preset.
    """
    default = {field: get_field(config_of(method), field) for field in GRIDS[name]}
    fields = {field: sorted({*values, default[field]}) for field, values in GRIDS[name].items()}
    for values in product(*fields.values()):
        cell = dict(zip(fields, values, strict=True))
        if not one_at_a_time or any(cell[field] == default[field] for field in cell):
            yield cell


def _load(unit: Unit) -> tuple[Views, Labels]:
    return load_dataset(unit.dataset, imbalance_ratio=unit.imbalance_ratio, random_state=unit.seed)
