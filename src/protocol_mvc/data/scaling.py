"""Prepare each view with numbers learned from it, so that no view or column dominates by its unit.

A view is scaled by one of the kinds `SCALINGS` and then, if asked for, reduced to principal components. All
numbers come from present rows only and are stored in its `Scaler`.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize

from protocol_mvc.data import checks
from protocol_mvc.data.checks import drop_cached_pages, is_sparse
from protocol_mvc.data.components import Components, fit_components, rotate, row_blocks
from protocol_mvc.data.scaling_choice import choose_preparation, choose_scaling, sample_values
from protocol_mvc.data.statistics import (
    ColumnStatistics,
    Floats,
    column_statistics,
    column_sum,
    median_row_sum,
    sample_present_rows,
)
from protocol_mvc.data.views import Rows, Views
from protocol_mvc.exceptions import ConstantViewWarning
from protocol_mvc.utils import distributed
from protocol_mvc.utils.text import short_repr

ScalingSpec: TypeAlias = str | Sequence[str] | Mapping[str, str]

# What a kind does to a view of several features, in words.
KINDS = {
    "minmax": "{}, each scaled to [0, 1]",
    "range": "{}, scaled to [0, 1] by one factor",
    "standard": "{}, each scaled to mean 0 and variance 1",
    "l2": "{}, scaled to rows of unit length",
    "tfidf": "counts of {}, scaled by TF-IDF",
    "lognorm": "counts of {}, divided by the sum of their row and scaled by the logarithm",
    "clr": "counts of {}, scaled to centred log-ratios",
    "hellinger": "{}, scaled by the square root to rows of unit length",
    "none": "{}, not scaled",
}
SCALINGS = ("auto", *KINDS)
NON_NEGATIVE = ("tfidf", "lognorm", "clr", "hellinger")  # kinds for values of at least 0
UNIT_ROWS = ("l2", "tfidf", "hellinger")
MAX_SCALED = 1e6  # larger scaled values come from extremes that the fit has not seen
MIN_RELATIVE_STD = 10 * np.finfo(np.float64).eps  # a smaller standard deviation is rounding noise
DENSE_CELLS, SPARSE_ROWS = 40_000_000, 20_000  # of a view, at most, from which components are computed


class Scaler(NamedTuple):
    """How one view is prepared: scaled by a kind, then turned to principal components if it has axes.

    Attributes:
        kind: one of `SCALINGS` except "auto", see `fit_scaler`.
        shift: subtracted from each column (D_v,).
        factor: multiplies each column (D_v,); the median row sum for "lognorm".
        axes: the scaled view is multiplied by these (D_v, d), or None if no components were asked for.
        offset: subtracted from the components (d,), or None.
        mean: mean of each scaled column of the training data (D_v,), or None; only `inverse` needs it.
        explained_variance: share of the variance of the training data that the components have.
    """

    kind: str
    shift: Floats
    factor: Floats
    axes: Floats | None = None
    offset: Floats | None = None
    mean: Floats | None = None
    explained_variance: float = 1.0

    @property
    def n_outputs(self) -> int:
        """Number of columns of the prepared view."""
        return len(self.shift) if self.axes is None else self.axes.shape[1]

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Smallest and largest scaled value of the training data, if the kind determines them."""
        return (0.0, 1.0) if self.kind in ("minmax", "range") and self.axes is None else None

    @property
    def keeps_zeros(self) -> bool:
        """Whether the kind scales 0 to 0, so that sparse rows stay sparse."""
        return self.kind != "clr" and not self.shift.any()

    def inverse(self, components: ArrayLike) -> Floats:
        """Return the scaled features (n, D_v) that components (n, d) stand for, as far as d axes can tell."""
        x = np.asarray(components, dtype=np.float64)
        if self.axes is None or self.mean is None:
            return x
        squares = (self.axes**2).sum(axis=0)  # all axes have one length, undetermined ones 0
        return (x / np.where(squares > 0, squares, 1.0)) @ self.axes.T + self.mean


