"""Read the `.mat` files in which multi-view data sets are distributed: v4 to v7 by scipy, v7.3 by h5py.

They are read in a forked process, so that a crafted file cannot crash this one.
"""

import ctypes
import faulthandler
import os
import re
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import prod
from pathlib import Path
from typing import IO, Any, NoReturn, TypeAlias

import numpy as np
from numpy.exceptions import ComplexWarning
from numpy.typing import NDArray
from scipy.io import loadmat, whosmat
from scipy.sparse import csc_array, csr_array

from protocol_mvc.data.checks import Matrix, is_sparse
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.hdf5 import check_dataset, get_member, is_dataset
from protocol_mvc.io.limits import check_size, memory_limit, reading, require_module, used_memory

Arrays: TypeAlias = dict[str, NDArray[Any]]

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"  # in a v7.3 file behind a header of 512 bytes
VIEW_NAMES = re.compile(r"(x|views?|data|fea)_?(\d*)", re.IGNORECASE)
SPARSE_MEMBERS = ("data", "ir", "jc")  # of the group of a sparse matrix in a v7.3 file
SPARSE_PARTS = ("data", "indices", "indptr", "shape")
PR_SET_PDEATHSIG = 1  # of Linux, see prctl(2)
OK, DATA_ERROR, OTHER_ERROR, CRASH = range(4)  # exit codes of the forked process
LABEL_NAMES = ("gt", "gnd", "truth", "truelabel", "label", "labels", "y")  # y last: it may be anything


def read_mat(path: Path) -> dict[str, Matrix]:
    """Read the views and labels of a MATLAB file of any version; v7.3 needs h5py.

    The views are the cell array `X`, `data`, `fea` or `view(s)`, or the variables `X1`, `X2`, ... (also
    `view1`, ...). The labels are `Y`, `gt`, `gnd`, `truth`, `truelabel` or `label(s)`, one vector or one cell
    per view. Samples are the rows or the columns, whichever match the labels. Images are flattened.

    Returns:
        The views (n, D_v) by name (X1, or X{1} for the first cell of X) in the numeric type of the file, and
        "labels" (n,), if there are any, as integers 0, 1, ... in the order of the file's values.
    """
    with reading(path, ".mat data"):
        with path.open("rb") as file:
            head = file.read(512 + len(HDF5_SIGNATURE))
        is_hdf5 = head.startswith(HDF5_SIGNATURE) or head.endswith(HDF5_SIGNATURE)
        h5py = require_module("h5py", "mat73", path) if is_hdf5 else None
        return _join_sparse(run_forked(lambda: _split_sparse(_read_variables(path, h5py))))


def _read_variables(path: Path, h5py: Any) -> dict[str, Matrix]:
    if h5py is None:
        view_names, label_name = _choose([name for name, _, _ in whosmat(path, appendmat=False)])
        variables = _load_classic(path, [*view_names, *label_name])
    else:
        with h5py.File(path, "r") as file:
            view_names, label_name = _choose([name for name in file if not name.startswith("#")])
            variables = _load_hdf5(file, [*view_names, *label_name])
    y = _labels(variables[label_name[0]], label_name[0]) if label_name else None
    parts = {}
    for name in view_names:
        for i, part in enumerate(variables[name], start=1):
            where = name if len(variables[name]) == 1 else f"{name}{{{i}}}"
            parts[where] = _numeric(part, where)
    if not parts:
        raise DataError(f"the cell array {view_names[0]} is empty: store one matrix per view in it.")
    if y is not None:
        return {**_orient(parts, len(y)), "labels": y}
    lengths = set.intersection(*({part.shape[0], part.shape[-1]} for part in parts.values()))
    if len(lengths) != 1:
        shapes = ", ".join(f"{where} {part.shape}" for where, part in parts.items())
        raise DataError(f"the number of samples is not clear from the shapes ({shapes}): add labels Y.")
    return _orient(parts, lengths.pop())


