"""Measured runs: each is a unit of work that ends in one record, and is never run twice."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.methods import Fields, before, config_of, fitted
from benchmarks.records import Record, append, now, provenance, read
from protocol_mvc.data import data_hash, mask_views
from protocol_mvc.evaluation import metrics
from protocol_mvc.io.datasets import load_dataset

Labels = npt.NDArray[np.int64]

#: fields of configs that earlier records lack, and the samples up to which they change nothing
ADDED = {"most_rows": 20_000, "most_rebalance_steps": 4096}


class Unit(NamedTuple):
    """One run: everything that decides its result but the config."""

    method: str
    dataset: str
    ratio: float | None  # imbalance ratio; None takes the data set as it is
    seed: int  # of the subset and of the method


Run = Callable[[Unit, Fields], Record]


def units(
    methods: Iterable[str], datasets: Iterable[str], ratios: Iterable[float | None], seeds: Iterable[int]
) -> Iterator[Unit]:
    """All combinations; seeds vary slowest, so that an early stop leaves whole tables."""
    for seed, dataset, ratio, method in product(seeds, list(datasets), list(ratios), list(methods)):
        yield Unit(method, dataset, ratio, seed)


def cluster(unit: Unit, config: Fields, *, missing: float = 0.0) -> Record:
    """Load, hide a share of the views, cluster, score; the truth reaches scorer and upper bounds alone."""
    views, truth = load_dataset(unit.dataset, imbalance_ratio=unit.ratio, random_state=unit.seed)
    views = mask_views(views, missing, unit.seed) if missing else views
    started = time.perf_counter()
    model = fitted(unit.method, views, unit.seed, config, truth)
    seconds = time.perf_counter() - started
    return {
        "data": data_hash(views),
        "samples": len(views),
        "seconds": round(seconds, 2),
        **effort(model),
        "scores": scored(truth, model.labels_),
        **class_recalls(truth, model.labels_),
    }


def run_missing(
    wanted: Iterable[Unit],
    path: Path,
    changes: Fields | None = None,
    *,
    study: str | None = None,
    run: Run = cluster,
) -> Iterator[Record]:
    """Run the units that the file has no record of, appending each as it ends; yields all of theirs.

    Args:
        wanted: The units.
        path: File of the records.
        changes: Config fields that differ from the methods' own; records of other configs do not count.
        study: Name of the study, kept in its records; None for plain runs.
        run: What makes the rest of a record from a unit and its config.
    """
    known = read(path)
    for unit in wanted:
        config = config_of(unit.method, changes)
        same = (record for record in reversed(known) if _is(record, unit, config, study))
        record = next(same, None)
        if record is None:
            record = _record(unit, config, study, run)
            append(record, path)
            known.append(record)
        yield record


def is_run(record: Record) -> bool:
    """Whether a record is of a unit at all; other measurements may share the folder."""
    return record.keys() >= set(Unit._fields)


def is_current(record: Record) -> bool:
    """Whether a run of today would use the config of the record; the oldest records do not tell theirs."""
    return config_in(record) == config_of(record["method"])


def config_in(record: Record) -> dict[str, Any]:
    """The config of a record, with what was done, or would be, for the fields that came later."""
    few = [name for name, most in ADDED.items() if record.get("samples", 0) <= most]
    later = {name: value for name, value in config_of(record["method"]).items() if name in few}
    return {**before(record["method"]), **later, **record.get("config", {})}


def key(record: Record) -> Unit:
    """The unit of a record."""
    return Unit(*(record[field] for field in Unit._fields))


def scored(truth: Labels, labels: Labels) -> dict[str, float]:
    """All metrics, as a record holds them."""
    return {name: round(value, 4) for name, value in metrics.all_scores(truth, labels).items()}


def class_recalls(truth: Labels, labels: Labels, sizes_of: Labels | None = None) -> Record:
    """Size and recall of every class, from the largest to the smallest as `metrics.group_recall` orders.

    The sizes are those in the truth, or in another sample of the same classes such as the training data.
    """
    hits, own, _ = metrics.matched_counts(truth, labels)
    sizes = own if sizes_of is None else np.unique(sizes_of, return_counts=True)[1]
    order = np.argsort(-sizes, kind="stable")
    recalls = (hits / own)[order].round(4)
    return {"class_sizes": sizes[order].tolist(), "recalls": recalls.tolist()}


def thirds(recalls: list[float]) -> dict[str, float]:
    """Mean recall of head, medium and tail, from the recalls of classes in order of their size."""
    return {name: round(mean, 4) for name, mean in metrics.group_means(recalls)._asdict().items()}


def effort(model: Any) -> Record:
    """Epochs and seconds of every stage, for estimators that keep a history."""
    history: list[Mapping[str, Any]] = getattr(model, "history_", [])
    seconds: dict[str, float] = defaultdict(float)
    for epoch in history:
        seconds[epoch["stage"]] += epoch["seconds"]
    stages = {stage: round(total, 2) for stage, total in seconds.items()}
    return {"n_iter": len(history), "stages": stages} if history else {}


def _record(unit: Unit, config: Fields, study: str | None, run: Run) -> Record:
    named = {"study": study} if study else {}
    result = run(unit, config)
    return {**unit._asdict(), **named, "config": dict(config), **provenance(), "ended": now(), **result}


def _is(record: Record, unit: Unit, config: Fields, study: str | None) -> bool:
    return (
        is_run(record)
        and key(record) == unit
        and record.get("study") == study
        and config_in(record) == config
    )
