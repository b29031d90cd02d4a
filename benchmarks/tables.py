"""Tables of the records, beside the numbers of the paper."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks import paper
from benchmarks.methods import ABLATION, METHODS, VARIANTS, config_of, get_field
from benchmarks.records import Record
from benchmarks.runs import Unit, is_run, unit_of
from benchmarks.studies import DEFAULT_CHANGES, GRIDS

GROUP = ["dataset", "imbalance_ratio", "method"]
SCORES = {"ACC": "scores.acc", "NMI": "scores.nmi", "PUR": "scores.pur"}
SHORT_SCORES = {"ACC": "scores.acc", "NMI": "scores.nmi", "tail": "scores.tail"}
NOT_RUN, NOT_REPORTED = "-", "n/a"
CPU = "CPU s"  # wall times of runs that share the machine mean nothing
CONVERGED = 0.01  # ACC has converged when it stays this close to its last value


class Table(NamedTuple):
    """A title and a data frame of text."""

    title: str
    cells: pd.DataFrame


class Section(NamedTuple):
    """Tables on one subject, and notes below them."""

    title: str
    tables: list[Table]
    notes: list[str]


class Study(NamedTuple):
    """A section whose tables are means over seeds.

    Attributes:
        title: Title of the section.
        columns: Headers and places in the record; see `summary`.
        study: Name of the study in the records; None for plain runs.
        option: Field of the records with a table for each of its values.
        option_title: Format of the title of such a table.
        note: Text below the tables.
    """

    title: str
    columns: Mapping[str, str]
    study: str | None = None
    option: str | None = None
    option_title: str = ""
    note: str = ""


STUDIES = {
    "recall-by-size": Study(
        "Recall by class size",
        {name: f"scores.{name}" for name in ("head", "medium", "tail")} | {"all": "scores.recall"},
        note="Mean recall of the largest, middle and smallest third of the classes, and of all classes.",
    ),
    "balanced-test": Study(
        "Balanced test",
        {f"train {name}": f"train_scores.{name.lower()}" for name in ("ACC", "NMI")}
        | {f"test {name}": f"scores.{name.lower()}" for name in ("ACC", "NMI", "tail")},
        "balanced-test",
    ),
    "calibration": Study(
        "Calibration",
        {
            "ACC": "scores.acc",
            "mean confidence": "calibration.mean_confidence",
            "ECE": "calibration.ece",
            "AUROC": "calibration.auroc",
        },
        "calibration",
        note="Confidence is the largest probability of a sample. ECE is the expected calibration error over "
        "ten bins; AUROC is the probability that a correct label has more confidence than a wrong one.",
    ),
    "attacks": Study(
        "Attacks",
        {"ACC": "scores.acc", "attacked ACC": "attacked_scores.acc"}
        | {"NMI": "scores.nmi", "attacked NMI": "attacked_scores.nmi"},
        "attack",
        option="eps",
        option_title="eps = {:g}",
    ),
    "missing-views": Study(
        "Missing views",
        SCORES | {"tail": "scores.tail"},
        "missing-views",
        option="missing_rate",
        option_title="{:.0%} of the views missing",
    ),
}


def study_section(records: Sequence[Record], name: str) -> Section:
    """Return the section of a study of `STUDIES`."""
    study = STUDIES[name]
    runs = [
        record for record in latest(records, study.study, study.option) if record["method"] not in VARIANTS
    ]
    return Section(study.title, study_tables(runs, name), [study.note] if study.note else [])


def study_tables(runs: list[Record], name: str) -> list[Table]:
    """Return the tables of a study of `STUDIES`: one, or one for each value of its option."""
    study = STUDIES[name]
    if study.option is None:
        return [Table(study.title, summary(runs, study.columns))] if runs else []
    values = sorted({run[study.option] for run in runs})
    groups = [[run for run in runs if run[study.option] == value] for value in values]
    cells = [summary(group, study.columns) for group in groups]
    return [Table(study.option_title.format(v), frame) for v, frame in zip(values, cells, strict=True)]


def latest(records: Iterable[Record], study: str | None = None, option: str | None = None) -> list[Record]:
    """Return the last record of every unit of a study with the present config of its method, in order.

    Args:
        records: All records.
        study: Name of the study; None for plain runs.
        option: Field of the records whose values are kept apart.
    """
    runs = (r for r in records if is_run(r) and r.get("study") == study and r["method"] in METHODS)
    present = (r for r in runs if r["config"] == config_of(r["method"]))
    return in_order({(unit_of(r), option and r[option]): r for r in present}.values())


def in_order(records: Iterable[Record]) -> list[Record]:
    """Return the records sorted by data set, ratio, method and seed."""
    return sorted(records, key=lambda record: _order(unit_of(record)))


def _order(unit: Unit) -> tuple[Any, ...]:
    """Return a key: data sets of the paper first, then name, ratio (none last), method and seed."""
    ratio = 2.0 if unit.imbalance_ratio is None else unit.imbalance_ratio
    position = METHODS.index(unit.method) if unit.method in METHODS else -1
    return not paper.has(unit.dataset), unit.dataset, ratio, position, unit.seed


def by_group(records: Iterable[Record]) -> dict[tuple[str, str, float | None], list[Record]]:
    """Return the records of each method, data set and ratio."""
    groups: dict[tuple[str, str, float | None], list[Record]] = {}
    for record in records:
        groups.setdefault(unit_of(record)[:3], []).append(record)
    return groups


def summary(records: Sequence[Record], columns: Mapping[str, str]) -> pd.DataFrame:
    """Return a row for each data set, ratio and method: mean and standard deviation over the seeds.

    Args:
        records: The records.
        columns: Headers and places in the record, such as ``{"ACC": "scores.acc"}``.
    """
    groups = pd.json_normalize(list(records)).groupby(GROUP, sort=False, dropna=False)
    cells = groups.agg(**{header: (place, mean_std) for header, place in columns.items()})
    cells["seeds"] = groups.size().astype(str)
    cells = cells.reset_index().rename(columns={"dataset": "data", "imbalance_ratio": "R"})
    return cells.assign(R=[ratio_text(ratio) for ratio in cells["R"]])


def ratio_text(ratio: float | None) -> str:
    """Return an imbalance ratio as text; a dash for a data set as it is."""
    return "-" if pd.isna(ratio) else f"{ratio:g}"


def mean_std(values: Iterable[float], digits: int = 3) -> str:
    """Return the mean, with the standard deviation if there are several values."""
    known = [value for value in values if not pd.isna(value)]
    if not known:
        return NOT_RUN
    deviation = f"±{np.std(known):.{digits}f}" if len(known) > 1 else ""
    return f"{np.mean(known):.{digits}f}{deviation}"


def data_title(dataset: str, ratio: float | None) -> str:
    """Return a data set and its imbalance ratio as a title."""
    return f"{dataset}, as it is" if ratio is None else f"{dataset}, R = {ratio:g}"


def score_table(records: list[Record], title: str) -> Table:
    """Return the scores of plain runs."""
    columns = SCORES | {"recall": "scores.recall", "tail": "scores.tail", CPU: "cpu_seconds"}
    return Table(title, summary(records, columns))


def main(records: Sequence[Record]) -> Section:
    """Return a table of the paper's methods and ours for every data set and ratio."""
    runs = [record for record in latest(records) if record["method"] not in VARIANTS]
    pairs = {(record["dataset"], record["imbalance_ratio"]) for record in runs}
    pairs |= {(dataset, ratio) for dataset, _ in pairs if paper.has(dataset) for ratio in paper.ratios()}
    order = sorted(pairs, key=lambda pair: _order(Unit("", pair[0], pair[1], 0)))
    notes = [
        "Mean ± standard deviation over the seeds, each scored on its training data. The paper gives means "
        "of three seeds. The row PROTOCOL is the preset `paper`; Δ ACC is the difference to the paper's "
        f"number in the same row. {NOT_REPORTED} is not in the paper, {NOT_RUN} was not run or not recorded.",
        *(text for dataset, text in paper.NOTES.items() if dataset in {name for name, _ in pairs}),
    ]
    return Section("Main tables", [_main_table(dataset, ratio, runs) for dataset, ratio in order], notes)


