"""The digit images of scikit-learn as four views: real data that needs no download."""

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from protocol_mvc.data.sampling import imbalanced_subset
from protocol_mvc.data.views import Views, as_views

Images = NDArray[np.float64]


def load_digits_views(
    *, imbalance_ratio: float | None = None, random_state: int | None = None
) -> tuple[Views, NDArray[np.int64]]:
    """Return four views of 1797 digit images (8 x 8), and their labels from 0 to 9.

    Args:
        imbalance_ratio: Keep a subset with this ratio of smallest to largest class; None keeps all samples.
        random_state: Seed of the subset and of the order; None keeps the order of a whole set.

    Returns:
        The views "pixels" (64 features), "fourier" (40), "gradients" (32) and "profiles" (20), and the
        labels (n,).
    """
    bunch = load_digits()
    images = bunch.images
    views = {
        "pixels": images.reshape(len(images), -1),
        "fourier": np.abs(np.fft.rfft2(images)).reshape(len(images), -1),
        "gradients": _gradients(images),
        "profiles": _profiles(images),
    }
    found, labels = as_views({name: x.astype(np.float32) for name, x in views.items()}), bunch.target
    if imbalance_ratio is None and random_state is None:
        return found, labels.astype(np.int64)
    rows = imbalanced_subset(labels, imbalance_ratio, random_state or 0)
    return found[rows], labels[rows].astype(np.int64)


def _gradients(images: Images, bins: int = 8, cells: int = 2) -> Images:
    """Return histograms of gradient orientation, weighted by magnitude, in `cells` x `cells` cells."""
    n, size, _ = images.shape
    dy, dx = np.gradient(images, axis=(1, 2))
    turns = np.arctan2(dy, dx) / (2 * np.pi)  # from -0.5 to 0.5
    orientation = np.rint(turns * bins).astype(np.int64) % bins
    magnitude = np.hypot(dy, dx)[..., None] * (orientation[..., None] == np.arange(bins))
    side = size // cells
    sums: Images = magnitude.reshape(n, cells, side, cells, side, bins).sum(axis=(2, 4))
    return sums.reshape(n, -1)


def _profiles(images: Images) -> Images:
    """Return row sums, column sums, and mean and standard deviation of both profiles."""
    rows, columns = images.sum(axis=2), images.sum(axis=1)
    total = rows.sum(axis=1, keepdims=True)
    steps = np.arange(images.shape[1])
    means = [(p * steps).sum(axis=1, keepdims=True) / total for p in (rows, columns)]
    stds = [
        np.sqrt((p * (steps - mean) ** 2).sum(axis=1, keepdims=True) / total)
        for p, mean in zip((rows, columns), means, strict=True)
    ]
    return np.hstack([rows, columns, *means, *stds])
