"""Measured runs: each ends in one record, and is not repeated if a record of it exists."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.datasets import load_dataset
from benchmarks.methods import NETWORKS, Changes, Config, config_of, fit_method
from benchmarks.records import Record, append, now, provenance, read, timed
from benchmarks.shared_stages import CHECKPOINTS, SharedStages, is_long
from protocol_mvc.data import Views, data_hash, mask_views
from protocol_mvc.evaluation import metrics

Labels = npt.NDArray[np.int64]


class Unit(NamedTuple):
    """What decides the result of a run, besides the config."""

    method: str
    dataset: str
    imbalance_ratio: float | None  # None takes the data set as it is
    seed: int  # of the subset and of the method


Run = Callable[..., Record]  # (unit, config, **options) -> the measured part of the record


def units(
    methods: Iterable[str], datasets: Iterable[str], ratios: Iterable[float | None], seeds: Iterable[int]
) -> Iterator[Unit]:
    """Yield all combinations; seeds vary slowest, so that an interrupted benchmark has complete tables."""
    for seed, dataset, ratio, method in product(seeds, list(datasets), list(ratios), list(methods)):
        yield Unit(method, dataset, ratio, seed)


def cluster(unit: Unit, config: Config, *, missing_rate: float = 0.0) -> Record:
    """Load the data, mask a part of the views, fit the method and score its labels."""
    views, labels_true = load_dataset(
        unit.dataset, imbalance_ratio=unit.imbalance_ratio, random_state=unit.seed
    )
    views = mask_views(views, missing_rate, unit.seed) if missing_rate else views
    model, times = timed_fit(unit, config, views, labels_true)
    return {
        "data_hash": data_hash(views),
        "n_samples": len(views),
        **times,
        **epochs_and_stages(model),
        "scores": rounded_scores(labels_true, model.labels_),
        **class_recalls(labels_true, model.labels_),
        **calibration(labels_true, model),
    }


def timed_fit(unit: Unit, config: Config, views: Views, labels_true: Labels) -> tuple[Any, Record]:
    """Return the fitted estimator, and its seconds.

    Stages that earlier runs have in common with this one are not run again. Then the wall time is not known;
    the CPU seconds are those of all stages.
    """
    callbacks = shared_stages(unit, config, views, labels_true)
    with timed() as times:
        model = fit_method(unit.method, views, unit.seed, config, labels_true, callbacks)
    if callbacks and callbacks[0].inherited:
        times = {"cpu_seconds": callbacks[0].cpu_seconds(), "inherited": callbacks[0].inherited}
    return model, times


def shared_stages(
    unit: Unit, config: Config, views: Views, labels_true: Labels, *, resume: bool = True
) -> list[SharedStages]:
    """Return the callback that stores the stages of a long run for other runs; empty for short runs."""
    if not is_long(config):
        return []
    name = NETWORKS[unit.method].estimator.__name__
    run: Record = {"estimator": name, "data_hash": data_hash(views)}
    run |= {"n_clusters": len(np.unique(labels_true)), "seed": unit.seed}
    return [SharedStages(CHECKPOINTS, run, config, resume=resume)]


def run_missing(
    wanted: Iterable[Unit],
    path: Path,
    changes: Changes | None = None,
    *,
    study: str | None = None,
    run: Run = cluster,
    **options: Any,
) -> Iterator[Record]:
    """Yield the records of the units; those that the file lacks are run and appended.

    Args:
        wanted: The units.
        path: File of the records.
        changes: Config fields that differ from the method's preset; see `config_of`.
        study: Name of the study in its records; None for plain runs.
        run: Called as ``run(unit, config, **options)``; returns the measured part of the record.
        options: Other arguments of the run, such as `missing_rate`; the record holds them too.
    """
    known = read(path)
    for unit in wanted:
        config = config_of(unit.method, changes)
        named = {**unit._asdict(), **({"study": study} if study else {}), **options}
        identity = {"study": None, **named, "config": config}
        same = (record for record in reversed(known) if _matches(record, identity))
        record = next(same, None)
        if record is None:
            result = run(unit, config, **options)
            record = {**named, "config": config, **provenance(), "ended": now(), **result}
            append(record, path)
            known.append(record)
        yield record


def _matches(record: Record, identity: Record) -> bool:
    return is_run(record) and all(record.get(name) == value for name, value in identity.items())


def is_run(record: Record) -> bool:
    """Return whether a record is of a unit; other measurements have files in the same folder."""
    return record.keys() >= {*Unit._fields, "config"}


def unit_of(record: Record) -> Unit:
    """Return the unit of a record."""
    return Unit(*(record[field] for field in Unit._fields))


def rounded_scores(labels_true: Labels, labels_pred: Labels) -> dict[str, float]:
    """Return all metrics, rounded."""
    return {name: round(value, 4) for name, value in metrics.all_scores(labels_true, labels_pred).items()}


def class_recalls(labels_true: Labels, labels_pred: Labels, sizes_of: Labels | None = None) -> Record:
    """Return size and recall of every class, from the largest to the smallest class.

    Args:
        labels_true: True labels.
        labels_pred: Predicted labels.
        sizes_of: Labels whose class sizes count instead, such as those of the training data.
    """
    hits, own, _ = metrics.matched_counts(labels_true, labels_pred)
    sizes = own if sizes_of is None else np.unique(sizes_of, return_counts=True)[1]
    order = np.argsort(-sizes, kind="stable")
    return {"class_sizes": sizes[order].tolist(), "class_recalls": (hits / own)[order].round(4).tolist()}


def group_recalls(recalls: list[float]) -> dict[str, float]:
    """Return the mean recall of head, medium and tail classes from the recalls of `class_recalls`."""
    return {name: round(mean, 4) for name, mean in metrics.group_means(recalls)._asdict().items()}


def calibration(labels_true: Labels, model: Any) -> Record:
    """Return how the confidence of the labels compares with their accuracy, for estimators that have one."""
    if not hasattr(model, "label_distributions_"):
        return {}
    found = metrics.calibration(labels_true, model.labels_, model.label_distributions_.max(axis=1))
    return {"calibration": {name: round(value, 4) for name, value in found._asdict().items()}}


def epochs_and_stages(model: Any) -> Record:
    """Return the number of epochs and the seconds of every stage, for estimators with a history."""
    history: list[Mapping[str, Any]] = getattr(model, "history_", [])
    seconds: dict[str, float] = defaultdict(float)
    for epoch in history:
        seconds[epoch["stage"]] += epoch["seconds"]
    stages = {stage: round(total, 2) for stage, total in seconds.items()}
    return {"n_iter": len(history), "stage_seconds": stages} if history else {}
