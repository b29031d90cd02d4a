"""Matrices too large for memory go through a temporary file, and are mapped from there."""

import shutil
import tempfile
from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.formats.guards import Refusal

__all__ = ["is_large", "spooled"]

LARGE = 2**28  # bytes; smaller matrices are read into memory


def is_large(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Tell whether a matrix of numbers is better mapped than read."""
    return len(shape) == 2 and dtype.kind in "buif" and prod(shape) * dtype.itemsize > LARGE


def spooled(
    name: str, shape: tuple[int, ...], dtype: np.dtype[Any], blocks: Iterable[NDArray[Any]]
) -> NDArray[Any]:
    """Return a matrix given in blocks of rows, as the map of a temporary file that has no name.

    Raises:
        Refusal: If the disk has no room for it.
    """
    n_bytes, folder = prod(shape) * dtype.itemsize, tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise Refusal(
            f"{name!r} takes {n_bytes / 2**30:.3g} GiB, but {folder} has room for {free / 2**30:.3g} GiB: "
            "let TMPDIR name a larger disk."
        )
    with tempfile.TemporaryFile() as file:
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype).tobytes())
        file.flush()
        return np.memmap(file, dtype, "r", shape=shape)
