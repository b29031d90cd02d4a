"""The records as tables, beside the numbers of the paper."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks import paper
from benchmarks.methods import ABLATION, CONFIGS, METHODS
from benchmarks.records import Record
from benchmarks.runs import Unit, is_current, is_run, key

Row = tuple[str, ...]
Group = tuple[str, float | None, str]  # data set, ratio, method
COLUMNS = {"acc": "ACC", "nmi": "NMI", "pur": "PUR", "recall": "recall", "tail": "tail"}
NONE = "-"  # we have no run
UNKNOWN = "n/a"  # the paper tells nothing


class Table(NamedTuple):
    """Cells of text under a header."""

    title: str
    header: Row
    rows: list[Row]


class Section(NamedTuple):
    """Tables on one subject, and what a reader must know about them."""

    title: str
    tables: list[Table]
    notes: list[str]


def group_records(records: Iterable[Record]) -> dict[Group, list[Record]]:
    """The records of each data set, ratio and method, in the order they come."""
    groups: dict[Group, list[Record]] = defaultdict(list)
    for record in records:
        groups[record["dataset"], record["ratio"], record["method"]].append(record)
    return dict(groups)


def format_mean_std(values: Sequence[float], digits: int = 3) -> str:
    """The mean, with the standard deviation where there are several values."""
    deviation = f"±{np.std(values):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{deviation}"


def ratio_text(ratio: float | None) -> str:
    """An imbalance ratio as tables show it; a dash for data as they are."""
    return "-" if ratio is None else f"{ratio:g}"


def score_table(records: Iterable[Record], title: str) -> Table:
    """One row per data set, ratio and method: mean ± standard deviation over the seeds."""
    rows = []
    for (dataset, ratio, method), group in group_records(records).items():
        cells = [format_mean_std([r["scores"][name] for r in group]) for name in COLUMNS]
        seconds = np.mean([r["seconds"] for r in group])
        rows.append((dataset, ratio_text(ratio), method, str(len(group)), *cells, f"{seconds:.1f}"))
    return Table(title, ("data", "R", "method", "seeds", *COLUMNS.values(), "seconds"), rows)


def newest(records: Iterable[Record], study: str | None = None) -> list[Record]:
    """The last record of every unit of a study that has today's config, in the order of `place`."""
    latest: dict[Unit, Record] = {}
    for record in records:
        if is_run(record) and record.get("study") == study and is_current(record):
            latest[key(record)] = record
    return sorted(latest.values(), key=lambda record: (*place(record), record["seed"]))


def place(record: Record) -> tuple[bool, str, float, int]:
    """Where a record stands: the paper's data sets first, then by name, ratio and method."""
    methods = list(METHODS)
    rank = methods.index(record["method"]) if record["method"] in methods else len(methods)
    ratio = 2.0 if record["ratio"] is None else record["ratio"]  # data as they are come last
    return not paper.has(record["dataset"]), record["dataset"], ratio, rank


def main(records: Sequence[Record]) -> Section:
    """Per data set and ratio: the paper's methods and ours."""
    runs = [record for record in newest(records) if record["method"] not in ABLATION]
    pairs = [(dataset, ratio) for dataset, ratio, _ in group_records(runs)]
    known = list(dict.fromkeys(dataset for dataset, _ in pairs if paper.has(dataset)))
    wanted = {(dataset, ratio) for dataset in known for ratio in paper.ratios()} | set(pairs)
    order = sorted(wanted, key=lambda pair: place({"dataset": pair[0], "ratio": pair[1], "method": ""}))
    tables = [_main_table(dataset, ratio, runs) for dataset, ratio in order]
    return Section("Main tables", tables, _main_notes(records, runs))


def _main_table(dataset: str, ratio: float | None, runs: list[Record]) -> Table:
    theirs = paper.main(dataset, ratio)
    chosen = [record for record in runs if (record["dataset"], record["ratio"]) == (dataset, ratio)]
    ours = {method: group for (_, _, method), group in group_records(chosen).items()}
    by_plain = {paper.plain(method): method for method in ours}
    names = {name: by_plain.get(paper.plain(name)) for name in theirs}  # the paper's name -> ours
    beside = [name for name in ours if name not in names.values()]
    goal = theirs.get(paper.PROTOCOL)
    rows = [
        (name, *_theirs(theirs[name], 3), *_ours(ours.get(own or ""), goal)) for name, own in names.items()
    ]
    rows += [(name, *_theirs(None, 3), *_ours(ours[name], goal)) for name in beside]
    header = (
        "method",
        "paper ACC",
        "paper NMI",
        "paper PUR",
        "ACC",
        "NMI",
        "PUR",
        "seeds",
        "Δ ACC",
        "seconds",
    )
    return Table(title(dataset, ratio), header, rows)


def _ours(group: list[Record] | None, goal: list[float] | None) -> Row:
    if group is None:
        return (NONE,) * 6
    means = tuple(format_mean_std([r["scores"][name] for r in group]) for name in paper.SCORES)
    ahead = np.mean([r["scores"]["acc"] for r in group]) - (goal[0] if goal else np.nan)
    seconds = np.mean([r["seconds"] for r in group])
    return (*means, str(len(group)), f"{ahead:+.3f}" if goal else UNKNOWN, f"{seconds:.1f}")


