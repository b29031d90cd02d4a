"""Tables, one file for each view, whose rows are matched by a column of ids."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.views import as_views
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.arrays import TRUTH, Contents, to_builtin_dtype, with_ids
from protocol_mvc.io.limits import need, readable
from protocol_mvc.io.table_files import Header, read_header, read_table
from protocol_mvc.utils.text import short_repr

KIND = "a table"
ID_COLUMNS = ("id", "ids", "sample", "cell", "barcode", "index")  # capitals do not matter
TRUTH_COLUMNS = tuple(name for name in TRUTH if name.lower() != "y")  # a column y may be a coordinate
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


class _Table(NamedTuple):
    """The parts of one file."""

    features: Any  # a data frame
    ids: list[str] | None
    truth: list[Any] | None


def read_tables(files: Mapping[str, Path], id_column: str | None, truth: str | None) -> Contents:
    """Return the contents of tables, one for each view.

    Raises:
        ValueError: If a file cannot be read, or is no table of numbers.
        Refusal: If the tables do not fit together.
    """
    headers = {}
    for name, path in files.items():
        with readable(path, KIND):
            headers[name] = read_header(path)
    keys = _id_columns(headers, id_column)
    truth = _truth_column(headers, truth)
    tables = {}
    for name, path in files.items():
        with readable(path, KIND):
            tables[name] = _read(path, keys.get(name), truth)
    return _join(tables, next(iter(files.values())))


def _id_columns(headers: Mapping[str, Header], id_column: str | None) -> dict[str, str]:
    """Return the column of ids of each table; none at all if the rows are to be matched by number."""
    for key in [id_column] if id_column else ID_COLUMNS:
        found = {name: column for name, header in headers.items() if (column := _called(key, header.columns))}
        if len(found) == len(headers):
            return found
    own = (
        {} if id_column else {name: own_id for name, header in headers.items() if (own_id := _own_id(header))}
    )
    missing = [name for name in headers if name not in own]
    if missing and (own or id_column):
        wanted = repr(id_column) if id_column else f"of ids, as {next(iter(own))!r} has"
        raise DataError(
            f"the table {missing[0]!r} has no column {wanted}, only {_some(headers[missing[0]].columns)}: "
            "give all tables one, or rename those that are none."
        )
    return own


def _own_id(header: Header) -> str | None:
    return next(filter(None, (_called(key, header.columns) for key in ID_COLUMNS)), header.row_names)


def _called(name: str, columns: Sequence[str]) -> str | None:
    """Return the column of that name or, if there is none, of that name but for capitals."""
    if name in columns:
        return name
    return next((column for column in columns if column.lower() == name.lower()), None)


def _some(columns: Sequence[str]) -> str:
    return ", ".join(columns[:10]) + (", ..." if len(columns) > 10 else "")


def _truth_column(headers: Mapping[str, Header], truth: str | None) -> str | None:
    """Return the column of the truth, if any table has it."""
    columns = [name for header in headers.values() for name in header.columns]
    if truth is not None and truth not in columns:
        raise DataError(f"no table has the column {truth!r} for the truth, only {_some(columns)}.")
    return truth or next(filter(None, (_called(name, columns) for name in TRUTH_COLUMNS)), None)


def _read(path: Path, key: str | None, truth: str | None) -> _Table:
    frame = read_table(path, [name for name in (key, truth) if name])
    ids = _ids(frame.pop(key), key) if key else None
    known = frame.pop(truth).tolist() if truth in frame.columns else None
    _check_numbers(frame, need("pandas", "data", path))
    return _Table(frame, ids, known)


def _ids(column: Any, key: str) -> list[str]:
    empty = np.flatnonzero(column.isna().to_numpy() | (column == "").to_numpy())
    if len(empty):
        raise DataError(f"row {empty[0]} has no id in the column {key!r}: give every row one, or drop it.")
    ids = column.astype(str)
    if not ids.is_unique:
        twice = ids[ids.duplicated()].iloc[0]
        rows = np.flatnonzero((ids == twice).to_numpy())
        raise DataError(
            f"rows {rows[0]} and {rows[1]} have the same id {twice!r} in the column {key!r}: give each its "
            "own, or name another column of ids."
        )
    return list(ids)


def _check_numbers(frame: Any, pandas: Any) -> None:
    if frame.shape[1] == 0:
        raise DataError("it has no columns of numbers beside ids and truth: give it one feature at least.")
    for name, column in frame.items():
        if pandas.api.types.is_numeric_dtype(column.dtype):
            continue
        odd = pandas.to_numeric(column, errors="coerce").isna() & column.notna()
        row = int(np.argmax(odd.to_numpy()))
        raise DataError(
            f"the column {name!r} holds {short_repr(column.iloc[row])} in row {row}, which is no number: leave "
            "the column out, turn it into numbers, or name it as ids (--id-column) or labels (--labels)."
        )


def _join(tables: Mapping[str, _Table], path: Path) -> Contents:
    pandas = need("pandas", "data", path)
    indexes = _indexes(tables)
    for name, table in tables.items():
        table.features.index = pandas.Index(indexes[name])  # `set_axis` would copy
    try:
        views = as_views({name: table.features for name, table in tables.items()})
    except ValueError as error:
        raise DataError(str(error)) from error
    known = [
        pandas.Series(table.truth, index=indexes[name], dtype=object)
        for name, table in tables.items()
        if table.truth is not None
    ]
    truth = _truth(pandas.concat(known), views.sample_ids) if known else None
    return Contents(with_ids(views, to_builtin_dtype(views.sample_ids), views.mask), truth)


def _indexes(tables: Mapping[str, _Table]) -> dict[str, list[Any]]:
    """Return the ids of each table: numbers if all are whole numbers, as they are written by default."""
    sizes = {name: len(table.features) for name, table in tables.items()}
    if any(table.ids is None for table in tables.values()):
        if len(set(sizes.values())) > 1:
            told = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise DataError(
                f"the tables have no ids and different numbers of rows ({told}): add a column 'id' to each, "
                "or name the one there is."
            )
        return {name: list(range(size)) for name, size in sizes.items()}
    ids = {name: table.ids or [] for name, table in tables.items()}
    if all(WHOLE.fullmatch(value) for values in ids.values() for value in values):
        return {name: [int(value) for value in values] for name, values in ids.items()}
    return {name: list(values) for name, values in ids.items()}


def _truth(known: Any, ids: NDArray[Any]) -> NDArray[Any]:
    """Return the truth of each sample; tables that both know it must agree."""
    known = known[known.notna() & (known != "")].astype(str)
    pairs = known.groupby(level=0).nunique()
    if (pairs > 1).any():
        raise DataError(f"the tables disagree on the truth of {pairs.idxmax()!r}: keep it in one of them.")
    known = known[~known.index.duplicated()].reindex(ids)
    if known.isna().any():
        row = int(np.argmax(known.isna().to_numpy()))
        raise DataError(f"the truth of {str(ids[row])!r} is in no table: give every sample one.")
    values = known.tolist()
    return np.array([int(value) for value in values] if all(map(WHOLE.fullmatch, values)) else values)
