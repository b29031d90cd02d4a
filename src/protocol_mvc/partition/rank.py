r"""The number of groups of views that depend on each other through the group alone.

Views of one item have more in common than its group. But two different images of one class, for example, are
independent of each other given the class. Then the covariance of any features f of one view and g of another

.. math:: \operatorname{cov}(f, g) = \sum_c \pi_c (\mu_c - \mu)(\nu_c - \nu)^\top

has a rank of at most K - 1, and K - 1 canonical correlations are positive, however much the groups overlap in
either view. The correlations are measured on samples that had no part in the choice of the directions, so
that all others are 0 in the mean: this tells such data from those whose views have more in common.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import euclidean_distances

from protocol_mvc.partition.candidates import group_means, whitening
from protocol_mvc.partition.graphs import Features, Floats, compact, kmeans

SURE, CLEAR, POSSIBLE = 4.0, 2.5, 1.5  # correlations in standard errors
N_FURTHER, MAX_FURTHER = 15, 0.8  # correlations after the clear ones, and their largest mean
MAX_FURTHER_FIRST = 1.5  # the same in the first repetition; if it is larger, there are no others
MIN_REPEATS, N_FOLDS = 4, 4
N_CENTERS, SAMPLES_PER_CENTER = 100, 10
N_DIRECTIONS = 30  # of each view that are compared
SHRINKAGE = 0.05  # of the covariance of the features
MAX_EXPONENT = 30.0  # of a membership, so that no product of two is a denormal number


class RankCount(NamedTuple):
    """Numbers of groups: the canonical correlations that are positive, plus one."""

    low: int  #: beyond doubt
    n_clusters: int  #: most likely
    high: int  #: possible


def count_by_rank(views: Sequence[Features], seed: int) -> RankCount | None:
    """Return the number of groups if the views depend on each other through the group alone, else None.

    Args:
        views: prepared data (n, d_v) of every view.
        seed: seed of the features and of the folds.

    Returns:
        The number and its range; None if the views have more in common than the group or tell nothing about
        each other, if there are fewer than 600 samples or two views, or a view of few different values, or
        if there are more than 16 groups.
    """
    repeats = _repeated_correlations(views, seed)
    first = next(repeats, np.zeros(0))
    if not _mean_further(first) <= MAX_FURTHER_FIRST:
        return None
    found = np.mean([first, *repeats], axis=0)
    if not _mean_further(found) <= MAX_FURTHER or found.max() <= CLEAR:
        return None
    return RankCount(*(1 + int((found > least).sum()) for least in (SURE, CLEAR, POSSIBLE)))


def _mean_further(correlations: Floats) -> float:
    """Return the mean of `N_FURTHER` correlations after the first m, with m the number of clear ones.

    It is NaN, which no limit admits, if fewer are left.
    """
    further = correlations[int((correlations > CLEAR).sum()) :][:N_FURTHER]
    return float(further.mean()) if len(further) == N_FURTHER else math.nan


def _repeated_correlations(views: Sequence[Features], seed: int) -> Iterator[Floats]:
    """Yield canonical correlations of one view after another with all others, in standard errors."""
    n, n_views = len(views[0]), len(views)
    n_centers = min(N_CENTERS, n // SAMPLES_PER_CENTER)
    if n_views < 2 or n_centers < 2 * N_DIRECTIONS:
        return
    features: list[Floats] = []
    for repeat in range(max(MIN_REPEATS, n_views)):
        v = repeat % n_views
        if v == 0:
            features = [memberships(x, n_centers, (seed + repeat) % 2**32) for x in views]
            if min(x.shape[1] for x in features) < N_DIRECTIONS:  # of few different values
                return
        others = np.hstack([x for w, x in enumerate(features) if w != v])
        yield held_out_correlations(features[v], others, seed + repeat)


def memberships(x: Features, n_centers: int, seed: int) -> Floats:
    r"""Return features of the samples of a view: how near they are to the centres of K-means.

    With d the squared distance to a centre, its value is in proportion to :math:`\exp(-d / w)`; w is the
    median, over the samples, of the difference between the squared distances to the second nearest and to the
    nearest centre. The values of a sample sum to 1.

    Args:
        x: data of the view (n, d).
        n_centers: number of centres m.
        seed: seed of K-means.

    Returns:
        The features (n, m).
    """
    centers = group_means(x, compact(kmeans(x, n_centers, seed, n_init=1)))
    distance = euclidean_distances(x, centers, squared=True).astype(np.float64)
    nearest = distance.min(axis=1, keepdims=True)
    gaps = np.sort(distance - nearest, axis=1)[:, :2]  # 0, and to the second centre if there is one
    near = np.exp(-np.minimum((distance - nearest) / max(float(np.median(gaps[:, -1])), 1e-12), MAX_EXPONENT))
    values: Floats = near / near.sum(axis=1, keepdims=True)
    return values


def held_out_correlations(a: Floats, b: Floats, seed: int) -> Floats:
    r"""Return canonical correlations, in standard errors, of samples that had no part in their directions.

    With p and q the coordinates of a sample, the standard error of the correlation :math:`\sum_i p_i q_i` is
    :math:`\sqrt{\sum_i p_i^2 q_i^2}`: a few samples that differ from all others are not enough.

    Args:
        a: features of a view (n, p).
        b: features of other views (n, q).
        seed: seed of the folds, which are held out one after another.

    Returns:
        The values of at most `N_DIRECTIONS` directions, in descending order of the correlation in the samples
        that chose them.
    """
    fold = np.random.default_rng(seed).permutation(len(a)) % N_FOLDS
    products = np.concatenate([_products(a, b, fold == i) for i in range(N_FOLDS)])
    found: Floats = products.sum(axis=0) / np.sqrt(np.square(products).sum(axis=0) + 1e-24)
    return found


def _products(a: Floats, b: Floats, held_out: npt.NDArray[np.bool_]) -> Floats:
    """Return products of the coordinates of held-out samples on the canonical directions of the others."""
    rest = ~held_out
    a, b = (x - x[rest].mean(axis=0) for x in (a, b))
    whole = np.zeros(int(rest.sum()), dtype=np.int64)
    white_a, white_b = (whitening(x[rest], whole, SHRINKAGE) for x in (a, b))
    u, _, vt = np.linalg.svd(white_a @ (a[rest].T @ b[rest]) @ white_b, full_matrices=False)
    u, v = u[:, :N_DIRECTIONS], vt[:N_DIRECTIONS].T
    return _orthonormal(a[held_out] @ white_a @ u) * _orthonormal(b[held_out] @ white_b @ v)


def _orthonormal(x: Floats) -> Floats:
    """Return the centred columns, each without what it has in common with those before it, of unit norm.

    A rare group often has a part in several directions, and shall count once.
    """
    basis, factor = np.linalg.qr(x - x.mean(axis=0))
    oriented: Floats = basis * np.sign(factor.diagonal())
    return oriented
