"""The records of the studies as tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from benchmarks import tables
from benchmarks.method_tables import gaps
from benchmarks.methods import config_of
from benchmarks.records import Record
from benchmarks.runs import Unit, config_in, is_run, key
from benchmarks.studies import CHOICES, GRIDS
from benchmarks.tables import (
    NONE,
    Group,
    Row,
    Section,
    Table,
    format_mean_std,
    group_records,
    mean_rows,
    newest,
    ratio_text,
    sources,
)

SETTLED = 0.01  # a curve has settled when it stays this near to its end


def attacks(records: Sequence[Record]) -> Section:
    """Scores before and after attacks of every size."""
    studies = sorted({str(r["study"]) for r in records if str(r.get("study")).startswith("attack ")})
    runs = [found for study in studies if (found := newest(records, study))]
    note = "The views of a sample are perturbed until their features have little in common."
    every = [record for found in runs for record in found]
    return Section("Under attack", [attack_table(found) for found in runs], [note, *sources(every)])


def attack_table(runs: Sequence[Record]) -> Table:
    """One row per data set, ratio and method, for attacks of one size."""
    header = ("data", "R", "method", "ACC", "attacked ACC", "NMI", "attacked NMI", "seeds")
    shown = [(part, name) for name in ("acc", "nmi") for part in ("scores", "attacked_scores")]
    return Table(f"Attacks of size {runs[0]['epsilon']:g}", header, mean_rows(runs, shown))


def balanced(records: Sequence[Record]) -> Section:
    """Scores on the imbalanced training data and on the balanced test part."""
    runs = newest(records, "balanced")
    note = "Fitted to an imbalanced set; the test part has unseen samples, equally many of each class."
    return Section("Balanced test", [balanced_table(runs)] if runs else [], [note, *sources(runs)])


def balanced_table(runs: Iterable[Record]) -> Table:
    """One row per data set, ratio and method."""
    header = ("data", "R", "method", "train ACC", "train NMI", "test ACC", "test NMI", "test tail", "seeds")
    train, test = (
        (("train_scores", n) for n in ("acc", "nmi")),
        (("scores", n) for n in ("acc", "nmi", "tail")),
    )
    return Table("Train and test", header, mean_rows(runs, [*train, *test]))


def calibration(records: Sequence[Record]) -> Section:
    """Mean confidence beside accuracy."""
    runs = newest(records, "calibration")
    note = (
        "Confidence is the largest probability of a sample. Error is the mean distance of confidence and "
        "accuracy over ten bins; ranking the chance that a right label has more confidence than a wrong one."
    )
    return Section("Calibration", [calibration_table(runs)] if runs else [], [note, *sources(runs)])


def calibration_table(runs: Iterable[Record]) -> Table:
    """One row per data set, ratio and method."""
    header = ("data", "R", "method", "ACC", "confidence", "error", "ranking", "seeds")
    shown = [("scores", "acc"), *(("calibration", name) for name in ("confidence", "error", "ranking"))]
    return Table("Confidence", header, mean_rows(runs, shown))


def choices(records: Sequence[Record]) -> Section:
    """The default preset with one of its choices undone at a time."""
    every = [run for name in CHOICES for run in _of_choice(records, name)]
    found = [choices_table(runs) for runs in group_records(every).values()]
    note = "Mean over the seeds; the difference is that to the default preset in the same seeds."
    return Section("One choice undone", found, [note, *sources(every)])


def _of_choice(records: Iterable[Record], name: str) -> list[Record]:
    """The last record of every unit whose config is today's but for the choice."""
    latest: dict[Unit, Record] = {}
    for record in records:
        chosen = is_run(record) and record.get("study") == "choices"
        if chosen and config_in(record) == config_of(record["method"], CHOICES[name]):
            latest[key(record)] = {**record, "choice": name}
    return list(latest.values())


def choices_table(runs: Sequence[Record]) -> Table:
    """One row per choice, of runs on one data set."""
    base = {run["seed"]: run["scores"] for run in runs if run["choice"] == "default"}
    header = ("change", "ACC", "difference", "tail", "difference", "seeds")
    rows: list[Row] = []
    for name in CHOICES:
        own = [run for run in runs if run["choice"] == name]
        if own:
            rows.append((name, *_beside(own, base, "acc"), *_beside(own, base, "tail"), str(len(own))))
    return Table(tables.title(runs[0]["dataset"], runs[0]["ratio"]), header, rows)


def _beside(runs: Sequence[Record], base: Mapping[int, Mapping[str, float]], name: str) -> Row:
    """Mean score, and mean difference to the default over the seeds that both have."""
    gains = [run["scores"][name] - base[run["seed"]][name] for run in runs if run["seed"] in base]
    return format_mean_std([run["scores"][name] for run in runs]), f"{np.mean(gains):+.3f}" if gains else NONE