def _choose(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of the view variables in order, and that of the labels in a list of at most one."""
    families: dict[tuple[str, bool], dict[int, str]] = {}
    for name in names:
        if match := VIEW_NAMES.fullmatch(name):
            families.setdefault((match[1], bool(match[2])), {})[int(match[2] or 1)] = name
    if len(families) != 1:
        what = "views under several names" if families else "no views"
        raise DataError(f"it has {what} ({', '.join(names)}): store one cell array X, or X1, X2, ...")
    (views,) = families.values()
    order = sorted(views)
    if order not in ([*range(len(order))], [*range(1, len(order) + 1)]):
        raise DataError(f"its views {', '.join(views.values())} are not numbered without gaps: rename them.")
    by_lower = {name.lower(): name for name in names}
    return [views[i] for i in order], [by_lower[key] for key in LABEL_NAMES if key in by_lower][:1]


def _load_classic(path: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """Read variables of a file of v4 to v7, each as a list of cells, or of one array."""
    headers = [(shape, kind) for name, shape, kind in whosmat(path, appendmat=False) if name in names]
    check_size(sum(prod(map(int, shape)) for shape, kind in headers if kind not in ("cell", "sparse")))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ComplexWarning)  # imaginary parts would be lost
        try:
            # mat_dtype: MATLAB stores doubles without a fraction as small integers.
            read = loadmat(path, appendmat=False, variable_names=[*names], mat_dtype=True, spmatrix=False)
        except ComplexWarning:
            raise DataError(f"one of {', '.join(names)} has complex values: store real numbers.") from None
    is_cell = {name: isinstance(read[name], np.ndarray) and read[name].dtype == object for name in names}
    return {name: list(read[name].ravel(order="F")) if is_cell[name] else [read[name]] for name in names}


def _load_hdf5(file: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    """Read variables of a file of v7.3, where a cell array is an array of references."""
    from h5py import check_ref_dtype

    cells = {name: [get_member(file, name)] for name in names}
    for name, (node,) in cells.items():
        if is_dataset(node) and check_ref_dtype(node.dtype):
            check_size(check_dataset(node))
            cells[name] = [file[reference] for reference in node[()].ravel()]
    n_bytes = 0
    for node in chain.from_iterable(cells.values()):
        if is_dataset(node):
            n_bytes += check_dataset(node)
        else:  # a sparse matrix, of which MATLAB leaves out empty parts
            n_bytes += sum(check_dataset(get_member(node, key)) for key in SPARSE_MEMBERS if key in node)
        n_bytes += 8 * int(node.attrs.get("MATLAB_sparse", 0))  # number of rows
    check_size(n_bytes)
    return {name: [_read_node(node, name) for node in nodes] for name, nodes in cells.items()}


def _read_node(node: Any, name: str) -> Any:
    """Read one array; axes are stored in reversed order."""
    if "MATLAB_sparse" in node.attrs:
        data, rows, ends = (node[key][()] if key in node else np.empty(0) for key in SPARSE_MEMBERS)
        shape = int(node.attrs["MATLAB_sparse"]), len(ends) - 1
        return csc_array((data, rows.astype(np.int64), ends.astype(np.int64)), shape=shape)
    is_text_or_cell = node.attrs.get("MATLAB_class", b"") in (b"char", b"cell")
    if is_text_or_cell or not is_dataset(node) or node.shape is None or node.dtype.kind not in "buif":
        raise DataError(f"the variable {name} is not a numeric matrix: store real numbers.")
    return np.empty((0, 0)) if "MATLAB_empty" in node.attrs else np.atleast_2d(node[()]).T


def _labels(parts: Sequence[Any], name: str) -> NDArray[np.int64]:
    """Return 0, 1, ... for the distinct values of a vector, or of a cell of equal vectors."""
    vectors = [_numeric(part, name) for part in parts]
    if not vectors or any(is_sparse(vector) or vector.size != max(vector.shape) for vector in vectors):
        shapes = ", ".join(str(vector.shape) for vector in vectors)
        raise DataError(f"the labels {name} have shape {shapes or 0}: store a dense vector, one per sample.")
    first = vectors[0].ravel()
    if not np.isfinite(first).all():
        raise DataError(f"the labels {name} have NaN or infinity: give every sample a label.")
    if not all(np.array_equal(first, vector.ravel()) for vector in vectors):
        raise DataError(f"the labels {name} differ between views: store one vector.")
    return np.unique(first, return_inverse=True)[1].astype(np.int64)


def _numeric(part: Any, where: str) -> Any:
    """Return an array of real numbers in native byte order."""
    if is_sparse(part):
        part = csc_array(part)
        part.check_format(full_check=True)  # scipy follows indices without checking them
    if not (is_sparse(part) or type(part) is np.ndarray) or part.dtype.kind not in "buif":
        what = getattr(part, "dtype", type(part).__name__)
        raise DataError(f"the variable {where} has {what} values: store a matrix of real numbers.")
    if not all(part.shape):
        raise DataError(f"the variable {where} is empty (shape {part.shape}): leave it out or fill it.")
    return part.astype(part.dtype.newbyteorder("="), copy=False)


def _orient(parts: Mapping[str, Any], n: int) -> dict[str, Matrix]:
    """Return all parts as samples x features; a square matrix follows the other views."""
    axes = {
        where: [axis for axis in (0, part.ndim - 1) if part.shape[axis] == n] for where, part in parts.items()
    }
    sample_axis_is_last = {found[0] > 0 for found in axes.values() if len(found) == 1}
    views: dict[str, Matrix] = {}
    for where, part in parts.items():
        if not axes[where]:
            problem = f"the variable {where} has shape {part.shape}, but there are {n} samples"
            raise DataError(f"{problem}: give every view as many rows, or columns, as there are labels.")
        is_clear = len(axes[where]) == 1 or len(sample_axis_is_last) == 1
        if not is_clear and (part.ndim > 2 or (part != part.T).sum() > 0):
            raise DataError(
                f"the variable {where} has shape {part.shape}, so its samples may be rows or columns, and no "
                "other view decides: load the array yourself and pass it to `as_views`."
            )
        axis = axes[where][-1 if sample_axis_is_last == {True} else 0]
        if is_sparse(part):
            views[where] = csr_array(part.T if axis else part)
        else:
            views[where] = np.moveaxis(part, axis, 0).reshape(n, -1)
    return views


def _split_sparse(views: Mapping[str, Any]) -> Arrays:
    """Return matrices as dense arrays; a sparse one becomes "name.data", "name.indices" etc."""
    arrays: Arrays = {}
    for name, view in views.items():
        if is_sparse(view):
            arrays |= {f"{name}.{part}": np.asarray(getattr(view, part)) for part in SPARSE_PARTS}
        else:
            arrays[name] = view
    return arrays


def _join_sparse(arrays: Arrays) -> dict[str, Matrix]:
    """Return what `_split_sparse` was given."""
    views: dict[str, Any] = {}
    for name in dict.fromkeys(key.partition(".")[0] for key in arrays):
        if name in arrays:
            views[name] = arrays[name]
        else:
            data, indices, indptr, shape = (arrays[f"{name}.{part}"] for part in SPARSE_PARTS)
            views[name] = csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
    return views


def run_forked(function: Callable[[], Arrays]) -> Arrays:
    """Call a function in a forked process with limited memory, and return its arrays.

    They come back through a temporary file. The process ends with this one, also if that is killed. A crash
    raises `DataError`, and an error of the function a `DataError` or another `ValueError` with its text.
    Processes are forked on Linux alone; on other systems the function is called directly.
    """
    if sys.platform != "linux":
        return function()
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()  # libraries cannot be searched after a fork
    with tempfile.TemporaryFile() as file:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads: the child needs none
            child = os.fork()
        if child == 0:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it was killed before
                os._exit(CRASH)
            _run_child(function, file)
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except BaseException:  # interrupted
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        file.seek(0)
        if code == OK:
            with np.load(file, allow_pickle=False) as arrays:
                return dict(arrays)
        if code in (DATA_ERROR, OTHER_ERROR):
            raise (DataError if code == DATA_ERROR else ValueError)(file.read().decode())
    raise DataError("its reader crashes or runs out of memory: the file is damaged or malicious.")


def _run_child(function: Callable[[], Arrays], file: IO[bytes]) -> NoReturn:
    """Write the arrays of a function, or the text of its error, and exit; print nothing in a crash."""
    import resource

    code = CRASH
    try:
        faulthandler.disable()
        with suppress(OSError, ValueError):
            silence = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(silence, stream)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            limit = used_memory() + memory_limit()
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        try:
            arrays: Any = function()
        except Exception as error:  # noqa: BLE001 - the parent raises it
            code = DATA_ERROR if isinstance(error, DataError) else OTHER_ERROR
            file.write((str(error) or type(error).__name__).encode(errors="replace"))
        else:
            np.savez(file, **arrays)
            code = OK
        file.flush()
    finally:
        os._exit(code)
