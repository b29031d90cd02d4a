"""Run folders: what `fit` writes and the other verbs read."""

import json
import os
import shutil
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy.typing as npt
import typer
from pydantic import ValidationError

from protocol_mvc import io
from protocol_mvc.cli.data import Source
from protocol_mvc.cli.output import JsonDict, as_json
from protocol_mvc.data import Views, data_hash
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.utils.files import atomic_write
from protocol_mvc.io.lock import is_lock_file

MODEL, LABELS, RECORD, REPORT = "model", "labels.csv", "run.json", "report.html"
CHECKPOINT = "checkpoint"  # of a fit that is not finished
MOST_BYTES = 2**24  # of run.json

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder that fit wrote.", show_default=False)]


class Run(NamedTuple):
    """A folder that `fit` wrote."""

    model: Path
    source: Source | None  # None where nothing but the model is there
    sha256: str  # of the data
    command: str


def check_folder(folder: Path, force: bool, resume: bool = False) -> None:
    """Refuse, before any work is done, a folder that holds a run or anything else.

    One with a fit that was stopped is for that fit to go on, unless it is forced to begin anew.

    Raises:
        BadParameter: If the folder must not be written.
        OSError: If it cannot be.
    """
    if folder.exists() and not folder.is_dir():
        raise typer.BadParameter(f"{folder} is a file: choose another name for the run")
    found = (
        {path.name for path in folder.iterdir() if not is_lock_file(path.name)} if folder.exists() else set()
    )
    if RECORD in found and not force:
        raise typer.BadParameter(f"{folder} holds a run already: choose another folder, or add --force")
    if CHECKPOINT in found and not (force or resume):
        raise typer.BadParameter(
            f"{folder} holds a fit that was stopped: add --resume to go on, or --force to begin anew"
        )
    strange = sorted(found - {MODEL, LABELS, REPORT, CHECKPOINT})
    if strange and RECORD not in found:
        raise typer.BadParameter(f"{folder} holds {strange[0]!r}, so it is no run: choose another folder")
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise PermissionError(f"Nothing can be written in {there}: choose another folder for the run.")


def write_run(folder: Path, model: MultiViewClusterer, proba: npt.NDArray[Any], record: JsonDict) -> None:
    """Write the folder; the record comes last, so that without it the run is not finished."""
    (folder / RECORD).unlink(missing_ok=True)
    (folder / REPORT).unlink(missing_ok=True)  # it would tell of the former model
    model.save(folder / MODEL)
    io.write_labels(folder / LABELS, model.sample_ids_, model.labels_, proba, overwrite=True)
    text = json.dumps(as_json(record), indent=1, allow_nan=False, default=str)
    with atomic_write(folder / RECORD) as part:
        part.write_text(text + "\n")
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)


def open_run(folder: Path) -> Run:
    """What `fit` wrote: a run folder, or the model folder alone.

    Raises:
        ModelFileError: If there is none, or its record is damaged.
    """
    if not folder.is_dir():
        raise ModelFileError(
            f"{folder}: there is no such folder: name the one that `protocol-mvc fit` wrote."
        )
    record = folder / RECORD
    if not record.exists():
        if (folder / MODEL).exists():
            raise ModelFileError(f"{folder}: the run was not finished, for it has no {RECORD}: fit again.")
        if (folder / CHECKPOINT).exists():
            raise ModelFileError(f"{folder}: the fit was stopped: go on with `protocol-mvc fit --resume`.")
        return Run(folder, None, "", "")
    try:
        with record.open("rb") as file:
            found = json.loads(file.read(MOST_BYTES))
        source = Source.model_validate(found["data"])
        return Run(folder / MODEL, source, str(found["data"]["sha256"]), str(found["command"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        reason = (
            "its fields are not those of a run" if isinstance(error, ValidationError | LookupError) else error
        )
        raise ModelFileError(f"{record}: {reason}: fit again, or name the folder {folder / MODEL}.") from None


def check_same(views: Views, run: Run) -> None:
    """Refuse data that are not those of the run.

    Raises:
        ValueError: If the hash is another.
    """
    found = data_hash(views)
    if run.sha256 and found != run.sha256:
        raise ValueError(
            f"The data are not those that the run was fitted to (sha256 {found[:12]}..., then "
            f"{run.sha256[:12]}...): restore them, name them as DATA, or fit again."
        )
