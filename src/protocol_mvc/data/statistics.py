"""Statistics of one view: in float64, a few rows at a time, over present rows only.

With several processes each reads a part of the rows, and all get the same numbers.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from protocol_mvc.data.checks import is_sparse, row_slices
from protocol_mvc.data.views import Views
from protocol_mvc.utils import distributed

Floats: TypeAlias = NDArray[np.float64]

MAX_ROW_SUM = 1e300  # sums of extreme values overflow


class ColumnStatistics(NamedTuple):
    """Statistics of one view, from one pass over its present rows.

    Attributes:
        n: number of present rows.
        low: smallest value of each column (D_v,).
        high: largest value of each column (D_v,).
        zero_fraction: fraction of cells that are zero.
        small_fraction: fraction of the other cells that are at most 2.
        integral: whether all values are integers.
    """

    n: int
    low: Floats
    high: Floats
    zero_fraction: float
    small_fraction: float
    integral: bool

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Columns with one value only (D_v,)."""
        return np.equal(self.low, self.high)

    @property
    def peak(self) -> Floats:
        """Largest magnitude of each column, or 1 if it is 0 (D_v,)."""
        peak = np.maximum(np.abs(self.low), np.abs(self.high))
        return np.where(peak > 0, peak, 1.0)


def column_statistics(views: Views, v: int) -> ColumnStatistics:
    """Return the statistics of view `v`."""
    width = views.n_features[v]
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    n = n_nonzero = n_small = 0
    integral = True
    for block in _present_blocks(views, v):
        values = block.data if is_sparse(block) else block
        n += block.shape[0]
        n_nonzero += int(np.count_nonzero(values))
        n_small += int(np.count_nonzero((values != 0) & (values <= 2)))
        integral = integral and bool((values == np.rint(values)).all())
        low = np.minimum(low, _flatten(block.min(axis=0)))
        high = np.maximum(high, _flatten(block.max(axis=0)))
    counts = distributed.all_reduce_sum(torch.tensor([n, n_nonzero, n_small, not integral]))
    n, n_nonzero, n_small, n_fractional = counts.tolist()
    low = -distributed.all_reduce_max(torch.from_numpy(-low)).numpy()
    high = distributed.all_reduce_max(torch.from_numpy(high)).numpy()
    if n == 0:
        low, high = np.zeros(width), np.zeros(width)
    zero_fraction, small_fraction = 1 - n_nonzero / max(n * width, 1), n_small / max(n_nonzero, 1)
    return ColumnStatistics(n, low, high, zero_fraction, small_fraction, not n_fractional)


def column_sum(views: Views, v: int, function: Callable[[Any, Any], Any]) -> Floats:
    """Return the sum of ``function(values, columns)`` over the present rows of each column (D_v,)."""
    total = np.zeros(views.n_features[v])
    for block in _present_blocks(views, v):
        if is_sparse(block):
            stored = np.bincount(block.indices, minlength=len(total))
            total += np.bincount(block.indices, function(block.data, block.indices), len(total))
            total += (block.shape[0] - stored) * function(np.zeros(len(total)), slice(None))
        else:
            total += function(block, slice(None)).sum(axis=0)
    return distributed.all_reduce_sum(torch.from_numpy(total)).numpy()


def median_row_sum(views: Views, v: int) -> float:
    """Return the median over the present rows of the sum of a row, or 1 if it is 0."""
    sums, ones = [np.empty(0)], np.ones(views.n_features[v])
    with np.errstate(over="ignore"):
        for block in _present_blocks(views, v):
            sums.append(block @ ones if is_sparse(block) else block.sum(axis=1))
    total = distributed.all_gather(torch.from_numpy(np.concatenate(sums))).numpy()
    median = float(np.median(total)) if len(total) else 0.0
    return min(median, MAX_ROW_SUM) if median > 0 else 1.0


def sample_present_rows(views: Views, v: int, max_rows: int) -> NDArray[np.int64]:
    """Return the present rows of a view in order, or `max_rows` random ones, always the same, if more."""
    rows = np.flatnonzero(views.mask[:, v])
    if len(rows) > max_rows:
        rows = np.sort(np.random.default_rng(0).choice(rows, max_rows, replace=False, shuffle=False))
    return rows


def _present_blocks(views: Views, v: int) -> Iterator[Any]:
    """Yield the present rows of a view in float64; each process gets every `world_size`-th block."""
    array: Any = views.arrays[v]
    present = views.mask[:, v]
    for rows in islice(row_slices(array), distributed.rank(), None, distributed.world_size()):
        if present[rows].any():
            yield array[rows][present[rows]].astype(np.float64)


def _flatten(row: Any) -> Floats:
    return np.asarray(row.toarray() if is_sparse(row) else row).ravel()
