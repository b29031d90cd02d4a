"""Matrices too large for memory go through a temporary file, and are mapped from there."""

import shutil
import tempfile
from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.checks import Matrix, is_mapped, row_slices
from protocol_mvc.exceptions import DataError

LARGE = 2**28  # bytes; smaller matrices are read into memory


def is_large(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Tell whether a matrix of numbers is better mapped than read."""
    return len(shape) == 2 and dtype.kind in "buif" and prod(shape) * dtype.itemsize > LARGE


def to_memmap(
    name: str, shape: tuple[int, ...], dtype: np.dtype[Any], blocks: Iterable[NDArray[Any]]
) -> NDArray[Any]:
    """Return a matrix given in blocks of rows, as the map of a temporary file that has no name.

    Raises:
        Refusal: If the disk has no room for it.
    """
    n_bytes, folder = prod(shape) * dtype.itemsize, tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise DataError(
            f"{name!r} takes {n_bytes / 2**30:.3g} GiB, but {folder} has room for {free / 2**30:.3g} GiB: "
            "let TMPDIR name a larger disk."
        )
    with tempfile.TemporaryFile(buffering=0) as file:
        for block in blocks:
            _write(file, np.ascontiguousarray(block, dtype).tobytes(), name)
        return np.memmap(file, dtype, "r", shape=shape)


def _write(file: Any, data: bytes, name: str) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        folder = tempfile.gettempdir()
        raise DataError(
            f"{name!r} could not be written to {folder} ({error.strerror}): let TMPDIR name another disk."
        ) from error


def take_rows(
    name: str, matrix: Matrix, rows: NDArray[np.intp], dtype: np.dtype[Any] | None = None
) -> Matrix:
    """Return the rows of a matrix by their numbers, NaN for -1; a large part of a map is a map again."""
    dtype = matrix.dtype if dtype is None else dtype
    shape = (len(rows), matrix.shape[1])
    if is_mapped(matrix) and is_large(shape, dtype):
        slices = row_slices(matrix, len(rows))
        return to_memmap(name, shape, dtype, (_taken(matrix, rows[part], dtype) for part in slices))
    return _taken(matrix, rows, dtype)


def _taken(matrix: Any, rows: NDArray[np.intp], dtype: np.dtype[Any]) -> NDArray[Any]:
    found: Any = matrix[rows].astype(dtype, copy=False)
    if (rows < 0).any():
        found[rows < 0] = np.nan
    return found  # type: ignore[no-any-return]
