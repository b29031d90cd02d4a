"""Scaled features of one view, some columns at a time and before any components."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from sklearn.utils import gen_batches

from protocol_mvc.data.checks import is_sparse
from protocol_mvc.data.scaling import UNIT_ROWS, Scaler, scale_cells, scale_sparse
from protocol_mvc.data.statistics import Floats
from protocol_mvc.data.views import Views

MAX_BLOCK_VALUES = 2**22  # cells of the columns that are in memory at a time


class ScaledFeatures:
    """The features of the present rows of a view, scaled by the kind of its scaler.

    Sparse views stay sparse if the kind keeps zeros; of all others, only the columns asked for are dense.

    Args:
        views: the data.
        v: position of the view.
        scaler: how the view is scaled; its components are ignored.

    Attributes:
        rows: positions of the samples that have the view (m,).
    """

    def __init__(self, views: Views, v: int, scaler: Scaler) -> None:
        self.rows = np.flatnonzero(views.mask[:, v])
        self._array: Any = views.arrays[v]
        self._scaler, self._sparse = scaler, cast(Any, None)
        if is_sparse(self._array) and scaler.keeps_zeros:
            self._sparse = csc_array(scale_sparse(scaler, self._array[self.rows]))
            self._sparse.eliminate_zeros()
        elif scaler.kind in (*UNIT_ROWS, "clr", "lognorm"):
            n, width = self._array.shape
            batches = gen_batches(n, max(1, MAX_BLOCK_VALUES // width))
            terms = [self._row_terms(self._array[batch]) for batch in batches]
            self._terms = np.concatenate(terms)[self.rows, None]

    def blocks(self) -> Iterator[slice]:
        """Yield consecutive columns whose cells are few enough to be in memory."""
        n_columns = self._array.shape[1]
        width = max(1, MAX_BLOCK_VALUES // max(1, len(self.rows)))
        return (slice(i, min(i + width, n_columns)) for i in range(0, n_columns, width))

    def take(self, columns: slice | NDArray[np.int64]) -> Any:
        """Return some scaled columns (m, n_columns): a CSC array if the view stays sparse, else dense."""
        if self._sparse is not None:
            return self._sparse[:, columns]
        x = self._array[:, columns]
        x = (x.toarray() if is_sparse(x) else np.asarray(x))[self.rows].astype(np.float64)
        kind, factor = self._scaler.kind, self._scaler.factor[columns]
        cells = scale_cells(kind, x, self._scaler.shift[columns], factor)
        if kind == "clr":
            return cells - self._terms
        if kind == "lognorm":
            return np.log1p(cells / self._terms * factor)
        return cells / self._terms if kind in UNIT_ROWS else cells

    def _row_terms(self, x: Any) -> Floats:
        """Return the number of each row that its cells are shifted ("clr") or divided by (n,)."""
        x = np.nan_to_num((x.toarray() if is_sparse(x) else x).astype(np.float64))
        cells = scale_cells(self._scaler.kind, x, self._scaler.shift, self._scaler.factor)
        if self._scaler.kind == "clr":
            mean: Floats = cells.mean(axis=1)
            return mean
        norms = np.linalg.norm(cells, ord=1 if self._scaler.kind == "lognorm" else 2, axis=1)
        return np.where(norms > 0, norms, 1.0)
