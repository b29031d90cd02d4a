"""HDF5 files: nothing outside of one is ever read, and a full disk does not kill who writes one."""

import io
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
from protocol_mvc.io.arrays import Stored
from protocol_mvc.io.limits import check_ratio, check_size, need

MAX_DEPTH = 8  # of groups in groups; links may make circles


@contextmanager
def open_arrays(path: Path) -> Iterator[dict[str, Stored]]:
    """Yield the data sets of a file by their paths, in alphabetical order; links are not followed.

    Raises:
        Refusal: If a data set has its values elsewhere.
    """
    h5py = need("h5py", "data", path)
    with h5py.File(path, "r") as file:
        nodes: dict[str, Any] = {}
        file.visititems(lambda name, node: nodes.update({name: node}))
        found = {name: node for name, node in nodes.items() if isinstance(node, h5py.Dataset) and node.shape}
        yield {name: _stored(name, node, h5py) for name, node in sorted(found.items())}


def _stored(name: str, node: Any, h5py: Any) -> Stored:
    _check_own(name, node)
    if h5py.check_string_dtype(node.dtype) is not None:
        return Stored(node.shape, np.dtype(np.str_), lambda: node.asstr()[()])
    if is_large(node.shape, node.dtype):
        return Stored(node.shape, node.dtype, partial(mapped, node), mapped=True)
    return Stored(node.shape, node.dtype, partial(node.__getitem__, ()))


def mapped(node: Any) -> NDArray[Any]:
    """Return a matrix without taking memory for it."""
    return to_memmap(node.name, node.shape, node.dtype, (node[rows] for rows in _whole_chunks(node)))


def _whole_chunks(node: Any) -> Iterator[slice]:
    """Ranges of rows that begin and end with a chunk, so that none is decoded twice, if memory allows it."""
    n_bytes = int(node.dtype.itemsize) * node.shape[1]
    height = max(rows.stop - rows.start for rows in row_slices(node))
    if node.chunks:
        height = min(-(-height // node.chunks[0]) * node.chunks[0], max(height, LARGE // n_bytes))
    yield from gen_batches(node.shape[0], height)


def _check_own(name: str, node: Any) -> None:
    """Refuse a data set that has its values in another file, or hardly any for its size."""
    if node.external or node.is_virtual:
        raise DataError(f"the data set {name!r} has its values in another file: store them in this one.")
    n_bytes, stored = prod(node.shape or ()) * int(node.dtype.itemsize), node.id.get_storage_size()
    if node.chunks is None and 0 < stored < n_bytes:  # texts take more, being stored elsewhere
        raise DataError(
            f"the data set {name!r} has {stored} bytes instead of {n_bytes}: fetch the file again."
        )
    check_ratio(name, n_bytes, stored)


def checked(group: Any, key: str, h5py: Any) -> Any:
    """Return the member `key` of a group, which is safe to be read as a whole or is a matrix to be mapped.

    Raises:
        Refusal: If it is not there, leads out of the file, or takes too much memory.
    """
    node = member(group, key, h5py)
    if is_large_matrix(node, h5py):
        _check_own(node.name, node)
    else:
        check_size(_n_bytes(node, h5py))
    return node


def is_large_matrix(node: Any, h5py: Any) -> bool:
    """Tell whether a member is better mapped than read."""
    return isinstance(node, h5py.Dataset) and is_large(node.shape or (), node.dtype)


def member(group: Any, key: str, h5py: Any) -> Any:
    """Return the member `key` of a group, without a look into it.

    Raises:
        Refusal: If it is not there, or is a link.
    """
    if key not in group:
        raise DataError(f"it has no {key!r} in {group.name!r}, only {sorted(group)}.")
    if not isinstance(group.get(key, getlink=True), h5py.HardLink):
        raise DataError(
            f"{key!r} in {group.name!r} is a link to elsewhere: store its values in the file itself."
        )
    return group[key]


def _n_bytes(node: Any, h5py: Any, depth: int = 0) -> int:
    """Return the memory that a data set or a group takes, with what the shape of a sparse matrix may cost."""
    if isinstance(node, h5py.Dataset):
        _check_own(node.name, node)
        return prod(node.shape or ()) * int(node.dtype.itemsize)
    if depth == MAX_DEPTH:
        raise DataError(f"its groups go deeper than {node.name!r}, so they cannot be data: save it anew.")
    shape = node.attrs.get("shape", node.attrs.get("h5sparse_shape", ()))
    members = (_n_bytes(member(node, key, h5py), h5py, depth + 1) for key in node)
    return sum(members) + 8 * sum(map(int, shape))


class _Patient(io.FileIO):
    """A file that keeps a fault of the disk to itself, because the HDF5 library may not survive it."""

    fault: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of the data, or remember why not."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and self.fault is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.fault = error
        return size

    def readinto(self, buffer: Any) -> int:
        """Read what can be read; the rest is zero, since the library follows the addresses that it reads."""
        rest = memoryview(buffer).cast("B")
        size = len(rest)
        try:
            while n_read := super().readinto(rest):
                rest = rest[n_read:]
        except OSError as error:
            self.fault = self.fault or error
        rest[:] = bytes(len(rest))
        return size

    def truncate(self, size: int | None = None) -> int:
        """Give the file a size, or remember why not."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.fault = self.fault or error
            return self.tell() if size is None else size


@contextmanager
def writing(path: Path, mode: str, h5py: Any) -> Iterator[Any]:
    """Yield an HDF5 file to be written: a new one by the mode "x", else one that is there by "r+".

    Raises:
        OSError: If the disk is full, after the library has closed the file in peace.
    """
    disk = _Patient(path, "x+" if mode == "x" else mode)
    try:
        with h5py.File(disk, "w" if mode == "x" else mode) as file:
            yield file
    finally:
        disk.close()
        if disk.fault is not None:
            raise disk.fault
