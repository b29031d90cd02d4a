"""Read the `.mat` files in which multi-view data sets are distributed.

Variables are decoded by scipy (v4 to v7) or h5py (v7.3). Then the views and labels are found by name, and the
axis of the samples by the shapes.
"""

import os
import re
import warnings
import zlib
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.exceptions import ComplexWarning
from numpy.typing import NDArray
from scipy.io import loadmat, whosmat
from scipy.io.matlab import MatReadError, MatReadWarning
from scipy.sparse import csc_array, csr_array

from protocol_mvc.data.checks import Matrix, is_sparse
from protocol_mvc.exceptions import DataError

MAX_BYTES = 2**34  # of the arrays in memory; the largest set of the paper takes 1.4 GB as doubles
VIEWS = re.compile(r"(x|views?|data|fea)_?(\d*)", re.IGNORECASE)
LABELS = ("gt", "gnd", "truth", "truelabel", "label", "labels", "y")  # Y last: it may be anything
SIGNATURE = b"\x89HDF\r\n\x1a\n"  # of HDF5, which MATLAB v7.3 writes behind a header of 512 bytes
# What scipy and h5py raise for truncated or altered files.
DAMAGE: tuple[type[Exception], ...] = (OSError, ValueError, TypeError, LookupError, AttributeError, EOFError)
DAMAGE += (ArithmeticError, MemoryError, RuntimeError, NameError, zlib.error, MatReadError, MatReadWarning)


class MatFile(NamedTuple):
    """The contents of a `.mat` file."""

    views: list[Matrix]  # samples x features, in the numeric type of the file
    names: list[str]  # X1, or X{1} for the first cell of X
    labels: NDArray[np.int64] | None  # 0, 1, ... in the order of the file's values


def read_mat(
    path: str | os.PathLike[str], *, n_samples: int | None = None, max_bytes: int = MAX_BYTES
) -> MatFile:
    """Return the views and labels of a MATLAB file of any version (v7.3 needs h5py).

    The views are a cell array `X`, `data`, `fea` or `view(s)`, or the variables `X1`, `X2`, ... (or `view1`,
    ...); the labels are `Y`, `gt`, `gnd`, `truth`, `truelabel` or `label(s)`, one vector or one per view.
    The samples are rows or columns, whichever match the labels; images are flattened.

    Args:
        path: The file.
        n_samples: Number of samples, needed only if there are no labels and the shapes are ambiguous.
        max_bytes: Largest size of the arrays in memory.

    Raises:
        FileNotFoundError: If there is no such file.
        ModuleNotFoundError: If the file is of v7.3 and h5py is not installed.
        ValueError: If the file is damaged, or its contents are not views of one set of samples.
    """
    path = Path(path)
    read = _read_hdf5 if _is_hdf5(path) else _read_classic
    try:
        views, label, contents = read(path, max_bytes)
        return _arrange(contents, views, label, n_samples)
    except FileNotFoundError:
        raise
    except DataError as error:
        raise ValueError(f"File {path}: {error}") from None
    except DAMAGE as error:
        raise ValueError(
            f"File {path} cannot be read as a .mat file ({error!r}): it is damaged, too large or of another "
            "format; download it again or save it anew."
        ) from error


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(512 + len(SIGNATURE))
    return head.startswith(SIGNATURE) or head.endswith(SIGNATURE)


def _check_size(n_bytes: int, limit: int) -> None:
    if n_bytes > limit:
        raise DataError(
            f"its arrays take {n_bytes / 2**30:.3g} GiB, more than the {limit / 2**30:.3g} GiB allowed: "
            "increase `max_bytes` if there is enough memory."
        )


# Decoding: the names of views and labels, and their contents as lists of cells (or of one array).
Decoded = tuple[list[str], list[str], dict[str, list[Any]]]


def _read_classic(path: Path, max_bytes: int) -> Decoded:
    """Decode a file of v4 to v7; other variables are never decoded."""
    headers = whosmat(path, appendmat=False)
    views, label = _choose([name for name, _, _ in headers])
    names = [*views, *label]
    full = [shape for name, shape, kind in headers if name in names and kind not in ("cell", "sparse")]
    _check_size(sum(prod(map(int, shape)) for shape in full), max_bytes)  # at least one byte each
    with warnings.catch_warnings():
        warnings.simplefilter("error", ComplexWarning)  # or imaginary parts are lost
        try:
            # mat_dtype: MATLAB stores doubles without a fraction as small integers.
            read = loadmat(path, appendmat=False, variable_names=names, mat_dtype=True, spmatrix=False)
        except ComplexWarning:
            raise DataError(f"one of {', '.join(names)} holds complex values: store real numbers.") from None
    contents = {name: _cells(read[name]) for name in names}
    sizes = [
        8 * sum(part.shape) if is_sparse(part) else getattr(part, "nbytes", 0)
        for parts in contents.values()
        for part in parts
    ]
    _check_size(sum(sizes), max_bytes)
    return views, label, contents


