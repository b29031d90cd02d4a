"""Tables of docs/paper.md: the studies of the paper, its numbers beside ours with two presets."""

from collections.abc import Sequence

import pandas as pd

from benchmarks import paper
from benchmarks.records import Record
from benchmarks.runs import unit_of
from benchmarks.tables import (
    Section,
    Table,
    by_group,
    convergence_table,
    in_order,
    latest,
    mean_std,
    sensitivity,
    study_tables,
)

NOT_RUN = "not run"
OURS = {"hdigit": "hdigit", "fashion": "fashion", "caltech5v": "caltech_5v_rc"}  # the paper's set, ours
TITLES = {
    "hdigit": "Hdigit",
    "fashion": "Fashion",
    "caltech5v": "Caltech-5V",
    "nuswide": "NUS-WIDE",
    "cifar10": "Cifar10",
}
OUR_TITLES = {"hdigit": "ours", "fashion": "ours, rebuilt", "caltech5v": "ours, stand-in"}
# Rows of our presets in the main tables, below the methods of the paper.
EXTRA_ROWS = {"protocol": "PROTOCOL, preset default", "protocol-released": "PROTOCOL, preset released"}
VARIANTS = ("Base", "w/ POT", "w/ POT+CLR")
PRESETS = {
    "paper": ("paper-base", "paper-base+pot", "protocol-paper"),
    "default": ("base", "base+pot", "protocol"),
}
FIVE = ("mflvc", "gcfaggmvc", "sem", "csot", "protocol-paper", "protocol")  # methods of the paper's figures


def main_table(records: Sequence[Record], ratio: float) -> Section:
    """Return a main table: ACC / NMI of every method and data set, the paper's and ours."""
    runs = _runs(records)
    rows = []
    for name in paper.numbers()["main"][f"{ratio:g}"]:
        row = {"method": name}
        for dataset, title in TITLES.items():
            acc, nmi, _ = paper.main(dataset, ratio)[name]
            row[f"{title}, paper"] = f"{acc:.3f} / {nmi:.3f}"
            if dataset in OURS:
                row[f"{title}, {OUR_TITLES[dataset]}"] = _scores(runs.get((name, OURS[dataset], ratio)))
        rows.append(row)
    for name in EXTRA_ROWS.values():
        ours = {d: f"{TITLES[d]}, {OUR_TITLES[d]}" for d in OURS}
        rows.append(
            {"method": name} | {c: _scores(runs.get((name, OURS[d], ratio))) for d, c in ours.items()}
        )
    note = "ACC / NMI, mean over the seeds; in brackets the number of seeds if it is not three."
    return Section(f"R = {ratio:g}", [Table("", pd.DataFrame(rows).fillna(""))], [note])


def plain_runs(records: Sequence[Record]) -> list[Record]:
    """Return the plain runs, with those of the quality benchmark, which are no different."""
    units = {unit_of(run): run for study in ("quality", None) for run in latest(records, study)}
    return list(units.values())


def _runs(records: Sequence[Record]) -> dict[tuple[str, str, float | None], list[Record]]:
    """Return the plain runs by name of the row, data set and ratio."""
    found = {}
    for (method, dataset, ratio), group in by_group(plain_runs(records)).items():
        name = EXTRA_ROWS.get(method) or paper.method_name(method)
        if name:
            found[name, dataset, ratio] = group
    return found


def _scores(runs: Sequence[Record] | None) -> str:
    """Return mean ACC / NMI of the runs of several seeds."""
    if not runs:
        return NOT_RUN
    acc, nmi = (mean_std([run["scores"][name] for run in runs]).partition("±")[0] for name in ("acc", "nmi"))
    return f"{acc} / {nmi}" + (f" ({len(runs)})" if len(runs) != 3 else "")


def ablation(records: Sequence[Record]) -> Section:
    """Return the ablation: variants in rows, the paper's and our presets in columns."""
    runs, rows = by_group(plain_runs(records)), []
    for dataset, ours in OURS.items():
        for ratio in paper.ratios()[:2]:
            for i, variant in enumerate(VARIANTS):
                acc, nmi = paper.numbers()["ablation"][variant][dataset][f"{ratio:g}"]
                row = {"data": TITLES[dataset], "R": f"{ratio:g}", "variant": variant}
                row["paper"] = f"{acc:.3f} / {nmi:.3f}"
                for preset, names in PRESETS.items():
                    row[f"ours, preset {preset}"] = _scores(runs.get((names[i], ours, ratio)))
                rows.append(row)
    return Section("Ablation", [Table("", pd.DataFrame(rows))], ["ACC / NMI as in the main tables."])


def stages(records: Sequence[Record]) -> Section:
    """Return what stage 3 adds to stage 2 with the preset `paper`, for every seed that has both."""
    runs = {unit_of(record): record["scores"] for record in latest(records)}
    rows = []
    for unit, end in runs.items():
        base = runs.get(unit._replace(method="paper-base"))
        if unit.method == "protocol-paper" and base:
            row = {"data": unit.dataset, "R": f"{unit.imbalance_ratio:g}", "seed": str(unit.seed)}
            for name in ("acc", "nmi", "tail"):
                row[f"{name.upper()} after stage 2"] = f"{base[name]:.3f}"
                row[f"{name.upper()} after stage 3"] = f"{end[name]:.3f}"
            rows.append(row)
    return Section("Stages", [Table("", pd.DataFrame(rows))] if rows else [], [])


def study(records: Sequence[Record], name: str, study_name: str | None = None) -> Section:
    """Return a study of `tables.STUDIES` for the data sets and methods of the paper's figures."""
    runs = latest(records, study_name) if study_name else plain_runs(records)
    shown = [run for run in in_order(runs) if run["dataset"] in OURS.values() and run["method"] in FIVE]
    return Section(name, study_tables(shown, name), [])


def tsne(records: Sequence[Record]) -> Section:
    """Return the silhouette of the true classes in the embedding of every method."""
    rows = [
        {"data": r["dataset"], "R": f"{r['imbalance_ratio']:g}", "method": r["method"]}
        | {"seed": str(r["seed"]), "silhouette": f"{r['silhouette']:.3f}"}
        for r in latest(records, "tsne")
    ]
    return Section("t-SNE", [Table("", pd.DataFrame(rows))] if rows else [], [])


def convergence(records: Sequence[Record]) -> Section:
    """Return the convergence on the stand-in of Caltech-5V."""
    runs = [r for r in latest(records, "convergence") if r["dataset"] in OURS.values()]
    return Section("Convergence", [convergence_table(runs)] if runs else [], [])


def sensitivity_of(records: Sequence[Record]) -> Section:
    """Return the grids of the sensitivity on the data sets of the paper."""
    return sensitivity([r for r in records if r.get("dataset") in OURS.values()])
