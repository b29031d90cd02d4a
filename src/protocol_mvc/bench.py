"""Measured runs: each is a unit of work that ends in one JSON line, and is never run twice."""

import functools
import json
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from protocol_mvc import metrics
from protocol_mvc.assignment import kmeans
from protocol_mvc.data import Views, data_hash, fit_scalings, load, scaled_rows
from protocol_mvc.estimator import PROTOCOL
from protocol_mvc.methods.protocol_config import PRESETS

Labels = npt.NDArray[np.int64]
Record = dict[str, Any]

DEFAULT = dict(PRESETS["default"])
# The paper's ablation: alignment alone, with POT labels, with POT labels and rebalanced losses.
ABLATION = {
    "base": DEFAULT | {"rounds": 0},
    "base+pot": DEFAULT | {"rebalance": False},
    "base+pot+clr": DEFAULT,
}


CONFIGS = {"protocol": DEFAULT, "protocol-paper": dict(PRESETS["paper"]), **ABLATION}


class Unit(NamedTuple):
    """One run: everything that decides its result."""

    method: str
    dataset: str
    ratio: float | None  # imbalance ratio; None takes the data set as it is
    seed: int  # of the subset and of the method


def cluster_concatenated(views: Views, n_clusters: int, seed: int) -> Labels:
    """K-means on all scaled views side by side, what most people do today."""
    return kmeans(np.hstack(_scaled(views)), n_clusters, seed)


def cluster_best_view(views: Views, n_clusters: int, seed: int, truth: Labels) -> Labels:
    """K-means on each scaled view; the truth picks the best one, so this is an upper bound for one view."""
    candidates = [kmeans(x, n_clusters, seed) for x in _scaled(views)]
    return max(candidates, key=lambda labels: metrics.accuracy(truth, labels))


def _scaled(views: Views) -> list[npt.NDArray[np.float32]]:
    return [scaled_rows(views, v, slice(None), scaling) for v, scaling in enumerate(fit_scalings(views))]


def _protocol(**fields: Any) -> Callable[[Views, int, int, Labels], Labels]:
    def run(views: Views, n_clusters: int, seed: int, truth: Labels) -> Labels:
        params = {f"config__{name}": value for name, value in fields.items()}
        return PROTOCOL(n_clusters, random_state=seed).set_params(**params).fit_predict(views)

    return run


METHODS: dict[str, Callable[[Views, int, int, Labels], Labels]] = {
    "kmeans": lambda views, k, seed, truth: cluster_concatenated(views, k, seed),
    "kmeans-best-view": cluster_best_view,
    **{name: _protocol(**fields) for name, fields in CONFIGS.items()},
}


def units(
    methods: Iterable[str], datasets: Iterable[str], ratios: Iterable[float | None], seeds: Iterable[int]
) -> Iterator[Unit]:
    """All combinations; seeds vary slowest, so that an early stop leaves whole tables."""
    for seed, dataset, ratio, method in product(seeds, list(datasets), list(ratios), list(methods)):
        yield Unit(method, dataset, ratio, seed)


def run_unit(unit: Unit) -> Record:
    """Load, cluster, score: the truth reaches the scorer (and the best-view upper bound) alone."""
    views, truth = load(unit.dataset, ratio=unit.ratio, seed=unit.seed)
    started = time.perf_counter()
    labels = METHODS[unit.method](views, len(np.unique(truth)), unit.seed, truth)
    seconds = time.perf_counter() - started
    return {
        **unit._asdict(),
        "config": CONFIGS.get(unit.method, {}),
        **provenance(),
        "data": data_hash(views),
        "samples": len(views),
        "seconds": round(seconds, 2),
        "scores": {name: round(value, 4) for name, value in metrics.scores(truth, labels).items()},
    }


def run_missing(wanted: Iterable[Unit], path: Path) -> Iterator[Record]:
    """Run the units that the file has no record of, appending each as it ends; yields all of theirs."""
    known = {_key(record): record for record in read(path) if _current(record)}
    for unit in wanted:
        if unit not in known:
            known[unit] = run_unit(unit)
            _append(known[unit], path)
        yield known[unit]


def read(path: Path) -> list[Record]:
    """The records of a file; none where there is no file. A last line that was cut off does not count."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def provenance() -> Record:
    """Where a number comes from: command, commit and machine."""
    return {
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": commit(),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}",
    }


@functools.cache  # what was loaded at the start is what runs, whatever happens to the files meanwhile
def commit() -> str:
    """The commit of the source tree that is running, with a plus sign if it has changes; else unknown."""
    try:
        dirty = _git("status", "--porcelain", "--untracked-files=no", ".")
        return _git("rev-parse", "--short", "HEAD") + ("+" if dirty else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _current(record: Record) -> bool:
    """Whether a run of today would use the config of the record; the oldest records do not tell."""
    now = json.loads(json.dumps(CONFIGS.get(record["method"], {})))
    return bool(record.get("config", now) == now)


def _key(record: Record) -> Unit:
    return Unit(*(record[field] for field in Unit._fields))


def _append(record: Record, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        path.write_text("".join(json.dumps(kept) + "\n" for kept in read(path)))
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
