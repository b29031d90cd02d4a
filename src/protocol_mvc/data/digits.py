"""Four views of the 8 x 8 digit images of scikit-learn, so that real data is always at hand."""

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from protocol_mvc.data.views import Views, as_views

Images = NDArray[np.float64]


def load_digits_views() -> tuple[Views, NDArray[np.int64]]:
    """Return 1797 digits as pixels, Fourier magnitudes, gradients and profiles, with their labels."""
    bunch = load_digits()
    images = bunch.images
    views = {
        "pixels": images.reshape(len(images), -1),
        "fourier": _fourier(images),
        "gradients": _gradients(images),
        "profiles": _profiles(images),
    }
    return as_views({name: x.astype(np.float32) for name, x in views.items()}), bunch.target.astype(np.int64)


def _fourier(images: Images) -> Images:
    """Magnitudes over the half plane of frequencies: blind to where in the (cyclic) image the ink is."""
    return np.abs(np.fft.rfft2(images)).reshape(len(images), -1)


def _gradients(images: Images, bins: int = 8, cells: int = 2) -> Images:
    """Gradient strength by direction in each cell: the strokes rather than the ink."""
    n, size, _ = images.shape
    down, right = np.gradient(images, axis=(1, 2))
    turn = np.arctan2(down, right) / (2 * np.pi)  # in turns, -0.5 to 0.5
    direction = np.rint(turn * bins).astype(np.int64) % bins
    strength = np.hypot(down, right)[..., None] * (direction[..., None] == np.arange(bins))
    side = size // cells
    cell_sums: Images = strength.reshape(n, cells, side, cells, side, bins).sum(axis=(2, 4))
    return cell_sums.reshape(n, -1)


def _profiles(images: Images) -> Images:
    """Ink in each row and column, its centre and its spread."""
    rows, columns = images.sum(axis=2), images.sum(axis=1)
    ink = rows.sum(axis=1, keepdims=True)
    steps = np.arange(images.shape[1])
    centres = [(p * steps).sum(axis=1, keepdims=True) / ink for p in (rows, columns)]
    spreads = [
        np.sqrt((p * (steps - centre) ** 2).sum(axis=1, keepdims=True) / ink)
        for p, centre in zip((rows, columns), centres, strict=True)
    ]
    return np.hstack([rows, columns, *centres, *spreads])
