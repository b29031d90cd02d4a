"""What goes with a fit, in relation to the fit: the search for K, refits of `stability`, info's estimate.

`parallel` measures fits that run at the same time; it needs a machine with nothing else running.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import joblib
import numpy as np
import pandas as pd
import typer

from benchmarks.datasets import QUALITY_RATIO, load_dataset
from benchmarks.methods import Config, make_estimator
from benchmarks.records import RESULTS, Record, append, now, provenance, timed
from benchmarks.runs import Unit
from benchmarks.tables import Section, Table, ratio_text
from protocol_mvc import PROTOCOL, stability
from protocol_mvc.data import data_hash

STUDY = "costs"
MAX_STABILITY, MAX_AUTO, MAX_ERROR = 1.5, 2.0, 0.25  # in relation to the fit
PARALLEL_DATASET = "hdigit"
NOTE = (
    "CPU seconds of a fit, and in relation to it those of a fit with n_clusters='auto' and of `stability` "
    "with five refits. The estimate is that of the command `info`, in relation to the seconds of the fit."
)


def measure(unit: Unit, config: Config) -> Record:
    """Return the seconds of a fit, of a fit that searches K, of five refits, and info's estimate."""
    from protocol_mvc.cli.info import estimate_cost  # of no use to the other commands

    views, labels_true = load_dataset(
        unit.dataset, imbalance_ratio=unit.imbalance_ratio, random_state=unit.seed
    )
    k = len(np.unique(labels_true))
    model = make_estimator(unit.method, k, unit.seed, config)
    expected = estimate_cost(views, model)
    with timed() as fit:
        model.fit(views)
    with timed() as refits:
        found = stability(model, views, n_resamples=5)
    with timed() as auto:
        PROTOCOL("auto", config=model.config, random_state=unit.seed).fit(views)
    return {
        "data_hash": data_hash(views),
        "n_samples": len(views),
        **fit,
        "expected_seconds": expected.seconds,
        "stability": {**refits, "mean_agreement": round(float(found.sample_agreement.mean()), 4)},
        "auto": auto,
    }


def section(records: Sequence[Record]) -> Section:
    """Return the table of the ratios, one row for each data set, and on how many they are small enough."""
    newest = {record["dataset"]: record for record in records if record.get("study") == STUDY}
    rows = [
        {
            "data": name,
            "R": ratio_text(r["imbalance_ratio"]),
            "n": f"{r['n_samples']:,}",
            "fit": f"{r['cpu_seconds']:.1f}",
            "auto": f"{r['auto']['cpu_seconds'] / r['cpu_seconds']:.2f}",
            "stability": f"{r['stability']['cpu_seconds'] / r['cpu_seconds']:.2f}",
            "agreement": f"{r['stability']['mean_agreement']:.2f}",
            "estimate": f"{r['expected_seconds'] / r['seconds']:.2f}",
        }
        for name, r in sorted(newest.items())
    ]
    if not rows:
        return Section("Costs", [], [])
    limits: dict[str, Callable[[float], bool]] = {
        "auto": lambda x: x <= MAX_AUTO,
        "stability": lambda x: x <= MAX_STABILITY,
        "estimate": lambda x: abs(x - 1) <= MAX_ERROR,
    }
    met = {name: f"{sum(ok(float(row[name])) for row in rows)} of {len(rows)}" for name, ok in limits.items()}
    text = f"auto at most {MAX_AUTO:g}, stability {MAX_STABILITY}, estimate within {MAX_ERROR:.0%}"
    return Section("Costs", [Table("Costs", pd.DataFrame([*rows, {"data": text, **met}]).fillna(""))], [NOTE])


def parallel(
    dataset: Annotated[str, typer.Option(help="Data set.")] = PARALLEL_DATASET,
    records: Annotated[Path, typer.Option(help="File of records.")] = RESULTS / "parallel.jsonl",
    worker: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Measure fits at the same time: two commands beside one, and four joblib workers beside two."""
    if worker:
        seed, n, folder = worker.split(":", 2)
        typer.echo(json.dumps(_fit(dataset, int(seed), int(n), Path(folder))))
        return
    seconds = {f"{n} commands": _commands(dataset, n) for n in (1, 2)}
    seconds |= {f"{n} joblib workers": _workers(dataset, n) for n in (2, 4)}
    ratios = {
        "two fits / one with all threads": seconds["2 commands"] / seconds["1 commands"],
        "four workers / two": seconds["4 joblib workers"] / seconds["2 joblib workers"],
    }
    for name, ratio in ratios.items():
        typer.echo(f"{name}: {ratio:.2f}")
    rounded = {name: round(value, 2) for name, value in seconds.items()}
    shown = {name: round(value, 3) for name, value in ratios.items()}
    shared = {"dataset": dataset, "n_cores": joblib.cpu_count(), **provenance(), "ended": now()}
    append({"study": "parallel", "seconds": rounded, "ratios": shown, **shared}, records)


def _fit(dataset: str, seed: int, n: int, folder: Path) -> tuple[float, float]:
    """Return the times at the start and at the end of one of n fits, which start together.

    A small fit before it does not count, nor do imports: the folder gets a file when both are done.
    """
    views, labels_true = load_dataset(dataset, imbalance_ratio=QUALITY_RATIO, random_state=seed)
    k = len(np.unique(labels_true))
    PROTOCOL(k, random_state=seed).fit(views[np.arange(200)])
    (folder / str(seed)).touch()
    while len(list(folder.iterdir())) < n:
        time.sleep(0.01)
    started = time.time()
    PROTOCOL(k, random_state=seed).fit(views)
    return started, time.time()


def _commands(dataset: str, n: int) -> float:
    """Return the seconds from the start of the first to the end of the last of n fits in own processes."""
    command = [sys.executable, "-m", "benchmarks", "parallel", "--dataset", dataset, "--worker"]
    with tempfile.TemporaryDirectory() as folder:
        commands = [[*command, f"{i}:{n}:{folder}"] for i in range(n)]
        running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for words in commands]
        return _span([json.loads(process.communicate()[0].splitlines()[-1]) for process in running])


def _workers(dataset: str, n: int) -> float:
    """Return the same of n fits in n workers of joblib."""
    with tempfile.TemporaryDirectory() as folder:
        fits = (joblib.delayed(_fit)(dataset, i, n, Path(folder)) for i in range(n))
        return _span(joblib.Parallel(n_jobs=n)(fits))


def _span(times: Sequence[Any]) -> float:
    started, ended = np.array(times).T
    return float(ended.max() - started.min())
