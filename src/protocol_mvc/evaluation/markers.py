"""Which features of which view distinguish a cluster from the others, by rank statistics.

All statistics are computed from the scaled features, never from components, and a few columns at a time.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from scipy.stats import norm, rankdata
from sklearn.metrics import roc_auc_score
from sklearn.utils import gen_batches

from protocol_mvc.data.checks import is_sparse
from protocol_mvc.data.features import ScaledFeatures
from protocol_mvc.data.scaling import Scaler, scaled_rows
from protocol_mvc.data.views import Views

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

MIN_AUC = 0.6  # of a marker, in its direction
CHANCE = 0.05  # probability that any feature without information becomes a marker
N_CANDIDATES = 4  # features per marker that are compared with the nearest cluster
MAX_EFFECT = 100.0  # a feature may be constant within the clusters
MAX_DENSE_VALUES = 2**22  # of a view, in memory at a time


class GroupSums(NamedTuple):
    """Sums over the members of each cluster, for each feature (K, D)."""

    values: Floats
    squares: Floats
    ranks: Floats  # ranks among all samples, ties share their mean


class Markers(NamedTuple):
    """Markers of all clusters, one entry per cluster, view and feature, best first within a cluster."""

    cluster: Labels
    view: npt.NDArray[np.str_]
    feature: npt.NDArray[np.str_]
    effect: Floats  #: difference from the other clusters in standard deviations (Cohen's d)
    auc: Floats  #: probability that a member has a larger value than a sample of another cluster
    auc_nearest: Floats  #: the same against the nearest cluster only; NaN if there is none
    share: Floats  #: fraction of the members beyond the median of the other clusters
    direction: npt.NDArray[np.str_]  #: "up" or "down"


class Ranking(NamedTuple):
    """The features of a view with the largest AUC for each cluster, be they markers or not (K, m)."""

    feature: npt.NDArray[np.str_]
    auc: Floats
    effect: Floats


def group_sums(x: Any, labels: Labels, n_clusters: int) -> GroupSums:
    """Return the sums of columns x (n, D), dense or CSC without stored zeros, over each cluster."""
    if is_sparse(x):
        return _sparse_group_sums(x, labels, n_clusters)
    member = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), (n_clusters, len(labels)))
    return GroupSums(member @ x, member @ x**2, member @ rankdata(x, axis=0))


def _sparse_group_sums(x: Any, labels: Labels, n_clusters: int) -> GroupSums:
    """Return the sums with ranks from the stored values alone; all zeros of a column share one rank."""
    n, width = x.shape
    column, row, value = np.repeat(np.arange(width), np.diff(x.indptr)), x.indices, x.data
    order = np.lexsort((value, column))
    column, row, value = column[order], row[order], value[order]
    n_stored = np.diff(x.indptr)
    n_zero, n_negative = n - n_stored, np.bincount(column[value < 0], minlength=width)
    is_new = np.ones(len(value), dtype=np.bool_)
    is_new[1:] = (value[1:] != value[:-1]) | (column[1:] != column[:-1])
    first = np.flatnonzero(is_new)
    last = np.append(first[1:], len(value)) - 1
    tie = np.cumsum(is_new) - 1
    rank = (first + last)[tie] / 2 + 1 - x.indptr[:-1][column] + np.where(value > 0, n_zero[column], 0)
    cell, shape = labels[row] * width + column, (n_clusters, width)
    total = [
        np.bincount(cell, weights, n_clusters * width).reshape(shape)
        for weights in (value, value**2, rank, np.ones(len(value)))
    ]
    zeros = np.bincount(labels, minlength=n_clusters)[:, None] - total[3]
    return GroupSums(total[0], total[1], total[2] + zeros * (n_negative + (n_zero + 1) / 2))


def one_against_rest(sums: GroupSums, sizes: Labels) -> tuple[Floats, Floats]:
    r"""Return AUC and effect size (K, D) of each feature for each cluster against all other samples.

    With the rank sum R of the m members of a cluster, of n samples,
    :math:`\text{AUC} = (R - m (m + 1) / 2) / (m (n - m))`, and the effect is
    :math:`d = (\bar x_1 - \bar x_0) / s` with the pooled standard deviation s. Both are NaN if the cluster is
    empty or has all samples.
    """
    n, m = float(sizes.sum()), sizes[:, None].astype(np.float64)
    rest = n - m
    with np.errstate(divide="ignore", invalid="ignore"):
        auc = (sums.ranks - m * (m + 1) / 2) / (m * rest)
        mean, other = sums.values / m, (sums.values.sum(axis=0) - sums.values) / rest
        within = sums.squares.sum(axis=0) - m * mean**2 - rest * other**2
        floor = 1e-12 * np.maximum(sums.squares.sum(axis=0), np.finfo(float).tiny)
        spread = np.sqrt(np.maximum(within, floor) / max(n - 2, 1))
        effect = np.clip((mean - other) / spread, -MAX_EFFECT, MAX_EFFECT)
    undefined = np.broadcast_to((m == 0) | (rest == 0), auc.shape)
    return np.where(undefined, np.nan, auc), np.where(undefined, np.nan, effect)


def least_auc(sizes: Labels, n_features: int) -> Floats:
    r"""Return the AUC (K,) that a marker of each cluster must exceed.

    The AUC of a feature without information has mean 1/2 and variance :math:`(n + 1) / (12 m (n - m))`. The
    bound is what the largest of all K x D of them exceeds with probability `CHANCE`, but at least `MIN_AUC`.
    """
    n, m = sizes.sum(), np.maximum(sizes, 1)
    spread = np.sqrt((n + 1) / (12 * m * np.maximum(n - m, 1)))
    bound: Floats = 0.5 + norm.isf(CHANCE / (2 * len(sizes) * max(n_features, 1))) * spread
    return np.maximum(bound, MIN_AUC)


def against_nearest(x: Floats, own: npt.NDArray[np.bool_], near: npt.NDArray[np.bool_]) -> Floats:
    """Return the AUC (D,) of dense columns x (n, D) for the samples `own` against the samples `near`."""
    m, n = int(own.sum()), int(own.sum() + near.sum())
    if m in (0, n):
        return np.full(x.shape[1], np.nan)
    ranks = rankdata(np.vstack([x[own], x[near]]), axis=0)[:m].sum(axis=0)
    auc: Floats = (ranks - m * (m + 1) / 2) / (m * (n - m))
    return auc


def find_markers(
    views: Views,
    scalers: Sequence[Scaler],
    labels: Labels,
    nearest: Sequence[int | None],
    n_markers: int,
) -> tuple[Markers, dict[str, Ranking]]:
    """Return at most `n_markers` markers of each cluster and view, and the ranking of each view by name.

    A feature is a marker if its AUC exceeds `least_auc`, up or down. Markers are ordered by the mean of both
    AUCs in their direction.

    Args:
        views: the data.
        scalers: how each view is scaled.
        labels: cluster of each sample (n,).
        nearest: the nearest other cluster of each of the K clusters.
        n_markers: largest number of markers.
    """
    parts, scores, rankings, k = [], [], {}, len(nearest)
    for v, (view, scaler) in enumerate(zip(views.names, scalers, strict=True)):
        features, names = ScaledFeatures(views, v, scaler), feature_names(views, v)
        own = labels[features.rows]
        sizes = np.bincount(own, minlength=k)
        sums = [group_sums(features.take(columns), own, k) for columns in features.blocks()]
        auc, effect = one_against_rest(GroupSums(*map(np.hstack, zip(*sums, strict=True))), sizes)
        rankings[view] = _rank(names, auc, effect, n_markers)
        for c, least in enumerate(least_auc(sizes, sum(views.n_features))):
            found = np.argsort(-np.abs(auc[c] - 0.5), kind="stable")[: N_CANDIDATES * n_markers]
            found = found[np.abs(auc[c, found] - 0.5) > least - 0.5]  # which NaN is not
            sign = np.sign(auc[c, found] - 0.5)
            near, share = _compare(features.take(found), own, c, nearest[c], sign)
            score = (np.abs(auc[c, found] - 0.5) + np.nan_to_num(sign * (near - 0.5), nan=0.0)) / 2
            kept = np.argsort(-score, kind="stable")[:n_markers]
            words = (np.full(len(found), c), np.full(len(found), view), names[found])
            values = (effect[c, found], auc[c, found], near, share, np.where(sign > 0, "up", "down"))
            parts.append([column[kept] for column in (*words, *values)])
            scores.append(score[kept])
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort((-np.concatenate(scores), columns[0]))
    return Markers(*(column[order] for column in columns)), rankings


def _rank(names: npt.NDArray[np.str_], auc: Floats, effect: Floats, n_markers: int) -> Ranking:
    best = np.argsort(-auc, axis=1, kind="stable")[:, :n_markers]
    return Ranking(names[best], *(np.take_along_axis(x, best, axis=1) for x in (auc, effect)))


def _compare(x: Any, labels: Labels, c: int, near: int | None, sign: Floats) -> tuple[Floats, Floats]:
    """Return the AUC against the nearest cluster and the share of the members that show a feature (D,)."""
    dense: Floats = x.toarray() if is_sparse(x) else x
    own = labels == c
    if not dense.shape[1]:
        return np.empty(0), np.empty(0)
    share = (sign * (dense[own] - np.median(dense[~own], axis=0)) > 0).mean(axis=0)
    return against_nearest(dense, own, labels == (-1 if near is None else near)), share


def feature_names(views: Views, v: int) -> npt.NDArray[np.str_]:
    """Return the column names of a view, or the positions of the columns if it has none (D_v,)."""
    names = views.columns[v] if v < len(views.columns) else None
    return np.array(range(views.n_features[v]) if names is None else names).astype(np.str_)


def per_view_cluster_auc(
    views: Views, labels: Labels, n_clusters: int, scalers: Sequence[Scaler], rows: Labels
) -> Floats:
    """Measure how well each view alone separates each cluster from the others.

    The AUC of a cluster is the probability that one of its samples is nearer to its center than a sample of
    another cluster: 0.5 is chance and 1 is perfect, whatever the sizes. A sample is left out of the center
    that its own distance is measured to. Only the samples `rows` are used.

    Returns:
        AUC (n_views, n_clusters); NaN if a cluster has fewer than two samples with the view, or all of them.
    """
    auc = np.full((views.n_views, n_clusters), np.nan)
    for v, (n_features, scaler) in enumerate(zip(views.n_features, scalers, strict=True)):
        present = rows[views.mask[rows, v]]
        own, sizes = labels[present], np.bincount(labels[present], minlength=n_clusters)
        defined = np.flatnonzero((sizes >= 2) & (sizes < len(present)))
        if not len(defined):
            continue
        centers, _ = view_centers(views, v, labels, n_clusters, scaler, present)
        batches = _batches(len(present), n_features)
        distance = np.vstack([cdist(scaled_rows(views, v, present[b], scaler), centers) for b in batches])
        # Without the sample itself, the center of m samples is m / (m - 1) times as far away.
        distance[np.arange(len(present)), own] *= (sizes / np.maximum(sizes - 1, 1))[own]
        auc[v, defined] = [roc_auc_score(own == c, -distance[:, c]) for c in defined]
    return auc


def view_centers(
    views: Views, v: int, labels: Labels, n_clusters: int, scaler: Scaler, rows: Labels
) -> tuple[Floats, float]:
    """Return the mean of the prepared rows of each cluster (K, d), 0 if empty, and their mean square."""
    sums, squares = np.zeros((n_clusters, scaler.n_outputs)), 0.0
    for batch in _batches(len(rows), views.n_features[v]):
        x = scaled_rows(views, v, rows[batch], scaler).astype(np.float64)
        sums += (labels[rows[batch]] == np.arange(n_clusters)[:, None]).astype(np.float64) @ x
        squares += float(np.vdot(x, x))
    sizes = np.bincount(labels[rows], minlength=n_clusters)
    return sums / np.maximum(sizes, 1)[:, None], squares / max(len(rows), 1)


def cluster_centers(views: Views, labels: Labels, n_clusters: int, scalers: Sequence[Scaler]) -> Floats:
    """Return the centres (K, sum d_v) of the clusters in all prepared views, each of mean square 1."""
    centers = []
    for v, scaler in enumerate(scalers):
        mean, square = view_centers(views, v, labels, n_clusters, scaler, np.flatnonzero(views.mask[:, v]))
        centers.append(mean / (np.sqrt(square) if square > 0 else 1.0))
    return np.hstack(centers)


def _batches(n: int, n_features: int) -> list[slice]:
    return list(gen_batches(n, max(1, MAX_DENSE_VALUES // n_features))) if n else []


def nearest_clusters(features: npt.NDArray[Any], labels: Labels, n_clusters: int) -> list[int | None]:
    """Return, for each cluster, the one with the nearest center; None if either is missing."""
    found: list[int] = np.unique(labels).tolist()
    if len(found) < 2:
        return [None] * n_clusters
    centers = np.array([features[labels == c].mean(0) for c in found])
    distance = cdist(centers, centers)
    np.fill_diagonal(distance, np.inf)
    nearest = {c: found[i] for c, i in zip(found, distance.argmin(1), strict=True)}
    return [nearest.get(c) for c in range(n_clusters)]
