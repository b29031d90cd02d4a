"""The files of a command: the data it reads, and the folder of a run, which `fit` writes."""

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple, Self

import typer
from pydantic import BaseModel, ValidationError, model_validator

from protocol_mvc import io
from protocol_mvc.cli.output import JsonDict, as_json
from protocol_mvc.data.digits import load_digits_views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.labels import SUFFIXES, LabelFile, match_labels, read_labels
from protocol_mvc.io.lock import is_lock_file
from protocol_mvc.utils.files import atomic_write

MODEL, LABELS, RECORD, REPORT = "model", "labels.csv", "run.json", "report.html"
CHECKPOINT = "checkpoint"  # of an unfinished fit


class Source(BaseModel):
    """Where the data of a command come from; `run.json` records it."""

    paths: list[str]  # of files or a folder, made absolute, or "@digits", "@digits:RATIO"
    view_names: list[str] | None = None  # views to read; None for all
    id_column: str | None = None  # column of sample ids in tables
    labels: str | None = None  # column, array or file of true labels

    @property
    def label_file(self) -> Path | None:
        """The path of the true labels if they are in a file of their own."""
        path = Path(self.labels or "")
        return path.absolute() if path.suffix.lower() in SUFFIXES else None

    @model_validator(mode="after")
    def make_absolute(self) -> Self:
        """Make the paths absolute, so that commands in other folders find the files."""
        self.paths = [path if path.startswith("@") else str(Path(path).absolute()) for path in self.paths]
        self.labels = str(self.label_file) if self.label_file else self.labels
        self.view_names = self.view_names or None
        return self


def read_data(source: Source) -> io.MultiViewDataset:
    """Read the views and, if there are any, the true labels.

    Raises:
        OSError, ValueError: if a file cannot be read.
        ModuleNotFoundError: if the format needs a package that is not installed.
    """
    column, views, ids = None if source.label_file else source.labels, source.view_names, source.id_column
    if not any(path.startswith("@") for path in source.paths):
        dataset = io.read_views(source.paths, view_columns=views, id_column=ids, labels=column)
    elif len(source.paths) > 1 or views or ids or column:
        raise typer.BadParameter(
            f"{source.paths[0]} cannot be combined with files, --view, --id-column or --labels COLUMN"
        )
    else:
        dataset = _load_named(source.paths[0])
    if source.label_file is None:
        return dataset
    samples = dataset.views.sample_ids
    own = LabelFile(samples, [str(sample) for sample in samples], ", ".join(source.paths))
    labels_true = match_labels(own, read_labels(source.label_file))[1]
    return io.MultiViewDataset(dataset.views, labels_true, dataset.path)


def _load_named(word: str) -> io.MultiViewDataset:
    """Load "@digits", or "@digits:RATIO" with an imbalance ratio."""
    name, _, text = word[1:].partition(":")
    if name != "digits":
        raise typer.BadParameter(f"{word}: the only data set known by name is @digits; pass a file instead")
    try:
        ratio = float(text) if text else None
    except ValueError:
        raise typer.BadParameter(f"{word}: the imbalance ratio must be a number, as in @digits:0.1") from None
    views, labels_true = load_digits_views(imbalance_ratio=ratio, random_state=0)
    return io.MultiViewDataset(views, labels_true, Path(word))


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


def write_run(folder: Path, model: MultiViewClusterer, record: JsonDict) -> None:
    """Write model, labels and record; the record is written last and marks the run as finished."""
    (folder / RECORD).unlink(missing_ok=True)
    (folder / REPORT).unlink(missing_ok=True)  # of the previous model
    model.save(folder / MODEL)
    results = (model.sample_ids_, model.labels_, model.label_distributions_)
    io.write_labels(folder / LABELS, *results, overwrite=True)
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
        found = json.loads(record.read_bytes())
        source = Source.model_validate(found["data"])
        return Run(folder / MODEL, source, str(found["data"]["sha256"]), str(found["command"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        reason = "invalid fields" if isinstance(error, ValidationError | LookupError) else error
        raise ModelFileError(f"{record}: {reason}: fit again, or give the folder {folder / MODEL}.") from None
