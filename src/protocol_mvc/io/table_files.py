"""Decode `.csv`, `.tsv` and `.parquet` files into data frames."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from protocol_mvc.data.memmap import is_large, to_memmap
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.limits import check_ratio, check_size, need

ROWS = "row names"  # what labels of rows are called that have no header of their own
UNNAMED = "Unnamed: 0"  # pandas' name for a first column without one
BLOCK = 2**21  # cells read together
SEPARATORS = {".csv": ",", ".tsv": "\t"}


class Header(NamedTuple):
    """The columns of a table, and the one of them that its writer meant to be the labels of the rows."""

    columns: list[str]
    row_names: str | None


def read_header(path: Path) -> Header:
    """Return the names of the columns of a table."""
    if path.suffix.lower() in SEPARATORS:
        return _text_header(path)
    schema = _parquet(path).schema_arrow
    index = [key for key in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(key, str)]
    return Header(schema.names, index[0] if len(index) == 1 else None)


def _text_header(path: Path) -> Header:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = (row for row in csv.reader(file, delimiter=SEPARATORS[path.suffix.lower()]) if row)
        first, second = next(rows, []), next(rows, [])
    if not second:
        raise DataError("it has no rows below its header: give one row for each sample.")
    _check_names(first)
    if len(second) == len(first) + 1:  # as R writes the names of rows
        return Header([ROWS, *first], ROWS)
    return Header([UNNAMED, *first[1:]], UNNAMED) if first[0] == "" else Header(first, None)


def _check_names(names: Sequence[str]) -> None:
    """Refuse a file without a header; numbers may be names if they go up or down, as wavelengths do."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return
    if numbers not in (sorted(numbers), sorted(numbers, reverse=True)):
        raise DataError(
            f"its first line holds numbers ({', '.join(names[:5])}): give the columns names in it."
        )


def read_table(path: Path, texts: Sequence[str]) -> Any:
    """Return a table as a data frame with rows numbered from 0; the columns `texts` stay as written."""
    if path.suffix.lower() in SEPARATORS:
        check_size(path.stat().st_size)
        return _read_text(path, texts)
    file = _parquet(path)
    n_bytes = 8 * file.metadata.num_rows * file.metadata.num_columns
    check_ratio(path.name, n_bytes, path.stat().st_size)
    numbers = [name for name in file.schema_arrow.names if name not in texts]
    dtype = _common_type(file.schema_arrow, numbers)
    if dtype is not None and is_large((file.metadata.num_rows, len(numbers)), dtype):
        return _read_mapped(file, path, numbers, dtype)
    check_size(n_bytes)
    return file.read().to_pandas(ignore_metadata=True)


def _common_type(schema: Any, names: list[str]) -> np.dtype[Any] | None:
    """Return a type of float for all of the columns, if these are numbers and no name is there twice."""
    if not names or len(set(schema.names)) < len(schema.names):
        return None
    try:
        types = [np.dtype(schema.field(name).type.to_pandas_dtype()) for name in names]
    except (NotImplementedError, TypeError):  # a type that numpy has not
        return None
    if not all(dtype.kind in "buif" for dtype in types):
        return None
    common = np.result_type(*types)
    return common if common.kind == "f" else np.dtype(np.float64)


def _read_mapped(file: Any, path: Path, numbers: list[str], dtype: np.dtype[Any]) -> Any:
    """Return a data frame whose numbers stay on the disk; what is missing is NaN."""
    pandas, shape = need("pandas", "data", path), (file.metadata.num_rows, len(numbers))
    blocks = (
        batch.to_pandas(ignore_metadata=True)[numbers].to_numpy(dtype)
        for batch in file.iter_batches(max(1, BLOCK // len(numbers)), columns=numbers)
    )
    frame = pandas.DataFrame(to_memmap(path.name, shape, dtype, blocks), columns=numbers, copy=False)
    others = [name for name in file.schema_arrow.names if name not in numbers]
    check_size(8 * shape[0] * len(others))
    for name, column in file.read(columns=others).to_pandas(ignore_metadata=True).items():
        frame[name] = column
    return frame


def _read_text(path: Path, texts: Sequence[str]) -> Any:
    pandas = need("pandas", "data", path)
    frame = pandas.read_csv(
        path,
        sep=SEPARATORS[path.suffix.lower()],
        converters={name: str for name in texts if name != ROWS},
        float_precision="round_trip",
        low_memory=False,  # one type for a whole column
    )
    return frame if isinstance(frame.index, pandas.RangeIndex) else frame.reset_index(names=ROWS)


def _parquet(path: Path) -> Any:
    need("pandas", "data", path)
    # Else all that was ever read stays in memory.
    frugal = {"pre_buffer": False, "buffer_size": 2**16}
    return need("pyarrow.parquet", "data", path).ParquetFile(path, **frugal)
