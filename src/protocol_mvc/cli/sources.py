"""The data of a command: where they are, how they are read, and columns that colour them."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import typer
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter, ValidationError, model_validator

from protocol_mvc import io
from protocol_mvc.cli.settings import read_config_file
from protocol_mvc.data.digits import load_digits_views
from protocol_mvc.io import limits
from protocol_mvc.io.columns import ANNDATA_FILES, read_column
from protocol_mvc.io.labels import SUFFIXES, LabelFile, match_labels, read_labels
from protocol_mvc.io.table_format import split_name
from protocol_mvc.io.table_preparation import Preparation
from protocol_mvc.io.tables import TABLE_FILES
from protocol_mvc.utils.text import short_repr

FILE_COLUMN = re.compile(
    rf"(.+(?:{'|'.join(map(re.escape, (*ANNDATA_FILES, *TABLE_FILES)))})):(.+)", re.IGNORECASE
)


def parse_views(prefixes: str | None, file: Path | None) -> dict[str, str | list[str]] | None:
    """Return the prefix or the columns of each view of one table.

    Args:
        prefixes: "image_,text_"; the views are then named "image" and "text".
        file: a file that gives them by name.
    """
    if prefixes is None and file is None:
        return None
    if prefixes is not None and file is not None:
        raise typer.BadParameter("--views-by-prefix and --views cannot be combined")
    if file is None:
        words = [word.strip() for word in (prefixes or "").split(",") if word.strip()]
        found: Any = {word.rstrip("_-.: ") or word: word for word in words}
    else:
        found = read_config_file(file)
    try:
        return TypeAdapter(dict[str, str | list[str]]).validate_python(found, strict=True)
    except ValidationError:
        raise typer.BadParameter(
            f"{file} must give a prefix or a list of columns for each view, as in 'image: image_'"
        ) from None


def set_max_memory(size: str | None) -> None:
    """Set the memory that the contents of files may take, for this process."""
    if size is None:
        return
    try:
        limits.parse_size(size)
    except ValueError as error:
        raise typer.BadParameter(f"--max-memory: {error}") from None
    os.environ[limits.MAX_MEMORY] = size


def parse_id_columns(words: Iterable[str]) -> str | dict[str, str] | None:
    """Return the id column of `COLUMN`, or those of `FILE:COLUMN` words by file."""
    by_file, for_all = dict[str, str](), list[str]()
    for word in words:
        if given := FILE_COLUMN.fullmatch(word):
            by_file[given[1]] = given[2]
        else:
            for_all.append(word)
    if len(for_all) + bool(by_file) > 1:
        raise typer.BadParameter("--id-column takes one COLUMN for all tables, or FILE:COLUMN for each")
    return by_file or (for_all[0] if for_all else None)


def parse_table_options(**given: Any) -> io.TableOptions:
    """Return the options that were given; the others are left to be found."""
    try:
        return io.TableOptions(**{name: value for name, value in given.items() if value})
    except ValidationError as error:
        first = error.errors()[0]
        raise typer.BadParameter(
            f"--{first['loc'][0]} {short_repr(first['input'])}: {first['msg']}"
        ) from None


class Source(BaseModel):
    """Where the data of a command come from and how they are read; `run.json` records it."""

    paths: list[str]  # of files or a folder, made absolute, as "VIEW=FILE" if named, or "@digits[:RATIO]"
    view_names: list[str] | None = None  # views to read; None for all
    view_columns: dict[str, str | list[str]] | None = None  # of one table: prefix or columns of each view
    id_column: str | dict[str, str] | None = None  # column of sample ids in tables, or by file
    labels: str | None = None  # column, array or file of true labels
    table_options: io.TableOptions = io.TableOptions()
    preparation: dict[str, Preparation] = {}  # of the tables of a fit, by view

    @property
    def label_file(self) -> Path | None:
        """The path of the true labels if they are in a file of their own."""
        path = Path(self.labels or "")
        return path.absolute() if split_name(path)[1] in SUFFIXES else None

    @property
    def files(self) -> list[Path] | dict[str, Path]:
        """The paths, by name of the view if they are named."""
        named = [_split_named(path) for path in self.paths]
        if not any(name for name, _ in named):
            return [Path(path) for _, path in named]
        return {name or split_name(Path(path))[0]: Path(path) for name, path in named}

    @property
    def id_columns(self) -> list[str]:
        """All columns of ids that were named."""
        if isinstance(self.id_column, dict):
            return list(self.id_column.values())
        return [] if self.id_column is None else [self.id_column]

    @model_validator(mode="after")
    def make_absolute(self) -> Self:
        """Make the paths absolute, so that commands in other folders find the files."""
        self.paths = [path if path.startswith("@") else _absolute(path) for path in self.paths]
        self.labels = str(self.label_file) if self.label_file else self.labels
        self.view_names = self.view_names or None
        return self

    def with_defaults(self, fitted: "Source") -> "Source":
        """Return the source of new data, read and prepared as those of a fit unless it says otherwise."""
        views = list(self.files) if isinstance(self.files, dict) else [split_name(x)[0] for x in self.files]
        first = Path(self.paths[0])
        files = [*first.iterdir()] if first.is_dir() else _paths(self.files)
        is_table = any(split_name(file)[1] in TABLE_FILES for file in files)
        given = self.table_options.model_dump(exclude_unset=True)
        changes: dict[str, Any] = {"view_names": self.view_names or fitted.view_names}
        if not fitted.label_file:
            changes["labels"] = fitted.labels
        if is_table:
            changes |= {
                "view_columns": self.view_columns or fitted.view_columns,
                "id_column": self.id_column or _by_view(fitted.id_column, views),
                "table_options": fitted.table_options.model_copy(update=given),
                "preparation": fitted.preparation,
            }
        return self.model_copy(update=changes)


def _paths(files: list[Path] | dict[str, Path]) -> list[Path]:
    return [*files.values()] if isinstance(files, dict) else files


def _by_view(id_column: str | dict[str, str] | None, views: list[str]) -> str | dict[str, str] | None:
    """Return the id columns of a fit by view instead of by file, as far as the new data have the views."""
    if not isinstance(id_column, dict):
        return id_column
    named = {split_name(Path(key))[0]: column for key, column in id_column.items()}
    return {view: column for view, column in named.items() if view in views} or None


def _split_named(word: str) -> tuple[str, str]:
    """Return view and path of `VIEW=FILE`, or "" and the path; a file of this name is no such word."""
    name, equals, path = word.partition("=")
    is_named = equals and name and not set(name) & {"/", os.sep} and not Path(word).exists()
    return (name, path) if is_named else ("", word)


def _absolute(word: str) -> str:
    name, path = _split_named(word)
    return f"{name}={Path(path).absolute()}" if name else str(Path(path).absolute())


def read_data(source: Source, tell: Callable[[str], None] = lambda note: None) -> io.MultiViewDataset:
    """Read the views and, if there are any, the true labels.

    Args:
        source: the data.
        tell: receives notes on how the data were read.

    Raises:
        OSError, ValueError: if a file cannot be read.
        ModuleNotFoundError: if the format needs a package that is not installed.
    """
    column = None if source.label_file else source.labels
    options = (source.view_names, source.view_columns, source.id_column, column)
    if not any(path.startswith("@") for path in source.paths):
        dataset = io.read_views(
            source.files,
            view_columns=source.view_columns or source.view_names,
            id_column=source.id_column,
            labels=column,
            table_options=source.table_options,
            preparation=source.preparation,
        )
    elif len(source.paths) > 1 or any(options):
        raise typer.BadParameter(
            f"{source.paths[0]} cannot be combined with files, --view, --id-column or --labels COLUMN"
        )
    else:
        dataset = _load_named(source.paths[0])
    for note in dataset.info.notes:
        tell(note)
    if source.label_file is None:
        return dataset
    samples = dataset.views.sample_ids
    own = LabelFile(samples, [str(sample) for sample in samples], ", ".join(source.paths))
    labels_true = match_labels(own, read_labels(source.label_file))[1]
    return dataset._replace(y=labels_true)


def read_colors(source: Source, wanted: Iterable[str], sample_ids: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return columns (n,) of the samples, by name.

    Args:
        source: the data.
        wanted: each `COLUMN` of `obs` of the data, or `FILE:COLUMN` of a table or of another .h5ad or .h5mu.
        sample_ids: (n,) the samples.

    Raises:
        BadParameter: if a column without a file is wanted and the data have no `obs`.
        OSError, ValueError: if a file cannot be read, or lacks the column.
    """
    colors = {}
    for word in wanted:
        given = FILE_COLUMN.fullmatch(word)
        path, column = given.groups() if given else (source.paths[0], word)
        if not given and Path(path).suffix.lower() not in ANNDATA_FILES:
            raise typer.BadParameter(f"--color {word}: the data have no obs, give FILE.csv:COLUMN")
        name = word if column in colors else column
        colors[name] = read_column(Path(path), column, sample_ids, source.id_columns)
    return colors


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
    return io.MultiViewDataset(views, labels_true, io.ReadInfo(Path(word)))
