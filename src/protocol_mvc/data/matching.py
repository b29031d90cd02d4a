"""Bring new data into the form of the data of a fit: the same views, and the same columns in each."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from protocol_mvc.data.anndata import is_annotated, present_keys
from protocol_mvc.data.checks import Bools
from protocol_mvc.data.inputs import ViewColumns, default_name
from protocol_mvc.data.views import Views, as_views, holds_views
from protocol_mvc.exceptions import DataWarning

MAX_LISTED = 10  # names in a message
REMEDY = (
    "to leave a view out, put None in its place or pass a dict such as {0: X0}; to split samples with "
    "scikit-learn, pass `as_views([...])` instead of a list, which it splits by view"
)


def read_like_fit(X: Any, names: Sequence[str], view_columns: ViewColumns | None) -> Views:
    """Validate new data whose views may be given by position, or be fewer than those of the fit.

    Args:
        X: anything that `as_views` takes; a list may have None, and a dict positions in place of names.
        names: names of the views of the fit.
        view_columns: those of the fit. Views that X lacks are left out.

    Raises:
        ValueError: If the data are not valid, or a list has another number of views.
    """
    if is_annotated(X):
        return as_views(X, present_keys(X, names if view_columns is None else view_columns))
    if holds_views(X) and not isinstance(X, Views):
        if not isinstance(X, Mapping):
            _check_number(len(X), names)
            X = dict(enumerate(X))
        return as_views({_name(key, names): part for key, part in X.items() if part is not None})
    views = X if isinstance(X, Views) else as_views(X, view_columns)
    if is_unnamed(views.names):
        _check_number(views.n_views, names)
    return views


def _check_number(n_views: int, names: Sequence[str]) -> None:
    if n_views != len(names):
        raise ValueError(f"X has {n_views} views, but fit saw {len(names)}: {REMEDY}.")


def _name(key: Any, names: Sequence[str]) -> Any:
    """Return the name of a view that is given by its position in a list of the fit."""
    return default_name(int(key)) if is_unnamed(names) and isinstance(key, int | np.integer) else key


def is_unnamed(names: Sequence[str]) -> bool:
    """Return whether all views have the names that the views of a list get."""
    return list(names) == [default_name(i) for i in range(len(names))]


def match_views(
    views: Views,
    names: Sequence[str],
    n_features: Sequence[int],
    columns: Mapping[str, Sequence[str] | None],
) -> Views:
    """Return the views of a fit; a view that is not here is missing in all samples.

    Columns are put in the order of the fit, and others are ignored with a warning.

    Args:
        views: the new data.
        names: names of the views of the fit.
        n_features: their widths.
        columns: names of their columns, None where unknown.

    Raises:
        ValueError: If a view is unknown, has another width, or lacks a column.
    """
    unknown = [name for name in views.names if name not in names]
    if unknown:
        raise ValueError(
            f"X has the views {_listed(views.names)}, but fit saw {_listed(names)}: pass a dict of views by "
            "name."
        )
    own, own_mask = views.views, dict(zip(views.names, views.mask.T, strict=True))
    found = dict(zip(views.names, views.columns, strict=False))
    arrays: list[Any] = []
    for name, width in zip(names, n_features, strict=True):
        array: Any = own.get(name, csr_array((len(views), width), dtype=np.float32))  # empty: no memory
        positions = column_positions(f"View {name!r}", found.get(name), columns.get(name))
        array = array if positions is None else array[:, positions]
        if array.shape[1] != width:
            raise ValueError(f"View {name!r} has {array.shape[1]} features, but fit saw {width}.")
        arrays.append(array)
    absent: Bools = np.zeros(len(views), dtype=np.bool_)
    mask = np.column_stack([own_mask.get(name, absent) for name in names])
    return Views(tuple(arrays), tuple(names), views.sample_ids, mask)


def column_positions(
    what: str, found: Sequence[str] | None, wanted: Sequence[str] | None
) -> list[int] | None:
    """Return where the wanted columns are; None if they are in order, or one side has no names.

    Args:
        what: the table, for messages.
        found: names of its columns; mere numbers from 0 on are no names.
        wanted: names of the columns of the fit.

    Raises:
        ValueError: If a column is missing, or its name is not unique.
    """
    if not has_names(found) or not has_names(wanted) or list(found or ()) == list(wanted or ()):
        return None
    found, wanted = list(found or ()), list(wanted or ())
    position = {name: i for i, name in enumerate(found)}
    lost = [name for name in wanted if name not in position]
    if lost:
        raise ValueError(
            f"{what} lacks {len(lost)} of the {len(wanted)} columns that fit saw: {_listed(lost)}."
        )
    if len(position) < len(found):
        raise ValueError(f"{what} has columns of one name, and others than fit saw: rename them.")
    known = set(wanted)
    extra = [name for name in found if name not in known]
    if extra:
        warnings.warn(
            f"{what} has {len(extra)} columns that fit did not see, which are ignored: {_listed(extra)}.",
            DataWarning,
            stacklevel=2,
        )
    return [position[name] for name in wanted]


def has_names(columns: Sequence[str] | None) -> bool:
    """Return whether columns have names other than the numbers that pandas gives."""
    return columns is not None and any(name != str(i) for i, name in enumerate(columns))


def warn_without_names(views: Views, columns: Mapping[str, Sequence[str] | None], sample_ids: Any) -> None:
    """Warn if the data of the fit had column names or sample ids, and new data have none.

    Args:
        views: the new data.
        columns: column names of the fit by view.
        sample_ids: ids of the training samples.
    """
    given = dict(zip(views.names, views.columns, strict=False))
    lost = [name for name in views.names if has_names(columns.get(name)) and not given.get(name)]
    by_position = views.n_views > 1 and _are_rows(views.sample_ids) and not _are_rows(sample_ids)
    what = [f"column names in {_listed(lost)}"] * bool(lost) + ["sample ids"] * by_position
    if what:
        warnings.warn(
            f"X has no {' and no '.join(what)}, but the data of the fit had: rows and columns without names "
            "are taken as they come, so check their order or pass data frames.",
            DataWarning,
            stacklevel=2,
        )


def _are_rows(sample_ids: Any) -> bool:
    """Return whether sample ids may be row numbers, as those of a part of an array."""
    return np.asarray(sample_ids).dtype.kind in "iu"


def is_numbered(sample_ids: Any) -> bool:
    """Return whether sample ids are row numbers, as those of arrays."""
    return np.array_equal(sample_ids, np.arange(len(sample_ids)))


def _listed(names: Sequence[str]) -> str:
    """Return the first names and how many there are beyond them."""
    more = len(names) - MAX_LISTED
    return ", ".join(map(repr, names[:MAX_LISTED])) + (f" and {more} more" if more > 0 else "")
