"""Quality on all data sets: PROTOCOL beside the references that users would pick."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.datasets import DATASETS, QUALITY_RATIO, list_datasets
from benchmarks.methods import FIVE
from benchmarks.records import Record
from benchmarks.runs import Unit
from benchmarks.tables import NOT_RUN, Section, Table, latest, ratio_text

HALVES = ("development", "confirmation")
METHODS = [*FIVE, "protocol"]
SEEDS = (0, 1, 2)  # of reported results; others are for development
CPU_LIMITS = ((10, 8), (3, 10), (3, 4))  # CPU time that a fit may take: 10 s + 8 x Leiden, ...
DIFFERENCES = ("Δ ACC Leiden", "Δ ACC best", "Δ tail best")
NOTE = (
    "ACC and tail are means over the seeds. Best is the reference (K-means, diagonal GMM, Ward, spectral, "
    "Leiden) with the highest mean ACC, chosen with the true labels of each data set. σ is the standard "
    "deviation of ACC over the seeds, ECE the calibration error of the confidence, CPU the processor seconds "
    "of a fit. The last rows leave out digits, which come with scikit-learn."
)


def dataset_names(text: str) -> list[str]:
    """Return the data sets of a half ("development", "confirmation"), of both ("all"), or those named."""
    if text in HALVES:
        return [name for name in list_datasets() if DATASETS[name].half == text]
    if text == "all":
        return [name for half in HALVES for name in dataset_names(half) if DATASETS[name].has_file]
    return [name.strip() for name in text.split(",")]


def quality_units(methods: Sequence[str], datasets: Sequence[str], seeds: Sequence[int]) -> list[Unit]:
    """Return the runs; balanced data sets are made imbalanced, the others are taken as they are."""
    ratios = {name: QUALITY_RATIO if DATASETS[name].balanced else None for name in datasets}
    return [Unit(m, name, ratios[name], seed) for seed in seeds for name in datasets for m in methods]


def quality(records: Sequence[Record]) -> Section:
    """Return the table of all data sets, with means, worst values and the number of quick fits below."""
    runs = [record for record in latest(records, "quality") if record["seed"] in SEEDS]
    found = {run["dataset"] for run in runs}
    names = sorted(found, key=lambda name: (*(DATASETS[name].half != half for half in HALVES), name))
    if not names:
        return Section("Quality", [], [])
    values = pd.DataFrame([_row([run for run in runs if run["dataset"] == name]) for name in names])
    shown = [_cells(row) for row in values.to_dict("records")]
    counted = values[[DATASETS[name].has_file for name in names]]
    cells = pd.DataFrame([*shown, *(_last_rows(counted) if len(counted) else [])]).fillna("")
    return Section("Quality", [Table("Quality", cells)], [NOTE])


def _row(runs: list[Record]) -> dict[str, Any]:
    """Return the numbers of a data set; NaN where a method was not run."""
    name, ratio = runs[0]["dataset"], runs[0]["imbalance_ratio"]
    by_method = {m: [run for run in runs if run["method"] == m] for m in METHODS}
    acc, tail, cpu = (
        {m: _mean(run.get(group, run)[field] for run in own) for m, own in by_method.items()}
        for group, field in (("scores", "acc"), ("scores", "tail"), ("", "cpu_seconds"))
    )
    known = [m for m in FIVE if not np.isnan(acc[m])]
    best = max(known, key=lambda m: acc[m]) if known else FIVE[0]
    ours = by_method["protocol"]
    return {
        "data": name,
        "half": DATASETS[name].half,
        "R": ratio_text(ratio),
        "best": best if known else "",
        "acc": acc["protocol"],
        "tail": tail["protocol"],
        "leiden acc": acc["leiden"],
        "leiden tail": tail["leiden"],
        "best acc": acc[best],
        "best tail": tail[best],
        "Δ ACC Leiden": acc["protocol"] - acc["leiden"],
        "Δ ACC best": acc["protocol"] - acc[best],
        "Δ tail best": tail["protocol"] - tail[best],
        "σ": float(np.std([run["scores"]["acc"] for run in ours])) if ours else np.nan,
        "ECE": _mean(run["calibration"]["ece"] for run in ours),
        "CPU": cpu["protocol"],
        "CPU Leiden": cpu["leiden"],
    }


def _cells(row: Mapping[Any, Any]) -> dict[str, str]:
    """Return the text of a row of numbers."""
    best = f"{row['best']} {_pair(row['best acc'], row['best tail'])}".strip()
    return {
        **{name: row[name] for name in ("data", "half", "R")},
        "ACC / tail": _pair(row["acc"], row["tail"]),
        "Leiden": _pair(row["leiden acc"], row["leiden tail"]),
        "best": best,
        **{name: _number(row[name], "+.3f") for name in DIFFERENCES},
        **{name: _number(row[name], ".3f") for name in ("σ", "ECE")},
        **{name: _number(row[name], ".1f") for name in ("CPU", "CPU Leiden")},
    }


def _last_rows(values: pd.DataFrame) -> list[dict[str, str]]:
    """Return the means over the data sets, the worst values, and on how many data sets a fit is quick."""
    numbers: dict[Any, Any] = values.select_dtypes("number").mean().to_dict()
    mean = _cells(numbers | {"data": "mean", "half": "", "R": "", "best": ""})
    worst = {name: _number(values[name].min(), "+.3f") for name in DIFFERENCES}
    worst |= {name: _number(values[name].max(), ".3f") for name in ("σ", "ECE")}
    both = values[["CPU", "CPU Leiden"]].dropna()
    rows = [mean, {"data": "worst", **worst}]
    for seconds, times in CPU_LIMITS:
        quick = int((both["CPU"] <= seconds + times * both["CPU Leiden"]).sum())
        limit = f"CPU at most {seconds} s + {times} x Leiden"
        rows.append({"data": limit, "CPU": f"{quick} of {len(both)}"})
    return rows


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return float(np.mean(known)) if known else np.nan


def _pair(acc: float, tail: float) -> str:
    return NOT_RUN if np.isnan(acc) else f"{acc:.3f} / {tail:.3f}"


def _number(value: float, form: str) -> str:
    return NOT_RUN if np.isnan(value) else f"{value:{form}}"