def _cells(value: Any) -> list[Any]:
    is_cell = isinstance(value, np.ndarray) and value.dtype == object
    return list(value.ravel(order="F")) if is_cell else [value]


def _read_hdf5(path: Path, max_bytes: int) -> Decoded:
    """Decode a file of v7.3, where cells are arrays of references and the axes are reversed."""
    try:
        import h5py
    except ImportError:
        raise ModuleNotFoundError(
            f"File {path} is of MATLAB v7.3, which needs h5py: pip install 'protocol-mvc[mat73]'."
        ) from None
    with h5py.File(path, "r") as file:
        views, label = _choose([name for name in file if not name.startswith("#")])  # "#refs#" is MATLAB's
        nodes = {name: _nodes(file, name, h5py, max_bytes) for name in (*views, *label)}
        _check_size(sum(_stored_bytes(node, h5py) for parts in nodes.values() for node in parts), max_bytes)
        contents = {name: [_value(node, name, h5py) for node in parts] for name, parts in nodes.items()}
    return views, label, contents


def _nodes(file: Any, name: str, h5py: Any, max_bytes: int) -> list[Any]:
    """Return the targets of the references of a cell array, or the variable itself."""
    node = _member(file, name, h5py)
    if not isinstance(node, h5py.Dataset) or not h5py.check_ref_dtype(node.dtype):
        return [node]
    _check_size(_stored_bytes(node, h5py), max_bytes)
    return [file[reference] for reference in _dataset(node, name, h5py)[()].ravel()]


def _member(group: Any, key: str, h5py: Any) -> Any:
    """Return a member of a group; soft and external links are refused."""
    if not isinstance(group.get(key, getlink=True), h5py.HardLink):
        raise DataError(f"the variable {key} is a link: store its values in the file itself.")
    return group[key]


def _dataset(node: Any, name: str, h5py: Any) -> Any:
    """Return a dataset whose values are in this file."""
    if not isinstance(node, h5py.Dataset) or node.external or node.is_virtual or node.shape is None:
        raise DataError(f"the variable {name} is not an array in this file: store matrices, not structs.")
    return node


def _stored_bytes(node: Any, h5py: Any) -> int:
    """Return the memory of a node, from its shape; sparse matrices are groups."""
    if isinstance(node, h5py.Dataset):
        return prod(node.shape or ()) * int(node.dtype.itemsize)
    keys = [key for key in ("data", "ir", "jc") if key in node]
    parts = sum(_stored_bytes(_member(node, key, h5py), h5py) for key in keys)
    return parts + 8 * int(node.attrs.get("MATLAB_sparse", 0))


def _value(node: Any, name: str, h5py: Any) -> Any:
    """Return a dense or sparse array."""
    if "MATLAB_sparse" in node.attrs:  # MATLAB leaves out parts that would be empty
        keys = [key for key in ("data", "ir", "jc") if key in node]
        parts = {key: _dataset(_member(node, key, h5py), name, h5py)[()] for key in keys}
        data, rows, ends = (parts.get(key, np.empty(0)) for key in ("data", "ir", "jc"))
        shape = int(node.attrs["MATLAB_sparse"]), len(ends) - 1
        return csc_array((data, rows.astype(np.int64), ends.astype(np.int64)), shape=shape)
    kind = node.attrs.get("MATLAB_class", b"")
    if _dataset(node, name, h5py).dtype.kind not in "buif" or kind in (b"char", b"cell"):
        raise DataError(
            f"the variable {name} holds {kind.decode() or node.dtype} values: store real numbers."
        )
    if "MATLAB_empty" in node.attrs:
        return np.empty((0, 0))  # the stored values are the shape
    return np.atleast_2d(node[()]).T


