"""Open `.csv`, `.tsv`, `.xlsx`, `.feather` and `.parquet` files as tables with named columns."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np

from protocol_mvc.data.memmap import is_large, to_memmap
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.limits import check_ratio, check_size, require_module
from protocol_mvc.io.table_format import (
    DEFAULTS,
    SEPARATORS,
    TableFormat,
    TableOptions,
    detect_format,
    open_text,
    parse_number,
    read_rows,
    split_name,
)
from protocol_mvc.utils.text import list_names

TABLE_FILES = (*SEPARATORS, ".xlsx", ".feather", ".parquet")
UNNAMED = "Unnamed: 0"  # name that pandas gives to a first column without a name
BLOCK_CELLS = 2**21  # of a large Parquet file that are read together


class Table(NamedTuple):
    """A table in a file, of which only the names of the columns are read yet.

    Attributes:
        path: the file.
        columns: names of the columns.
        index_column: the column that holds the index of the data frame that was written, if any.
        read: returns a data frame with rows numbered from 0; the given columns stay as they are written.
        decimal: decimal mark of numbers in columns of text.
        notes: how the file was read, in sentences.
    """

    path: Path
    columns: list[str]
    index_column: str | None
    read: Callable[[Sequence[str]], Any]
    decimal: str = "."
    notes: tuple[str, ...] = ()
    style: TableFormat | None = None

    def place(self, row: int) -> str:
        """Return where a row of the data frame is, counted from 1 as editors and spreadsheets do."""
        if self.style is not None:
            found = next(islice(read_rows(self.path, self.style), row + 1, None), (row + 2, []))
            return f"line {found[0]}"
        return f"row {row + 2}" if split_name(self.path)[1] == ".xlsx" else f"row {row + 1}"


def open_table(path: Path, options: TableOptions = DEFAULTS) -> Table:
    """Open a table, or raise `DataError` if it has no header or no rows."""
    require_module("pandas", "data", path)
    suffix = split_name(path)[1]
    if suffix in SEPARATORS:
        return _open_text_table(path, options)
    return _open_excel(path) if suffix == ".xlsx" else _open_arrow(path, suffix)


def _open_text_table(path: Path, options: TableOptions) -> Table:
    style = detect_format(path, options)
    (_, first), (_, second) = [*islice(read_rows(path, style), 2), (0, []), (0, [])][:2]
    if not second:
        raise DataError("it has no rows below its header.")
    numbers = [parse_number(cell, style.decimal) for cell in first]
    if None not in numbers and not all(cell.isdigit() for cell in first):
        raise DataError(f"its first line has numbers ({list_names(first)}): write names of columns there.")
    names = _unique_names(first)
    notes = () if style.is_usual(split_name(path)[1]) else (f"{path.name}: {style.describe()}.",)
    read = partial(_read_text_table, path, style, names)
    return Table(path, names, UNNAMED if UNNAMED in names[:1] else None, read, style.decimal, notes, style)


def _unique_names(header: Sequence[str]) -> list[str]:
    """Return names without surrounding blanks; those without a name, or used before, as pandas names them."""
    names: list[str] = []
    for i, cell in enumerate(header):
        name = unique = cell.strip() or f"Unnamed: {i}"
        n_before = 0
        while unique in names:
            n_before += 1
            unique = f"{name}.{n_before}"
        names.append(unique)
    return names


def _read_text_table(path: Path, style: TableFormat, names: list[str], text_columns: Sequence[str]) -> Any:
    from pandas import RangeIndex, read_csv

    with open_text(path, style) as file:
        frame = read_csv(
            file,
            sep=style.sep,
            decimal=style.decimal,
            quotechar=style.quotechar,
            names=names,
            header=0,
            converters=dict.fromkeys([name for name in names if name in text_columns], str),
            skipinitialspace=True,
            float_precision="round_trip",
            low_memory=False,  # one type per column
        )
    if not isinstance(frame.index, RangeIndex):
        raise DataError("its rows have more cells than its header: give every column a name.")
    return frame


def _open_excel(path: Path) -> Table:
    pandas, _ = require_module("pandas", "data", path), require_module("openpyxl", "excel", path)
    with ZipFile(path) as archive:
        n_bytes = sum(member.file_size for member in archive.infolist())
        check_ratio(path.name, n_bytes, path.stat().st_size)
        check_size(n_bytes)
    with pandas.ExcelFile(path, engine="openpyxl") as book:
        sheets = [str(name) for name in book.sheet_names]
        header = book.parse(sheets[0], header=None, nrows=2)
    if len(header) < 2:
        raise DataError(f"its sheet {sheets[0]!r} has no rows below its header.")
    names = _unique_names(["" if x != x else str(x) for x in header.iloc[0]])
    others = f"; the sheets {list_names(sheets[1:])} are not read" if sheets[1:] else ""
    notes = (f"{path.name}: sheet {sheets[0]!r}{others}.",) if others else ()
    read = partial(_read_excel, path, names)
    return Table(path, names, UNNAMED if UNNAMED in names[:1] else None, read, notes=notes)


def _read_excel(path: Path, names: list[str], text_columns: Sequence[str]) -> Any:
    from pandas import read_excel

    converters: Any = dict.fromkeys([name for name in names if name in text_columns], _cell_text)
    return read_excel(path, engine="openpyxl", names=names, header=0, converters=converters)


def _cell_text(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def _open_arrow(path: Path, suffix: str) -> Table:
    if suffix == ".parquet":
        schema, read = _open_parquet(path).schema_arrow, partial(_read_parquet, path)
    else:
        feather = require_module("pyarrow.feather", "data", path)
        ipc = require_module("pyarrow.ipc", "data", path)
        with path.open("rb") as file:
            schema = ipc.open_file(file).schema
        read = partial(_read_feather, feather, path)
    names = [str(name) for name in schema.names]
    if len(set(names)) < len(names):
        raise DataError(f"its column {max(names, key=names.count)!r} occurs twice: rename one.")
    index = [x for x in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(x, str)]
    return Table(path, names, index[0] if len(index) == 1 else None, read)


def _read_feather(feather: Any, path: Path, text_columns: Sequence[str]) -> Any:
    return feather.read_table(path, memory_map=False).to_pandas(ignore_metadata=True)


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
