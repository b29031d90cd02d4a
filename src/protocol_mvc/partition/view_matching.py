"""Test whether the views show the same item, or different items of the same group."""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from protocol_mvc.partition.candidates import Features, Mask
from protocol_mvc.partition.config import MatchingOptions

DEFAULT = MatchingOptions()


def group_information(n_clusters: int) -> float:
    r"""Return the largest mean information of one view about another if they share only the group.

    In nats it is :math:`\log K + 1`: the partner of an item then has any rank among the members of its
    group, so for a group of n_k of n items the mean of :math:`\log(n / rank)` is
    :math:`\log(n / n_k) + 1`, and over all items at most the entropy of the groups + 1. A measured mean
    deviates from its expectation by the order of :math:`1 / \sqrt n` and can exceed the bound by chance.
    """
    return math.log(n_clusters) + 1


def shared_information(
    views: Sequence[Features], mask: Mask | None, seed: int, options: MatchingOptions = DEFAULT
) -> float:
    r"""Return how well an item of one view is recognised in another, as mean :math:`\log(n / rank)` in nats.

    Canonical directions are fitted to half of the items. For each item of the other half, all items of that
    half are ranked by their similarity in the other view. Guessing gives 1. The mean is over all pairs of
    views and several random halves.

    Args:
        views: features (n, d) of each view, with d far smaller than n / 2.
        mask: which item has which view (n, V); None if all are present.
        seed: seed of the halves.
        options: numbers of samples, halves and directions.

    Returns:
        The mean; infinity if no two views share enough items.
    """
    o = options
    rng = np.random.default_rng(seed)
    values = []
    for a, b in combinations(range(len(views)), 2):
        both = np.arange(len(views[a])) if mask is None else np.flatnonzero(mask[:, a] & mask[:, b])
        for rows in (rng.permutation(both)[: o.max_samples] for _ in range(o.n_repeats)):
            if len(rows) >= o.min_samples:
                values.append(_recognition(views[a][rows], views[b][rows], o.n_directions))
    return float(np.mean(values)) if values else math.inf


def _recognition(x: Features, y: Features, n_directions: int) -> float:
    """Return the mean log(n / rank) of the partner, in both directions, over the second half of the rows."""
    half = len(x) // 2
    x, y = _whiten(x, half), _whiten(y, half)
    left, strength, right = np.linalg.svd(x[:half].T @ y[:half])
    weight = strength[:n_directions]
    left, right = left[:, : len(weight)] * weight, right[: len(weight)].T * weight
    similarity = normalize(x[half:] @ left) @ normalize(y[half:] @ right).T
    ranks = np.concatenate([_diagonal_ranks(similarity), _diagonal_ranks(similarity.T)])
    return float(np.mean(np.log(len(similarity) / ranks)))


def _diagonal_ranks(similarity: Features) -> Features:
    """Return the rank of the diagonal in each row, from 1; ties get the middle rank."""
    own = np.diagonal(similarity)[:, None]
    ranks: Features = (similarity > own).sum(1) + ((similarity == own).sum(1) + 1) / 2
    return ranks


def _whiten(x: Features, half: int) -> Features:
    """Return whitened principal components, fitted to the first half of the rows."""
    model = PCA(min(half, x.shape[1]), whiten=True, svd_solver="full")
    with np.errstate(invalid="ignore"):  # a constant view has no variance to divide by
        whitened: Features = np.nan_to_num(model.fit(x[:half]).transform(x))
    return whitened
