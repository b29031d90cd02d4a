"""Decode the variables of `.mat` files, v4 to v7 by scipy and v7.3 by h5py; `matlab` tells what they mean."""

import warnings
import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.exceptions import ComplexWarning
from scipy.io import loadmat, whosmat
from scipy.io.matlab import MatReadError, MatReadWarning
from scipy.sparse import csc_array

from protocol_mvc.data.checks import is_sparse
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.matlab_tags import check_variables

SIGNATURE = b"\x89HDF\r\n\x1a\n"  # of HDF5, which MATLAB v7.3 writes behind a header of 512 bytes
# What scipy and h5py raise on truncated or altered files.
DAMAGE: tuple[type[Exception], ...] = (OSError, ValueError, TypeError, LookupError, AttributeError, EOFError)
DAMAGE += (ArithmeticError, MemoryError, RuntimeError, NameError, zlib.error, MatReadError, MatReadWarning)


def variable_names(path: Path) -> list[str]:
    """Return the names of the variables of a file."""
    if not _is_hdf5(path):
        return [name for name, _, _ in whosmat(path, appendmat=False)]
    with _h5py(path).File(path, "r") as file:
        return [name for name in file if not name.startswith("#")]  # MATLAB's own: #refs#, #subsystem#


def read_variables(path: Path, names: Sequence[str], max_bytes: int) -> dict[str, list[Any]]:
    """Return the named variables, each as its cells or, if it is no cell array, as a list of one.

    The parts are numpy arrays of any type or sparse columns; other variables are never decoded.
    """
    read = _read_hdf5 if _is_hdf5(path) else _read_classic
    return read(path, names, max_bytes)


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(512 + len(SIGNATURE))
    return head.startswith(SIGNATURE) or head.endswith(SIGNATURE)


def _check_size(n_bytes: int, limit: int) -> None:
    if n_bytes > limit:
        raise DataError(
            f"its arrays take {n_bytes / 2**30:.3g} GiB, more than the {limit / 2**30:.3g} GiB allowed: "
            "raise `max_bytes` if the memory is there."
        )


def _read_classic(path: Path, names: Sequence[str], max_bytes: int) -> dict[str, list[Any]]:
    """Read a file of v4 to v7."""
    _check_size(check_variables(path, names), max_bytes)
    headers = [(shape, kind) for name, shape, kind in whosmat(path, appendmat=False) if name in names]
    full = [shape for shape, kind in headers if kind not in ("cell", "sparse")]
    _check_size(sum(prod(map(int, shape)) for shape in full), max_bytes)  # at least a byte each
    contents = {name: _cells(value) for name, value in _loaded(path, names).items()}
    _check_size(sum(_bytes(part) for parts in contents.values() for part in parts), max_bytes)
    return contents


def _loaded(path: Path, names: Sequence[str]) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ComplexWarning)  # else imaginary parts are lost
        try:
            # mat_dtype: MATLAB stores doubles without a fraction as small integers, no type of the data.
            read = loadmat(path, appendmat=False, variable_names=[*names], mat_dtype=True, spmatrix=False)
        except ComplexWarning:
            raise DataError(f"one of {', '.join(names)} holds complex values: store real numbers.") from None
    return {name: read[name] for name in names}


def _cells(value: Any) -> list[Any]:
    is_cell = isinstance(value, np.ndarray) and value.dtype == object
    return list(value.ravel(order="F")) if is_cell else [value]


def _bytes(part: Any) -> int:
    """Memory of a part; of a sparse one, what its row or column pointers may come to."""
    return 8 * sum(part.shape) if is_sparse(part) else getattr(part, "nbytes", 0)


def _h5py(path: Path) -> Any:
    try:
        import h5py
    except ImportError:
        raise ModuleNotFoundError(
            f"File {path} is of MATLAB v7.3, which needs h5py: pip install 'protocol-mvc[mat73]'."
        ) from None
    return h5py


def _read_hdf5(path: Path, names: Sequence[str], max_bytes: int) -> dict[str, list[Any]]:
    """Read a file of v7.3, where cells are arrays of references and axes come in reversed order."""
    h5py = _h5py(path)
    with h5py.File(path, "r") as file:
        nodes = {name: _nodes(file, name, h5py, max_bytes) for name in names}
        _check_size(sum(_stored(node, h5py) for parts in nodes.values() for node in parts), max_bytes)
        return {name: [_value(node, name, h5py) for node in parts] for name, parts in nodes.items()}


def _nodes(file: Any, name: str, h5py: Any, max_bytes: int) -> list[Any]:
    """Return what the variable `name` consists of: the targets of its references, or itself."""
    node = _child(file, name, h5py)
    if not isinstance(node, h5py.Dataset) or not h5py.check_ref_dtype(node.dtype):
        return [node]
    _check_size(_stored(node, h5py), max_bytes)
    return [file[reference] for reference in _own(node, name, h5py)[()].ravel()]


def _child(group: Any, key: str, h5py: Any) -> Any:
    """Return a member of a group; links of other kinds may lead to other files."""
    if not isinstance(group.get(key, getlink=True), h5py.HardLink):
        raise DataError(f"the variable {key} is a link to elsewhere: store its values in the file itself.")
    return group[key]


def _own(node: Any, name: str, h5py: Any) -> Any:
    """Return a dataset that keeps its values in this very file."""
    if not isinstance(node, h5py.Dataset) or node.external or node.is_virtual or node.shape is None:
        raise DataError(
            f"the variable {name} is no array in this file: store matrices, not structs or links."
        )
    return node


def _stored(node: Any, h5py: Any) -> int:
    """Memory that a node takes when read, from its shape alone; sparse matrices are groups."""
    if isinstance(node, h5py.Dataset):
        return prod(node.shape or ()) * int(node.dtype.itemsize)
    keys = [key for key in ("data", "ir", "jc") if key in node]
    parts = sum(_stored(_child(node, key, h5py), h5py) for key in keys)
    return parts + 8 * int(node.attrs.get("MATLAB_sparse", 0))


def _value(node: Any, name: str, h5py: Any) -> Any:
    if "MATLAB_sparse" in node.attrs:
        return _sparse(node, name, h5py)
    kind = node.attrs.get("MATLAB_class", b"")
    if _own(node, name, h5py).dtype.kind not in "buif" or kind in (b"char", b"cell"):
        raise DataError(
            f"the variable {name} holds {kind.decode() or node.dtype} values: store real numbers."
        )
    if "MATLAB_empty" in node.attrs:
        return np.empty((0, 0))  # what is stored then is the shape
    return np.atleast_2d(node[()]).T


def _sparse(group: Any, name: str, h5py: Any) -> Any:
    """Return a matrix kept as compressed columns; MATLAB leaves out the parts that would be empty."""
    keys = [key for key in ("data", "ir", "jc") if key in group]
    parts = {key: _own(_child(group, key, h5py), name, h5py)[()] for key in keys}
    data, rows, ends = (parts.get(key, np.empty(0)) for key in ("data", "ir", "jc"))
    shape = int(group.attrs["MATLAB_sparse"]), len(ends) - 1
    return csc_array((data, rows.astype(np.int64), ends.astype(np.int64)), shape=shape)
