"""The folder of a run, which `fit` writes, and the commands `report` and `evaluate`."""

import json
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import typer
from pydantic import ValidationError

from protocol_mvc import io
from protocol_mvc.cli.output import Console, JsonDict, as_json, table
from protocol_mvc.cli.sources import Source, read_colors, read_data
from protocol_mvc.data import Views, data_hash
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import load_model
from protocol_mvc.evaluation.explanation import explain
from protocol_mvc.evaluation.metrics import all_scores
from protocol_mvc.evaluation.stability import Stability, stability
from protocol_mvc.exceptions import ModelFileError, UnreliableClusterWarning
from protocol_mvc.io.labels import match_labels, read_labels
from protocol_mvc.io.lock import is_lock_file, lock_folder
from protocol_mvc.io.model_folder import check_replaceable, model_errors
from protocol_mvc.report import write_report
from protocol_mvc.report.truth import SCORES, compare_labels
from protocol_mvc.utils.files import atomic_write, atomic_write_folder, read_regular

MODEL, LABELS, RECORD, REPORT, MARKERS = "model", "labels.csv", "run.json", "report.html", "markers.csv"
MAX_RECORD = 2**26  # bytes
CHECKPOINT = "checkpoint"  # of an unfinished fit
PENDING = (
    ".pending"  # folder in that of a model, with the other files of a run until they are in their places
)
STDOUT = "-"  # as an output file; with --json the document has the values instead


class Run(NamedTuple):
    """A run on disk."""

    model: Path  # folder
    source: Source | None = None  # the data of the fit; None if only the model is there
    sha256: str = ""  # of the data
    command: str = ""  # of the fit
    cluster_jaccard: tuple[float, ...] = ()  # the stability of the clusters, if it was measured


