"""The data that a command reads: files, or a known data set by name."""

from pathlib import Path

import typer
from pydantic import BaseModel

from protocol_mvc import io
from protocol_mvc.cli.options import LABEL_FILES, check_choice
from protocol_mvc.io.datasets import list_datasets, load_dataset
from protocol_mvc.io.labels import LabelFile, match_labels, read_labels
from protocol_mvc.io.read import TABLE_FILES


class Source(BaseModel):
    """Where the data of a command come from; `run.json` records it.

    Attributes:
        paths: absolute paths of files or a folder, or one "@NAME" of a known data set.
        view_names: views to read; None for all.
        id_column: column of sample ids in tables.
        labels: column, array or file of true labels.
        data_home: folder of known data sets.
    """

    paths: list[str]
    view_names: list[str] | None = None
    id_column: str | None = None
    labels: str | None = None
    data_home: str | None = None

    @property
    def label_file(self) -> Path | None:
        """The file of true labels, if they are not a column of the data."""
        return Path(self.labels) if self.labels is not None and _is_label_file(self.labels) else None

    @property
    def label_column(self) -> str | None:
        """The column or array of true labels, if they are not in a file of their own."""
        return self.labels if self.label_file is None else None

    @property
    def is_named(self) -> bool:
        """Whether this is a known data set."""
        return any(path.startswith("@") for path in self.paths)

    @property
    def is_tables(self) -> bool:
        """Whether the paths are tables, the only kind of file with a column of ids."""
        first = Path(self.paths[0])
        files = list(first.iterdir()) if first.is_dir() else [first]
        return any(file.suffix.lower() in TABLE_FILES for file in files)


def make_source(
    data: list[str],
    view_names: list[str] | None = None,
    id_column: str | None = None,
    labels: str | None = None,
    data_home: Path | None = None,
) -> Source:
    """Return the source given on the command line, with absolute paths."""
    return Source(
        paths=[word if word.startswith("@") else _absolute(word) for word in data],
        view_names=view_names or None,
        id_column=id_column,
        labels=_absolute(labels) if labels is not None and _is_label_file(labels) else labels,
        data_home=None if data_home is None else _absolute(data_home),
    )


def read_data(source: Source) -> io.MultiViewDataset:
    """Read the views and, if there are any, the true labels.

    Raises:
        OSError, ValueError: if a file cannot be read.
        ModuleNotFoundError: if the format needs a package that is not installed.
    """
    dataset = _load_named(source) if source.is_named else _read_files(source)
    if source.label_file is None:
        return dataset
    ids = dataset.views.sample_ids
    samples = LabelFile(ids, [str(sample) for sample in ids], ", ".join(source.paths))
    labels_true = match_labels(samples, read_labels(source.label_file))[1]
    return io.MultiViewDataset(dataset.views, labels_true, dataset.path)


def _read_files(source: Source) -> io.MultiViewDataset:
    return io.read_views(
        source.paths,
        view_columns=source.view_names,
        id_column=source.id_column,
        labels=source.label_column,
        guarded=True,
    )


def _load_named(source: Source) -> io.MultiViewDataset:
    """Load "@NAME", or "@NAME:RATIO" with an imbalance ratio."""
    word = source.paths[0]
    if len(source.paths) > 1 or source.view_names or source.id_column or source.label_column:
        raise typer.BadParameter(
            f"{word} cannot be combined with files, --view, --id-column or --labels COLUMN"
        )
    name, _, text = word[1:].partition(":")
    check_choice(name, list_datasets(), "data set")
    try:
        ratio = float(text) if text else None
    except ValueError:
        raise typer.BadParameter(f"{word}: the imbalance ratio must be a number, as in @{name}:0.1") from None
    views, labels_true = load_dataset(name, imbalance_ratio=ratio, data_home=source.data_home)
    return io.MultiViewDataset(views, labels_true, Path(word))


def _absolute(path: str | Path) -> str:
    return str(Path(path).absolute())


def _is_label_file(text: str) -> bool:
    return Path(text).suffix.lower() in LABEL_FILES