def _main_table(dataset: str, ratio: float | None, runs: list[Record]) -> Table:
    reported = paper.main(dataset, ratio)
    rows = {name: [*_reported(reported[name], 3), *[NOT_RUN] * 6] for name in reported}
    for (method, *data), own in by_group(runs).items():
        if data == [dataset, ratio]:
            name = paper.method_name(method) or method
            rows[name] = [*_reported(reported.get(name), 3), *_measured(own, reported.get(name))]
    header = ["paper ACC", "paper NMI", "paper PUR", *SCORES, "seeds", "Δ ACC", CPU]
    cells = pd.DataFrame.from_dict(rows, orient="index", columns=header)
    return Table(data_title(dataset, ratio), cells.rename_axis("method").reset_index())


def _measured(records: list[Record], reported: Sequence[float] | None) -> list[str]:
    scores = [mean_std(record["scores"][name] for record in records) for name in paper.SCORES]
    acc = np.mean([record["scores"]["acc"] for record in records])
    difference = f"{acc - reported[0]:+.3f}" if reported else NOT_REPORTED
    return [*scores, str(len(records)), difference, cpu_seconds(records)]


def cpu_seconds(records: Iterable[Record]) -> str:
    """Return the mean CPU seconds of the records that have them."""
    return mean_std([record["cpu_seconds"] for record in records if "cpu_seconds" in record], 0)


