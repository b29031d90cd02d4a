"""The folder of a run: `fit` writes it, the other commands read it."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt
import typer
from pydantic import ValidationError

from protocol_mvc import io
from protocol_mvc.cli.data import Source
from protocol_mvc.cli.output import JsonDict, as_json
from protocol_mvc.data import Views, data_hash
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.lock import is_lock_file
from protocol_mvc.utils.files import atomic_write

MODEL, LABELS, RECORD, REPORT = "model", "labels.csv", "run.json", "report.html"
CHECKPOINT = "checkpoint"  # of an unfinished fit
MAX_RECORD_BYTES = 2**24


class Run(NamedTuple):
    """A run on disk."""

    model: Path  # folder
    source: Source | None = None  # the data of the fit; None if only the model is there
    sha256: str = ""  # of the data
    command: str = ""  # of the fit


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
    if RECORD in found and not force:
        raise typer.BadParameter(f"{folder} already holds a run: choose another folder or add --force")
    if CHECKPOINT in found and not (force or resume):
        raise typer.BadParameter(
            f"{folder} holds an interrupted fit: add --resume to continue it, or --force to start again"
        )
    others = sorted(found - {MODEL, LABELS, REPORT, CHECKPOINT})
    if others and RECORD not in found:
        raise typer.BadParameter(f"{folder} holds {others[0]!r} and is not a run: choose another folder")
    parent = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise PermissionError(f"{parent} is not writable: choose another folder for the run.")


def write_run(folder: Path, model: MultiViewClusterer, proba: npt.NDArray[Any], record: JsonDict) -> None:
    """Write model, labels and record; the record is written last and marks the run as finished."""
    (folder / RECORD).unlink(missing_ok=True)
    (folder / REPORT).unlink(missing_ok=True)  # of the previous model
    model.save(folder / MODEL)
    io.write_labels(folder / LABELS, model.sample_ids_, model.labels_, proba, overwrite=True)
    text = json.dumps(as_json(record), indent=1, allow_nan=False, default=str)
    with atomic_write(folder / RECORD) as path:
        path.write_text(text + "\n")
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)


def open_run(folder: Path) -> Run:
    """Read the record of a run folder, or take the folder of a model alone.

    Raises:
        ModelFileError: if the run does not exist, is unfinished, or its record is damaged.
    """
    if not folder.is_dir():
        raise ModelFileError(f"{folder} does not exist: give the folder that `protocol-mvc fit` wrote.")
    record = folder / RECORD
    if not record.exists():
        if (folder / MODEL).exists():
            raise ModelFileError(f"{folder} is unfinished, it has no {RECORD}: fit again.")
        if (folder / CHECKPOINT).exists():
            raise ModelFileError(f"{folder} is an interrupted fit: run `protocol-mvc fit` with --resume.")
        return Run(folder)
    try:
        with record.open("rb") as file:
            found = json.loads(file.read(MAX_RECORD_BYTES))
        source = Source.model_validate(found["data"])
        return Run(folder / MODEL, source, str(found["data"]["sha256"]), str(found["command"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        reason = "invalid fields" if isinstance(error, ValidationError | LookupError) else error
        raise ModelFileError(f"{record}: {reason}: fit again, or give the folder {folder / MODEL}.") from None


def check_same_data(views: Views, run: Run) -> None:
    """Check that the data have the hash that the run recorded.

    Raises:
        ValueError: if they differ.
    """
    found = data_hash(views)
    if run.sha256 and found != run.sha256:
        raise ValueError(
            f"The data have changed since the fit (sha256 {found[:12]}..., recorded {run.sha256[:12]}...): "
            "restore them, give their new location as DATA, or fit again."
        )
