"""CPU time of the phases of a default fit, on every data set of the quality benchmark."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import pandas as pd

from benchmarks.datasets import load_dataset
from benchmarks.methods import Config, fit_method
from benchmarks.records import Record
from benchmarks.runs import Unit
from benchmarks.tables import Section, Table, ratio_text
from protocol_mvc.data import data_hash
from protocol_mvc.data.batches import Source
from protocol_mvc.estimators import base
from protocol_mvc.methods.protocol import algorithm, pseudo_labels
from protocol_mvc.training import loop

STUDY = "profile"
REST = "rest"
NOTE = (
    "Processor seconds of a fit of the default preset with one thread, by phase. The time of a phase is "
    "without that of the phases that it calls. Neighbours are those that guide the contrast, partition is "
    "the search for the starting partition, labels are the pseudo-labels of stage 3, optimizer is "
    "backpropagation and Adam, inference includes the outlier scores."
)
Patch = tuple[Any, str, str]
# owner, function, phase
PHASES: list[Patch] = [
    (base, "as_views", "checks"),
    (base.MultiViewClusterer, "_check", "checks"),
    (base, "data_hash", "hash"),
    (base.MultiViewClusterer, "_set_up", "preparation"),
    (Source, "_batch", "preparation"),
    (algorithm.Protocol, "_neighbors", "neighbours"),
    (algorithm.Protocol, "align", "align"),
    (algorithm.Protocol, "rebalance", "stage 3"),
    (algorithm.Protocol, "label_samples", "labels"),
    (algorithm.Protocol, "lost_modularity", "labels"),
    (pseudo_labels, "find_partition", "partition"),
    (loop._Training, "run_steps", "optimizer"),
    (loop._Training, "snapshot", "checkpoints"),
    (algorithm, "infer_all", "inference"),
    (pseudo_labels, "infer_all", "inference"),
    (base, "infer_all", "inference"),
    (base.MultiViewClusterer, "_fit_outliers", "inference"),
]
NAMES = [*dict.fromkeys(phase for _, _, phase in PHASES), REST]


class Stopwatch:
    """CPU seconds by phase; the time of an inner phase is not counted in the outer one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._phases = [REST]
        self._since = time.process_time()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of a block to a phase."""
        self._count()
        self._phases.append(name)
        try:
            yield
        finally:
            self._count()
            self._phases.pop()

    def _count(self) -> None:
        now = time.process_time()
        self.seconds[self._phases[-1]] += now - self._since
        self._since = now

    def wrap(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return a function whose calls are counted to a phase."""

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.phase(name):
                return function(*args, **kwargs)

        return timed


def profile_fit(unit: Unit, config: Config) -> Record:
    """Return the CPU seconds of every phase of a fit."""
    views, labels_true = load_dataset(
        unit.dataset, imbalance_ratio=unit.imbalance_ratio, random_state=unit.seed
    )
    with ExitStack() as patches:
        watch = Stopwatch()
        for owner, name, phase in PHASES:
            patches.enter_context(patch.object(owner, name, watch.wrap(getattr(owner, name), phase)))
        with watch.phase(REST):
            fit_method(unit.method, views, unit.seed, config, labels_true)
    seconds = {name: round(watch.seconds[name], 3) for name in NAMES}
    return {
        "data_hash": data_hash(views),
        "n_samples": len(views),
        "n_views": views.n_views,
        "phases": seconds,
    }


def section(records: Sequence[Record]) -> Section:
    """Return the table of the phases, one row for each data set."""
    newest = {record["dataset"]: record for record in records if record.get("study") == STUDY}
    rows = []
    for name, record in sorted(newest.items()):
        phases = record["phases"]
        rows.append(
            {
                "data": name,
                "R": ratio_text(record["imbalance_ratio"]),
                "n": f"{record['n_samples']:,}",
                "views": str(record["n_views"]),
                **{phase: f"{phases[phase]:.2f}" for phase in NAMES},
                "all": f"{sum(phases.values()):.1f}",
            }
        )
    return Section("Profile", [Table("Profile", pd.DataFrame(rows))] if rows else [], [NOTE] if rows else [])
