"""Split the columns of one table into several views."""

from collections.abc import Iterable, Mapping
from operator import index
from typing import Any, TypeAlias

from protocol_mvc.data.checks import as_matrix, is_frame
from protocol_mvc.utils.text import short_repr

# One group is a `(start, stop)` tuple, a slice, or a list of column positions or of data-frame column names.
Group: TypeAlias = tuple[int, int] | slice | Iterable[int] | Iterable[str]
Groups: TypeAlias = Iterable[Group] | Mapping[str, Group]


def default_name(position: int) -> str:
    """Return the name that a view without one goes by."""
    return f"view_{position}"


def named(parts: Iterable[Any] | Mapping[Any, Any]) -> dict[str, Any]:
    """Return views by name, numbering those that have none.

    Raises:
        ValueError: If two names read the same.
    """
    if not isinstance(parts, Mapping):
        return {default_name(i): part for i, part in enumerate(parts)}
    views = {str(name): part for name, part in parts.items()}
    if len(views) < len(parts):
        raise ValueError(
            f"Some of the view names {short_repr([*parts])} read the same: give each its own name."
        )
    return views


def split_columns(table: Any, groups: Groups) -> dict[str, Any]:
    """Return the views, name to columns of `table`, that `groups` describes.

    Contiguous columns stay a view on the memory of `table`, so that a memory map is never read here.

    Raises:
        ValueError: If there is no group, or a group is empty or asks for a column that `table` lacks.
    """
    try:
        wanted = named(groups)
    except TypeError:
        raise ValueError(
            f"`groups` is {short_repr(groups)}: give a list of column groups, or a dict of them by name."
        ) from None
    if not wanted:
        raise ValueError("`groups` is empty: name at least one group of columns, or pass groups=None.")
    table = table if is_frame(table) else as_matrix(table, "X")
    return {name: _take(table, _positions(table, name, group)) for name, group in wanted.items()}


def _positions(table: Any, name: str, group: Any) -> list[int]:
    """Return the columns of a group; each is checked before the next, of which there may be endless many."""
    width = table.shape[1]
    labels = {label: i for i, label in enumerate(table.columns)} if is_frame(table) else {}
    columns: list[int] = []
    for wanted in _wanted(name, group, width):
        column = labels.get(wanted, -1) if isinstance(wanted, str) else _whole(wanted)
        if not 0 <= column < width:
            raise ValueError(
                f"Group {name!r} asks for column {short_repr(wanted)}, but X has {width} columns."
            )
        columns.append(column)
    if not columns:
        raise ValueError(f"Group {name!r} selects no column: give it one or leave it out.")
    return columns


def _wanted(name: str, group: Any, width: int) -> Iterable[Any]:
    pair = isinstance(group, tuple) and len(group) == 2 and not any(isinstance(c, str) for c in group)
    try:
        if isinstance(group, slice) or pair:
            return range(*(group if pair else group.indices(width)))
        if not isinstance(group, str):
            return iter(group)  # type: ignore[no-any-return]
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"Group {name!r} is {short_repr(group)}: give a (start, stop) tuple or a list of columns."
    )


def _whole(column: Any) -> int:
    """Return a position, or one that no table has if it is no whole number."""
    try:
        return index(column)
    except TypeError:
        return -1


def _take(table: Any, columns: list[int]) -> Any:
    first, last = columns[0], columns[-1]
    contiguous = columns == list(range(first, last + 1))
    chosen: Any = slice(first, last + 1) if contiguous else columns
    return table.iloc[:, chosen] if is_frame(table) else table[:, chosen]
