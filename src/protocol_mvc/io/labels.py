"""Read files of labels, and match two of them by sample id."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from protocol_mvc.io.column_roles import ID_COLUMNS, LABEL_NAMES
from protocol_mvc.io.limits import reading
from protocol_mvc.io.table_format import (
    TableOptions,
    detect_format,
    parse_number,
    read_rows,
    split_name,
    unescape_cell,
)
from protocol_mvc.io.table_views import parse_labels
from protocol_mvc.io.tables import TABLE_FILES, open_table

SUFFIXES = (*TABLE_FILES, ".txt", ".npy")


class LabelFile(NamedTuple):
    """One label per sample (n,), the sample ids if known, and the name of the file for messages."""

    labels: npt.NDArray[Any]
    sample_ids: list[str] | None
    name: str


def read_labels(path: Path) -> LabelFile:
    """Read labels from a 1-D `.npy` array, or from a table, as text also in a `.txt` file.

    A table has one column of labels, two columns of ids and labels, or more columns with usual names such as
    "id" and "label".

    Raises:
        ValueError: If it has no labels, an empty cell, or an id twice.
    """
    suffix = split_name(path)[1]
    if suffix not in SUFFIXES:
        raise ValueError(f"File {path} cannot be read as labels: use {', '.join(SUFFIXES)}.")
    with reading(path, "labels"):
        if suffix == ".npy":
            array = np.array(np.load(path, mmap_mode="r", allow_pickle=False))
            if array.ndim != 1 or len(array) == 0:
                raise ValueError(f"it has shape {array.shape}, but one label per sample is expected")
            return LabelFile(array, None, str(path))
        if suffix in (".parquet", ".feather", ".xlsx"):
            table = open_table(path)
            frame = table.read(table.columns)
            rows = [table.columns, *frame.astype(str).to_numpy().tolist()]
        else:
            rows = [row for _, row in read_rows(path, detect_format(path, TableOptions()))]
        ids, labels = _split_columns([[unescape_cell(cell) for cell in row] for row in rows])
        if not labels:
            raise ValueError("it has no labels")
        if ids is not None and len(set(ids)) < len(ids):
            raise ValueError(f"the id {max(ids, key=ids.count)!r} occurs twice")
    return LabelFile(parse_labels(labels), ids, str(path))


def _split_columns(rows: Sequence[Sequence[str]]) -> tuple[list[str] | None, list[str]]:
    """Return the column of ids, if there is one, and the column of labels, without their names."""
    names = [name.strip().lower() for name in rows[0]] if rows else []
    if len(names) <= 1:
        cells = _column(rows, 0)
        is_word = bool(names) and parse_number(names[0]) is None
        has_header = is_word and (names[0] in LABEL_NAMES or None not in map(parse_number, cells[1:]))
        return None, [cell.strip() for cell in cells[int(has_header) :]]
    ids = next((names.index(name) for name in ("", *ID_COLUMNS) if name in names), None)
    labels = next((names.index(name) for name in LABEL_NAMES if name in names), None)
    if len(names) == 2:  # the order is ids, labels unless the names say otherwise
        ids, labels = (1, 0) if ids == 1 or (ids is None and labels == 0) else (0, 1)
    if ids is None or labels is None:
        raise ValueError(f"none of its columns ({', '.join(names)}) is named 'id', or none 'label'")
    if parse_number(rows[0][labels]) is not None or rows[0][labels] in _column(rows[1:], labels):
        raise ValueError("its first line is a sample, but names of columns such as 'id,label' are expected")
    return _column(rows[1:], ids), [label.strip() for label in _column(rows[1:], labels)]


def _column(rows: Sequence[Sequence[str]], position: int) -> list[str]:
    cells = [row[position] if position < len(row) else "" for row in rows]
    empty = [i for i, cell in enumerate(cells) if not cell.strip()]
    if empty:
        raise ValueError(f"sample {empty[0] + 1} has nothing in column {position + 1}")
    return cells


def match_labels(pred: LabelFile, true: LabelFile) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return predicted and true labels of the same samples, matched by id if both have ids, else by position.

    Raises:
        ValueError: If a predicted sample has no true label, or files without ids have different lengths.
    """
    if pred.sample_ids is None or true.sample_ids is None:
        if len(pred.labels) != len(true.labels):
            problem = f"{pred.name} has {len(pred.labels)} labels but {true.name} has {len(true.labels)}"
            raise ValueError(f"{problem}: give both an id column, or the same samples in the same order.")
        return pred.labels, true.labels
    position = {sample.strip(): i for i, sample in enumerate(true.sample_ids)}
    position |= {sample: i for i, sample in enumerate(true.sample_ids)}
    rows = [position.get(sample, position.get(sample.strip(), -1)) for sample in pred.sample_ids]
    lost = [sample for sample, row in zip(pred.sample_ids, rows, strict=True) if row < 0]
    if lost:
        lacking = f"{len(lost)} of the {len(pred.sample_ids)} samples of {pred.name}"
        raise ValueError(f"{true.name} lacks {lacking}, for example {lost[0]!r}.")
    return pred.labels, true.labels[rows]
