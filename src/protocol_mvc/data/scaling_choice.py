"""What `scaling="auto"` chooses: one rule for views given to a method as they are, one before components."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.statistics import ColumnStatistics, Floats, sample_present_rows
from protocol_mvc.data.views import Views

SAMPLE_ROWS, SAMPLE_CELLS = 2_000, 20_000_000  # of a view, at most, that `choose_preparation` looks at
MAX_VALUE = 1e100  # squares of larger values could overflow
MIN_RELATIVE_STD = 1e-10  # columns that vary less, relative to the largest value, are constant


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


def sample_values(views: Views, v: int) -> Floats:
    """Return random present rows of a view, dense (m, D_v): at most `SAMPLE_ROWS` and `SAMPLE_CELLS`."""
    max_rows = max(1, min(SAMPLE_ROWS, SAMPLE_CELLS // views.n_features[v]))
    values: NDArray[Any] = views.to_dense(v, sample_present_rows(views, v, max_rows), np.float64)
    return np.clip(values, -MAX_VALUE, MAX_VALUE, out=values)


def choose_preparation(x: Floats, low: Floats) -> str:
    """Return the kind of scaling before principal components.

    Counts get what suits them. Columns of wildly different spread are different units and get "standard",
    unless their spreads decrease as those of principal components do. Sparse non-negative values get
    "hellinger"; the proportions of all others are kept by "none". Constant columns do not count.

    Args:
        x: some rows (m, D).
        low: smallest value of each column of all rows (D,).
    """
    if not x.size:
        return "none"
    kept = x.std(axis=0) > MIN_RELATIVE_STD * max(float(np.abs(x).max()), 1e-300)
    if not kept.any():
        return "none"
    x, low = x[:, kept], low[kept]
    spread, top, zeros = x.std(axis=0), np.abs(x).max(axis=0), 1 - np.count_nonzero(x) / x.size
    non_negative = bool(low.min() >= 0)
    if non_negative and np.abs(x - np.round(x)).max() < 1e-3 and (kind := _kind_of_counts(x, zeros)):
        return kind
    one_unit = non_negative and np.percentile(top, 90) <= 2 * np.median(top)  # pixels, histograms, flags
    components = len(spread) > 1 and np.mean(np.diff(spread) <= 1e-9) >= 0.9
    uneven = np.percentile(spread, 90) > 10 * np.percentile(spread, 10)
    if uneven and not one_unit and not components:
        return "standard"
    return "hellinger" if non_negative and zeros >= 0.5 else "none"


def _kind_of_counts(x: Floats, zeros: float) -> str | None:
    """Return the kind for yes / no data, sparse counts or small panels of counts, else None."""
    filled = x[x != 0]
    if filled.max() == filled.min():
        return "l2"  # yes / no
    if zeros >= 0.5 and np.median(filled) <= 3:
        return "tfidf"  # words, peaks, RNA
    sums = x.sum(axis=1)
    heavy = np.percentile(filled, 99) >= 10 * np.median(filled)
    if x.shape[1] <= 250 and sums.std() > 0.2 * sums.mean() and heavy:
        return "clr"  # antibody tags
    return None
