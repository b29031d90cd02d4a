"""Bring data frames with different row labels onto one common list of samples."""

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from protocol_mvc.data.checks import Bools, Matrix, as_matrix, is_sparse
from protocol_mvc.data.memmap import take_rows


def align_frames(frames: Mapping[str, Any]) -> tuple[dict[str, Matrix], NDArray[Any], Bools]:
    """Return the frames as matrices over the union of their indexes, in order of first appearance.

    Returns:
        The matrices by name, the sample ids, and which sample has a row in which frame.

    Raises:
        ValueError: If an index repeats an id, or shares none with the other frames.
    """
    indexes = {name: frame.index for name, frame in frames.items()}
    ids = reduce(lambda left, right: left.append(right), indexes.values()).unique()
    return align(frames, indexes, ids)


def align(
    parts: Mapping[str, Any], indexes: Mapping[str, Any], ids: Any
) -> tuple[dict[str, Matrix], NDArray[Any], Bools]:
    """Return 2-D things, whose rows are those of their pandas indexes, as matrices with the rows `ids`.

    Returns:
        As `align_frames` does.

    Raises:
        ValueError: If an index repeats an id, has one that `ids` lack, or shares none with the others.
    """
    whole = {name: as_matrix(part, name) for name, part in parts.items()}
    for name, index in indexes.items():
        _check_unique(name, index)
    _check_shared(indexes)
    mask = np.zeros((len(ids), len(parts)), dtype=np.bool_)
    matrices = {}
    for v, (name, matrix) in enumerate(whole.items()):
        positions = ids.get_indexer(indexes[name])
        _check_known(name, indexes[name], positions, matrix.shape[0])
        mask[positions, v] = True
        matrices[name] = _place(name, matrix, positions, len(ids))
    return matrices, ids.to_numpy(), mask


def _check_unique(name: str, index: Any) -> None:
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise ValueError(
            f"View {name!r} has the id {twice!r} on several rows, so rows cannot be matched across views: "
            "make the index unique, or pass plain arrays, which are matched by position."
        )


def _check_shared(indexes: Mapping[str, Any]) -> None:
    for name, index in indexes.items():
        others = [other for key, other in indexes.items() if key != name]
        if others and not any(index.isin(other).any() for other in others):
            raise ValueError(
                f"View {name!r} shares no id with any other view (its first id is {index[0]!r}): give the "
                "views matching ids, or pass plain arrays, which are matched by position."
            )


def _check_known(name: str, index: Any, positions: NDArray[np.intp], rows: int) -> None:
    if len(index) != rows:
        raise ValueError(f"View {name!r} has {rows} rows but {len(index)} ids: give one id for each row.")
    if (positions < 0).any():
        stray = index[positions < 0][0]
        raise ValueError(
            f"View {name!r} has the id {stray!r}, which is not among those of the whole: bring the parts in "
            "line first, for a MuData by its method `update`."
        )


def _place(name: str, matrix: Any, positions: NDArray[np.intp], n: int) -> Matrix:
    """Move row `i` to row `positions[i]` of `n`, absent rows becoming NaN (no stored value if sparse)."""
    rows = np.arange(len(positions))
    if len(positions) == n and bool((positions == rows).all()):
        return matrix  # type: ignore[no-any-return]
    if is_sparse(matrix):
        ones = np.ones(len(rows), dtype=matrix.dtype)
        return csr_array(csr_array((ones, (positions, rows)), shape=(n, len(rows))) @ matrix)
    source = np.full(n, -1, dtype=np.intp)
    source[positions] = rows
    # The smallest float type that holds the integers exactly and knows NaN.
    dtype = matrix.dtype if len(positions) == n else np.result_type(matrix.dtype, np.float16)
    return take_rows(name, matrix, source, dtype)