def fit_scalers(
    views: Views, scaling: ScalingSpec = "auto", n_components: int | None = None
) -> tuple[Scaler, ...]:
    """Fit one scaler per view.

    Args:
        views: the training data.
        scaling: one kind for all views, a list with one kind per view, or a dict of kinds by view name (the
            other views get "auto"). See `fit_scaler` for the kinds.
        n_components: largest number of principal components of each view; None keeps the features.

    Raises:
        ValueError: If a kind or a view name is unknown, a kind does not suit the values, or the number of
            kinds is not that of views.
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
    return tuple(fit_scaler(views, v, kind, n_components) for v, kind in enumerate(kinds))


def fit_scaler(views: Views, v: int, kind: str = "auto", n_components: int | None = None) -> Scaler:
    """Fit the scaler of view `v`.

    Args:
        views: the training data.
        v: position of the view.
        kind: "minmax" (each column to [0, 1]), "standard" (each column to mean 0 and variance 1), "range"
            (the whole view to [0, 1] by one factor), "l2" (rows of unit length, after subtracting the mean if
            there are negative values), "tfidf" (log(1 + x) weighted by inverse document frequency, then rows
            of unit length), "lognorm" (rows of equal sum, then log(1 + x)), "clr" (log(1 + x) minus its mean
            in the row), "hellinger" (square root, then rows of unit length), "none", or "auto":
            `choose_preparation` before components, else `choose_scaling`.
        n_components: largest number of principal components; None keeps the features. Components have one
            unit, in which the root mean square of all is 1. They are computed from all present rows, or from
            random ones if there are more than `DENSE_CELLS` cells or, of sparse rows, `SPARSE_ROWS`.

    Raises:
        ValueError: If the kind is unknown or does not suit negative values, or there are no components.
    """
    name = views.names[v]
    if not isinstance(kind, str) or kind not in SCALINGS:
        raise ValueError(f"Unknown scaling {short_repr(kind)} for view {name!r}: use one of {SCALINGS}.")
    if n_components is not None and n_components < 1:
        raise ValueError(f"n_components is {n_components}: use at least 1, or None to keep the features.")
    stats = column_statistics(views, v)
    if bool(stats.constant.all()):
        warnings.warn(
            f"View {name!r} is the same in all samples, so it does not help: leave it out.",
            ConstantViewWarning,
            stacklevel=2,
        )
    if kind in NON_NEGATIVE and stats.low.min() < 0:
        raise ValueError(
            f"View {name!r} has the negative value {stats.low.min()}, so it cannot be scaled by {kind!r}: "
            "choose another scaling."
        )
    if kind == "auto":
        kind = choose_scaling(stats) if n_components is None else _choose_preparation(views, v, stats)
    scaler = Scaler(kind, *_shift_and_factor(kind, views, v, stats))
    return scaler if n_components is None else with_components(scaler, views, v, n_components)


def _choose_preparation(views: Views, v: int, stats: ColumnStatistics) -> str:
    kinds = list(KINDS)
    chosen = kinds.index(choose_preparation(sample_values(views, v), stats.low))
    return kinds[int(distributed.broadcast(torch.tensor(chosen)))]


def _shift_and_factor(kind: str, views: Views, v: int, stats: ColumnStatistics) -> tuple[Floats, Floats]:
    """Return shift and factor (D_v,); the kinds with a shift make constant columns 0, except some by "l2"."""
    low, high, constant, n = stats.low, stats.high, stats.constant, max(stats.n, 1)
    zeros, ones = np.zeros(len(low)), np.ones(len(low))
    if kind == "minmax":
        return low, 1.0 / np.where(constant, 1.0, high - low)
    if kind == "range":
        span = high.max() - low.min()
        return np.where(constant, low, low.min()), ones / (span if span > 0 else 1.0)
    if kind == "standard":
        return _mean_and_inverse_std(views, v, stats)
    if kind == "tfidf":
        share = column_sum(views, v, lambda x, _: (x > 0).astype(np.float64)) / n
        return zeros, 1 - np.log(np.maximum(share, 1 / n))
    if kind == "lognorm":
        return zeros, ones * median_row_sum(views, v)
    if kind == "l2" and low.min() < 0:
        return _mean(views, v, stats), ones
    return zeros, ones


def _mean(views: Views, v: int, stats: ColumnStatistics) -> Floats:
    """Return the mean of each column (D_v,); that of a constant column is exact."""
    peak = stats.peak  # moments are computed in units of the peak
    mean = column_sum(views, v, lambda x, columns: x / peak[columns]) / max(stats.n, 1)
    return np.where(stats.constant, stats.low, mean * peak)


def _mean_and_inverse_std(views: Views, v: int, stats: ColumnStatistics) -> tuple[Floats, Floats]:
    """Return mean and 1 / standard deviation of each column (D_v,), 1 for constant columns."""
    peak, mean = stats.peak, _mean(views, v, stats)
    center = mean / peak
    squares = column_sum(views, v, lambda x, columns: (x / peak[columns] - center[columns]) ** 2)
    std = np.maximum(np.sqrt(squares / max(stats.n, 1)), MIN_RELATIVE_STD) * peak
    return mean, 1.0 / np.where(stats.constant, 1.0, std)


def with_components(scaler: Scaler, views: Views, v: int, n_components: int) -> Scaler:
    """Return the scaler with the axes of the leading principal components of the scaled view."""
    found = fit_components(_scaled_sample(scaler, views, v), n_components)
    share = torch.tensor([found.explained_variance], dtype=torch.float64)
    parts = (torch.from_numpy(found.axes), torch.from_numpy(found.mean), share)
    axes, mean, share = (distributed.broadcast(part) for part in parts)
    shared = Components(axes.numpy(), mean.numpy(), float(share))
    return scaler._replace(
        axes=shared.axes,
        offset=rotate(shared.mean[None], shared.axes)[0],
        mean=shared.mean,
        explained_variance=shared.explained_variance,
    )


def _scaled_sample(scaler: Scaler, views: Views, v: int) -> Any:
    """Return the present rows of a view, or random ones, scaled and in float64; sparse if they can be."""
    array: Any = views.arrays[v]
    if is_sparse(array) and scaler.keeps_zeros:
        return scale_sparse(scaler, array[sample_present_rows(views, v, SPARSE_ROWS)])
    width = views.n_features[v]
    rows = sample_present_rows(views, v, max(1, DENSE_CELLS // width))
    out = np.empty((len(rows), width))
    for batch in _batches(len(rows), width):
        out[batch] = _scale(scaler, views.to_dense(v, rows[batch], np.float64))
        drop_cached_pages(array)
    return out


def _batches(n: int, width: int) -> Iterator[slice]:
    """Yield slices of `n` rows that fit into `CHUNK_BYTES` as float64."""
    return row_blocks(n, max(1, checks.CHUNK_BYTES // (8 * width)))


def _scale(scaler: Scaler, x: Floats) -> Floats:
    """Return dense rows scaled by the kind (n, D_v), without components."""
    cells = scale_cells(scaler.kind, x, scaler.shift, scaler.factor)
    if scaler.kind == "lognorm":
        cells = np.log1p(_unit_rows(cells, 1) * scaler.factor)
    if scaler.kind == "clr":
        cells = cells - cells.mean(axis=1, keepdims=True)
    return _unit_rows(cells, 2) if scaler.kind in UNIT_ROWS else cells


def scale_sparse(scaler: Scaler, x: Any) -> Any:
    """Return sparse rows scaled by a kind that keeps zeros (n, D_v), without components."""
    shift, factor, columns = scaler.shift, scaler.factor, x.indices
    if not x.nnz:
        return csr_array(x.shape)  # scikit-learn refuses to normalise no rows
    cells = scale_cells(scaler.kind, x.data.astype(np.float64), shift[columns], factor[columns])
    out = csr_array((cells, columns, x.indptr), shape=x.shape)
    if scaler.kind == "lognorm":
        out = normalize(normalize(out, "max"), "l1")
        out.data = np.log1p(out.data * factor[columns])
    return normalize(normalize(out, "max"), "l2") if scaler.kind in UNIT_ROWS else out


def scale_cells(kind: str, x: Floats, shift: Floats, factor: Floats) -> Floats:
    """Return the step of a kind that looks at one cell at a time."""
    if kind in NON_NEGATIVE:
        x = np.maximum(x, 0.0)  # new data may have values that the training data did not
    if kind == "tfidf":
        return np.log1p(x) * factor
    if kind == "clr":
        return np.log1p(x)
    if kind == "hellinger":
        return np.sqrt(x)
    if kind in ("l2", "lognorm"):
        return x - shift
    limit = np.finfo(np.float32).max if kind == "none" else MAX_SCALED
    out = x - shift
    out *= factor
    return np.clip(out, -limit, limit, out=out)


def _unit_rows(x: Floats, order: float) -> Floats:
    """Return rows divided by their norm; first by their largest value, whose square could overflow."""
    for each in (np.inf, order):
        norms = np.linalg.norm(x, ord=each, axis=1, keepdims=True)
        x = x / np.where(norms > 0, norms, 1.0)
    return x


def _rotate(scaler: Scaler, x: Any) -> Floats:
    """Return the components of scaled rows (n, d), or dense rows as they are if the scaler has no axes."""
    if scaler.axes is None or scaler.offset is None:
        return np.asarray(x)
    out = rotate(x, scaler.axes) - scaler.offset
    return np.clip(out, -MAX_SCALED, MAX_SCALED, out=out)


def apply_scaler(scaler: Scaler, rows: ArrayLike) -> NDArray[np.float32]:
    """Return dense rows (n, D_v) prepared (n, n_outputs); use `scaled_rows` where rows may be missing."""
    return _rotate(scaler, _scale(scaler, np.asarray(rows, dtype=np.float64))).astype(np.float32)


def scaled_rows(views: Views, v: int, rows: Rows, scaler: Scaler) -> NDArray[np.float32]:
    """Return some rows of view `v`, dense and prepared (n, n_outputs), with zeros in missing rows."""
    array: Any = views.arrays[v]
    index = checks.row_index(rows, len(views))
    if is_sparse(array) and scaler.keeps_zeros and scaler.axes is not None:
        out = _rotate(scaler, scale_sparse(scaler, array[index])).astype(np.float32)
    else:
        if isinstance(index, slice):
            index = np.arange(*index.indices(len(views)))
        out = np.empty((len(index), scaler.n_outputs), dtype=np.float32)
        for batch in _batches(len(index), views.n_features[v]):  # in float64, so few at a time
            out[batch] = apply_scaler(scaler, views.to_dense(v, index[batch], np.float64))
            drop_cached_pages(array)
    out[~views.mask[index, v]] = 0
    drop_cached_pages(array)
    return out


def describe_scaling(scaler: Scaler, name: str) -> str:
    """Return one sentence on how the view `name` is prepared."""
    width, d = len(scaler.shift), scaler.n_outputs
    text = KINDS[scaler.kind].format(_number(width, "feature"))
    if scaler.axes is not None and d < width:
        share = f"{100 * scaler.explained_variance:.0f} % of the variance"
        text += f" and reduced to {_number(d, 'principal component')} ({share})"
    elif scaler.axes is not None:
        text += f" and rotated to {_number(d, 'principal component')}"
    return f"View {name!r}: {text}."


def _number(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
