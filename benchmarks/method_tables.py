"""The records of one method at a time, and of samples that lack views, as tables."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from benchmarks import paper
from benchmarks.records import Record
from benchmarks.tables import (
    UNKNOWN,
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
from protocol_mvc.estimators.clusterers import ESTIMATORS

SHARED = "Seconds are those of a clock on the wall, and runs may have shared the machine with others."
HIDDEN = "missing "  # begins the name of a study of samples that lack views


def method(records: Sequence[Record], name: str) -> Section:
    """A method with all its presets, beside what the paper reports of it."""
    runs = [r for r in newest(records) if r["method"] == name or r["method"].startswith(f"{name}-")]
    header = ("data", "R", "method", "paper ACC", "ACC", "NMI", "tail", "seconds", "seeds")
    rows = [_method_row(*item) for item in group_records(runs).items()]
    told = [SHARED, *sources(runs)] if rows else []
    return Section(name, [Table("Measured", header, rows)] if rows else [], told)


def _method_row(group: Group, runs: list[Record]) -> Row:
    dataset, ratio, name = group
    theirs = {paper.plain(known): scores for known, scores in paper.main(dataset, ratio).items()}
    said = theirs.get(paper.plain(name))
    means = (format_mean_std([r["scores"][score] for r in runs]) for score in ("acc", "nmi", "tail"))
    seconds = format_mean_std([r["seconds"] for r in runs], 1)
    own = (f"{said[0]:.3f}" if said else UNKNOWN, *means, seconds, str(len(runs)))
    return (dataset, ratio_text(ratio), name, *own)


def gaps(records: Sequence[Record]) -> Section:
    """Scores where a share of the views is hidden."""
    named = {str(r["study"]) for r in records if str(r.get("study", "")).startswith(HIDDEN)}
    shares = sorted(named, key=lambda study: float(study.removeprefix(HIDDEN)))
    runs = {study: newest(records, study) for study in shares}
    tables = [gap_table(study, found) for study, found in runs.items() if found]
    note = "Views are hidden at random; every sample keeps at least one."
    return Section("Missing views", tables, [note, *sources(r for found in runs.values() for r in found)])


def gap_table(study: str, runs: Iterable[Record]) -> Table:
    """One row per data set, ratio and method, for one share."""
    header = ("data", "R", "method", "ACC", "NMI", "PUR", "tail", "seeds")
    shown = [("scores", name) for name in ("acc", "nmi", "pur", "tail")]
    return Table(
        f"{float(study.removeprefix(HIDDEN)):.0%} of the views missing", header, mean_rows(runs, shown)
    )


# The parts of the pages about methods, by the names of their markers.
METHOD_SECTIONS: dict[str, Callable[[Sequence[Record]], Section]] = {
    f"method-{name}": partial(method, name=name) for name in ESTIMATORS
}
