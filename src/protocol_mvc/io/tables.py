"""Read `.csv`, `.tsv` and `.parquet` tables, one file per view, whose rows are matched by an id column."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.memmap import is_large, to_memmap
from protocol_mvc.data.views import as_views
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.arrays import LABEL_NAMES, Contents, to_builtin_dtype
from protocol_mvc.io.limits import (
    check_column,
    check_ratio,
    check_size,
    data_errors,
    file_errors,
    require_module,
)
from protocol_mvc.utils.text import short_repr

Header: TypeAlias = tuple[list[str], str | None]  # names of the columns, and that of an index among them

ID_COLUMNS = ("id", "ids", "sample", "cell", "barcode", "index")  # in any case
LABEL_COLUMNS = tuple(name for name in LABEL_NAMES if name.lower() != "y")  # y may be a coordinate
UNNAMED = "Unnamed: 0"  # name that pandas gives to a first column without a name
SEPARATORS = {".csv": ",", ".tsv": "\t"}
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
BLOCK_CELLS = 2**21  # of a large Parquet file that are read together


def read_tables(files: Mapping[str, Path], id_column: str | None, labels: str | None) -> Contents:
    """Read tables, one per view.

    Args:
        files: path of each view.
        id_column: column that identifies the samples. By default one of `ID_COLUMNS`, or the index of the
            data frame that was written; if there is none, rows are matched by position.
        labels: column of the labels, in any table; by default one of `LABEL_COLUMNS`.
    """
    pandas = require_module("pandas", "data", next(iter(files.values())))
    headers = {name: _read_header(path) for name, path in files.items()}
    id_columns = _find_id_columns(headers, id_column)
    columns = [column for names, _ in headers.values() for column in names]
    if labels is not None and labels not in columns:
        raise DataError(f"no table has the column {labels!r}, only {_list(columns)}.")
    labels = labels or _find(LABEL_COLUMNS, columns)
    frames, known = {}, []
    for name, path in files.items():
        with file_errors(path, "a table"):
            frame = _read_frame(path, [column for column in (id_columns.get(name), labels) if column])
            if name in id_columns:
                _set_ids(frame, id_columns[name])
            if labels in frame.columns:
                known.append(frame.pop(labels))
            _check_features(frame)
            frames[name] = frame
    if not id_columns and len({len(frame) for frame in frames.values()}) > 1:
        sizes = ", ".join(f"{name} {len(frame)}" for name, frame in frames.items())
        raise DataError(f"the tables have no id column and different numbers of rows ({sizes}).")
    if id_columns and all(INTEGER.fullmatch(x) for frame in frames.values() for x in frame.index):
        for table in (*frames.values(), *known):
            table.index = table.index.astype(np.int64)
    with data_errors():
        views = as_views(frames)
    views = replace(views, sample_ids=to_builtin_dtype(views.sample_ids))
    return Contents(views, _join_labels(pandas.concat(known), views.sample_ids) if known else None)


def read_table_column(path: Path, column: str, id_column: str | None) -> Any:
    """Return a column of a table as a pandas series, by id if the table has ids, else by row number."""
    require_module("pandas", "data", path)
    columns, index = _read_header(path)
    check_column(column, columns)
    ids = _find([id_column, *ID_COLUMNS] if id_column else ID_COLUMNS, columns) or index
    frame = _read_frame(path, [ids] if ids else [])
    if ids and ids != column:
        _set_ids(frame, ids)
    return frame[column]


def _read_header(path: Path) -> Header:
    """Return the names of the columns, and which of them has the index of the data frame that was written."""
    with file_errors(path, "a table"):
        if path.suffix.lower() not in SEPARATORS:
            schema = _open_parquet(path).schema_arrow
            index = [x for x in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(x, str)]
            return schema.names, index[0] if len(index) == 1 else None
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = (row for row in csv.reader(file, delimiter=SEPARATORS[path.suffix.lower()]) if row)
            first, second = next(rows, []), next(rows, [])
        if not second:
            raise DataError("it has no rows below its header.")
        if all(map(is_number, first)) and not all(map(str.isdigit, first)):
            raise DataError(f"its first line has numbers ({_list(first)}): write names of columns there.")
        return ([UNNAMED, *first[1:]], UNNAMED) if first[0] == "" else (first, None)


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _find_id_columns(headers: Mapping[str, Header], id_column: str | None) -> dict[str, str]:
    """Return the id column of each table, or nothing if no table has one."""
    found = {}
    for name, (columns, index) in headers.items():
        if column := _find((id_column,), columns) if id_column else _find(ID_COLUMNS, columns) or index:
            found[name] = column
    lacking = [name for name in headers if name not in found]
    if lacking and (found or id_column):
        wanted = repr(id_column) if id_column else "of ids, which other tables have"
        problem = f"the table {lacking[0]!r} has no column {wanted}, only {_list(headers[lacking[0]][0])}"
        raise DataError(f"{problem}: give all tables an id column, or none.")
    return found


def _find(names: Sequence[str], columns: Sequence[str]) -> str | None:
    """Return the first column with one of these names, if possible in the same case."""
    for name in names:
        matches = [column for column in columns if column.lower() == name.lower()]
        if matches:
            return name if name in matches else matches[0]
    return None


def _list(columns: Sequence[str]) -> str:
    return ", ".join(columns[:10]) + (", ..." if len(columns) > 10 else "")


def _set_ids(frame: Any, id_column: str) -> None:
    """Make the id column the index of a data frame."""
    ids = frame.pop(id_column)
    empty = ids.isna() | (ids == "")
    if empty.any():
        raise DataError(f"row {empty.argmax()} has no id in the column {id_column!r}.")
    frame.index = ids.astype(str)  # `set_axis` would copy
    repeated = frame.index.duplicated()
    if repeated.any():
        row = int(np.argmax(repeated))
        raise DataError(f"row {row} repeats the id {frame.index[row]!r} of the column {id_column!r}.")


def _check_features(frame: Any) -> None:
    from pandas import api, to_numeric

    if frame.shape[1] == 0:
        raise DataError("it has no columns beside ids and labels: give it at least one feature.")
    for name, column in frame.items():
        if not api.types.is_numeric_dtype(column.dtype):
            row = (to_numeric(column, errors="coerce").isna() & column.notna()).argmax()
            value = short_repr(column.iloc[row])
            problem = f"the column {name!r} has {value} in row {row}, which is not a number"
            raise DataError(f"{problem}: leave the column out, or use it as ids or labels.")


def _read_frame(path: Path, text_columns: Sequence[str]) -> Any:
    """Read a table as a data frame with rows numbered from 0; text columns stay as they are written."""
    if path.suffix.lower() not in SEPARATORS:
        return _read_parquet(path, text_columns)
    from pandas import RangeIndex, read_csv

    check_size(path.stat().st_size)
    frame = read_csv(
        path,
        sep=SEPARATORS[path.suffix.lower()],
        converters=dict.fromkeys(text_columns, str),
        float_precision="round_trip",
        low_memory=False,  # one type per column
    )
    if not isinstance(frame.index, RangeIndex):
        raise DataError("its rows have more cells than its header: give every column a name.")
    return frame


def _read_parquet(path: Path, text_columns: Sequence[str]) -> Any:
    """Read a Parquet file as a data frame; numeric columns of a large file are memory-mapped."""
    from pandas import DataFrame

    file = _open_parquet(path)
    n_rows, schema = file.metadata.num_rows, file.schema_arrow
    n_bytes = 8 * n_rows * len(schema.names)
    check_ratio(path.name, n_bytes, path.stat().st_size)
    texts = [name for name in schema.names if name in text_columns]
    numeric = [name for name in schema.names if name not in text_columns]
    dtype = _common_dtype([schema.field(name).type for name in numeric])
    if dtype is None or not is_large((n_rows, len(numeric)), dtype):
        check_size(n_bytes)
        return file.read().to_pandas(ignore_metadata=True)
    batches = file.iter_batches(max(1, BLOCK_CELLS // len(numeric)), columns=numeric)
    blocks = (batch.to_pandas(ignore_metadata=True)[numeric].to_numpy(dtype) for batch in batches)
    mapped = to_memmap(path.name, (n_rows, len(numeric)), dtype, blocks)
    frame = DataFrame(mapped, columns=numeric, copy=False)
    check_size(8 * n_rows * len(texts))
    for name, column in file.read(columns=texts).to_pandas(ignore_metadata=True).items():
        frame[name] = column
    return frame


def _open_parquet(path: Path) -> Any:
    parquet = require_module("pyarrow.parquet", "data", path)
    return parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**16)  # else all data stay in memory


def _common_dtype(types: Sequence[Any]) -> np.dtype[Any] | None:
    """Return a float type for all columns, or None if one of them is not numeric."""
    try:
        dtypes = [np.dtype(kind.to_pandas_dtype()) for kind in types]
    except (NotImplementedError, TypeError):  # a type that numpy lacks
        return None
    if not dtypes or any(dtype.kind not in "buif" for dtype in dtypes):
        return None
    return np.result_type(*dtypes, np.float32 if any(d.kind == "f" for d in dtypes) else np.float64)


def _join_labels(known: Any, sample_ids: NDArray[Any]) -> NDArray[Any]:
    """Return the label of each sample; tables that both have it must agree."""
    known = known[known.notna() & (known != "")].astype(str)
    n_values = known.groupby(level=0).nunique()
    if (n_values > 1).any():
        raise DataError(f"the tables have different labels of {n_values.idxmax()!r}.")
    known = known[~known.index.duplicated()].reindex(sample_ids)
    if known.isna().any():
        sample = str(sample_ids[known.isna().to_numpy()][0])
        raise DataError(f"the sample {sample!r} has no label: give every sample one.")
    return parse_labels(known.tolist())


def parse_labels(labels: Sequence[str]) -> NDArray[Any]:
    """Return labels as an array, of integers if all of them are integers, so that 10 comes after 9."""
    return np.array([int(x) for x in labels] if all(map(INTEGER.fullmatch, labels)) else labels)
