"""The data that a command reads: files, or scikit-learn's digits as `@digits`."""

from pathlib import Path

import typer
from pydantic import BaseModel

from protocol_mvc import io
from protocol_mvc.cli.options import LABEL_FILES
from protocol_mvc.data.digits import load_digits_views
from protocol_mvc.io.labels import LabelFile, match_labels, read_labels
from protocol_mvc.io.read import TABLE_FILES


class Source(BaseModel):
    """Where the data of a command come from; `run.json` records it.

    Attributes:
        paths: absolute paths of files or a folder, or "@digits", "@digits:RATIO".
        view_names: views to read; None for all.
        id_column: column of sample ids in tables.
        labels: column, array or file of true labels.
    """

    paths: list[str]
    view_names: list[str] | None = None
    id_column: str | None = None
    labels: str | None = None

    @property
    def has_label_file(self) -> bool:
        """Whether the true labels are in a file of their own."""
        return self.labels is not None and Path(self.labels).suffix.lower() in LABEL_FILES

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
) -> Source:
    """Return the source given on the command line, with absolute paths."""
    source = Source(
        paths=[word if word.startswith("@") else str(Path(word).absolute()) for word in data],
        view_names=view_names or None,
        id_column=id_column,
        labels=labels,
    )
    if source.has_label_file:
        source.labels = str(Path(str(labels)).absolute())
    return source


def read_data(source: Source) -> io.MultiViewDataset:
    """Read the views and, if there are any, the true labels.

    Raises:
        OSError, ValueError: if a file cannot be read.
        ModuleNotFoundError: if the format needs a package that is not installed.
    """
    column = None if source.has_label_file else source.labels
    if any(path.startswith("@") for path in source.paths):
        dataset = _load_named(source, column)
    else:
        views, ids = source.view_names, source.id_column
        dataset = io.read_views(source.paths, view_columns=views, id_column=ids, labels=column)
    if not source.has_label_file:
        return dataset
    samples = dataset.views.sample_ids
    own = LabelFile(samples, [str(sample) for sample in samples], ", ".join(source.paths))
    labels_true = match_labels(own, read_labels(Path(str(source.labels))))[1]
    return io.MultiViewDataset(dataset.views, labels_true, dataset.path)


def _load_named(source: Source, label_column: str | None) -> io.MultiViewDataset:
    """Load "@digits", or "@digits:RATIO" with an imbalance ratio."""
    word = source.paths[0]
    if len(source.paths) > 1 or source.view_names or source.id_column or label_column:
        raise typer.BadParameter(
            f"{word} cannot be combined with files, --view, --id-column or --labels COLUMN"
        )
    name, _, text = word[1:].partition(":")
    if name != "digits":
        raise typer.BadParameter(f"{word}: the only data set known by name is @digits; pass a file instead")
    try:
        ratio = float(text) if text else None
    except ValueError:
        raise typer.BadParameter(f"{word}: the imbalance ratio must be a number, as in @digits:0.1") from None
    views, labels_true = load_digits_views(imbalance_ratio=ratio, random_state=0)
    return io.MultiViewDataset(views, labels_true, Path(word))