# Layout: which variables are views and labels, and which axis are the samples.
def _choose(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the variables that hold the views, in order, and the one with the labels, if any."""
    families: dict[tuple[str, bool], dict[int, str]] = {}
    for name in names:
        if match := VIEWS.fullmatch(name):
            families.setdefault((match[1], bool(match[2])), {})[int(match[2] or 1)] = name
    if len(families) != 1:
        what = "views under several names" if families else "no views"
        raise DataError(f"it holds {what} ({', '.join(names)}): store one cell array X, or X1, X2, ...")
    (views,) = families.values()
    order = sorted(views)
    if order not in ([*range(len(order))], [*range(1, len(order) + 1)]):
        raise DataError(f"its views {', '.join(views.values())} are not numbered without gaps: rename them.")
    known = {name.lower(): name for name in names}
    return [views[i] for i in order], [known[key] for key in LABELS if key in known][:1]


def _arrange(
    contents: Mapping[str, list[Any]], views: Sequence[str], label: Sequence[str], n_samples: int | None
) -> MatFile:
    """Return views as samples x features, and labels as 0, 1, ..."""
    labels = _labels(contents[label[0]], label[0]) if label else None
    parts = {}
    for name in views:
        for i, part in enumerate(contents[name], start=1):
            where = name if len(contents[name]) == 1 else f"{name}{{{i}}}"
            parts[where] = _numeric(part, where)
    if not parts:
        raise DataError(f"the cell array {views[0]} is empty: store one matrix per view in it.")
    n = n_samples if labels is None else len(labels)
    return MatFile(_orient(parts, _common_length(parts) if n is None else n), list(parts), labels)


def _labels(parts: Sequence[Any], name: str) -> NDArray[np.int64]:
    """Return 0, 1, ... for the distinct values of a vector, or of a cell of identical vectors."""
    vectors = [_numeric(part, name) for part in parts]
    if not vectors or any(is_sparse(vector) or vector.size != max(vector.shape) for vector in vectors):
        shapes = ", ".join(str(vector.shape) for vector in vectors)
        raise DataError(f"the labels {name} have shape {shapes or 0}: store a full vector, one per sample.")
    first = vectors[0].ravel()
    if not np.isfinite(first).all():
        raise DataError(f"the labels {name} hold NaN or infinity: give every sample a label.")
    if not all(np.array_equal(first, vector.ravel()) for vector in vectors):
        raise DataError(f"the labels {name} differ between views: store one vector for all views.")
    return np.unique(first, return_inverse=True)[1].astype(np.int64)


def _numeric(part: Any, where: str) -> Any:
    """Return an array of real numbers in the byte order of this machine."""
    if is_sparse(part):
        part = csc_array(part)
        part.check_format(full_check=True)  # indices come from the file and may point anywhere
    if not (is_sparse(part) or type(part) is np.ndarray) or part.dtype.kind not in "buif":
        what = getattr(part, "dtype", type(part).__name__)
        raise DataError(f"the variable {where} holds {what} values: store a matrix of real numbers.")
    if not all(part.shape):
        raise DataError(f"the variable {where} is empty (shape {part.shape}): remove or fill it.")
    return part.astype(part.dtype.newbyteorder("="), copy=False)


def _common_length(parts: Mapping[str, Any]) -> int:
    """Return the one length that all parts share along their first or last axis."""
    lengths = set.intersection(*({part.shape[0], part.shape[-1]} for part in parts.values()))
    if len(lengths) != 1:
        shapes = ", ".join(f"{where} {part.shape}" for where, part in parts.items())
        remedy = "pass `n_samples`." if lengths else "give every view the same samples."
        raise DataError(f"it has no labels, and its shapes are ambiguous ({shapes}): {remedy}")
    return int(lengths.pop())


def _orient(parts: Mapping[str, Any], n: int) -> list[Matrix]:
    """Return all parts as samples x features; ambiguous parts follow the unambiguous ones."""
    axes = {where: [a for a in (0, part.ndim - 1) if part.shape[a] == n] for where, part in parts.items()}
    last = {found[0] > 0 for found in axes.values() if len(found) == 1}
    views: list[Matrix] = []
    for where, part in parts.items():
        axis = _axis(part, where, axes[where], last, n)
        if is_sparse(part):
            views.append(csr_array(part.T if axis else part))
        else:
            rows = np.moveaxis(part, axis, 0)
            views.append(rows.reshape(len(rows), -1))
    return views


def _axis(part: Any, where: str, axes: Sequence[int], last: set[bool], n: int) -> int:
    """Return the axis of the samples; `last` is what the unambiguous views have."""
    if not axes:
        raise DataError(
            f"the variable {where} has shape {part.shape}, but there are {n} samples: give every view as "
            "many rows, or as many columns, as there are labels."
        )
    if len(axes) == 1:
        return axes[0]
    if len(last) == 1:
        return axes[int(True in last)]
    if part.ndim == 2 and (part != part.T).sum() == 0:
        return 0
    raise DataError(
        f"the variable {where} has shape {part.shape}, so that its samples may be rows or columns: load the "
        "array yourself and pass it to `as_views`."
    )
