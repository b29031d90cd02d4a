"""Turn one view into a numeric matrix, and tell which of its rows are present."""

import mmap
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn.utils import check_array, gen_batches

from protocol_mvc.utils.text import sanitize, short_repr

Bools: TypeAlias = NDArray[np.bool_]
# A string, because scipy's classes take type parameters only in their stubs.
Matrix: TypeAlias = "NDArray[Any] | csr_array[Any, tuple[int, int]] | csr_matrix[Any]"

CHUNK_BYTES = 2**24  # extra memory that a pass over a view may take
# What scikit-learn, pandas and torch raise of something that is no matrix.
NO_MATRIX = (ValueError, TypeError, RuntimeError, ArithmeticError, AttributeError, LookupError)


def is_frame(x: object) -> bool:
    """Tell whether `x` is a pandas-like table, without importing pandas."""
    return hasattr(x, "iloc") and hasattr(x, "columns")


def is_sparse(x: Any) -> bool:
    """Tell whether `x` is a scipy sparse matrix; unlike `issparse`, without narrowing its static type."""
    return issparse(x)


def is_mapped(x: Any) -> bool:
    """Tell whether an array is a part of a file on the disk, also seen through views of a memory map."""
    return isinstance(getattr(_whole(x), "base", None), mmap.mmap)


def drop_cached_pages(x: Any) -> None:
    """Let go of the pages of a mapped array that were read: memory is for what is needed next.

    They come back from the file, so only arrays that cannot be written are released.
    """
    whole = _whole(x)
    if is_mapped(whole) and getattr(whole, "mode", None) == "r" and hasattr(mmap, "MADV_DONTNEED"):
        whole.base.madvise(mmap.MADV_DONTNEED)


def _whole(x: Any) -> Any:
    """The array that a view of it is a part of, if it is one."""
    while isinstance(getattr(x, "base", None), np.ndarray):
        x = x.base
    return x


def as_matrix(view: Any, name: str) -> Matrix:
    """Return `view` as a 2-D numeric numpy array or CSR matrix, copying only where the type must change.

    Args:
        view: Anything 2-D: array, memory map, list of rows, data frame, sparse matrix or torch tensor.
        name: Name of the view, for the error messages.

    Raises:
        ValueError: If the view is None, not 2-D, empty or not numeric.
        TypeError: If a cell is no number at all, such as a dict.
    """
    if view is None:
        raise ValueError(f"View {name!r} is None: leave it out, or mark its missing rows with NaN.")
    if np.ma.isMaskedArray(view):
        raise ValueError(f"View {name!r} is a masked array: fill it, with NaN in the rows that are missing.")
    try:
        array = view.detach().cpu().numpy() if hasattr(view, "detach") else view
        matrix = check_array(array, accept_sparse="csr", ensure_all_finite=False, input_name=name)
    except MemoryError:
        raise MemoryError(f"View {name!r} takes more memory than there is: give fewer rows.") from None
    except NO_MATRIX as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"View {name!r}: {_reason(error)}") from error
    if matrix.dtype.kind not in "buif" or matrix.dtype.itemsize > 8:
        raise ValueError(f"View {name!r} has dtype {matrix.dtype}: convert it to float64 or integers first.")
    return _canonical(matrix, name) if is_sparse(matrix) else matrix


def _reason(error: Exception) -> str:
    """Return what a library says as one line, without the array that it prints in between."""
    text = re.sub(r"(?s)instead:\s*array=.*\.\s*Reshape", "instead. Reshape", str(error))
    return sanitize(text or type(error).__name__, 300)


def _canonical(matrix: Any, name: str) -> Matrix:
    """Return a CSR matrix that stores every cell once, leaving the caller's object as it is."""
    if not _leads_inside(matrix):
        raise ValueError(f"View {name!r} is a sparse matrix with cells outside of itself: build it anew.")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix  # type: ignore[no-any-return]


def _leads_inside(matrix: Any) -> bool:
    """Tell whether the indices of a CSR matrix are its own, since scipy follows them anywhere."""
    ends, columns = matrix.indptr, matrix.indices
    if len(ends) != matrix.shape[0] + 1 or ends[0] != 0 or (np.diff(ends) < 0).any():
        return False
    if ends[-1] > min(len(columns), len(matrix.data)):
        return False
    return len(columns) == 0 or bool(columns.min() >= 0 and columns.max() < matrix.shape[1])


def row_slices(matrix: Matrix, rows: int | None = None) -> Iterator[slice]:
    """Yield the consecutive ranges of all rows of `matrix`, or so many, that fit `CHUNK_BYTES` as float64."""
    n, width = matrix.shape
    cells = matrix.nnz / max(n, 1) if issparse(matrix) else width
    for part in gen_batches(n if rows is None else rows, max(1, int(CHUNK_BYTES / (8 * max(cells, 1))))):
        yield part
        drop_cached_pages(matrix)


def present_rows(matrix: Matrix, name: str, ids: NDArray[Any]) -> Bools:
    """Return which rows of the view are present, that is not entirely NaN.

    Raises:
        ValueError: If a present row holds NaN or infinity.
    """
    present = np.ones(matrix.shape[0], dtype=np.bool_)
    if matrix.dtype.kind != "f":
        return present
    if issparse(matrix):
        _check_stored(matrix, name, ids)
        return present
    for rows in row_slices(matrix):
        finite = np.isfinite(matrix[rows])
        if not finite.all():
            present[rows] = ~np.isnan(matrix[rows]).all(axis=1)
            bad = np.argwhere(~finite & present[rows, None])
            if len(bad):
                row, column = bad[0] + (rows.start, 0)
                raise _bad_cell(name, ids, row, column, matrix[row, column])
    return present


def _check_stored(matrix: Any, name: str, ids: NDArray[Any]) -> None:
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if len(bad):
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        raise _bad_cell(name, ids, row, matrix.indices[bad[0]], matrix.data[bad[0]])


def _bad_cell(name: str, ids: NDArray[Any], row: int, column: int, value: float) -> ValueError:
    what, remedy = f"infinity ({value})", "replace it by a finite number or drop the row."
    if np.isnan(value):
        what = "NaN"
        remedy = "impute the value or, if a dense view is missing for that sample, fill its row with NaN."
    where = f"row {row}" if str(ids[row]) == str(row) else f"row {row} (id {str(ids[row])!r})"
    return ValueError(f"View {name!r} holds {what} at {where}, column {column}: {remedy}")


def row_index(key: Any) -> Any:
    """Return `key` as a slice or 1-D array, so that indexing with it keeps matrices 2-D.

    Raises:
        IndexError: If it is neither whole numbers nor True and False for samples.
    """
    if isinstance(key, tuple):
        if not key or any(part is not Ellipsis and repr(part) != repr(slice(None)) for part in key[1:]):
            raise IndexError("Views are indexed by sample only: choose columns with `as_views(X, groups)`.")
        key = key[0]
    if isinstance(key, slice):
        return key
    try:
        index = np.atleast_1d(np.asarray(key))
    except (ValueError, TypeError, RuntimeError):
        index = np.empty((1, 1))  # refused as all that has two axes
    if index.size and (index.ndim > 1 or index.dtype.kind not in "biu"):
        raise IndexError(
            f"Samples are chosen by whole numbers or by True and False, not by {short_repr(key)}."
        )
    return index if index.size else index.astype(np.intp)