def _reported(scores: Sequence[float] | None, width: int) -> list[str]:
    return [f"{score:.3f}" for score in scores[:width]] if scores else [NOT_REPORTED] * width


def ablation(records: Sequence[Record]) -> Section:
    """Return the ablation of the paper."""
    runs = [record for record in latest(records) if record["method"] in ABLATION]
    return Section("Ablation", [ablation_table(runs)] if runs else [], [])


def ablation_table(runs: list[Record]) -> Table:
    """Return ACC and NMI of the variants beside the paper's, and the recall of tail classes."""
    cells = summary(runs, SHORT_SCORES)
    reported = [_reported(paper.ablation(*group), 2) for group in by_group(runs)]
    cells.insert(3, "paper ACC", [acc for acc, _ in reported])
    cells.insert(4, "paper NMI", [nmi for _, nmi in reported])
    return Table("Variants", cells.rename(columns={"method": "variant"}))


def method_section(records: Sequence[Record], name: str) -> Section:
    """Return the runs of a method with all its presets, beside the paper's accuracy."""
    runs = [r for r in latest(records) if r["method"] == name or r["method"].startswith(f"{name}-")]
    if not runs:
        return Section(name, [], [])
    seconds = [cpu_seconds(group) for group in by_group(runs).values()]
    cells = summary(runs, SHORT_SCORES).assign(**{CPU: seconds})
    cells.insert(3, "paper ACC", [_reported(paper.scores(*group), 1)[0] for group in by_group(runs)])
    return Section(name, [Table("Measured", cells)], [])


def speed(records: Sequence[Record]) -> Section:
    """Return the CPU seconds of the plain runs."""
    rows = [_speed_row(*item) for item in by_group(latest(records)).items()]
    return Section("Speed", [Table("CPU seconds", pd.DataFrame(rows))] if rows else [], [])


def _speed_row(group: tuple[str, str, float | None], runs: list[Record]) -> dict[str, str]:
    method, dataset, ratio = group
    epochs = [run["n_iter"] for run in runs if "n_iter" in run]
    return {
        "data": dataset,
        "R": ratio_text(ratio),
        "method": method,
        "samples": f"{np.mean([run['n_samples'] for run in runs]):.0f}",
        "threads": ", ".join(map(str, sorted({run["threads"] for run in runs}))),
        "CPU seconds": cpu_seconds(runs),
        "epochs": f"{np.mean(epochs):.0f}" if epochs else NOT_RUN,
    }


def ablate_defaults(records: Sequence[Record]) -> Section:
    """Return single changes of the default preset, one table for every data set and ratio."""
    found: dict[Any, Record] = {}
    for record in records:
        change = record.get("change")
        if change in DEFAULT_CHANGES and record["config"] == config_of("protocol", DEFAULT_CHANGES[change]):
            found[unit_of(record), change] = record
    tables = [change_table(runs) for runs in by_group(found.values()).values()]
    return Section(
        "Ablation of the defaults", tables, ["Δ is the difference to the default in the same seeds."]
    )


def change_table(runs: list[Record]) -> Table:
    """Return scores of single changes of the default, and mean differences to it in the same seeds."""
    default = {run["seed"]: run["scores"] for run in runs if run["change"] == "default"}
    rows = []
    for change in DEFAULT_CHANGES:
        own = [run for run in runs if run["change"] == change]
        row = {"change": change}
        for header, name in (("ACC", "acc"), ("tail", "tail")):
            both = [run for run in own if run["seed"] in default]
            gains = [run["scores"][name] - default[run["seed"]][name] for run in both]
            row[header] = mean_std([run["scores"][name] for run in own])
            row[f"Δ {header}"] = f"{np.mean(gains):+.3f}" if gains else NOT_RUN
        rows += [row | {"seeds": str(len(own))}] if own else []
    return Table(data_title(runs[0]["dataset"], runs[0]["imbalance_ratio"]), pd.DataFrame(rows))


