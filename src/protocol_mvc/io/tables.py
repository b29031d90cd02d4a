"""Read `.csv`, `.tsv` and `.parquet` tables, one file per view, whose rows are matched by an id column."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.memmap import is_large, to_memmap
from protocol_mvc.data.views import as_views
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.arrays import LABEL_NAMES, Contents, to_builtin_dtype
from protocol_mvc.io.limits import check_ratio, check_size, data_errors, file_errors, require_module
from protocol_mvc.utils.text import short_repr

ID_COLUMNS = ("id", "ids", "sample", "cell", "barcode", "index")  # in any case
LABEL_COLUMNS = tuple(name for name in LABEL_NAMES if name.lower() != "y")  # y may be a coordinate
UNNAMED = "Unnamed: 0"  # name that pandas gives to a first column without a name
SEPARATORS = {".csv": ",", ".tsv": "\t"}
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
BLOCK_CELLS = 2**21  # of a large Parquet file that are read together


class _Header(NamedTuple):
    columns: list[str]
    index_column: str | None  # column with the index of the data frame that was written


class _Table(NamedTuple):
    features: Any  # data frame
    ids: list[str] | None
    labels: list[Any] | None


def read_tables(files: Mapping[str, Path], id_column: str | None, labels: str | None) -> Contents:
    """Read tables, one per view.

    Args:
        files: path of each view.
        id_column: column that identifies the samples. By default one of `ID_COLUMNS`, or the index of the
            data frame that was written; if there is none, rows are matched by position.
        labels: column of the labels, in any table; by default one of `LABEL_COLUMNS`.

    Raises:
        DataFileError: If a file cannot be read, or has a column that is not numeric.
        DataError: If the tables do not match.
    """
    headers = {}
    for name, path in files.items():
        with file_errors(path, "a table"):
            headers[name] = _read_header(path)
    id_columns = _find_id_columns(headers, id_column)
    columns = [column for header in headers.values() for column in header.columns]
    if labels is not None and labels not in columns:
        raise DataError(f"no table has the column {labels!r}, only {_list(columns)}.")
    labels = labels or next(filter(None, (_find(name, columns) for name in LABEL_COLUMNS)), None)
    tables = {}
    for name, path in files.items():
        with file_errors(path, "a table"):
            tables[name] = _read_table(path, id_columns.get(name), labels)
    return _join(tables, next(iter(files.values())))


def _read_header(path: Path) -> _Header:
    if path.suffix.lower() not in SEPARATORS:
        schema = _open_parquet(path).schema_arrow
        index = [x for x in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(x, str)]
        return _Header(schema.names, index[0] if len(index) == 1 else None)
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = (row for row in csv.reader(file, delimiter=SEPARATORS[path.suffix.lower()]) if row)
        first, second = next(rows, []), next(rows, [])
    if not second:
        raise DataError("it has no rows below its header.")
    if all(map(is_number, first)) and not all(map(str.isdigit, first)):
        raise DataError(f"its first line has numbers ({_list(first)}): write the names of the columns there.")
    return _Header([UNNAMED, *first[1:]], UNNAMED) if first[0] == "" else _Header(first, None)


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _find_id_columns(headers: Mapping[str, _Header], id_column: str | None) -> dict[str, str]:
    """Return the id column of each table, or nothing if no table has one."""
    found = {}
    for name, (columns, index) in headers.items():
        keys = (id_column,) if id_column else ID_COLUMNS
        column = next(filter(None, (_find(key, columns) for key in keys)), None if id_column else index)
        if column is not None:
            found[name] = column
    lacking = [name for name in headers if name not in found]
    if lacking and (found or id_column):
        wanted = repr(id_column) if id_column else "of ids, which other tables have"
        raise DataError(
            f"the table {lacking[0]!r} has no column {wanted}, only {_list(headers[lacking[0]].columns)}: "
            "give all tables an id column, or none."
        )
    return found


def _find(name: str, columns: Sequence[str]) -> str | None:
    """Return the column of that name or, if there is none, of that name in another case."""
    if name in columns:
        return name
    return next((column for column in columns if column.lower() == name.lower()), None)


def _list(columns: Sequence[str]) -> str:
    return ", ".join(columns[:10]) + (", ..." if len(columns) > 10 else "")


def _read_table(path: Path, id_column: str | None, labels: str | None) -> _Table:
    frame = _read_frame(path, [name for name in (id_column, labels) if name])
    ids = None
    if id_column:
        column = frame.pop(id_column)
        empty = np.flatnonzero(column.isna().to_numpy() | (column == "").to_numpy())
        if len(empty):
            raise DataError(f"row {empty[0]} has no id in the column {id_column!r}.")
        column = column.astype(str)
        if not column.is_unique:
            row = int(np.argmax(column.duplicated().to_numpy()))
            raise DataError(f"row {row} repeats the id {column[row]!r} of the column {id_column!r}.")
        ids = list(column)
    known = frame.pop(labels).tolist() if labels in frame.columns else None
    if frame.shape[1] == 0:
        raise DataError("it has no columns beside ids and labels: give it at least one feature.")
    pandas = require_module("pandas", "data", path)
    for name, column in frame.items():
        if not pandas.api.types.is_numeric_dtype(column.dtype):
            odd = pandas.to_numeric(column, errors="coerce").isna() & column.notna()
            row = int(np.argmax(odd.to_numpy()))
            raise DataError(
                f"the column {name!r} has {short_repr(column.iloc[row])} in row {row}, which is not a "
                "number: leave the column out, or use it as ids or labels."
            )
    return _Table(frame, ids, known)


def _read_frame(path: Path, text_columns: Sequence[str]) -> Any:
    """Read a table as a data frame with rows numbered from 0; text columns stay as they are written."""
    if path.suffix.lower() in SEPARATORS:
        check_size(path.stat().st_size)
        pandas = require_module("pandas", "data", path)
        frame = pandas.read_csv(
            path,
            sep=SEPARATORS[path.suffix.lower()],
            converters=dict.fromkeys(text_columns, str),
            float_precision="round_trip",
            low_memory=False,  # one type per column
        )
        if not isinstance(frame.index, pandas.RangeIndex):
            raise DataError("its rows have more cells than its header: give every column a name.")
        return frame
    file = _open_parquet(path)
    n_rows, names = file.metadata.num_rows, file.schema_arrow.names
    n_bytes = 8 * n_rows * len(names)
    check_ratio(path.name, n_bytes, path.stat().st_size)
    numeric = [name for name in names if name not in text_columns]
    dtype = _common_dtype(file.schema_arrow, numeric)
    if dtype is not None and is_large((n_rows, len(numeric)), dtype):
        return _map_parquet(file, path, numeric, dtype)
    check_size(n_bytes)
    return file.read().to_pandas(ignore_metadata=True)


def _open_parquet(path: Path) -> Any:
    require_module("pandas", "data", path)
    parquet = require_module("pyarrow.parquet", "data", path)
    return parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**16)  # else all data stay in memory


def _common_dtype(schema: Any, names: list[str]) -> np.dtype[Any] | None:
    """Return a float type for all columns, or None if one of them is not numeric."""
    if not names or len(set(schema.names)) < len(schema.names):
        return None
    try:
        types = [np.dtype(schema.field(name).type.to_pandas_dtype()) for name in names]
    except (NotImplementedError, TypeError):  # a type that numpy lacks
        return None
    if not all(dtype.kind in "buif" for dtype in types):
        return None
    common = np.result_type(*types)
    return common if common.kind == "f" else np.dtype(np.float64)


def _map_parquet(file: Any, path: Path, numeric: list[str], dtype: np.dtype[Any]) -> Any:
    """Read a large file as a data frame whose numeric columns are memory-mapped."""
    shape = (file.metadata.num_rows, len(numeric))
    blocks = (
        batch.to_pandas(ignore_metadata=True)[numeric].to_numpy(dtype)
        for batch in file.iter_batches(max(1, BLOCK_CELLS // len(numeric)), columns=numeric)
    )
    mapped = to_memmap(path.name, shape, dtype, blocks)
    frame = require_module("pandas", "data", path).DataFrame(mapped, columns=numeric, copy=False)
    others = [name for name in file.schema_arrow.names if name not in numeric]
    check_size(8 * shape[0] * len(others))
    for name, column in file.read(columns=others).to_pandas(ignore_metadata=True).items():
        frame[name] = column
    return frame


def _join(tables: Mapping[str, _Table], path: Path) -> Contents:
    pandas = require_module("pandas", "data", path)
    for name, ids in _sample_ids(tables).items():
        tables[name].features.index = pandas.Index(ids)  # `set_axis` would copy
    with data_errors():
        views = as_views({name: table.features for name, table in tables.items()})
    views = replace(views, sample_ids=to_builtin_dtype(views.sample_ids))
    known = [
        pandas.Series(table.labels, index=table.features.index, dtype=object)
        for table in tables.values()
        if table.labels is not None
    ]
    return Contents(views, _join_labels(pandas.concat(known), views.sample_ids) if known else None)


def _sample_ids(tables: Mapping[str, _Table]) -> dict[str, list[Any]]:
    """Return the ids of each table, as integers if all of them are integers in plain notation."""
    sizes = {name: len(table.features) for name, table in tables.items()}
    if any(table.ids is None for table in tables.values()):
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise DataError(f"the tables have no id column and different numbers of rows ({listed}).")
        return {name: list(range(size)) for name, size in sizes.items()}
    ids: dict[str, list[Any]] = {name: table.ids or [] for name, table in tables.items()}
    if all(INTEGER.fullmatch(value) for values in ids.values() for value in values):
        return {name: [int(value) for value in values] for name, values in ids.items()}
    return ids


def _join_labels(known: Any, sample_ids: NDArray[Any]) -> NDArray[Any]:
    """Return the label of each sample; tables that both have it must agree."""
    known = known[known.notna() & (known != "")].astype(str)
    n_values = known.groupby(level=0).nunique()
    if (n_values > 1).any():
        raise DataError(f"the tables have different labels of {n_values.idxmax()!r}.")
    known = known[~known.index.duplicated()].reindex(sample_ids)
    if known.isna().any():
        row = int(np.argmax(known.isna().to_numpy()))
        raise DataError(f"the sample {str(sample_ids[row])!r} has no label: give every sample one.")
    values = known.tolist()
    return np.array([int(value) for value in values] if all(map(INTEGER.fullmatch, values)) else values)
