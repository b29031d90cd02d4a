"""Named arrays of a file become views, truth, ids and mask, whatever the file."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.checks import Bools
from protocol_mvc.data.views import Views, as_views
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.limits import check_size

TRUTH = ("labels", "label", "y", "Y", "truth", "gt", "class", "cluster")
IDS, MASK = "ids", "mask"


class Stored(NamedTuple):
    """An array in a file: what its header tells, and how to read it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    load: Callable[[], NDArray[Any]]
    mapped: bool = False  # reading takes no memory

    @property
    def is_numeric(self) -> bool:
        """Whether it holds real numbers."""
        return self.dtype.kind in "buif"

    @property
    def n_bytes(self) -> int:
        """Memory that reading takes."""
        return 0 if self.mapped else prod(self.shape) * self.dtype.itemsize


class Contents(NamedTuple):
    """What a file holds: the views, and apart from them the truth."""

    views: Views
    truth: NDArray[Any] | None


class _Roles(NamedTuple):
    """Which array is what."""

    views: list[str]
    matrices: list[str]  # all that may be views, in the order of the columns of the mask
    truth: str | None
    ids: str | None
    mask: str | None


def assemble(arrays: Mapping[str, Stored], views: Sequence[str] | None, truth: str | None) -> Contents:
    """Return the contents of a file of named arrays.

    Every matrix of numbers is a view, but for `mask`; the truth is the vector of the name `truth` or, by
    default, of one of `TRUTH`; `ids` name the samples. Of a name with slashes the last part counts.

    Raises:
        Refusal: If the arrays are no views of one set of samples.
    """
    roles = _roles(arrays, views, truth)
    others = [name for name in (roles.truth, roles.ids, roles.mask) if name is not None]
    check_size(sum(arrays[name].n_bytes for name in {*roles.views, *others}))
    found = _as_views({name: arrays[name].load() for name in roles.views})
    mask = found.mask if roles.mask is None else found.mask & _mask(arrays[roles.mask], roles, len(found))
    ids = found.sample_ids if roles.ids is None else _vector(arrays[roles.ids], roles.ids, len(found))
    found = with_ids(found, ids, mask)
    if roles.truth is None:
        return Contents(found, None)
    return Contents(found, check_truth(_vector(arrays[roles.truth], roles.truth, len(found)), ids))


def _roles(arrays: Mapping[str, Stored], views: Sequence[str] | None, truth: str | None) -> _Roles:
    if truth is not None and truth not in arrays:
        raise DataError(f"it has no array {truth!r} for the truth, only {_listed(arrays)}.")
    special = {name for name in arrays if _base(name) in (*TRUTH, IDS, MASK)} | {truth}
    rest = {name: stored for name, stored in arrays.items() if stored.is_numeric and name not in special}
    matrices = [name for name, stored in rest.items() if len(stored.shape) == 2]
    chosen = _all_views(arrays, rest, matrices) if views is None else _chosen(arrays, views)
    left = [name for name in arrays if name not in chosen]  # whoever asks for a view gets it as a view
    labels = truth if truth in left else _find(left, TRUTH)
    return _Roles(chosen, matrices, labels, _find(left, (IDS,)), _find(left, (MASK,)))


def _all_views(arrays: Mapping[str, Stored], rest: Mapping[str, Stored], matrices: list[str]) -> list[str]:
    """Return the matrices, unless there are none or arrays of more axes might be views too."""
    for name, stored in rest.items():
        if len(stored.shape) > 2:
            raise DataError(
                f"the array {name!r} has shape {stored.shape}: make it samples x features, or name the "
                f"views to read ({', '.join(matrices)})."
            )
    if not matrices:
        raise DataError(f"it has no matrix of numbers to be a view, only {_listed(arrays)}.")
    return matrices


def _chosen(arrays: Mapping[str, Stored], views: Sequence[str]) -> list[str]:
    for name in views:
        if name not in arrays:
            raise DataError(f"it has no view {name!r}, only {_listed(arrays)}.")
        if not arrays[name].is_numeric:
            raise DataError(f"the view {name!r} holds {arrays[name].dtype} values: store numbers.")
    if not views:
        raise DataError(f"no view is named: name at least one of {_listed(arrays)}.")
    return list(dict.fromkeys(views))


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _find(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    """Return the first of the names that ends as one of `wanted`, the earlier ones of these preferred."""
    return next((name for base in wanted for name in names if _base(name) == base), None)


def _listed(arrays: Mapping[str, Stored]) -> str:
    parts = [f"{name} {stored.dtype} {stored.shape}" for name, stored in list(arrays.items())[:20]]
    return ", ".join(parts) + (", ..." if len(arrays) > 20 else "") or "nothing"


def _as_views(arrays: dict[str, Any]) -> Views:
    try:
        return as_views(arrays)
    except ValueError as error:
        raise DataError(str(error)) from error


def _vector(stored: Stored, name: str, n: int) -> NDArray[Any]:
    if len(stored.shape) == 0 or max(stored.shape) != prod(stored.shape) or prod(stored.shape) != n:
        raise DataError(
            f"the array {name!r} has shape {stored.shape}, but there are {n} samples: store one value for "
            "each, or give it another name if it is something else."
        )
    return to_builtin_dtype(stored.load().ravel())


def to_builtin_dtype(values: Any) -> NDArray[Any]:
    """Return values as an array of numbers or texts, never of objects."""
    array = np.asarray(values)
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    if array.dtype.kind in "mM":
        return array.astype(str)
    if array.dtype.kind in "buifU":
        return array
    texts = [value.decode() if isinstance(value, bytes) else value for value in array.tolist()]
    array = np.asarray(texts) if len({type(text) for text in texts}) == 1 else np.asarray(texts, dtype=str)
    return array if array.dtype.kind in "buifU" else array.astype(str)


def _mask(stored: Stored, roles: _Roles, n: int) -> Bools:
    """Return which sample has which of the chosen views, by the mask of all matrices of the file."""
    if stored.dtype.kind != "b" or stored.shape != (n, len(roles.matrices)):
        raise DataError(
            f"the array {roles.mask!r} is {stored.dtype} of shape {stored.shape}: store True or False for "
            f"each of {n} samples and {len(roles.matrices)} views ({', '.join(roles.matrices)}), or rename "
            "it."
        )
    mask = stored.load()
    columns = {name: mask[:, v] for v, name in enumerate(roles.matrices)}
    return np.column_stack([columns.get(name, np.ones(n, dtype=np.bool_)) for name in roles.views])


def with_ids(views: Views, ids: NDArray[Any], mask: Bools) -> Views:
    """Return the views under other ids and with other missing rows.

    Raises:
        Refusal: If a sample has no view left.
    """
    lost = np.flatnonzero(~mask.any(axis=1))
    if len(lost):
        raise DataError(
            f"row {lost[0]} (id {str(ids[lost[0]])!r}) has none of the views {', '.join(views.names)}: drop "
            "the row, or choose views so that it has one."
        )
    return Views(views.arrays, views.names, ids, mask, views.columns)


def check_truth(truth: NDArray[Any], ids: NDArray[Any]) -> NDArray[Any]:
    """Return the truth, unless a sample has none.

    Raises:
        Refusal: If a value is NaN or infinite.
    """
    if truth.dtype.kind == "f" and not np.isfinite(truth).all():
        row = int(np.argmin(np.isfinite(truth)))
        raise DataError(
            f"the truth of row {row} (id {str(ids[row])!r}) is {truth[row]}: give every sample one."
        )
    return truth
