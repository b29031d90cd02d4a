"""Do the views show the same item, or different items of the same group?"""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

Features = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]

MAX_SAMPLES = 4000  # half of them to learn from, half to test on
N_REPEATS = 8  # of the halves: the mean hardly depends on chance
N_DIRECTIONS = 20  # directions in which two views are compared
MIN_SAMPLES = 20  # that have both views of a pair


def group_information(n_clusters: int) -> float:
    r"""The most that K groups can tell of one view from another in the mean, in nats: :math:`\log K + 1`.

    If views share the group alone, the partner of an item ranks anywhere among the members of its group. For
    a group of n_k of n items the mean of :math:`\log(n / rank)` is then :math:`\log(n / n_k) + 1`, and over
    all items at most the entropy of the groups + 1. This bounds an expectation: what is measured on n items
    strays from its own by the order of :math:`1 / \sqrt n`, and may pass the bound by chance.
    """
    return math.log(n_clusters) + 1


def shared_information(views: Sequence[Features], mask: Mask | None, seed: int) -> float:
    r"""How well an item seen in one view is recognised in another, in nats: mean :math:`\log(n / rank)`.

    Canonical correlations are learned from half of the items; for each item of the other half, all of that
    half are ranked by their similarity in the other view. Guessing gives 1. The mean is over all pairs of
    views and several halves; a single view, and views with hardly any item in common, tell nothing: infinity.

    Args:
        views: features (n, d) of each view, far fewer than half of the items.
        mask: which item has which view (n, V); None where all are there.
        seed: of the halves.
    """
    rng = np.random.default_rng(seed)
    found = []
    for a, b in combinations(range(len(views)), 2):
        both = np.arange(len(views[a])) if mask is None else np.flatnonzero(mask[:, a] & mask[:, b])
        for rows in (rng.permutation(both)[:MAX_SAMPLES] for _ in range(N_REPEATS)):
            if len(rows) >= MIN_SAMPLES:
                found.append(_recognition(views[a][rows], views[b][rows]))
    return float(np.mean(found)) if found else math.inf


def _recognition(x: Features, y: Features) -> float:
    """Mean log(n / rank) of the partner, both ways, over the second half of the rows."""
    half = len(x) // 2
    x, y = _whitened(x, half), _whitened(y, half)
    left, strength, right = np.linalg.svd(x[:half].T @ y[:half])
    weight = strength[:N_DIRECTIONS]
    left, right = left[:, : len(weight)] * weight, right[: len(weight)].T * weight
    similarity = normalize(x[half:] @ left) @ normalize(y[half:] @ right).T
    ranks = np.concatenate([_ranks(similarity), _ranks(similarity.T)])
    return float(np.mean(np.log(len(similarity) / ranks)))


def _ranks(similarity: Features) -> Features:
    """The place of the diagonal in each row, from 1; among equals the middle one, as if by guessing."""
    own = np.diagonal(similarity)[:, None]
    ranks: Features = (similarity > own).sum(1) + ((similarity == own).sum(1) + 1) / 2
    return ranks


def _whitened(x: Features, half: int) -> Features:
    """Components of equal variance, learned from the first half of the rows."""
    model = PCA(min(half, x.shape[1]), whiten=True, svd_solver="full")
    with np.errstate(invalid="ignore"):  # a constant view has no variance to divide by
        whitened: Features = np.nan_to_num(model.fit(x[:half]).transform(x))
    return whitened
