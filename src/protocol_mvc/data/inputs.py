"""Name the views of an input, split the columns of one table, and match the rows of several."""

import re
import unicodedata
import warnings
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from protocol_mvc.data.checks import Bools, Matrix, as_matrix, is_frame, is_sparse
from protocol_mvc.data.memmap import take_rows
from protocol_mvc.exceptions import DataWarning
from protocol_mvc.utils.text import short_repr

# Columns of one view: a (start, stop) tuple, a slice, or a list of positions or of data-frame column names.
Columns: TypeAlias = tuple[int, int] | slice | Iterable[int] | Iterable[str]
ViewColumns: TypeAlias = Iterable[Columns] | Mapping[str, Columns]


def default_name(position: int) -> str:
    """Return the name of an unnamed view."""
    return f"view_{position}"


def name_views(parts: Iterable[Any] | Mapping[Any, Any]) -> dict[str, Any]:
    """Return views by name, with default names for a list.

    Raises:
        ValueError: If two names are equal as text.
    """
    if not isinstance(parts, Mapping):
        return {default_name(i): part for i, part in enumerate(parts)}
    views = {str(name): part for name, part in parts.items()}
    if len(views) < len(parts):
        raise ValueError(f"Two of the view names {short_repr([*parts])} are equal as text: rename one.")
    return views


def split_columns(table: Any, view_columns: ViewColumns) -> dict[str, Any]:
    """Split the columns of one table into views.

    Args:
        table: anything 2-D. Contiguous columns stay views of its memory, so a memory map is not read.
        view_columns: columns of each view, in a list or in a dict by view name.

    Returns:
        The part of the table that belongs to each view, by name.

    Raises:
        ValueError: If no view is given, or a view has no columns or columns that do not exist.
    """
    try:
        wanted = name_views(view_columns)
    except TypeError:
        raise ValueError(
            f"view_columns is {short_repr(view_columns)}: give a list of columns per view, or a dict by name."
        ) from None
    if not wanted:
        raise ValueError("view_columns is empty: give the columns of at least one view, or None.")
    table = table if is_frame(table) else as_matrix(table, "X")
    parts = {}
    for name, columns in wanted.items():
        positions = _positions(table, name, columns)
        first, last = positions[0], positions[-1]
        contiguous = positions == list(range(first, last + 1))
        chosen: Any = slice(first, last + 1) if contiguous else positions
        parts[name] = table.iloc[:, chosen] if is_frame(table) else table[:, chosen]
    return parts


def _positions(table: Any, name: str, columns: Any) -> list[int]:
    """Return the positions of the columns of one view."""
    width = table.shape[1]
    if isinstance(columns, slice):
        columns = range(width)[columns]
    elif isinstance(columns, tuple) and len(columns) == 2 and all(_is_integer(x) for x in columns):
        columns = range(*columns)
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise ValueError(
            f"Columns of view {name!r} are {short_repr(columns)}: give a (start, stop) tuple or a list."
        )
    by_name = {label: i for i, label in enumerate(table.columns)} if is_frame(table) else {}
    positions: list[int] = []
    for column in columns:  # checked one by one: a range may be far longer than the table is wide
        position = by_name.get(column, -1) if isinstance(column, str) else column
        if not _is_integer(position) or not 0 <= position < width:
            has = f"{width} columns" if by_name or not isinstance(column, str) else "no column names"
            raise ValueError(f"View {name!r} has the column {short_repr(column)}, but X has {has}.")
        positions.append(int(position))
    if not positions:
        raise ValueError(f"View {name!r} has no columns: give it one, or leave it out.")
    return positions


def _is_integer(x: Any) -> bool:
    return isinstance(x, int | np.integer)


def common_ids(parts: Mapping[str, Any]) -> NDArray[Any] | None:
    """Return the index of the data frames among the parts (n,), or None if there are none.

    Raises:
        ValueError: If their indexes differ, so that the rows of the other parts could be those of either.
    """
    frames = {name: part for name, part in parts.items() if is_frame(part)}
    if not frames:
        return None
    first, *others = frames
    for name in others:
        if not frames[name].index.equals(frames[first].index):
            raise ValueError(
                f"Views {first!r} and {name!r} have different indexes, and other views have none: give all "
                "views an index, or all arrays with the same rows."
            )
    ids: NDArray[Any] = frames[first].index.to_numpy()
    return ids


