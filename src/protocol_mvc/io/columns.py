"""Read one column that describes the samples, such as a donor or a batch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.exceptions import DataError, DataFileError
from protocol_mvc.io.arrays import to_builtin_dtype
from protocol_mvc.io.hdf5 import read_obs_column
from protocol_mvc.io.limits import reading
from protocol_mvc.io.table_format import split_name
from protocol_mvc.io.table_views import read_table_column
from protocol_mvc.io.tables import TABLE_FILES

ANNDATA_FILES = (".h5ad", ".h5mu")
MISSING = "missing"  # in a column of texts


def read_column(
    path: Path, column: str, sample_ids: NDArray[Any], id_columns: Sequence[str] = ()
) -> NDArray[Any]:
    """Read a column of `obs` of an `.h5ad` or `.h5mu` file, or of a table.

    Args:
        path: the file.
        column: name of the column; in an `.h5mu` file also "modality:column".
        sample_ids: (n,) the samples; a table without ids has one row for each of them, in their order.
        id_columns: columns of ids of a table; by default one with a usual name.

    Returns:
        (n,) numbers, NaN where a sample has none, or texts, `MISSING` where a sample has none.

    Raises:
        DataFileError: If the file has no such column, or no value of any sample.
    """
    suffix = split_name(path)[1]
    if suffix not in (*ANNDATA_FILES, *TABLE_FILES):
        raise DataFileError(f"File {path} has no columns: use {', '.join((*ANNDATA_FILES, *TABLE_FILES))}.")
    with reading(path, "a table"):
        is_table = suffix in TABLE_FILES
        found = read_table_column(path, column, id_columns) if is_table else read_obs_column(path, column)
        return _align(found, sample_ids)


def _align(found: Any, sample_ids: NDArray[Any]) -> NDArray[Any]:
    """Return the values of a pandas series in the order of the samples."""
    from pandas import RangeIndex, api

    if isinstance(found.index, RangeIndex):
        if len(found) != len(sample_ids):
            raise DataError(f"it has {len(found)} rows for {len(sample_ids)} samples: add a column of ids.")
    else:
        found = found.set_axis(found.index.astype(str)).reindex([str(sample) for sample in sample_ids])
    if found.isna().all():
        raise DataError(
            f"its column {found.name!r} has no value of any sample, such as {str(sample_ids[0])!r}."
        )
    if api.types.is_numeric_dtype(found.dtype) and not api.types.is_bool_dtype(found.dtype):
        return found.to_numpy(np.float64, na_value=np.nan)  # type: ignore[no-any-return]
    texts = found.astype(object)
    return to_builtin_dtype(
        [str(x) if known else MISSING for x, known in zip(texts, found.notna(), strict=True)]
    )
