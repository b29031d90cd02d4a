"""Turn one view into a numeric matrix, and tell which of its rows are present."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn.utils import check_array, gen_batches

__all__ = ["Bools", "Matrix", "as_matrix", "is_frame", "is_sparse", "present_rows", "row_slices"]

Bools: TypeAlias = NDArray[np.bool_]
# A string, because scipy's classes take type parameters only in their stubs.
Matrix: TypeAlias = "NDArray[Any] | csr_array[Any, tuple[int, int]] | csr_matrix[Any]"

CHUNK_BYTES = 2**24  # extra memory that a pass over a view may take


def is_frame(x: object) -> bool:
    """Tell whether `x` is a pandas-like table, without importing pandas."""
    return hasattr(x, "iloc") and hasattr(x, "columns")


def is_sparse(x: Any) -> bool:
    """Tell whether `x` is a scipy sparse matrix; unlike `issparse`, without narrowing its static type."""
    return issparse(x)


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
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"View {name!r}: {error}") from error
    if matrix.dtype.kind not in "buif":
        raise ValueError(f"View {name!r} has dtype {matrix.dtype}: convert it to real numbers first.")
    return _canonical(matrix) if is_sparse(matrix) else matrix


def _canonical(matrix: Any) -> Matrix:
    """Return a CSR matrix that stores every cell once, leaving the caller's object as it is."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix  # type: ignore[no-any-return]


def row_slices(matrix: Matrix) -> Iterator[slice]:
    """Yield the consecutive row ranges of `matrix` whose values fit `CHUNK_BYTES` as float64."""
    n, width = matrix.shape
    cells = matrix.nnz / max(n, 1) if issparse(matrix) else width
    yield from gen_batches(n, max(1, int(CHUNK_BYTES / (8 * max(cells, 1)))))


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
