"""Principal components of one view, dense or sparse.

Sparse data are centred in the products instead of in memory, so that they stay sparse.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from protocol_mvc.data.checks import is_sparse

Floats: TypeAlias = NDArray[np.float64]

NARROW, SHORT = 1000, 1500  # columns and rows up to which all eigenvectors of their products are cheap
N_ITERATIONS, N_EXTRA_AXES = 8, 20  # of the subspace iterations
SMALL_CELLS = 2_000_000  # sparse data of at most this size are made dense
DENSE_NOISE, SPARSE_NOISE = 1e-24, 1e-12  # smaller shares of the squares are rounding errors
NULL = 1e-13  # share of the largest variance below which an axis is undetermined
MIN_SIZE = 1e-200  # smaller root mean squares count as 0
HEIGHT = 64  # rows of every matrix product in `rotate`


class Components(NamedTuple):
    """Principal components of one view.

    Attributes:
        axes: directions (D, d), all divided by the root mean square of the training components.
        mean: mean of each column (D,).
        explained_variance: share of the variance that the components have.
    """

    axes: Floats
    mean: Floats
    explained_variance: float


def fit_components(x: Any, n_components: int) -> Components:
    """Find the leading principal components, not whitened.

    Args:
        x: prepared rows (m, D), dense (overwritten) or sparse.
        n_components: number of components; at most min(m, D) are found, but at least one.
    """
    m, width = x.shape
    peak = float(max(x.max(), -x.min())) if m else 0.0
    d = max(1, min(n_components, m, width))
    if not peak:
        return Components(np.zeros((width, d)), np.zeros(width), 1.0)
    x, noise = _as_units_of(x, peak)
    squares = float((x.data**2).sum()) if is_sparse(x) else float(np.vdot(x, x))
    mean = _column_means(x)
    if not is_sparse(x):
        x -= mean
    center = mean if is_sparse(x) else np.zeros(width)
    total = squares - m * float(mean @ mean) if is_sparse(x) else float(np.vdot(x, x))
    if total <= noise * squares:
        return Components(np.zeros((width, d)), mean * peak, 1.0)
    values, axes = _leading_axes(x, center, d)
    size = np.sqrt(values.sum() / (m * d)) * peak
    axes = _fix_signs(axes) / (size if size > MIN_SIZE else 1.0)
    return Components(np.ascontiguousarray(axes), mean * peak, min(float(values.sum()) / total, 1.0))


def _as_units_of(x: Any, peak: float) -> tuple[Any, float]:
    """Return `x / peak`, dense if it is small, and the share of its squares that may be rounding errors."""
    if not is_sparse(x):
        x /= peak
    elif x.shape[0] * x.shape[1] <= SMALL_CELLS:
        x = x.toarray() / peak
    else:
        x = x * (1 / peak)
    return x, SPARSE_NOISE if is_sparse(x) else DENSE_NOISE


def _column_means(x: Any) -> Floats:
    """Return the mean of each column (D,); that of a dense column with one value is exact."""
    mean: Floats = np.asarray(x.mean(axis=0)).ravel()
    return mean if is_sparse(x) else np.where(x.min(axis=0) == x.max(axis=0), x[0], mean)


def _leading_axes(x: Any, center: Floats, d: int) -> tuple[Floats, Floats]:
    """Return the largest `d` squared singular values of `x - center` (d,) and their directions (D, d)."""
    m, width = x.shape
    few = 2 * d < min(m, width)  # iterations find few axes only
    if width <= max(NARROW, m // 2) or (width <= m and not few):
        covariance = _to_dense(x.T @ x) - m * np.outer(center, center)
        return _largest(covariance, d)
    if m <= SHORT or not few:
        shift = x @ center
        gram = _to_dense(x @ x.T) - shift[:, None] - shift + center @ center
        values, vectors = _largest(gram, d)
        values = np.where(values > NULL * values[0], values, 0.0)
        axes = x.T @ vectors - np.outer(center, vectors.sum(axis=0))
        return values, axes * np.sqrt(np.divide(1.0, values, out=np.zeros(d), where=values > 0))
    return _iterated_axes(x, center, d)


def _to_dense(product: Any) -> Floats:
    dense: Floats = product.toarray() if is_sparse(product) else product
    return dense


def _largest(matrix: Floats, d: int) -> tuple[Floats, Floats]:
    """Return the `d` largest eigenvalues of a symmetric matrix and their vectors, largest first."""
    n = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=(n - d, n - 1), overwrite_a=True)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def _iterated_axes(x: Any, center: Floats, d: int) -> tuple[Floats, Floats]:
    """Find the axes by subspace iterations from a fixed start, without any product of two large matrices."""
    start = np.random.default_rng(0).standard_normal((x.shape[1], d + N_EXTRA_AXES))
    basis = np.linalg.qr(start)[0]
    for _ in range(N_ITERATIONS):
        image = np.linalg.qr(x @ basis - center @ basis)[0]
        basis = np.linalg.qr(x.T @ image - np.outer(center, image.sum(axis=0)))[0]
    _, sizes, rotation = np.linalg.svd(x @ basis - center @ basis, full_matrices=False)
    return sizes[:d] ** 2, basis @ rotation[:d].T


def _fix_signs(axes: Floats) -> Floats:
    """Make the coefficient of largest magnitude of each axis positive."""
    largest = np.abs(axes).argmax(axis=0)
    return np.where(axes[largest, np.arange(axes.shape[1])] < 0, -axes, axes)


def rotate(x: Any, axes: Floats) -> Floats:
    """Return `x @ axes` (n, d), every row to the same bits whatever the other rows are.

    Dense products of different heights round differently, so blocks of equal height are multiplied. Sparse
    products go row by row.
    """
    if is_sparse(x):
        product: Floats = x @ axes
        return product
    n = len(x)
    out = np.empty((n, axes.shape[1]))
    for rows in row_blocks(n, HEIGHT):
        block = x[rows]
        if len(block) < HEIGHT:
            block = np.vstack([block, np.zeros((HEIGHT - len(block), x.shape[1]))])
        out[rows] = (block @ axes)[: rows.stop - rows.start]
    return out


def row_blocks(n: int, height: int) -> Iterator[slice]:
    """Yield consecutive slices of `n` rows, of `height` rows each except the last."""
    return (slice(start, min(start + height, n)) for start in range(0, n, height))
