"""Make data harder: subsets with imbalanced classes, and missing views."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol_mvc.data.views import Views

MIN_ROWS = 50  # of a class that `stratified_rows` keeps


def class_counts(n_max: float, n_classes: int, imbalance_ratio: float) -> NDArray[np.int64]:
    """Return the class sizes ``round(n_max * ratio ** (k / (K - 1)))``, Eq. 7 of the PROTOCOL paper.

    Args:
        n_max: size of the largest class, which is the first.
        n_classes: number K of classes.
        imbalance_ratio: size of the smallest class over that of the largest, in (0, 1].

    Returns:
        Sizes (K,), each at least 1.

    Raises:
        ValueError: If the ratio is not in (0, 1], or there is no class.
    """
    if not 0 < imbalance_ratio <= 1:
        raise ValueError(
            f"imbalance_ratio is {imbalance_ratio}: give smallest over largest class size, in (0, 1]."
        )
    if n_classes < 1:
        raise ValueError(f"n_classes is {n_classes}: give at least 1.")
    decay = imbalance_ratio ** (np.arange(n_classes) / max(n_classes - 1, 1))
    return np.maximum(np.round(n_max * decay), 1).astype(np.int64)


def min_rows_per_class(n_classes: int, max_rows: int) -> int:
    """Return how many rows of each class `stratified_rows` keeps, if the class has them."""
    return max(1, min(MIN_ROWS, max_rows // (2 * n_classes)))


def stratified_rows(labels: NDArray[np.int64], max_rows: int) -> NDArray[np.int64]:
    """Return all rows, or a random subset that keeps small classes whole.

    Every class keeps `min_rows_per_class` rows; the other places are shared in proportion to size.

    Args:
        labels: class of each row (n,), from 0.
        max_rows: largest number of rows.

    Returns:
        Sorted row indices, always the same for the same labels.
    """
    if len(labels) <= max_rows:
        return np.arange(len(labels))
    sizes = np.bincount(labels)
    kept = np.minimum(sizes, min_rows_per_class(len(sizes), max_rows))
    free = max(max_rows - kept.sum(), 0)
    quota = kept + (sizes - kept) * free // (sizes - kept).sum()
    rng = np.random.default_rng(0)
    parts = [rng.permutation(np.flatnonzero(labels == c))[: quota[c]] for c in range(len(sizes))]
    return np.sort(np.concatenate(parts))


def imbalanced_subset(
    labels: ArrayLike, imbalance_ratio: float | None, random_state: int = 0
) -> NDArray[np.intp]:
    """Draw a random subset whose class sizes decay geometrically, as in the PROTOCOL paper.

    Args:
        labels: class of each sample (n,). Classes shrink in sorted order, starting from the mean class size.
        imbalance_ratio: size of the smallest class / size of the largest, in (0, 1]; None keeps all samples.
        random_state: seed.

    Returns:
        Positions of the chosen samples, in random order. Every class keeps at least one sample.
    """
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    rng = np.random.default_rng(random_state)
    if imbalance_ratio is None:
        return rng.permutation(len(codes))
    counts = class_counts(len(codes) / max(len(classes), 1), len(classes), imbalance_ratio)
    chosen = [rng.permutation(np.flatnonzero(codes == k))[:count] for k, count in enumerate(counts)]
    return rng.permutation(np.concatenate(chosen))


def mask_views(views: Views, missing_rate: float, random_state: int = 0) -> Views:
    """Mark views of random samples as missing.

    Args:
        views: the data.
        missing_rate: probability that a sample loses a view, from 0 to 1. Every sample keeps one view.
        random_state: seed.

    Returns:
        The same data with another mask.

    Raises:
        ValueError: If the rate is not from 0 to 1.
    """
    if not 0 <= missing_rate <= 1:
        raise ValueError(f"missing_rate is {missing_rate}: give a number from 0 to 1.")
    draws = np.random.default_rng(random_state).random(views.mask.shape)
    draws[~views.mask] = -1
    is_last = draws == draws.max(axis=1, keepdims=True)
    return replace(views, mask=views.mask & ((draws >= missing_rate) | is_last))
