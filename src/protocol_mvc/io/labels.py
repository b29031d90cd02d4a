"""Files of labels, and which label of one belongs to which of another."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from protocol_mvc.io.arrays import TRUTH
from protocol_mvc.io.limits import need
from protocol_mvc.io.tables import ID_COLUMNS

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
KINDS = (*SEPARATORS, ".npy", ".parquet")


class LabelFile(NamedTuple):
    """One label per sample, and what the samples are called, if that is known."""

    labels: npt.NDArray[Any]
    ids: list[str] | None
    name: str  # of the file, for messages


def read_labels(path: Path) -> LabelFile:
    """The labels of a file: of `.csv`, `.tsv` and `.parquet` by columns of ids and labels, or of one column.

    Raises:
        OSError: If it cannot be opened.
        ValueError: If it holds no labels.
        ModuleNotFoundError: If it is a `.parquet` and pandas is not installed.
    """
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise ValueError(f"Labels {path}: the file must end in one of {', '.join(KINDS)}.")
    if kind == ".npy":
        return LabelFile(_read_array(path), None, str(path))
    rows = _read_parquet(path) if kind == ".parquet" else _read_text(path, SEPARATORS[kind])
    if not rows:
        raise ValueError(f"Labels {path}: the file is empty.")
    return _from_rows(rows, path)


def match_labels(found: LabelFile, truth: LabelFile) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Labels and truth of the same samples: matched by id where both have ids, else by position.

    Raises:
        ValueError: If a sample of `found` has no truth, or the numbers of samples without ids differ.
    """
    if found.ids is None or truth.ids is None:
        if len(found.labels) != len(truth.labels):
            raise ValueError(
                f"{found.name} has {len(found.labels)} labels but {truth.name} has {len(truth.labels)}: "
                "give both an id column, or the same samples in the same order."
            )
        return found.labels, truth.labels
    place = {name: i for i, name in enumerate(truth.ids)}
    lost = [name for name in found.ids if name not in place]
    if lost:
        raise ValueError(
            f"{truth.name} has no label for {len(lost)} of the {len(found.ids)} samples of {found.name}, the "
            f"first being id {lost[0]!r}: are these ids of the same samples?"
        )
    return found.labels, truth.labels[[place[name] for name in found.ids]]


def _read_array(path: Path) -> npt.NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)  # a map: no memory before it is checked
    except (ValueError, EOFError) as error:
        raise ValueError(f"Labels {path}: this is no array of numbers or text ({error}).") from None
    if not isinstance(array, np.ndarray) or array.ndim != 1 or len(array) == 0:
        raise ValueError(f"Labels {path}: store a 1-D array with one label per sample.")
    return np.array(array)


def _read_parquet(path: Path) -> list[list[str]]:
    pandas, pyarrow = need("pandas", "data", path), need("pyarrow", "data", path)
    try:
        frame = pandas.read_parquet(path)
    except (ValueError, pyarrow.ArrowException) as error:
        raise ValueError(f"Labels {path}: this is no Parquet file ({error}).") from None
    return [[str(name) for name in frame.columns], *frame.astype(str).to_numpy().tolist()]


def _read_text(path: Path, separator: str) -> list[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [row for row in csv.reader(file, delimiter=separator) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"Labels {path}: this is no text in columns ({error}).") from None


def _from_rows(rows: Sequence[Sequence[str]], path: Path) -> LabelFile:
    if len(rows[0]) > 1:  # pandas leaves the name of the ids empty
        rows = [[name.strip() or ID_COLUMNS[0] for name in rows[0]], *rows[1:]]
    names = [name.strip().lower() for name in rows[0]]
    if len(names) == 1:
        return LabelFile(_values(_cells(rows, 0, path)[_has_header(rows) :], path), None, str(path))
    named, called = _roles(names, path)
    ids, labels = _cells(rows, named, path)[1:], _cells(rows, called, path)[1:]
    if rows[0][called] in labels or _is_number(rows[0][called]):
        raise ValueError(f"Labels {path}: its first line is a sample: put the line 'id,label' above it.")
    return LabelFile(_values(labels, path), _unique(ids, path), str(path))


def _roles(names: Sequence[str], path: Path) -> tuple[int, int]:
    """The columns of ids and of labels: by name or, where there are just two, by what is left or in order."""
    ids, labels = _position(names, ID_COLUMNS), _position(names, TRUTH)
    if len(names) == 2:
        first_is_label = ids == 1 or (ids is None and labels == 0)
        return (1, 0) if first_is_label else (0, 1)
    if ids is None or labels is None:
        lacking = "id" if ids is None else "label"
        raise ValueError(
            f"Labels {path}: none of its columns ({', '.join(names)}) is called {lacking!r}: rename one, or "
            "keep ids and labels alone."
        )
    return ids, labels


def _cells(rows: Sequence[Sequence[str]], column: int, path: Path) -> list[str]:
    """One column, no cell of which may be empty."""
    cells = [row[column].strip() if column < len(row) else "" for row in rows]
    if "" in cells:
        line = cells.index("") + 1
        raise ValueError(
            f"Labels {path}: line {line} has nothing in column {column + 1}: fill it or drop it."
        )
    return cells


def _position(names: Sequence[str], known: Sequence[str]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a single column begins with its name: a known one, or a word above numbers."""
    first, *rest = (row[0].strip() for row in rows)
    return first.lower() in TRUTH or (not _is_number(first) and bool(rest) and all(map(_is_number, rest)))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _values(texts: Sequence[str], path: Path) -> npt.NDArray[Any]:
    if not texts:
        raise ValueError(f"Labels {path}: there is a header but no label below it.")
    try:
        return np.array([int(text) for text in texts])  # so that 10 comes after 9
    except ValueError:
        return np.array(texts)


def _unique(ids: Sequence[str], path: Path) -> list[str]:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise ValueError(f"Labels {path}: id {name!r} occurs twice: keep one line per sample.")
        seen.add(name)
    return list(ids)