def check_folder(folder: Path, force: bool, resume: bool = False) -> None:
    """Check that a run can be written to a folder, before any work is done.

    Raises:
        BadParameter: if the folder holds a run, an interrupted fit or other files.
        PermissionError: if the folder is not writable.
    """
    if folder.exists() and not folder.is_dir():
        raise typer.BadParameter(f"{folder} is a file: choose another folder for the run")
    paths = folder.iterdir() if folder.exists() else ()
    found = {path.name for path in paths if not is_lock_file(path.name)}
    if RECORD in found and not (force or (resume and CHECKPOINT in found)):
        raise typer.BadParameter(f"{folder} already holds a run: choose another folder or add --force")
    if CHECKPOINT in found and not (force or resume):
        raise typer.BadParameter(
            f"{folder} holds an interrupted fit: add --resume to continue it, or --force to start again"
        )
    others = sorted(found - {MODEL, LABELS, REPORT, MARKERS, CHECKPOINT})
    if others and RECORD not in found:
        raise typer.BadParameter(f"{folder} holds {others[0]!r} and is not a run: choose another folder")
    parent = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise PermissionError(f"{parent} is not writable: choose another folder for the run.")


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder of a run, and complete a run that a killed process has not."""
    with lock_folder(folder):
        _finish_run(folder)
        yield


def write_run(folder: Path, model: MultiViewClusterer, record: JsonDict) -> None:
    """Replace the run in a folder by model, labels and record, in one step; call it with the lock held.

    The folder of the new model also has the labels and the record. Once it is in place, so is the new run;
    then these files are moved to the folder of the run.
    """
    with model_errors(folder / MODEL, "choose a new or an empty folder"):
        check_replaceable(folder / MODEL)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write_folder(folder / MODEL, overwrite=True) as new:
        model.save(new)
        (new / PENDING).mkdir()
        results = (model.sample_ids_, model.labels_, model.label_distributions_)
        io.write_labels(new / PENDING / LABELS, *results, names=given_names(model))
        write_record(new / PENDING, record)
    _finish_run(folder)


def _finish_run(folder: Path) -> None:
    """Move labels and record out of the folder of the model, and remove what belongs to the previous run."""
    pending = folder / MODEL / PENDING
    if pending.is_dir():
        for name in (REPORT, MARKERS):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
        for path in pending.iterdir():
            path.replace(folder / path.name)
        pending.rmdir()


def record_file(folder: Path) -> Path:
    """Return the record of a run, which may not be in its place yet."""
    pending = folder / MODEL / PENDING
    if pending.is_dir():
        with suppress(OSError), lock_run(folder):  # unless it is read-only, or another process has the lock
            pass
    return pending / RECORD if (pending / RECORD).exists() else folder / RECORD


def write_record(folder: Path, record: JsonDict) -> None:
    """Write the record of a run; an older one is replaced."""
    text = json.dumps(as_json(record), indent=1, allow_nan=False, default=str)
    with atomic_write(folder / RECORD, overwrite=True) as path:
        path.write_text(text + "\n")


def given_names(model: MultiViewClusterer) -> tuple[str, ...] | None:
    """Return the names of the clusters if the user has given any."""
    names = model.cluster_names_
    return None if names == tuple(map(str, range(len(names)))) else names


def open_run(folder: Path) -> Run:
    """Read the record of a run folder, or take the folder of a model alone.

    Raises:
        ModelFileError: if the run does not exist, is unfinished, or its record is damaged.
    """
    if not folder.is_dir():
        raise ModelFileError(f"{folder} does not exist: give the folder that `protocol-mvc fit` wrote.")
    record = record_file(folder)
    if not record.exists():
        if (folder / MODEL).exists():
            raise ModelFileError(f"{folder} is unfinished, it has no {RECORD}: fit again.")
        if (folder / CHECKPOINT).exists():
            raise ModelFileError(f"{folder} is an interrupted fit: run `protocol-mvc fit` with --resume.")
        return Run(folder)
    try:
        found = json.loads(read_regular(record, MAX_RECORD))
        source = Source.model_validate(found["data"])
        stable = tuple(map(float, (found.get("stability") or {}).get("cluster_jaccard", ())))
        return Run(folder / MODEL, source, str(found["data"]["sha256"]), str(found["command"]), stable)
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        reason = "invalid fields" if isinstance(error, ValidationError | LookupError) else error
        raise ModelFileError(f"{record}: {reason}: fit again, or give the folder {folder / MODEL}.") from None


def check_output(path: Path, force: bool, suffixes: tuple[str, ...] = ()) -> None:
    """Check that an output file can be written, before any work is done.

    Raises:
        BadParameter: if the suffix is not one of `suffixes`, or the file exists and `force` is false.
        FileNotFoundError: if the parent folder does not exist.
    """
    if suffixes and path.suffix.lower() not in suffixes:
        raise typer.BadParameter(f"{path} must end in one of {', '.join(suffixes)}")
    if path.is_dir() or (path.exists() and not force):
        raise typer.BadParameter(f"{path} already exists: choose another name or add --force")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path}: folder {path.absolute().parent} does not exist; create it first.")


def check_table_output(
    output: str, force: bool, suffixes: tuple[str, ...] = (".csv", ".tsv", ".parquet")
) -> None:
    """Check like `check_output` that a table can be written; standard output needs no check."""
    if output != STDOUT:
        check_output(Path(output), force, suffixes)


def load_with_data(
    run: Run, data: list[str] | None, device: str | None
) -> tuple[Source, MultiViewClusterer, io.MultiViewDataset]:
    """Return where the data of the fit are, the model and the data; `data` are their paths if they moved."""
    if run.source is None and not data:
        raise typer.BadParameter(f"{run.model} is a model without a record of its data: add DATA")
    source = run.source or Source(paths=[])
    if data:
        source = source.model_copy(update={"paths": Source(paths=data).paths})
    model, dataset = load_model(run.model, device or "auto"), read_data(source)
    sha256 = data_hash(dataset.views)
    if run.sha256 and sha256 != run.sha256:
        raise ValueError(
            f"The data have changed since the fit (sha256 {sha256[:12]}..., recorded {run.sha256[:12]}...): "
            "restore them, give their new location as DATA, or fit again."
        )
    return source, model, dataset


def report_run(
    console: Console,
    folder: Path,
    data: list[str] | None,
    output: Path | None,
    n_refits: int,
    figures: Path | None,
    figure_format: str,
    colors: list[str] | None,
    device: str | None,
    force: bool,
) -> JsonDict:
    """Write the report of a run, and its figures.

    `data` are the paths of its data if they were moved; `colors` are columns as for `read_colors`.
    """
    run, target = open_run(folder), output or folder / REPORT
    check_output(target, force, (".html", ".htm"))
    if (
        figures is not None
        and figures.exists()
        and not (figures.is_dir() and (force or not any(figures.iterdir())))
    ):
        raise typer.BadParameter(f"{figures} is not an empty folder: choose another one or add --force")
    source, model, (views, labels_true, _) = load_with_data(run, data, device)
    columns = read_colors(source, colors or (), views.sample_ids)
    refits = measure_stability(console, model, views, n_refits)
    if refits is None and run.cluster_jaccard:
        refits = Stability(np.array(run.cluster_jaccard), np.full(len(views), np.nan), [])
    given = {"command": run.command or None, "source": ", ".join(source.paths)}
    with console.step("Writing the report"):
        write_report(model, views, target, labels_true=labels_true, stability=refits, colors=columns, **given)
    console.info(f"Report: {target}")
    document: JsonDict = {"output": target, "bytes": target.stat().st_size}
    if figures is not None:
        from protocol_mvc.plotting import save_all  # needs matplotlib

        document["figures"] = save_all(
            model, views, explain(model, views), figures, figure_format, labels_true
        )
        console.info(f"Figures: {figures}")
    return document


def measure_stability(
    console: Console, model: MultiViewClusterer, views: Views, n_refits: int
) -> Stability | None:
    """Return the stability of the clusters, or None without refits; the report tells what is wrong."""
    if not n_refits:
        return None
    with console.step(f"Refitting to subsamples, {n_refits} times"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableClusterWarning)
        return stability(model, views, n_resamples=n_refits)


def evaluate_labels(console: Console, labels_pred: Path, labels_true: Path) -> JsonDict:
    """Compute all scores and the recall of each class from two files of labels."""
    pred, true = match_labels(read_labels(labels_pred), read_labels(labels_true))
    scores = all_scores(true, pred)
    classes = [
        {
            "class": row.name,
            "n_samples": row.size,
            "cluster": row.cluster,
            "recall": row.recall,
            "outcome": row.outcome,
        }
        for row in compare_labels(true, pred).classes
    ]
    score_rows = ((name, f"{value:.4f}", SCORES[name][1]) for name, value in scores.items())
    class_rows = (
        (
            c["class"],
            c["n_samples"],
            "none" if c["cluster"] is None else c["cluster"],
            f"{c['recall']:.4f}",
            c["outcome"],
        )
        for c in classes
    )
    console.print(
        table(f"{len(pred)} samples", ("metric", "value", "meaning"), score_rows),
        table("Classes by size", ("class", "samples", "matched cluster", "recall", "outcome"), class_rows),
    )
    return {"n_samples": len(pred), "scores": scores, "classes": classes}