def _theirs(scores: list[float] | None, width: int) -> Row:
    return tuple(f"{score:.3f}" for score in scores) if scores else (UNKNOWN,) * width


def title(dataset: str, ratio: float | None) -> str:
    """The data of a table in words."""
    return f"{dataset}, as it is" if ratio is None else f"{dataset}, R = {ratio:g}"


def _main_notes(records: Iterable[Record], runs: list[Record]) -> list[str]:
    sets = {record["dataset"] for record in runs}
    guides = [text for dataset, text in paper.GUIDE.items() if dataset in sets]
    legend = (
        "Ours: mean ± standard deviation over the seeds, each scored on the data it was fitted to. The paper "
        "gives means of three seeds. Δ ACC is ours less that of the paper's PROTOCOL; n/a marks what the "
        "paper does not have, - what was not run. Rows with other numbers of seeds are means over other data."
    )
    return [legend, *guides, *left_out(records), *sources(runs)]


def left_out(records: Iterable[Record]) -> list[str]:
    """One line on runs of configs that are not today's, if there are any."""
    plain = [r for r in records if is_run(r) and r.get("study") is None and r["method"] in CONFIGS]
    count = sum(not is_current(record) for record in plain)
    return [f"Left out: {count} recorded runs with a config that is not today's."] if count else []


def sources(runs: Iterable[Record]) -> list[str]:
    """One line on the commits that made the runs."""
    commits = dict.fromkeys(record["commit"] for record in runs)
    return [f"Commits of the runs: {', '.join(sorted(commits))}."] if commits else []


def ablation(records: Sequence[Record]) -> Section:
    """The paper's three variants and ours, per data set and ratio."""
    runs = [record for record in newest(records) if record["method"] in ABLATION]
    return Section("Ablation", [ablation_table(runs)] if runs else [], sources(runs))


def ablation_table(runs: Iterable[Record]) -> Table:
    """ACC and NMI beside the paper's, and the recall of the rarest third of the classes."""
    header = ("data", "R", "variant", "paper ACC", "paper NMI", "ACC", "NMI", "tail", "seeds")
    rows = []
    for (dataset, ratio, method), group in group_records(runs).items():
        means = (format_mean_std([r["scores"][name] for r in group]) for name in ("acc", "nmi", "tail"))
        theirs = _theirs(paper.ablation(method, dataset, ratio), 2)
        rows.append((dataset, ratio_text(ratio), method, *theirs, *means, str(len(group))))
    return Table("Variants", header, rows)


def tails(records: Sequence[Record]) -> Section:
    """Recall of head, medium and tail classes."""
    runs = [record for record in newest(records) if record["method"] not in ABLATION]
    note = "Mean recall of the largest, middle and smallest third of the classes, and of all classes."
    return Section(
        "Head, medium and tail classes", [tail_table(runs)] if runs else [], [note, *sources(runs)]
    )


def tail_table(runs: Iterable[Record]) -> Table:
    """Mean recalls by the size of classes."""
    header = ("data", "R", "method", "head", "medium", "tail", "all", "seeds")
    shown = [("scores", name) for name in ("head", "medium", "tail", "recall")]
    return Table("Recall by the size of classes", header, mean_rows(runs, shown))


def mean_rows(runs: Iterable[Record], shown: Sequence[tuple[str, str]]) -> list[Row]:
    """One row per data set, ratio and method: the means of the values of those parts and names, and seeds."""
    rows = []
    for (dataset, ratio, method), found in group_records(runs).items():
        means = (format_mean_std([r[part][name] for r in found]) for part, name in shown)
        rows.append((dataset, ratio_text(ratio), method, *means, str(len(found))))
    return rows


def speed(records: Sequence[Record]) -> Section:
    """Seconds of whole runs and of their stages, on each machine."""
    runs = newest(records)
    header = ("data", "R", "method", "samples", "seconds", "epochs", "seconds by stage", "machine")
    rows = [_speed_row(*item) for item in group_records(runs).items()]
    return Section("Speed", [Table("Seconds", header, rows)] if rows else [], sources(runs))


def _speed_row(group: Group, runs: list[Record]) -> Row:
    dataset, ratio, method = group
    timed = [r for r in runs if "stages" in r]  # older records have the total alone
    stages = list(dict.fromkeys(stage for r in timed for stage in r["stages"]))
    means = [f"{stage} {np.mean([r['stages'].get(stage, 0.0) for r in timed]):.1f}" for stage in stages]
    return (
        *(dataset, ratio_text(ratio), method, f"{np.mean([r['samples'] for r in runs]):.0f}"),
        format_mean_std([r["seconds"] for r in runs], 1),
        f"{np.mean([r['n_iter'] for r in timed]):.0f}" if timed else NONE,
        ", ".join(means) or NONE,
        "; ".join(sorted({r["machine"] for r in runs})),
    )
