"""Scale each view with numbers learned from it, so that no view or column dominates by its unit.

Statistics are computed in float64, a few rows at a time, over present rows only. With several processes each
reads a part of the rows, and all get the same numbers.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from protocol_mvc.data.checks import drop_cached_pages, is_sparse, row_slices
from protocol_mvc.data.views import Rows, Views
from protocol_mvc.exceptions import ConstantViewWarning
from protocol_mvc.utils import distributed
from protocol_mvc.utils.text import short_repr

Floats: TypeAlias = NDArray[np.float64]
ScalingSpec: TypeAlias = str | Sequence[str] | Mapping[str, str]

SCALINGS = ("auto", "minmax", "range", "standard", "l2", "tfidf", "none")
MAX_SCALED = 1e6  # larger scaled values come from extremes that the fit has not seen
MIN_RELATIVE_STD = 10 * np.finfo(np.float64).eps  # a smaller standard deviation is rounding noise


class Scaler(NamedTuple):
    """`(x - shift) * factor` per column; "l2" and "tfidf" then scale every row to unit length."""

    kind: str
    shift: Floats  # (D_v,)
    factor: Floats  # (D_v,)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Smallest and largest scaled value of the training data, if the kind determines them."""
        return (0.0, 1.0) if self.kind in ("minmax", "range") else None


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


def fit_scalers(views: Views, scaling: ScalingSpec = "auto") -> tuple[Scaler, ...]:
    """Fit one scaler per view.

    Args:
        views: the training data.
        scaling: one kind for all views, a list with one kind per view, or a dict of kinds by view name (the
            other views get "auto"). See `fit_scaler` for the kinds.

    Raises:
        ValueError: If a kind or a view name is unknown, or the number of kinds is not that of views.
    """
    if isinstance(scaling, str):
        kinds = [scaling] * views.n_views
    elif isinstance(scaling, Mapping):
        by_name = {str(name): kind for name, kind in scaling.items()}
        unknown = sorted(set(by_name) - set(views.names))
        if unknown:
            raise ValueError(f"scaling names the view {unknown[0]!r}, but the views are {list(views.names)}.")
        kinds = [by_name.get(name, "auto") for name in views.names]
    else:
        try:
            kinds = list(scaling)
        except TypeError:
            raise ValueError(
                f"scaling is {short_repr(scaling)}: use one of {SCALINGS}, or a list or dict of these."
            ) from None
    if len(kinds) != views.n_views:
        raise ValueError(f"scaling has {len(kinds)} kinds for {views.n_views} views: give one per view.")
    return tuple(fit_scaler(views, v, kind) for v, kind in enumerate(kinds))


def fit_scaler(views: Views, v: int, kind: str = "auto") -> Scaler:
    """Fit the scaler of view `v`.

    Args:
        views: the training data.
        v: position of the view.
        kind: "minmax" (each column to [0, 1]), "standard" (each column to mean 0 and variance 1), "range"
            (the whole view to [0, 1] by one factor), "l2" (rows of unit length), "tfidf" (columns weighted
            by inverse document frequency, then "l2"), "none", or "auto", see `choose_scaling`.

    Raises:
        ValueError: If the kind is unknown, or "tfidf" is used for negative values.
    """
    if not isinstance(kind, str) or kind not in SCALINGS:
        raise ValueError(
            f"Unknown scaling {short_repr(kind)} for view {views.names[v]!r}: use one of {SCALINGS}."
        )
    stats = column_statistics(views, v)
    if bool(stats.constant.all()):
        warnings.warn(
            f"View {views.names[v]!r} is the same in all samples, so it does not help: leave it out.",
            ConstantViewWarning,
            stacklevel=2,
        )
    kind = choose_scaling(stats) if kind == "auto" else kind
    return Scaler(kind, *_shift_and_factor(kind, views, v, stats))


