"""Per-column statistics of one view, in float64, a few rows at a time, missing rows left out.

Sums are taken in units of each column's largest magnitude, so that values near the limits of float64 neither
overflow nor vanish. Of several processes each reads a share of the rows, and all get the same numbers.
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


class Profile(NamedTuple):
    """What one pass over a view tells about its values.

    Attributes:
        n: Number of present rows.
        low: Smallest value of each column.
        high: Largest value of each column.
        zeros: Fraction of cells that are zero.
        small: Fraction of the other cells that are at most 2.
        integral: Whether every value is a whole number.
    """

    n: int
    low: Floats
    high: Floats
    zeros: float
    small: float
    integral: bool

    @property
    def peak(self) -> Floats:
        """Largest magnitude of each column, or 1 where that is 0."""
        peak = np.maximum(np.abs(self.low), np.abs(self.high))
        return np.where(peak > 0, peak, 1.0)


def profile(views: Views, v: int) -> Profile:
    """Return the profile of view `v`."""
    width = views.n_features[v]
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    n = filled = small = 0
    integral = True
    for block in _blocks(views, v):
        values = block.data if is_sparse(block) else block
        n += block.shape[0]
        filled += int(np.count_nonzero(values))
        small += int(np.count_nonzero((values != 0) & (values <= 2)))
        integral = integral and bool((values == np.rint(values)).all())
        low = np.minimum(low, _flat(block.min(axis=0)))
        high = np.maximum(high, _flat(block.max(axis=0)))
    n, filled, small, fractions = distributed.all_reduce_sum(
        torch.tensor([n, filled, small, not integral])
    ).tolist()
    low, high = -_largest(-low), _largest(high)
    if n == 0:
        low, high = np.zeros(width), np.zeros(width)
    return Profile(n, low, high, 1 - filled / max(n * width, 1), small / max(filled, 1), not fractions)


def column_sum(views: Views, v: int, function: Callable[[Any, Any], Any]) -> Floats:
    """Return, for each column, the sum of `function(values, columns)` over the present rows of view `v`."""
    total = np.zeros(views.n_features[v])
    for block in _blocks(views, v):
        if is_sparse(block):
            stored = np.bincount(block.indices, minlength=len(total))
            total += np.bincount(block.indices, function(block.data, block.indices), len(total))
            total += (block.shape[0] - stored) * function(np.zeros(len(total)), slice(None))
        else:
            total += function(block, slice(None)).sum(axis=0)
    return distributed.all_reduce_sum(torch.from_numpy(total)).numpy()


def column_moments(views: Views, v: int, stats: Profile) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column of view `v`, in units of `stats.peak`."""
    peak, n = stats.peak, max(stats.n, 1)
    mean = column_sum(views, v, lambda x, columns: x / peak[columns]) / n
    variance = column_sum(views, v, lambda x, columns: (x / peak[columns] - mean[columns]) ** 2) / n
    return mean, np.sqrt(variance)


def _blocks(views: Views, v: int) -> Iterator[Any]:
    array: Any = views.arrays[v]
    present = views.mask[:, v]
    for rows in islice(row_slices(array), distributed.rank(), None, distributed.world_size()):
        if present[rows].any():
            yield array[rows][present[rows]].astype(np.float64)


def _largest(x: Floats) -> Floats:
    return distributed.all_reduce_max(torch.from_numpy(x)).numpy()


def _flat(row: Any) -> Floats:
    """Return a sparse or dense row of results as a 1-D array."""
    return np.asarray(row.toarray() if is_sparse(row) else row).ravel()