def convergence(records: Sequence[Record]) -> Section:
    """Return the scores at the end of every stage."""
    runs = latest(records, "convergence")
    note = (
        "Scores of the labels if the training ended after the stage. Converged is the first epoch from which "
        f"ACC stays within {CONVERGED} of its last value."
    )
    return Section("Convergence", [convergence_table(runs)] if runs else [], [note])


def convergence_table(runs: Iterable[Record]) -> Table:
    """Return loss and scores at the end of every stage, and the epoch from which ACC has converged."""
    rows = []
    for (method, dataset, ratio), group in by_group(runs).items():
        curves = [run["curve"] for run in group]
        stages = list(dict.fromkeys(epoch["stage"] for curve in curves for epoch in curve))
        epochs = [epoch_numbers(c)[converged_epoch([e["acc"] for e in c]) - 1] for c in curves]
        for number, stage in enumerate(stages, 1):
            # A stage may be left out with some seeds; then the stage before counts.
            ends = [[e for e in curve if e["stage"] in stages[:number]] or curve[:1] for curve in curves]
            row = {"data": dataset, "R": ratio_text(ratio), "method": method, "stage": stage}
            row["until epoch"] = mean_std([epoch_numbers(end)[-1] for end in ends], 0)
            for header, name in (("loss", "loss"), ("ACC", "acc"), ("NMI", "nmi")):
                row[header] = mean_std([end[-1][name] for end in ends])
            row["converged"] = mean_std(epochs, 0) if number == len(stages) else ""
            rows.append(row | {"seeds": str(len(curves))})
    return Table("By stage", pd.DataFrame(rows))


def epoch_numbers(curve: Sequence[Record]) -> list[int]:
    """Return the number of the epoch, from 1, of each point of a curve; older records have all epochs."""
    return [int(point.get("epoch", i)) for i, point in enumerate(curve, 1)]


def converged_epoch(values: Sequence[float]) -> int:
    """Return the number, from 1, of the value from which all values are close to the last one."""
    far = np.flatnonzero(np.abs(np.asarray(values) - values[-1]) > CONVERGED)
    return int(far[-1]) + 2 if len(far) else 1


def silhouette_table(records: Sequence[Record]) -> Table:
    """Return the silhouette of the true classes, from -1 to 1, in the embedding of every method."""
    return Table("Silhouette of the true classes", summary(records, {"silhouette": "silhouette"}))


def sensitivity(records: Sequence[Record]) -> Section:
    """Return the grids of the sensitivity study, for every data set and ratio."""
    runs = [r for r in records if is_run(r) and r.get("study") == "sensitivity"]
    tables = [table for name in GRIDS for table in sensitivity_tables(_on_grid(runs, name), name)]
    return Section("Sensitivity", tables, ["Mean ACC over the seeds."])


def _on_grid(records: Iterable[Record], name: str) -> list[Record]:
    """Return the last record of every cell: the present config except for the fields of the grid."""
    found: dict[Any, Record] = {}
    for record in records:
        cell = {field: get_field(record["config"], field) for field in GRIDS[name]}
        if record["config"] == config_of(record["method"], cell):
            found[unit_of(record), *cell.values()] = record
    return in_order(found.values())


def sensitivity_tables(runs: Iterable[Record], name: str) -> list[Table]:
    """Return the mean ACC over a grid of two fields: the first down, the second across."""
    tables = []
    for (method, dataset, ratio), group in by_group(runs).items():
        cells = accuracy_grid(group, name, mean_std).fillna(NOT_RUN)
        cells = cells.rename(index="{:g}".format, columns="{:g}".format)
        cells = cells.rename_axis(index=" \\ ".join(GRIDS[name]), columns=None).reset_index()
        tables.append(Table(f"{data_title(dataset, ratio)}, {method}", cells))
    return tables


def accuracy_grid(runs: Iterable[Record], name: str, mean: Any = "mean") -> pd.DataFrame:
    """Return the ACC over the seeds of every cell of a grid; the first field is the index."""
    rows = [(*(get_field(r["config"], field) for field in GRIDS[name]), r["scores"]["acc"]) for r in runs]
    frame = pd.DataFrame(rows, columns=["down", "across", "acc"])
    return frame.pivot_table(index="down", columns="across", values="acc", aggfunc=mean)
