"""Read HDF5 files. Links and external data are never followed, so nothing outside a file is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from protocol_mvc.data.checks import row_slices
from protocol_mvc.data.memmap import LARGE, is_large, to_memmap
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.arrays import LazyArray
from protocol_mvc.io.limits import check_ratio, require_module


@contextmanager
def open_hdf5(path: Path) -> Iterator[dict[str, LazyArray]]:
    """Yield the data sets of a file by path, in alphabetical order."""
    h5py = require_module("h5py", "data", path)
    with h5py.File(path, "r") as file:
        nodes: dict[str, Any] = {}
        file.visititems(lambda name, node: nodes.update({name: node}))  # does not follow links
        yield {
            name: _lazy_array(node) for name, node in sorted(nodes.items()) if is_dataset(node) and node.shape
        }


def _lazy_array(node: Any) -> LazyArray:
    from h5py import check_string_dtype

    check_dataset(node)
    if check_string_dtype(node.dtype) is not None:
        return LazyArray(node.shape, np.dtype(np.str_), lambda: node.asstr()[()])
    mapped = is_large(node.shape, node.dtype)
    load = partial(map_dataset, node) if mapped else partial(node.__getitem__, ())
    return LazyArray(node.shape, node.dtype, load, mapped=mapped)


def is_dataset(node: Any) -> bool:
    """Return whether a node of a file has values; groups and stored types have none."""
    return hasattr(node, "shape")


def map_dataset(node: Any) -> NDArray[Any]:
    """Copy a matrix to a temporary file and return its memory map.

    Blocks of rows end with a chunk of the data set, if memory allows it, so that no chunk is decoded twice.
    """
    n_bytes = int(node.dtype.itemsize) * node.shape[1]
    height = max(rows.stop - rows.start for rows in row_slices(node))
    if node.chunks:
        height = min(-(-height // node.chunks[0]) * node.chunks[0], max(height, LARGE // n_bytes))
    blocks = (node[rows] for rows in gen_batches(node.shape[0], height))
    return to_memmap(node.name, node.shape, node.dtype, blocks)


def check_dataset(node: Any) -> int:
    """Return the size of a data set in bytes.

    Raises:
        DataError: If its values are in another file, or far too few for its size.
    """
    if node.external or node.is_virtual:
        raise DataError(
            f"the data set {node.name!r} has its values in another file: copy them into this one."
        )
    n_bytes = prod(node.shape or ()) * int(node.dtype.itemsize)
    check_ratio(node.name, n_bytes, node.id.get_storage_size())
    return n_bytes


def get_member(group: Any, key: str) -> Any:
    """Return the member `key` of a group.

    Raises:
        DataError: If it does not exist, or is a link.
    """
    from h5py import HardLink

    if key not in group:
        raise DataError(f"it has no {key!r} in {group.name!r}, only {sorted(group)}.")
    if not isinstance(group.get(key, getlink=True), HardLink):
        raise DataError(f"{key!r} in {group.name!r} is a link: store the values in its place.")
    return group[key]
