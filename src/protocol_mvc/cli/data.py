"""What the words after a verb name: data to be read, and files to be written."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy.typing as npt
import typer
from pydantic import BaseModel

from protocol_mvc import io
from protocol_mvc.cli.options import known
from protocol_mvc.data import Views
from protocol_mvc.io.datasets import list_datasets, load_dataset
from protocol_mvc.io.labels import KINDS, LabelFile, match_labels, read_labels
from protocol_mvc.io.read import TABLE_FILES

Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="Files (.csv, .parquet, .npz, .npy, .h5mu, .mat, ...), a folder, or @name of a known data set. "
        "Of tables every file is a view, and a row that it lacks is a missing view.",
        show_default=False,
    ),
]
ViewKeys = Annotated[
    list[str] | None,
    typer.Option("--view", metavar="KEY", help="A view to take, such as an array's name; may be repeated."),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="COLUMN", help="Column of tables that names the samples; else id, sample, ..."
    ),
]
Truth = Annotated[
    str | None,
    typer.Option(metavar="COLUMN|FILE", help="True classes, to score with; training never sees them."),
]


class Source(BaseModel):
    """Where data come from, as run.json keeps it."""

    paths: list[str]
    views: list[str] | None = None
    id: str | None = None
    truth: str | None = None


class Loaded(NamedTuple):
    """Views, and apart from them the truth."""

    views: Views
    truth: npt.NDArray[Any] | None


def source_of(
    data: list[str], views: list[str] | None = None, id_column: str | None = None, truth: str | None = None
) -> Source:
    """The words as they are to be kept: files by their absolute paths."""
    paths = [word if word.startswith("@") else str(Path(word).absolute()) for word in data]
    if truth is not None and _is_label_file(truth):
        truth = str(Path(truth).absolute())
    return Source(paths=paths, views=views or None, id=id_column, truth=truth)


def read_data(source: Source) -> Loaded:
    """The views and, if the file has it or it is named, the truth.

    Raises:
        OSError, ValueError: If something cannot be read.
        ModuleNotFoundError: If a package is missing that the format needs.
    """
    apart = source.truth if source.truth is not None and _is_label_file(source.truth) else None
    if any(path.startswith("@") for path in source.paths):
        views, truth = _known_set(source)
    else:
        column = None if apart else source.truth
        views, truth, _ = io.read_views(
            source.paths, view_columns=source.views, id_column=source.id, labels=column, guarded=True
        )
    if apart is not None:
        own = LabelFile(views.sample_ids, [str(name) for name in views.sample_ids], ", ".join(source.paths))
        truth = match_labels(own, read_labels(Path(apart)))[1]
    return Loaded(views, truth)


def are_tables(data: list[str]) -> bool:
    """Whether the words name tables, which alone have a column of ids."""
    first = Path(data[0])
    files = list(first.iterdir()) if first.is_dir() else [first]
    return any(file.suffix.lower() in TABLE_FILES for file in files)


def _is_label_file(word: str) -> bool:
    return Path(word).suffix.lower() in KINDS


def _known_set(source: Source) -> tuple[Views, Any]:
    """A set of the catalogue: @digits, or @digits:0.1 with the smallest class a tenth of the largest."""
    word = source.paths[0]
    column = source.truth is not None and not _is_label_file(source.truth)
    if len(source.paths) > 1 or source.views or source.id or column:
        raise typer.BadParameter(f"{word} stands alone, without other files, --view, --id and --truth COLUMN")
    name, _, ratio = word[1:].partition(":")
    known([name], list_datasets(), "data set")
    try:
        smallest = float(ratio) if ratio else None
    except ValueError:
        raise typer.BadParameter(
            f"{word}: behind the colon goes smallest / largest class, such as 0.1"
        ) from None
    return load_dataset(name, imbalance_ratio=smallest)


def check_target(target: Path, force: bool, kinds: tuple[str, ...] = ()) -> None:
    """Refuse, before any work is done, a file that is there or could not be written.

    Raises:
        BadParameter: If its ending is not among the kinds, or it is there.
        OSError: If there is no folder for it.
    """
    if kinds and target.suffix.lower() not in kinds:
        raise typer.BadParameter(f"{target} must end in one of {', '.join(kinds)}")
    if target.is_dir() or (target.exists() and not force):
        raise typer.BadParameter(f"{target} is there already: choose another name, or add --force")
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {target.absolute().parent} for {target.name}: create it."
        )
