"""Memory-mapped matrices: data too large for memory go to a temporary file."""

import shutil
import tempfile
from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from protocol_mvc.data.checks import Matrix, drop_cached_pages, is_mapped, row_slices
from protocol_mvc.exceptions import DataError

LARGE = 2**28  # bytes; smaller matrices are read into memory
SCATTERED_ROWS = 2000  # of a memory map that are read at a time: each of them loads several pages


def is_large(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Return whether a numeric matrix should be memory-mapped instead of read."""
    return len(shape) == 2 and dtype.kind in "buif" and prod(shape) * dtype.itemsize > LARGE


def to_memmap(
    name: str, shape: tuple[int, ...], dtype: np.dtype[Any], blocks: Iterable[NDArray[Any]]
) -> NDArray[Any]:
    """Write blocks of rows to an unnamed temporary file, and return the file as a read-only memory map.

    Args:
        name: name of the matrix, for error messages.
        shape: shape of the whole matrix.
        dtype: type of its values.
        blocks: consecutive blocks of rows.

    Raises:
        DataError: If the disk is too small or cannot be written.
    """
    n_bytes, folder = prod(shape) * dtype.itemsize, tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise DataError(
            f"{name!r} takes {n_bytes / 2**30:.3g} GiB, but {folder} has {free / 2**30:.3g} GiB free: set "
            "TMPDIR to a larger disk."
        )
    try:
        with tempfile.TemporaryFile() as file:
            for block in blocks:
                file.write(np.ascontiguousarray(block, dtype).data)
            file.flush()
            return np.memmap(file, dtype, "r", shape=shape)
    except OSError as error:
        if error.errno is None:  # an error of the library that reads the blocks
            raise
        raise DataError(
            f"{name!r} cannot be written to {folder} ({error.strerror}): set TMPDIR to another disk."
        ) from error


def take_rows(
    name: str, matrix: Matrix, rows: NDArray[np.intp], dtype: np.dtype[Any] | None = None
) -> Matrix:
    """Return rows of a matrix by position (-1: NaN); a large part of a memory map is mapped again."""
    dtype = matrix.dtype if dtype is None else dtype
    shape = (len(rows), matrix.shape[1])
    if is_mapped(matrix) and is_large(shape, dtype):
        slices = row_slices(matrix, len(rows))
        return to_memmap(name, shape, dtype, (_take(matrix, rows[part], dtype) for part in slices))
    if not is_mapped(matrix):
        return _take(matrix, rows, dtype)
    taken = np.empty(shape, dtype)
    for part in gen_batches(len(rows), SCATTERED_ROWS):
        taken[part] = _take(matrix, rows[part], dtype)
        drop_cached_pages(matrix)
    return taken


def _take(matrix: Any, rows: NDArray[np.intp], dtype: np.dtype[Any]) -> NDArray[Any]:
    taken: Any = matrix[rows].astype(dtype, copy=False)
    if (rows < 0).any():
        taken[rows < 0] = np.nan
    return taken  # type: ignore[no-any-return]
