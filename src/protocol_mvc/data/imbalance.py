"""Make balanced data imbalanced, the way the PROTOCOL paper does."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def class_counts(n_max: float, n_classes: int, imbalance_ratio: float) -> NDArray[np.int64]:
    """Return how many samples each class keeps: `round(n_max * ratio ** (k / (K - 1)))`, Eq. 7 of the paper.

    Args:
        n_max: Size of the largest class, the first.
        n_classes: Number K of classes.
        ratio: Smallest class size over largest, in (0, 1].

    Raises:
        ValueError: If the ratio is outside (0, 1], or there is no class.
    """
    if not 0 < imbalance_ratio <= 1:
        raise ValueError(
            f"Imbalance ratio is {imbalance_ratio}: give smallest over largest class size, in (0, 1]."
        )
    if n_classes < 1:
        raise ValueError(f"Number of classes is {n_classes}: give at least 1.")
    decay = imbalance_ratio ** (np.arange(n_classes) / max(n_classes - 1, 1))
    return np.maximum(np.round(n_max * decay), 1).astype(np.int64)


def imbalanced_subset(labels: ArrayLike, imbalance_ratio: float, random_state: int = 0) -> NDArray[np.intp]:
    """Return the shuffled positions of a random subset whose class sizes decay geometrically to `ratio`.

    Classes shrink in sorted order of their labels, starting from the mean class size; none loses its last
    sample or gives more than it has.
    """
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    counts = class_counts(len(codes) / max(len(classes), 1), len(classes), imbalance_ratio)
    rng = np.random.default_rng(random_state)
    # Slicing a shuffled class caps its count by its size.
    kept = [rng.permutation(np.flatnonzero(codes == k))[:count] for k, count in enumerate(counts)]
    return rng.permutation(np.concatenate(kept))
