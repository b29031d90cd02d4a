"""The command `fit`: cluster the data and write a run."""

import os
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from protocol_mvc import io
from protocol_mvc.cli.data import Source, read_data
from protocol_mvc.cli.info import id_column_notes
from protocol_mvc.cli.options import check_output
from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.cli.run_folder import CHECKPOINT, check_folder, write_run
from protocol_mvc.cli.settings import Settings, make_model
from protocol_mvc.data import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.evaluation.metrics import all_scores
from protocol_mvc.exceptions import (
    ConstantViewWarning,
    DivergenceWarning,
    UnreliableClusterWarning,
    UnreliableResultError,
)
from protocol_mvc.io.lock import lock_folder
from protocol_mvc.io.write import ANNOTATED
from protocol_mvc.report.facts import Facts, collect_facts
from protocol_mvc.report.text import findings
from protocol_mvc.utils.device import resolve_device
from protocol_mvc.utils.distributed import is_main_process, is_restarted, process_group

RESULT_WARNINGS = (UnreliableClusterWarning, DivergenceWarning, ConstantViewWarning)


def fit_run(
    console: Console,
    words: list[str],
    source: Source,
    settings: Settings,
    output: Path,
    *,
    write_anndata: Path | None,
    fail_on_warning: bool,
    resume: bool,
    force: bool,
) -> JsonDict:
    """Fit a model and write a run, as `protocol-mvc fit` describes.

    Args:
        console: receives results and messages.
        words: the command line, for the record.
        source: the data.
        settings: method and parameters.
        output: folder of the run.
        write_anndata: copy of the annotated input file to write, or None.
        fail_on_warning: raise UnreliableResultError if the fit had warnings.
        resume: continue an interrupted fit.
        force: overwrite an existing run.

    Returns:
        The record of the run.
    """
    if not is_main_process():
        _fit(Console(quiet=True), make_model(settings), read_data(source).views, output / CHECKPOINT)
        raise typer.Exit
    model = make_model(settings, verbose=not console.quiet)
    check_folder(output, force, resume or is_restarted())
    if write_anndata is not None:
        _check_anndata_copy(source, write_anndata, force)
    with lock_folder(output), _resume_hint(words):
        if force and not (resume or is_restarted()):
            shutil.rmtree(output / CHECKPOINT, ignore_errors=True)
        views, labels_true, _ = read_data(source)
        console.info(f"Fitting {views!r}")
        for note in id_column_notes(views):
            console.info(f"warning: {note}")
        seconds, messages = _fit(console, model, views, output / CHECKPOINT)
        facts = collect_facts(model, views, proba=model.label_distributions_)
        record = {
            **_inputs(words, source, settings, views, model.data_hash_),
            "seconds": round(seconds, 2),
            **_results(model, facts, labels_true),
            "warnings": messages,
            "environment": model.environment_,
        }
        write_run(output, model, model.label_distributions_, record)
    if write_anndata is not None:  # after the run, which is kept if this fails
        _write_anndata(source, write_anndata, model, views, record, force)
    _print_results(console, record)
    console.info(f"Run: {output}. Report: {shlex.join(['protocol-mvc', 'report', str(output)])}")
    document = {"run": output, **record}
    if fail_on_warning and messages:
        raise UnreliableResultError(messages, document)
    return document


@contextmanager
def _resume_hint(words: list[str]) -> Iterator[None]:
    """Put the command that continues the fit into the message of an interruption."""
    try:
        yield
    except KeyboardInterrupt as stop:
        again = [word for word in words if word not in ("--force", "--resume")]
        stop.args = (f"Stopped. To continue: {shlex.join(['protocol-mvc', *again, '--resume'])}",)
        raise


def _fit(
    console: Console, model: MultiViewClusterer, views: Views, checkpoint: Path
) -> tuple[float, list[str]]:
    """Fit the model; return the seconds it took and the warnings about its result."""
    started = time.perf_counter()
    with console.show_warnings(RESULT_WARNINGS) as caught, process_group(resolve_device(model.device)):
        model.fit(views, checkpoint_dir=checkpoint)
    messages = [str(warning.message) for warning in caught if issubclass(warning.category, RESULT_WARNINGS)]
    return time.perf_counter() - started, messages


def _inputs(words: list[str], source: Source, settings: Settings, views: Views, sha256: str) -> JsonDict:
    return {
        "command": shlex.join(["protocol-mvc", *words]),
        "working_directory": os.getcwd(),
        "finished": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "data": {**source.model_dump(), "sha256": sha256},
        "n_samples": len(views),
        "n_features": dict(zip(views.names, views.n_features, strict=True)),
        "settings": settings.record(),
    }


def _results(model: MultiViewClusterer, facts: Facts, labels_true: Any) -> JsonDict:
    rows = zip(facts.cluster_sizes, facts.mean_confidence, facts.class_prior, strict=True)
    scores = None if labels_true is None else all_scores(labels_true, model.labels_)
    n = facts.n_samples
    return {
        "clusters": [
            {"cluster": i, "size": size, "share": size / n, "confidence": confidence, "prior": prior}
            for i, (size, confidence, prior) in enumerate(rows)
        ],
        "view_weights": dict(zip(facts.views.names, facts.view_weights, strict=True)),
        "findings": [finding.text for finding in findings(facts)],
        "scores": scores and {name: round(value, 4) for name, value in scores.items()},
    }


def _print_results(console: Console, record: JsonDict) -> None:
    clusters = record["clusters"]
    rows = (
        (c["cluster"], c["size"], f"{c['share']:.1%}", f"{c['confidence']:.3f}" if c["size"] else "-")
        for c in clusters
    )
    console.print(
        table(f"{len(clusters)} clusters", ("cluster", "size", "share", "confidence"), rows),
        *record["findings"],
    )
    if record["scores"]:
        console.print(", ".join(f"{name} {value:.3f}" for name, value in record["scores"].items()))


def _check_anndata_copy(source: Source, target: Path, force: bool) -> None:
    first = Path(source.paths[0])
    if len(source.paths) > 1 or first.suffix.lower() not in ANNOTATED:
        raise typer.BadParameter(f"--write-anndata needs a single {' or '.join(ANNOTATED)} file as DATA")
    if target.absolute() == first:
        raise typer.BadParameter(f"--write-anndata writes a copy: choose another name than {target}")
    check_output(target, force, (first.suffix.lower(),))


def _write_anndata(
    source: Source, target: Path, model: MultiViewClusterer, views: Views, record: JsonDict, force: bool
) -> None:
    note = {
        "command": record["command"],
        "finished": record["finished"],
        "sha256": record["data"]["sha256"],
    }
    results = (model.sample_ids_, model.labels_, model.label_distributions_, model.transform(views))
    io.write_anndata(source.paths[0], target, *results, note, overwrite=force)
