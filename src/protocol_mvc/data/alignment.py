"""Bring data frames with different row labels onto one common list of samples."""

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from protocol_mvc.data.checks import Bools, Matrix, as_matrix, is_sparse

__all__ = ["align_frames"]


def align_frames(frames: Mapping[str, Any]) -> tuple[dict[str, Matrix], NDArray[Any], Bools]:
    """Return the frames as matrices over the union of their indexes.

    Returns:
        The matrices by name, the sample ids in order of first appearance, and which sample has a row in
        which frame.

    Raises:
        ValueError: If an index repeats an id, or shares none with the other frames.
    """
    for name, frame in frames.items():
        _check_unique(name, frame.index)
    ids = reduce(lambda left, right: left.append(right), (f.index for f in frames.values())).unique()
    mask = np.zeros((len(ids), len(frames)), dtype=np.bool_)
    _check_shared(frames)
    matrices = {}
    for v, (name, frame) in enumerate(frames.items()):
        positions = ids.get_indexer(frame.index)
        mask[positions, v] = True
        matrices[name] = _place(as_matrix(frame, name), positions, len(ids))
    return matrices, ids.to_numpy(), mask


def _check_unique(name: str, index: Any) -> None:
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise ValueError(
            f"View {name!r} has the id {twice!r} on several rows, so rows cannot be matched across views: "
            "make the index unique, or pass plain arrays, which are matched by position."
        )


def _check_shared(frames: Mapping[str, Any]) -> None:
    for name, frame in frames.items():
        others = [other.index for key, other in frames.items() if key != name]
        if others and not any(frame.index.isin(other).any() for other in others):
            raise ValueError(
                f"View {name!r} shares no id with any other view (its first id is {frame.index[0]!r}): give "
                "the frames matching indexes, or pass plain arrays, which are matched by position."
            )


def _place(matrix: Any, positions: NDArray[np.intp], n: int) -> Matrix:
    """Move row `i` to row `positions[i]` of `n`, absent rows becoming NaN (no stored value if sparse)."""
    rows = np.arange(len(positions))
    if len(positions) == n:
        in_order = bool((positions == rows).all())
        return matrix if in_order else matrix[np.argsort(positions)]  # type: ignore[no-any-return]
    if is_sparse(matrix):
        ones = np.ones(len(rows), dtype=matrix.dtype)
        return csr_array(csr_array((ones, (positions, rows)), shape=(n, len(rows))) @ matrix)
    # The smallest float type that holds the integers exactly and knows NaN.
    placed = np.full((n, matrix.shape[1]), np.nan, dtype=np.result_type(matrix.dtype, np.float16))
    placed[positions] = matrix
    return placed
