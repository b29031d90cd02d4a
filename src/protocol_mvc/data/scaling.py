"""Scale each view by numbers learned from it once, so that no view or column rules by its unit alone."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol_mvc.data.checks import drop_cached_pages
from protocol_mvc.data.statistics import Floats, Profile, column_moments, column_sum, profile
from protocol_mvc.data.views import Rows, Views
from protocol_mvc.exceptions import ConstantViewWarning
from protocol_mvc.utils.text import short_repr

ScalingSpec: TypeAlias = str | Sequence[str] | Mapping[str, str]

LIMIT = 1e6  # scaled values beyond this can only come from unseen extremes, which must not overflow later
SMALLEST = 1e-290  # spreads below have no finite inverse worth the name
RELATIVE_SMALLEST = 10 * np.finfo(np.float64).eps  # a spread below this part of the values is rounding noise


class Scaler(NamedTuple):
    """`(x - shift) * factor` for each column, followed by unit rows if the kind is "l2" or "tfidf"."""

    kind: str
    shift: Floats
    factor: Floats

    @property
    def box(self) -> tuple[float, float] | None:
        """Least and largest value of the view that it was learned from, if the kind tells."""
        return (0.0, 1.0) if self.kind in ("minmax", "range") else None


def fit_scalers(views: Views, spec: ScalingSpec = "auto") -> tuple[Scaler, ...]:
    """Return the scaling of every view.

    Args:
        views: The data to learn from.
        spec: One kind for all views, a kind per view, or kinds by view name (other views: "auto").

    Raises:
        ValueError: If a kind or a view name is unknown, or the number of kinds is not that of views.
    """
    return tuple(fit_scaler(views, v, kind) for v, kind in enumerate(_kinds(views, spec)))


def _kinds(views: Views, spec: ScalingSpec) -> list[str]:
    if isinstance(spec, str):
        return [spec] * views.n_views
    if isinstance(spec, Mapping):
        spec = {str(name): kind for name, kind in spec.items()}
        unknown = sorted(set(spec) - set(views.names))
        if unknown:
            raise ValueError(f"Scaling names view {unknown[0]!r}, but the views are {list(views.names)}.")
        return [spec.get(name, "auto") for name in views.names]
    try:
        kinds = list(spec)
    except TypeError:
        raise ValueError(
            f"Scaling is {short_repr(spec)}: name one of {SCALINGS}, or list or map one per view."
        ) from None
    if len(kinds) != views.n_views:
        raise ValueError(f"Scaling lists {len(kinds)} kinds for {views.n_views} views: give one per view.")
    return kinds


def fit_scaler(views: Views, v: int, kind: str = "auto") -> Scaler:
    """Learn the scaling of view `v`; the result carries the kind that "auto" stands for.

    "minmax" and "standard" treat every column by itself, "range" brings the whole view to [0, 1] by one
    factor, "l2" makes every row a unit vector, "tfidf" weighs columns by rarity before that, "none" keeps
    the values.

    Raises:
        ValueError: If the kind is unknown, or "tfidf" meets negative values.
    """
    if not isinstance(kind, str) or kind not in SCALINGS:
        raise ValueError(
            f"Unknown scaling {short_repr(kind)} for view {views.names[v]!r}: use one of {SCALINGS}."
        )
    stats = profile(views, v)
    if bool((stats.low == stats.high).all()):
        warnings.warn(
            f"View {views.names[v]!r} is the same in all samples, so it tells nothing: leave it out.",
            ConstantViewWarning,
            stacklevel=2,
        )
    if kind == "auto":
        kind = choose_kind(stats)
    return Scaler(kind, *_FITTERS[kind](views, v, stats))


def choose_kind(stats: Profile) -> str:
    """Return the kind of scaling that suits values with this profile.

    Term counts (whole, mostly 0, then mostly 1 or 2) get "tfidf"; columns in one unit that count from zero,
    such as pixels or 0/1 flags, keep their proportions under "range"; other sparse non-negative values, such
    as finished TF-IDF, get "l2"; columns in units of their own, and all that do not start at zero, get
    "standard": embeddings lie around their mean, and measured from their lowest value all would look alike.
    """
    sparse = stats.zeros >= 0.9 and len(stats.low) >= 100 and stats.low.min() >= 0
    if sparse and stats.integral and stats.high.max() > 1 and stats.small >= 0.5:
        return "tfidf"
    lowest = stats.low.min()
    if 0 <= lowest <= _half_spans(lowest, stats.high.max()) and _shares_unit(stats):
        return "range"
    return "l2" if sparse else "standard"


def _shares_unit(stats: Profile) -> bool:
    """Tell whether nine in ten varying columns span at least a fifth of the range of the whole view."""
    spans = _half_spans(stats.low, stats.high)
    spans = spans[spans > 0]
    return len(spans) > 0 and bool(
        np.quantile(spans, 0.1) >= 0.2 * _half_spans(stats.low.min(), stats.high.max())
    )


def _half_spans(low: ArrayLike, high: ArrayLike) -> Floats:
    # Half, because the full distance between two finite numbers may be infinite.
    return np.asarray(high, dtype=np.float64) / 2 - np.asarray(low, dtype=np.float64) / 2


def _factors(half: Floats, stats: Profile) -> Floats:
    """Return the inverse of twice `half`, and 1 for constant columns."""
    return np.where(stats.low == stats.high, 1.0, 0.5 / np.maximum(half, SMALLEST))


def _fit_standard(views: Views, v: int, stats: Profile) -> tuple[Floats, Floats]:
    mean, deviation = column_moments(views, v, stats)
    half = np.maximum(deviation, RELATIVE_SMALLEST) * (stats.peak / 2)
    # The computed mean of a constant is off by rounding; its value is not.
    shift = np.where(stats.low == stats.high, stats.low, mean * stats.peak)
    return shift, _factors(half, stats)


def _fit_minmax(views: Views, v: int, stats: Profile) -> tuple[Floats, Floats]:
    return stats.low, _factors(_half_spans(stats.low, stats.high), stats)


def _fit_range(views: Views, v: int, stats: Profile) -> tuple[Floats, Floats]:
    low = stats.low.min()
    half = _half_spans(low, stats.high.max())
    factor = 0.5 / np.maximum(half, SMALLEST) if half > 0 else 1.0
    # A constant column says nothing, so it may as well be 0 as under the other kinds.
    return np.where(stats.low == stats.high, stats.low, low), np.full(len(stats.low), factor)


def _fit_tfidf(views: Views, v: int, stats: Profile) -> tuple[Floats, Floats]:
    if stats.low.min() < 0:
        raise ValueError(
            f"View {views.names[v]!r} holds the negative value {stats.low.min()}, so scaling='tfidf' has no "
            "meaning for it: choose another scaling."
        )
    holders = column_sum(views, v, lambda x, _: (x > 0).astype(np.float64))
    return np.zeros(len(holders)), np.log((1 + stats.n) / (1 + holders)) + 1


def _fit_nothing(views: Views, v: int, stats: Profile) -> tuple[Floats, Floats]:
    return np.zeros(len(stats.low)), np.ones(len(stats.low))


_FITTERS: dict[str, Callable[[Views, int, Profile], tuple[Floats, Floats]]] = {
    "minmax": _fit_minmax,
    "range": _fit_range,
    "standard": _fit_standard,
    "l2": _fit_nothing,
    "tfidf": _fit_tfidf,
    "none": _fit_nothing,
}
SCALINGS = ("auto", *_FITTERS)


def apply_scaler(scaling: Scaler, rows: ArrayLike) -> NDArray[np.float32]:
    """Return dense rows, of training or new data, scaled; always finite.

    Missing rows are not known here: use `scaled_rows` where there may be any.
    """
    x = np.asarray(rows, dtype=np.float64)
    if scaling.kind in ("l2", "tfidf"):
        # Unit maximum first: squares of huge or tiny entries would leave the range of float64.
        return _unit_rows(_unit_rows(x, np.inf) * scaling.factor, 2).astype(np.float32)
    limit = np.finfo(np.float32).max if scaling.kind == "none" else LIMIT
    with np.errstate(over="ignore"):
        out = x / 2
        out -= scaling.shift / 2  # in place: new arrays of this size take longer than the arithmetic
        out *= 2 * scaling.factor
    return np.clip(out, -limit, limit, out=out).astype(np.float32)


def _unit_rows(x: Floats, order: float) -> Floats:
    norms = np.linalg.norm(x, ord=order, axis=1, keepdims=True)
    return x / np.where(norms > 0, norms, 1.0)


def scaled_rows(views: Views, v: int, rows: Rows, scaling: Scaler) -> NDArray[np.float32]:
    """Return some rows of view `v`, dense and scaled, with missing rows 0.

    Unlike `apply_scaling(scaling, views.to_dense(v, rows))`, this loses no digits to float32 before the shift.
    """
    out = apply_scaler(scaling, views.to_dense(v, rows, np.float64))
    out[~views.mask[:, v][rows]] = 0
    drop_cached_pages(views.arrays[v])
    return out