def convergence(records: Sequence[Record]) -> Section:
    """What every stage reaches, and when the accuracy settles."""
    runs = newest(records, "convergence")
    note = (
        "Scores of the labels that training would give if it stopped after the stage. Settled is the first "
        f"epoch from which ACC stays within {SETTLED} of its last value."
    )
    return Section("Convergence", [convergence_table(runs)] if runs else [], [note, *sources(runs)])


def convergence_table(runs: Iterable[Record]) -> Table:
    """One row per data set, ratio, method and stage."""
    header = ("data", "R", "method", "stage", "until epoch", "loss", "ACC", "NMI", "settled", "seeds")
    rows = [row for item in group_records(runs).items() for row in _convergence_rows(*item)]
    return Table("By stage", header, rows)


def _convergence_rows(group: Group, runs: list[Record]) -> Iterable[Row]:
    dataset, ratio, method = group
    stages = list(dict.fromkeys(epoch["stage"] for run in runs for epoch in run["curve"]))
    for number, stage in enumerate(stages):
        ends = [_until(run["curve"], stages[: number + 1]) for run in runs]
        means = (format_mean_std([end[-1][name] for end in ends]) for name in ("loss", "acc", "nmi"))
        last = stage == stages[-1]
        when = format_mean_std([settled([e["acc"] for e in r["curve"]]) for r in runs], 0) if last else ""
        until = format_mean_std([len(end) for end in ends], 0)
        yield (dataset, ratio_text(ratio), method, stage, until, *means, when, str(len(runs)))


def _until(curve: list[Record], stages: Sequence[str]) -> list[Record]:
    """The epochs until the end of these stages, the last of which may have been left out."""
    return [epoch for epoch in curve if epoch["stage"] in stages] or curve[:1]


def settled(values: Sequence[float]) -> int:
    """The first epoch, counted from 1, from which the values stay near to the last one."""
    far = np.flatnonzero(np.abs(np.asarray(values) - values[-1]) > SETTLED)
    return int(far[-1]) + 2 if len(far) else 1


def separation_table(record: Record) -> Table:
    """How far apart the true classes are in every map of a record, from -1 to 1."""
    rows: list[Row] = [(name, f"{value:.3f}") for name, value in record["separation"].items()]
    data = tables.title(record["dataset"], record["ratio"])
    return Table(f"Separation of the true classes, {data}", ("stage", "separation"), rows)


def sensitivity(records: Sequence[Record]) -> Section:
    """A grid of accuracies for every pair of fields, data set and ratio."""
    chosen = {name: _on_grid(records, name) for name in GRIDS}
    found = [table for name, runs in chosen.items() for table in sensitivity_tables(runs, name)]
    runs = [run for each in chosen.values() for run in each]
    return Section("Sensitivity", found, ["Mean ACC over the seeds.", *sources(runs)])


def _on_grid(records: Iterable[Record], name: str) -> list[Record]:
    """The last record of every cell: today's config but for the fields of the grid."""
    latest: dict[tuple[Unit, Row], Record] = {}
    for record in records:
        if is_run(record) and record.get("study") == "sensitivity" and _differs_by(record, name):
            latest[key(record), _cell(record, name)] = record
    return list(latest.values())


def _differs_by(record: Record, name: str) -> bool:
    changed = {field: record["config"].get(field) for field in GRIDS[name]}
    return config_in(record) == config_of(record["method"]) | changed


def _cell(record: Record, name: str) -> Row:
    return tuple(f"{record['config'][field]:g}" for field in GRIDS[name])


def sensitivity_tables(runs: Iterable[Record], name: str) -> Iterable[Table]:
    """For every data set, ratio and method: the first field down, the second across."""
    down, across = GRIDS[name]
    for (dataset, ratio, method), group in group_records(runs).items():
        values = accuracies(group, name)
        left, top = ({cell[i]: None for cell in values} for i in (0, 1))
        header = (f"{down} \\ {across}", *sorted(top, key=float))
        rows = [
            (i, *(format_mean_std(values[i, j]) if (i, j) in values else NONE for j in header[1:]))
            for i in sorted(left, key=float)
        ]
        yield Table(f"{tables.title(dataset, ratio)}, {method}", header, rows)


def accuracies(runs: Iterable[Record], name: str) -> dict[tuple[str, str], list[float]]:
    """The accuracies of the seeds in every cell of a grid."""
    values: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        down, across = _cell(run, name)
        values.setdefault((down, across), []).append(run["scores"]["acc"])
    return values


# Every section of a report by its name.
SECTIONS: dict[str, Callable[[list[Record]], Section]] = {
    "main": tables.main,
    "ablation": tables.ablation,
    "tails": tables.tails,
    "balanced": balanced,
    "convergence": convergence,
    "sensitivity": sensitivity,
    "choices": choices,
    "calibration": calibration,
    "attacks": attacks,
    "gaps": gaps,
    "speed": tables.speed,
}
