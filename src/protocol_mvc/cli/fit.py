"""The commands `fit`, which clusters data and writes a run, and `demo`, which compares methods."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

from protocol_mvc.cli.anndata_copy import check_anndata_copy, write_anndata_copy
from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.cli.runs import CHECKPOINT, check_folder, lock_run, open_run, write_run
from protocol_mvc.cli.settings import Settings, make_model
from protocol_mvc.cli.sources import Source, read_data
from protocol_mvc.data import Views
from protocol_mvc.data.digits import load_digits_views
from protocol_mvc.data.scaling import describe_scaling
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import PROTOCOL, load_model
from protocol_mvc.evaluation.comparison import compare
from protocol_mvc.evaluation.metrics import all_scores
from protocol_mvc.exceptions import (
    ConstantViewWarning,
    DivergenceWarning,
    UnreliableClusterWarning,
    UnreliableResultError,
)
from protocol_mvc.report import charts
from protocol_mvc.report.facts import collect_facts
from protocol_mvc.report.page import cluster_rows
from protocol_mvc.report.text import findings
from protocol_mvc.utils.device import resolve_device
from protocol_mvc.utils.distributed import is_main_process, is_restarted, process_group
from protocol_mvc.utils.files import set_aside

RESULT_WARNINGS = (UnreliableClusterWarning, DivergenceWarning, ConstantViewWarning)
DEMO_REFERENCES = ("kmeans", "ward", "leiden")
DEMO_SCORES = {"acc": "ACC", "nmi": "NMI", "pur": "PUR", "recall": "recall", "tail": "tail"}


class Fitted(NamedTuple):
    """A model whose run was written."""

    model: MultiViewClusterer
    views: Views
    labels_true: Any
    record: JsonDict


def fit_run(
    console: Console,
    words: list[str],
    source: Source,
    settings: Settings,
    output: Path,
    *,
    like: Path | None,
    write_anndata: Path | None,
    fail_on_warning: bool,
    resume: bool,
    force: bool,
) -> JsonDict:
    """Fit a model, write a run and return its record; `words` is the command line."""
    if is_main_process():
        check_anndata_copy(source, write_anndata, force)
    fitted = fit_and_write(console, words, source, settings, output, like=like, resume=resume, force=force)
    record = fitted.record
    if write_anndata is not None:  # after the run, which is kept if this fails
        write_anndata_copy(source, write_anndata, fitted.model, fitted.views, copy_note(record), force)
    _print_results(console, record, output)
    document = {"run": output, **record}
    if fail_on_warning and record["warnings"]:
        raise UnreliableResultError(record["warnings"], document)
    return document


def fit_and_write(
    console: Console,
    words: list[str],
    source: Source,
    settings: Settings,
    output: Path,
    *,
    like: Path | None = None,
    look: Callable[[Views], None] = lambda views: None,
    resume: bool = False,
    force: bool = False,
) -> Fitted:
    """Fit a model and write a run; all processes but the first one end here.

    `look` is called with the data before the fit; the other arguments are those of `fit_run`.
    """
    model = make_model(settings, verbose=is_main_process() and not console.quiet)
    old = None if like is None else load_model(open_run(like).model)
    if not is_main_process():
        _fit_model(Console(quiet=True), model, read_data(source).views, None, output / CHECKPOINT, old)
        raise typer.Exit
    resume = resume or is_restarted()
    check_folder(output, force, resume)
    checkpoint = output / CHECKPOINT
    restart = set_aside(checkpoint) if force and not resume else nullcontext()
    with lock_run(output), restart, _advice_after_stop(words, checkpoint):
        views, labels_true, read = read_data(source, console.info)
        look(views)
        record: JsonDict = {
            "command": shlex.join(["protocol-mvc", *words]),
            "working_directory": os.getcwd(),
            "started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "data": source.model_copy(update={"preparation": dict(read.preparation)}).model_dump(),
            "notes": read.notes,
            "n_samples": len(views),
            "n_features": dict(zip(views.names, views.n_features, strict=True)),
            "settings": settings.record(),
        }
        record |= _fit_model(console, model, views, labels_true, checkpoint, old)
        record["data"]["sha256"] = model.data_hash_
        write_run(output, model, record)
    return Fitted(model, views, labels_true, record)


def copy_note(record: JsonDict) -> JsonDict:
    """Return what a copy of the data tells about the run."""
    return {
        "command": record["command"],
        "started": record["started"],
        "sha256": record["data"]["sha256"],
    }


@contextmanager
def _advice_after_stop(words: list[str], checkpoint: Path) -> Iterator[None]:
    """Add the command that continues the fit, or starts it again, to an interrupt."""
    try:
        yield
    except KeyboardInterrupt as stop:
        verb, *options = (word for word in words if word != "--resume")
        goal, again = ("continue", ["--resume"]) if checkpoint.exists() else ("start again", [])
        program = (
            ["protocol-mvc"] if Path(sys.argv[0]).stem == "protocol-mvc" else ["python", "-m", "protocol_mvc"]
        )
        stop.args = (f"Stopped. To {goal}: {shlex.join([*program, verb, *again, *options])}",)
        raise


def _fit_model(
    console: Console,
    model: MultiViewClusterer,
    views: Views,
    labels_true: Any,
    checkpoint: Path,
    old: MultiViewClusterer | None,
) -> JsonDict:
    """Fit the model and return its results."""
    started = time.perf_counter()
    with console.show_warnings(RESULT_WARNINGS) as caught, process_group(resolve_device(model.device)):
        model.fit(views, checkpoint_dir=checkpoint, like=old)
    model.verbose = 0  # in refits
    seconds = time.perf_counter() - started
    facts = collect_facts(model, views, proba=model.label_distributions_)
    scores = None if labels_true is None else all_scores(labels_true, model.labels_)
    names = ((), ()) if old is None else (old.cluster_names_, model.cluster_names_)
    changes = [] if model.changes_ is None else model.changes_.sentences(*names)
    count = model.cluster_count_
    return {
        "n_clusters": None if count is None else count.to_dict(),
        "seconds": round(seconds, 2),
        "clusters": cluster_rows(facts),
        "view_weights": dict(zip(views.names, model.view_weights_, strict=True)),
        "preparation": [describe_scaling(*pair) for pair in zip(model.scalers_, views.names, strict=True)],
        "findings": [str(finding) for finding in findings(facts)],
        "changes": changes,
        "scores": scores and {name: round(value, 4) for name, value in scores.items()},
        "warnings": [str(found.message) for found in caught if issubclass(found.category, RESULT_WARNINGS)],
        "environment": model.environment_,
    }


def _print_results(console: Console, record: JsonDict, run: Path) -> None:
    if record["n_clusters"]:
        console.print(record["n_clusters"]["message"])
    console.print(results_table(record), *record["findings"], *record["changes"])
    for sentence in record["preparation"]:
        console.info(sentence)
    if record["scores"]:
        console.print(", ".join(f"{name} {value:.3f}" for name, value in record["scores"].items()))
    console.info(f"Run: {run}. Report: {shlex.join(['protocol-mvc', 'report', str(run)])}")


def results_table(record: JsonDict, **further: Sequence[str]) -> Any:
    """Return a table of the clusters of a run, with further columns by name."""
    rows = [
        (c["cluster"], c["size"], f"{c['share']:.1%}", f"{c['confidence']:.2f}" if c["size"] else "-", *cells)
        for c, *cells in zip(record["clusters"], *further.values(), strict=True)
    ]
    return table(f"{len(rows)} clusters", ("cluster", "size", "share", "confidence", *further), rows)


def run_demo(console: Console, imbalance_ratio: float, seed: int, figure: Path) -> JsonDict:
    """Cluster the digits with PROTOCOL and references, print the scores and draw a figure."""
    if not figure.absolute().parent.is_dir():
        raise typer.BadParameter(f"{figure}: folder {figure.absolute().parent} does not exist")
    views, labels_true = load_digits_views(imbalance_ratio=imbalance_ratio, random_state=seed)
    class_sizes = np.bincount(labels_true)
    k = len(class_sizes)
    console.info(f"{len(views)} digits, {views.n_views} views, class sizes {class_sizes.tolist()}")
    model = PROTOCOL(k, random_state=seed, verbose=int(not console.quiet))
    references = compare(views, k, DEMO_REFERENCES, random_state=seed)
    started = time.perf_counter()
    found = references.labels | {"PROTOCOL": model.fit_predict(views)}
    seconds = references.seconds | {"PROTOCOL": time.perf_counter() - started}
    runs, rows = [], []
    for name, labels in found.items():
        scores = all_scores(labels_true, labels)
        runs.append({"method": name, "seconds": seconds[name], "scores": scores})
        rows.append((name, *(f"{scores[score]:.3f}" for score in DEMO_SCORES), f"{seconds[name]:.1f}"))
    sizes = {
        "estimated": np.rint(model.class_prior_ * class_sizes.sum()).astype(int),
        "labels": model.cluster_sizes_,
        "true": class_sizes,
    }
    size_rows = ((name, *np.sort(values)[::-1]) for name, values in sizes.items())
    console.print(
        table("Imbalanced digits", ("method", *DEMO_SCORES.values(), "seconds"), rows),
        table("Class sizes, largest first", ("class", *map(str, range(1, k + 1))), size_rows),
    )
    if charts.can_draw():
        charts.draw_fit(model, labels_true, figure)
        console.info(f"Figure: {figure}")
    else:
        console.info("No figure: it needs matplotlib; pip install 'protocol-mvc[viz]'.")
    return {"runs": runs, "class_sizes": class_sizes, "cluster_sizes": model.cluster_sizes_}
