"""The paper's studies beside the main tables; each makes the records that `run_missing` keeps."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.methods import ALIGNED, DEFAULT, Fields, fitted
from benchmarks.records import Record
from benchmarks.runs import Unit, class_recalls, scored, thirds
from protocol_mvc.data import Views, data_hash, fit_scalers, imbalanced_subset, scaled_rows
from protocol_mvc.data.batches import Source
from protocol_mvc.estimators.clusterers import PROTOCOL
from protocol_mvc.evaluation import metrics
from protocol_mvc.evaluation.robustness import pgd_attack
from protocol_mvc.io.datasets import load_dataset
from protocol_mvc.methods.base import Inferred, infer_all
from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.methods.protocol.config import ProtocolConfig
from protocol_mvc.nn.seeded import build
from protocol_mvc.partition.consensus import simplified_silhouette
from protocol_mvc.report.charts import tsne_embedding
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import Callback, EpochRecord
from protocol_mvc.utils.config import make_config

Labels = npt.NDArray[np.int64]
Features = npt.NDArray[np.floating]
Look = Callable[[Protocol, Source, EpochRecord], None]

TEST_SHARE = 0.2  # of the smallest class, taken from every class
MOST_POINTS = 1000  # of a map
# Pairs of fields, as the paper's figures have them; the default is added where a grid lacks it.
GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "temperatures": {
        "temperature_feature": (0.1, 0.3, 0.5, 0.7, 1.0),
        "temperature_class": (0.1, 0.3, 0.5, 0.7, 1.0),
    },
    "labels": {"mix": (0.1, 0.3, 0.5, 0.7, 0.9), "mass_start": (0.1, 0.3, 0.5, 0.7, 0.9)},
}
# Where the paper and its released code differ, or we from both: one choice of the default preset undone.
CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "logit shift of the other sign": {"logit_shift": -1.0},
    "no logit shift": {"logit_shift": 0.0},
    "no shift of the label loss": {"label_shift": 0.0},
    "no label loss": {"label_weight": 0.0},
    "label loss of the mixture": {"label_loss": "mixed"},
    "softmax twice": {"double_softmax": True},
    "transport of a batch": {"label_scope": "batch"},
    "uniform prior, no start": {"prior": "uniform"},
    "weak prior": {"kl_weight": 0.1},
    "no trust": {"trust": 0.0},
    "no class-level loss": {"class_weight": 0.0},
    "no rebalancing": {"rebalance": False},
    "one round": {"rounds": 1},
    "rounds of full length": {"early_end": False},
    "rate 1e-3 in stage 3": {"rebalance_rate": 1e-3},
    "structure loss": {"structure_weight": 1.0},
}


def attacked(unit: Unit, config: Fields, *, epsilon: float) -> Record:
    """Fit, then perturb the views by at most epsilon so that they seem to have little in common."""
    views, truth = load_dataset(unit.dataset, imbalance_ratio=unit.ratio, random_state=unit.seed)
    model = fitted(unit.method, views, unit.seed, config, truth)
    found = pgd_attack(model, views, epsilon, random_state=unit.seed)
    return {
        "data": data_hash(views),
        "samples": len(views),
        "epsilon": epsilon,
        "scores": scored(truth, model.labels_),
        "attacked_scores": scored(truth, found.labels),
    }


def balanced(unit: Unit, config: Fields) -> Record:
    """Fit to imbalanced data, predict samples that it has not seen, equally many of each class."""
    views, truth = load_dataset(unit.dataset, imbalance_ratio=None, random_state=unit.seed)
    test, rest = balanced_split(truth)
    kept = rest if unit.ratio is None else rest[imbalanced_subset(truth[rest], unit.ratio, unit.seed)]
    model = fitted(unit.method, views[kept], unit.seed, config, truth[kept])
    found = model.predict(views[test])
    recalls = class_recalls(truth[test], found, sizes_of=truth[kept])
    return {
        "data": data_hash(views[kept]),
        "samples": len(kept),
        "test_samples": len(test),
        "train_scores": scored(truth[kept], model.labels_),
        "scores": scored(truth[test], found) | thirds(recalls["recalls"]),
        **recalls,
    }


def balanced_split(truth: Labels) -> tuple[Labels, Labels]:
    """Rows of a test part with equally many samples of each class, the first ones, and all other rows."""
    sizes = np.bincount(np.unique(truth, return_inverse=True)[1])
    each = max(1, round(TEST_SHARE * int(sizes.min())))
    if sizes.min() <= each:
        raise ValueError(
            f"the smallest class has {sizes.min()} samples: none is left to train on, so add some"
        )
    test = np.sort(np.concatenate([np.flatnonzero(truth == label)[:each] for label in np.unique(truth)]))
    return test, np.setdiff1d(np.arange(len(truth)), test)


def calibration(unit: Unit, config: Fields) -> Record:
    """How sure the model is of the labels of its data, beside how many are right."""
    views, truth = load_dataset(unit.dataset, imbalance_ratio=unit.ratio, random_state=unit.seed)
    model = fitted(unit.method, views, unit.seed, config, truth)
    confidence = model.predict_proba(views).max(axis=1)
    found = metrics.calibration(truth, model.labels_, confidence)._asdict()
    return {
        "data": data_hash(views),
        "samples": len(views),
        "scores": scored(truth, model.labels_),
        "calibration": {name: round(value, 4) for name, value in found.items()},
    }


def convergence(unit: Unit, config: Fields) -> Record:
    """Loss of every epoch, and the scores of the labels that training would give if it stopped there."""
    views, truth = load_dataset(unit.dataset, imbalance_ratio=unit.ratio, random_state=unit.seed)
    curve: list[Record] = []

    def look(method: Protocol, source: Source, epoch: EpochRecord) -> None:
        labels = stopped(method, source, epoch).log_proba.argmax(1).numpy()
        score = {"acc": metrics.clustering_accuracy(truth, labels), "nmi": metrics.nmi(truth, labels)}
        values = {"loss": sum(epoch.losses.values()), **score}
        curve.append({"stage": epoch.stage, **{name: round(value, 4) for name, value in values.items()}})

    watch(views, len(np.unique(truth)), unit.seed, config, look)
    return {"data": data_hash(views), "samples": len(views), "curve": curve}


def maps(unit: Unit, config: Fields) -> Record:
    """Maps in two dimensions: of the scaled views side by side, and of the features after every stage."""
    views, truth = load_dataset(unit.dataset, imbalance_ratio=unit.ratio, random_state=unit.seed)
    scalings = fit_scalers(views)
    raw = [scaled_rows(views, v, slice(None), scaling) for v, scaling in enumerate(scalings)]
    features: dict[str, Features] = {"views": np.hstack(raw)}

    def look(method: Protocol, source: Source, epoch: EpochRecord) -> None:
        features[epoch.stage] = infer_all(method, source).embedding.numpy()  # those of its last epoch stay

    watch(views, len(np.unique(truth)), unit.seed, config, look)
    shown = np.random.default_rng(unit.seed).permutation(len(views))[:MOST_POINTS]
    return {
        "data": data_hash(views),
        "samples": len(views),
        "separation": {name: round(simplified_silhouette(x, truth), 4) for name, x in features.items()},
        "truth": truth[shown].tolist(),
        "maps": {name: _flat(x[shown], unit.seed) for name, x in features.items()},
    }


def _flat(x: Features, seed: int) -> list[list[float]]:
    return [[round(float(value), 1) for value in point] for point in tsne_embedding(x, seed)]


class _Look(Callback):
    """Calls a function after every epoch."""

    def __init__(self, look: Callable[[EpochRecord], None]) -> None:
        self.look = look

    def on_epoch_end(self, record: EpochRecord) -> None:
        """Look."""
        self.look(record)


def watch(views: Views, n_clusters: int, seed: int, config: Fields, look: Look) -> Protocol:
    """Train as `PROTOCOL.fit` does, looking at the method after every epoch; looking changes nothing.

    Args:
        views: The data.
        n_clusters: Number of clusters.
        seed: Seed of the method.
        config: Fields of its config.
        look: Called after every epoch.
    """
    model = PROTOCOL(n_clusters, config=make_config(ProtocolConfig, dict(config)), random_state=seed)
    method: Protocol
    method, source, generator = model._set_up(views)
    train(method, method.stages(), source, generator, [_Look(lambda epoch: look(method, source, epoch))])
    return method.eval().requires_grad_(False)


def stopped(method: Protocol, source: Source, epoch: EpochRecord) -> Inferred:
    """What the method would say if its training ended with this epoch, read out from a copy of it."""
    early = not epoch.stage.startswith("rebalance")
    config = make_config(ProtocolConfig, {**dict(method.config), **(ALIGNED if early else {})})
    dims = list(source.views.n_features)
    copy = build(lambda: Protocol(config, dims, method.n_clusters), torch.Generator()).to(source.device)
    copy.load_state_dict(method.state_dict())
    if early:
        copy.prior.fill_(1 / method.n_clusters)  # nothing is perceived yet, and a transport needs some prior
    read_out = copy.eval().stages()[-1].on_start
    if read_out is not None:
        read_out(source, torch.Generator().manual_seed(0))
    return infer_all(copy, source)


def grid(name: str) -> Iterator[dict[str, Any]]:
    """All combinations of a pair of fields, the first varying slowest; the default is among them."""
    fields = {field: sorted({*values, DEFAULT[field]}) for field, values in GRIDS[name].items()}
    for values in product(*fields.values()):
        yield dict(zip(fields, values, strict=True))