def align_frames(frames: Mapping[str, Any]) -> tuple[dict[str, Matrix], NDArray[Any], Bools]:
    """Match the rows of data frames by their indexes.

    Returns:
        The matrices by name with the rows of all indexes in order of first appearance, the sample ids (n,),
        and which sample has a row in which frame (n, V).

    Raises:
        ValueError: If an index has duplicates, or nothing in common with the other indexes.
    """
    indexes = {name: frame.index for name, frame in frames.items()}
    return align(frames, indexes, union(indexes.values()))


def union(indexes: Iterable[Any]) -> Any:
    """Return the ids of several pandas indexes in order of first appearance."""
    return reduce(lambda left, right: left.append(right), indexes).unique()


def align(
    parts: Mapping[str, Any], indexes: Mapping[str, Any], sample_ids: Any
) -> tuple[dict[str, Matrix], NDArray[Any], Bools]:
    """Rearrange the rows of several tables to those of `sample_ids`.

    Args:
        parts: 2-D tables by view name.
        indexes: pandas index of the rows of each table.
        sample_ids: pandas index of all samples.

    Returns:
        As `align_frames`; missing rows are NaN, or empty if the table is sparse.

    Raises:
        ValueError: If an index has duplicates, unknown ids, or nothing in common with the other indexes.
    """
    matrices = {name: as_matrix(part, name) for name, part in parts.items()}
    mask = np.zeros((len(sample_ids), len(parts)), dtype=np.bool_)
    near = _describe_similar_ids(indexes)
    for name, index in indexes.items():
        if not index.is_unique:
            raise ValueError(
                f"View {name!r} has the id {index[index.duplicated()][0]!r} on several rows, so rows cannot "
                "be matched across views: make the index unique, or pass arrays, which are matched by "
                "position."
            )
        others = [other for key, other in indexes.items() if key != name]
        if others and not any(index.isin(other).any() for other in others):
            raise ValueError(
                f"View {name!r} shares no id with any other view (its first id is {index[0]!r}): "
                + (near or "give matching ids, or pass arrays, which are matched by position.")
            )
    if near:
        warnings.warn(f"Ids are matched exactly, but {near}", DataWarning, stacklevel=2)
    for v, (name, matrix) in enumerate(matrices.items()):
        index, n_rows = indexes[name], matrix.shape[0]
        if len(index) != n_rows:
            raise ValueError(f"View {name!r} has {n_rows} rows but {len(index)} ids: give one id per row.")
        positions = sample_ids.get_indexer(index)
        if (positions < 0).any():
            raise ValueError(
                f"View {name!r} has the id {index[positions < 0][0]!r}, which the whole object lacks: bring "
                "its parts in line first, for a MuData by `update()`."
            )
        mask[positions, v] = True
        matrices[name] = _move_rows(name, matrix, positions, len(sample_ids))
    return matrices, sample_ids.to_numpy(), mask


def _describe_similar_ids(indexes: Mapping[str, Any]) -> str:
    """Return how many ids look like one another but are not equal, with an example, or an empty text."""
    alike: dict[str, dict[Any, str]] = {}
    for name, index in indexes.items():
        everywhere = [index.isin(other) for other in indexes.values()]
        for sample in index[~np.logical_and.reduce(everywhere)]:
            alike.setdefault(_simplify(sample), {}).setdefault(sample, name)
    pairs = [found for found in alike.values() if len(found) > 1]
    if not pairs:
        return ""
    (one, view), (other, other_view) = list(pairs[0].items())[:2]
    return (
        f"{len(pairs)} ids differ only by blanks, case, leading zeros or Unicode form, such as {one!r} in "
        f"view {view!r} and {other!r} in view {other_view!r}: write them alike."
    )


def _simplify(sample: Any) -> str:
    """Return an id as text, without what often differs by mistake."""
    text = " ".join(unicodedata.normalize("NFKC", str(sample)).casefold().split())
    return re.sub(r"(?<![\d.])0+(?=\d)|(?<=\d)\.0+$", "", text)


def _move_rows(name: str, matrix: Any, positions: NDArray[np.intp], n: int) -> Matrix:
    """Move row `i` to row `positions[i]` of `n` rows; the other rows are NaN, or empty if sparse."""
    rows = np.arange(len(positions))
    if len(positions) == n and bool((positions == rows).all()):
        return matrix  # type: ignore[no-any-return]
    if is_sparse(matrix):
        ones = np.ones(len(rows), dtype=matrix.dtype)
        return csr_array(csr_array((ones, (positions, rows)), shape=(n, len(rows))) @ matrix)
    source = np.full(n, -1, dtype=np.intp)
    source[positions] = rows
    # NaN needs a float type; the smallest that represents the integers exactly.
    dtype = matrix.dtype if len(positions) == n else np.result_type(matrix.dtype, np.float16)
    return take_rows(name, matrix, source, dtype)