def choose_scaling(stats: ColumnStatistics) -> str:
    """Return the kind of scaling for a view with these statistics.

    Term counts (integers, mostly 0, otherwise mostly 1 or 2) get "tfidf". Columns with one unit and origin,
    such as pixels, keep their proportions by "range". Other sparse non-negative values, such as TF-IDF
    features, get "l2". Everything else gets "standard", embeddings among them: measured from their smallest
    value, the rows of an embedding would all be similar.
    """
    low, high = stats.low.min(), stats.high.max()
    sparse = stats.zero_fraction >= 0.9 and len(stats.low) >= 100 and low >= 0
    if sparse and stats.integral and high > 1 and stats.small_fraction >= 0.5:
        return "tfidf"
    spans = (stats.high - stats.low)[~stats.constant]
    one_unit = len(spans) > 0 and bool(np.quantile(spans, 0.1) >= 0.2 * (high - low))
    if 0 <= low <= (high - low) / 2 and one_unit:
        return "range"
    return "l2" if sparse else "standard"


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


def _present_blocks(views: Views, v: int) -> Iterator[Any]:
    """Yield the present rows of a view in float64; each process gets every `world_size`-th block."""
    array: Any = views.arrays[v]
    present = views.mask[:, v]
    for rows in islice(row_slices(array), distributed.rank(), None, distributed.world_size()):
        if present[rows].any():
            yield array[rows][present[rows]].astype(np.float64)


def _flatten(row: Any) -> Floats:
    return np.asarray(row.toarray() if is_sparse(row) else row).ravel()


def _shift_and_factor(kind: str, views: Views, v: int, stats: ColumnStatistics) -> tuple[Floats, Floats]:
    """Return shift and factor (D_v,) of a scaler; constant columns become 0 except by "l2" and "none"."""
    low, high, constant = stats.low, stats.high, stats.constant
    if kind == "minmax":
        return low, 1.0 / np.where(constant, 1.0, high - low)
    if kind == "range":
        span = high.max() - low.min()
        return np.where(constant, low, low.min()), np.full(len(low), 1.0 / span if span > 0 else 1.0)
    if kind == "standard":
        peak, n = stats.peak, max(stats.n, 1)  # moments are computed in units of the peak
        mean = column_sum(views, v, lambda x, columns: x / peak[columns]) / n
        variance = column_sum(views, v, lambda x, columns: (x / peak[columns] - mean[columns]) ** 2) / n
        spans = np.maximum(np.sqrt(variance), MIN_RELATIVE_STD) * peak
        # The computed mean of a constant column has rounding errors; its value has none.
        return np.where(constant, low, mean * peak), 1.0 / np.where(constant, 1.0, spans)
    if kind == "tfidf":
        if low.min() < 0:
            raise ValueError(
                f"View {views.names[v]!r} has the negative value {low.min()}, so it cannot be scaled by "
                "'tfidf': choose another scaling."
            )
        document_frequency = column_sum(views, v, lambda x, _: (x > 0).astype(np.float64))
        return np.zeros(len(low)), np.log((1 + stats.n) / (1 + document_frequency)) + 1
    return np.zeros(len(low)), np.ones(len(low))


def apply_scaler(scaler: Scaler, rows: ArrayLike) -> NDArray[np.float32]:
    """Return dense rows (n, D_v) scaled; use `scaled_rows` where rows may be missing."""
    x = np.asarray(rows, dtype=np.float64)
    if scaler.kind in ("l2", "tfidf"):
        return _unit_rows(_unit_rows(x, np.inf) * scaler.factor, 2).astype(np.float32)
    limit = np.finfo(np.float32).max if scaler.kind == "none" else MAX_SCALED
    out = x - scaler.shift
    out *= scaler.factor
    return np.clip(out, -limit, limit, out=out).astype(np.float32)


def _unit_rows(x: Floats, order: float) -> Floats:
    norms = np.linalg.norm(x, ord=order, axis=1, keepdims=True)
    return x / np.where(norms > 0, norms, 1.0)


def scaled_rows(views: Views, v: int, rows: Rows, scaler: Scaler) -> NDArray[np.float32]:
    """Return some rows of view `v`, dense and scaled (n, D_v), with zeros in missing rows."""
    out = apply_scaler(scaler, views.to_dense(v, rows, np.float64))
    out[~views.mask[:, v][rows]] = 0
    drop_cached_pages(views.arrays[v])
    return out
