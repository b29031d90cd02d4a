"""Validate one view: a numeric matrix whose rows are present or missing."""

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

CHUNK_BYTES = 2**24  # extra memory of a pass over a view
# Errors of scikit-learn, pandas and torch for input that is not a matrix.
CONVERSION_ERRORS = (ValueError, TypeError, RuntimeError, ArithmeticError, AttributeError, LookupError)


def is_frame(x: object) -> bool:
    """Return whether `x` is a pandas-like data frame, without importing pandas."""
    return hasattr(x, "iloc") and hasattr(x, "columns")


def is_sparse(x: Any) -> bool:
    """Return whether `x` is a scipy sparse matrix; unlike `issparse`, without narrowing its static type."""
    return issparse(x)


def is_mapped(x: Any) -> bool:
    """Return whether an array is a memory map of a file, or a view of one."""
    return isinstance(getattr(_base_array(x), "base", None), mmap.mmap)


def drop_cached_pages(x: Any) -> None:
    """Free the memory of the pages of a read-only memory map; they are read again when needed."""
    base = _base_array(x)
    if is_mapped(base) and getattr(base, "mode", None) == "r" and hasattr(mmap, "MADV_DONTNEED"):
        base.base.madvise(mmap.MADV_DONTNEED)


def _base_array(x: Any) -> Any:
    while isinstance(getattr(x, "base", None), np.ndarray):
        x = x.base
    return x


def as_matrix(view: Any, name: str) -> Matrix:
    """Return `view` as a 2-D numeric numpy array or CSR matrix, copied only if its type must change.

    Args:
        view: anything 2-D: array, memory map, list of rows, data frame, sparse matrix or torch tensor.
        name: name of the view, for error messages.

    Raises:
        ValueError: If the view is None, not 2-D, empty or not numeric.
        TypeError: If a cell cannot be a number, such as a dict.
    """
    _refuse_other_kinds(view, name)
    try:
        array = view.detach().cpu().numpy() if hasattr(view, "detach") else view
        matrix = check_array(array, accept_sparse="csr", ensure_all_finite=False, input_name=name)
    except CONVERSION_ERRORS as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        # scikit-learn prints the whole array in this message
        text = re.sub(r"(?s)instead:\s*array=.*\.\s*Reshape", "instead. Reshape", str(error))
        raise kind(f"View {name!r}: {sanitize(text or type(error).__name__, 300)}") from error
    if matrix.dtype.kind not in "buif" or matrix.dtype.itemsize > 8:
        raise ValueError(f"View {name!r} has dtype {matrix.dtype}: convert it to float64 or integers first.")
    if is_sparse(matrix):
        try:
            matrix.check_format(full_check=True)  # indices out of range would read foreign memory
        except ValueError as error:
            raise ValueError(f"View {name!r} is not a valid sparse matrix: {error}") from error
        if not matrix.has_canonical_format:  # some cells are stored more than once
            matrix = matrix.copy()
            matrix.sum_duplicates()
    return matrix  # type: ignore[no-any-return]


def _refuse_other_kinds(view: Any, name: str) -> None:
    """Raise ValueError if a view is of a kind that would be misread."""
    if view is None:
        raise ValueError(f"View {name!r} is None: leave it out, or mark its missing rows with NaN.")
    if hasattr(view, "obs_names"):
        raise ValueError(
            f"View {name!r} is an AnnData beside other data: pass its X, or AnnData for all views."
        )
    if np.ma.isMaskedArray(view):
        raise ValueError(f"View {name!r} is a masked array: fill its missing rows with NaN.")


def row_slices(matrix: Matrix, n_rows: int | None = None, *, dense: bool = False) -> Iterator[slice]:
    """Yield consecutive slices of rows that fit into `CHUNK_BYTES` as float64.

    Args:
        matrix: the matrix to read; if it is memory-mapped, pages are freed after every slice.
        n_rows: number of rows to cover; all rows of `matrix` by default.
        dense: whether slices of a sparse matrix must fit as dense arrays too.
    """
    n, width = matrix.shape
    cells = matrix.nnz / max(n, 1) if issparse(matrix) and not dense else width
    for rows in gen_batches(n if n_rows is None else n_rows, max(1, int(CHUNK_BYTES / (8 * max(cells, 1))))):
        yield rows
        drop_cached_pages(matrix)


def present_rows(matrix: Matrix, name: str, sample_ids: NDArray[Any]) -> Bools:
    """Return which rows of a view are present; a dense row of nothing but NaN is missing.

    Raises:
        ValueError: If a present row contains NaN or infinity.
    """
    present = np.ones(matrix.shape[0], dtype=np.bool_)
    if matrix.dtype.kind != "f":
        return present
    if issparse(matrix):
        bad = np.flatnonzero(~np.isfinite(matrix.data))
        if len(bad):
            row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
            raise _bad_cell(name, sample_ids, row, matrix.indices[bad[0]], matrix.data[bad[0]])
        return present
    for rows in row_slices(matrix):
        finite = np.isfinite(matrix[rows])
        if not finite.all():
            present[rows] = ~np.isnan(matrix[rows]).all(axis=1)
            bad_cells = np.argwhere(~finite & present[rows, None])
            if len(bad_cells):
                row, column = bad_cells[0] + (rows.start, 0)
                raise _bad_cell(name, sample_ids, row, column, matrix[row, column])
    return present


def _bad_cell(name: str, sample_ids: NDArray[Any], row: int, column: int, value: float) -> ValueError:
    what, remedy = f"infinity ({value})", "replace it by a finite number, or drop the row."
    if np.isnan(value):
        what, remedy = "NaN", "impute it, or fill the whole row with NaN if the sample lacks this dense view."
    where = f"row {row}" if str(sample_ids[row]) == str(row) else f"row {row} (id {str(sample_ids[row])!r})"
    return ValueError(f"View {name!r} has {what} at {where}, column {column}: {remedy}")


def row_index(key: Any, n: int) -> Any:
    """Return an index of `n` samples as a slice or 1-D array, so that indexing keeps matrices 2-D.

    Raises:
        IndexError: If `key` is not made of valid integers or booleans, or selects columns.
    """
    if isinstance(key, tuple):  # scikit-learn writes X[rows, ...]
        if len(key) != 2 or key[1] is not Ellipsis:
            raise IndexError("Views are indexed by sample only: use `as_views(X, view_columns)` for columns.")
        key = key[0]
    if isinstance(key, slice):
        return key
    if isinstance(key, np.ndarray) and key.ndim == 1 and key.dtype.kind == "i" and len(key):
        if not -n <= key.min() <= key.max() < n:
            raise IndexError(f"Row {key.max() if key.max() >= n else key.min()} is not among {n} samples.")
        return np.where(key < 0, key + n, key)  # without numbers of all samples, which may be many
    try:
        rows = np.atleast_1d(np.arange(n)[key])
    except (ValueError, TypeError, RuntimeError):  # nested lists, tensors
        rows = np.empty((0, 0))
    if rows.ndim > 1:
        raise IndexError(f"Samples are indexed by integers or booleans, not by {short_repr(key)}.")
    return rows
