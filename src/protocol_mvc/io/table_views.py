"""Read views from tables: one file per view, or one file whose columns belong to views."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.views import as_views
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.arrays import Contents, to_builtin_dtype
from protocol_mvc.io.column_roles import ID_COLUMNS, UNNAMED_COLUMN, find_name
from protocol_mvc.io.limits import check_column, data_errors, reading
from protocol_mvc.io.table_columns import TableViews, TruthColumns, find_id_columns, split_by_view
from protocol_mvc.io.table_format import DEFAULTS, TableOptions, unescape_cell
from protocol_mvc.io.table_preparation import Preparation, prepare
from protocol_mvc.io.tables import Table, open_table
from protocol_mvc.utils.text import list_names

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
WHOLE_FLOAT = re.compile(r"(-?[0-9]+)\.0+")


class _Frame(NamedTuple):
    """Columns of one view as they are in its table."""

    frame: Any
    table: Table


def read_tables(
    files: Mapping[str, Path],
    id_column: str | Mapping[str, str] | None = None,
    labels: str | None = None,
    view_columns: TableViews | None = None,
    options: TableOptions = DEFAULTS,
    preparation: Mapping[str, Preparation] | None = None,
) -> Contents:
    """Read tables.

    Args:
        files: path of each view, or of the one table that `view_columns` splits.
        id_column: column that identifies the samples, in all tables or by name of the file or view; by
            default see `find_id_columns`. If there is none, rows are matched by position.
        labels: column of the labels, in any table; by default the only one that looks like labels.
        view_columns: views of one table.
        options: how the files are read.
        preparation: how the views were prepared in a fit.
    """
    if view_columns is not None and len(files) > 1:
        raise DataError(f"views by columns need one table, not {len(files)}.")
    tables = {}
    for name, path in files.items():
        with reading(path, "a table"):
            tables[name] = open_table(path, options)
    ids = find_id_columns(tables, id_column)
    truth = TruthColumns(tables, labels, options.features, ids)
    frames, known, notes = _read_frames(tables, ids, truth, view_columns, options)
    prepared = {}
    for name, (frame, table) in frames.items():
        with reading(table.path, "a table"):
            fitted = (preparation or {}).get(name)
            prepared[name] = prepare(frame, table, options.missing, fitted, options.features)
            notes += prepared[name].notes
    features = {name: part.frame for name, part in prepared.items()}
    _use_integers(features, known)
    with data_errors():
        views = as_views(features)
    views = replace(views, sample_ids=to_builtin_dtype(views.sample_ids))
    y, truth_notes = _find_labels(known, truth, views.sample_ids)
    made = {name: part.preparation for name, part in prepared.items()}
    return Contents(views, y, (*notes, *truth_notes), made)


def _read_frames(
    tables: Mapping[str, Table],
    ids: Mapping[str, str],
    truth: TruthColumns,
    view_columns: TableViews | None,
    options: TableOptions,
) -> tuple[dict[str, _Frame], list[Any], list[str]]:
    """Return the columns of each view, the columns of the true labels, and notes."""
    frames, known, notes = dict[str, _Frame](), list[Any](), list[str]()
    for name, table in tables.items():
        notes += table.notes
        with reading(table.path, "a table"):
            frame, found = _read_frame(table, ids.get(name), truth.by_table[name], options)
            known += [column for label, column in found.items() if label == truth.chosen]
            if view_columns is None:
                frames[name] = _Frame(frame, table)
            else:
                parts = split_by_view(list(frame.columns), view_columns)
                frames |= {view: _Frame(frame[columns], table) for view, columns in parts.items()}
                notes += _left_over(table, frame, parts)
    if not ids:
        notes += _check_positions(frames)
    return frames, known, notes


def read_table_column(path: Path, column: str, id_columns: Sequence[str] = ()) -> Any:
    """Return a column of a table as a pandas series, by id if the table has ids, else by row number."""
    table = open_table(path)
    check_column(column, table.columns)
    ids = find_name([*id_columns, *ID_COLUMNS], table.columns) or table.index_column
    frame = table.read([ids] if ids else [])
    if ids and ids != column:
        _set_ids(frame, ids, table)
    return frame[column]


def _read_frame(
    table: Table, id_column: str | None, labels: Sequence[str], options: TableOptions
) -> tuple[Any, dict[str, Any]]:
    """Return the columns that may be features, with ids as index, and the columns of labels by name."""
    dropped = [column for column in table.columns if column in options.drop]
    unnamed = [column for column in table.columns if UNNAMED_COLUMN.fullmatch(column)]
    apart = [column for column in (id_column, *labels, *dropped, *unnamed) if column]
    frame = table.read(apart)
    if id_column:
        _set_ids(frame, id_column, table)
    found = {column: frame.pop(column) for column in labels if column not in dropped}
    for column in (*dropped, *unnamed):
        if column in frame.columns:
            del frame[column]
    return frame, found


def _set_ids(frame: Any, id_column: str, table: Table) -> None:
    """Make the id column the index of a data frame, as text without surrounding blanks."""
    ids = frame.pop(id_column)
    texts = ids.astype(object).where(ids.notna(), "").map(str).map(unescape_cell).str.strip()
    if (texts == "").any():
        row = int((texts == "").to_numpy().argmax())
        raise DataError(f"{table.place(row)} has no id in the column {id_column!r}.")
    if all(WHOLE_FLOAT.fullmatch(text) or INTEGER.fullmatch(text) for text in texts):  # 1.0 is 1
        texts = texts.str.partition(".")[0]
    frame.index = texts.to_numpy()  # `set_axis` would copy
    repeated = frame.index.duplicated()
    if repeated.any():
        row = int(np.argmax(repeated))
        raise DataError(
            f"{table.place(row)} repeats the id {frame.index[row]!r} of the column {id_column!r} "
            f"({int(repeated.sum())} ids are repeated): give every row its own id."
        )


def _check_positions(frames: Mapping[str, _Frame]) -> list[str]:
    """Check that rows can be matched by position; note a column of all tables that looks like ids."""
    if len({len(part.frame) for part in frames.values()}) > 1:
        sizes = ", ".join(f"{name} {len(part.frame)}" for name, part in frames.items())
        raise DataError(f"the tables have no id column and different numbers of rows ({sizes}).")
    shared = set.intersection(*(set(part.frame.columns) for part in frames.values()))
    notes = []
    for column in sorted(shared) if len(frames) > 1 else ():
        series = [part.frame[column] for part in frames.values()]
        if all(x.dtype.kind in "iuO" and x.is_unique and x.notna().all() for x in series):
            for part in frames.values():
                del part.frame[column]
            notes.append(
                f"Column {column!r} has another value in every row of all tables, so it is no feature. "
                "Rows are matched by their order; if it holds sample ids, name it as the id column."
            )
    return notes


def _use_integers(frames: Mapping[str, Any], labels: Sequence[Any]) -> None:
    """Make ids integers if all of them are."""
    if all(isinstance(x, str) and INTEGER.fullmatch(x) for frame in frames.values() for x in frame.index):
        for table in (*frames.values(), *labels):
            table.index = table.index.astype(np.int64)


def _find_labels(
    found: Sequence[Any], truth: TruthColumns, sample_ids: NDArray[Any]
) -> tuple[NDArray[Any] | None, list[str]]:
    """Return the true labels, and notes on them; only labels that were asked for must be complete."""
    if not found:
        return None, truth.notes()
    from pandas import concat

    try:
        return _join_labels(concat(found), sample_ids), truth.notes()
    except DataError as error:
        if truth.is_given:
            raise
        return None, [f"Column {truth.chosen!r} looks like true labels and is set aside; {error}"]


def _left_over(table: Table, frame: Any, parts: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a note on columns that belong to no view."""
    used = {column for columns in parts.values() for column in columns}
    rest = [str(column) for column in frame.columns if column not in used]
    return [f"{table.path.name}: columns that belong to no view: {list_names(rest)}."] if rest else []


def _join_labels(known: Any, sample_ids: NDArray[Any]) -> NDArray[Any]:
    """Return the label of each sample; tables that both have it must agree."""
    known = known[known.notna() & (known != "")].astype(str)
    n_values = known.groupby(level=0).nunique()
    if (n_values > 1).any():
        raise DataError(f"the tables have different labels of {str(n_values.idxmax())!r}.")
    known = known[~known.index.duplicated()].reindex(sample_ids)
    if known.isna().any():
        lacking = sample_ids[known.isna().to_numpy()]
        raise DataError(
            f"{len(lacking)} samples have no label, the first is {str(lacking[0])!r}: give every sample one."
        )
    return parse_labels(known.tolist())


def parse_labels(labels: Sequence[str]) -> NDArray[Any]:
    """Return labels as an array, of integers if all of them are integers, so that 10 comes after 9."""
    return np.array([int(x) for x in labels] if all(map(INTEGER.fullmatch, labels)) else labels)
