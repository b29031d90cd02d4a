"""Named arrays of a file become views, labels, sample ids and a mask; `.npz` and `.npy` files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from protocol_mvc.data.views import Views, as_views, replace_mask
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.column_roles import LABEL_NAMES, looks_like_truth
from protocol_mvc.io.limits import check_ratio, check_size, data_errors, reading
from protocol_mvc.io.table_preparation import Preparation
from protocol_mvc.utils.text import list_names

IDS, MASK = "ids", "mask"


class LazyArray(NamedTuple):
    """An array in a file: its header, and a function that reads it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    load: Callable[[], Any]
    mapped: bool = False  # reading takes no memory

    @property
    def is_numeric(self) -> bool:
        """Whether it has real numbers."""
        return self.dtype.kind in "buif"

    @property
    def n_bytes(self) -> int:
        """Memory that reading takes."""
        return 0 if self.mapped else prod(self.shape) * self.dtype.itemsize


class Contents(NamedTuple):
    """Views of a file, the ground-truth labels (n,), if it has any, and how tables were read."""

    views: Views
    y: NDArray[Any] | None
    notes: tuple[str, ...] = ()  # on what was found and decided, in sentences
    preparation: Mapping[str, Preparation] = MappingProxyType({})  # of the columns of tables, by view


def assemble(
    arrays: Mapping[str, LazyArray], view_names: Sequence[str] | None, labels: str | None
) -> Contents:
    """Find views, labels, ids and mask among named arrays, and read only these.

    Args:
        arrays: arrays by name; of a path such as "group/labels" the last part counts.
        view_names: names of the views; by default all numeric matrices but the mask and the labels.
        labels: name of the labels; by default the first of `LABEL_NAMES` that exists.
    """
    if labels is not None and labels not in arrays:
        raise DataError(f"it has no array {labels!r}, only {_describe(arrays)}.")
    numeric = [name for name, x in arrays.items() if x.is_numeric and len(x.shape) > 1]
    matrices = [name for name in numeric if name != labels and not is_special(name)]
    chosen = _choose_views(arrays, matrices, view_names)
    rest = [name for name in arrays if name not in chosen]
    label_name = labels if labels in rest else _first(rest, LABEL_NAMES)
    id_name, mask_name = _first(rest, (IDS,)), _first(rest, (MASK,))
    others = [name for name in (label_name, id_name, mask_name) if name is not None]
    check_size(sum(arrays[name].n_bytes for name in {*chosen, *others}))
    with data_errors():
        views = as_views({name: arrays[name].load() for name in chosen})
        if id_name is not None:
            views = replace(views, sample_ids=_read_vector(arrays[id_name], id_name, len(views)))
        if mask_name is not None:
            mask = _read_mask(arrays[mask_name], mask_name, matrices, views)
            views = replace_mask(views, views.mask & mask)
    y = None if label_name is None else _read_vector(arrays[label_name], label_name, len(views))
    others = [name for name in numeric if name not in {*matrices, *chosen, label_name, mask_name}]
    notes = [f"Arrays that look like true labels are set aside: {list_names(others)}."] if others else []
    return Contents(views, None if y is None else check_labels(y, views), tuple(notes))


def is_special(name: str) -> bool:
    """Return whether an array of this name, or with this name at the end of its path, is no view."""
    last = name.rpartition("/")[2]
    return last in (IDS, MASK) or looks_like_truth(last)


def _choose_views(
    arrays: Mapping[str, LazyArray], matrices: list[str], view_names: Sequence[str] | None
) -> list[str]:
    """Return the names of the views that are asked for, or of all matrices."""
    names = matrices if view_names is None else list(dict.fromkeys(view_names))
    if not names:
        reason = "no view is named: choose at least one of"
        if view_names is None:
            reason = "it has no numeric matrix to use as a view, only"
        raise DataError(f"{reason} {_describe(arrays)}.")
    for name in names:
        if name not in arrays:
            raise DataError(f"it has no view {name!r}, only {_describe(arrays)}.")
        if not arrays[name].is_numeric:
            raise DataError(f"the view {name!r} has {arrays[name].dtype} values: store numbers.")
        if view_names is None and len(arrays[name].shape) > 2:
            remedy = f"make it samples x features, or name the views to read among {', '.join(matrices)}"
            raise DataError(f"the array {name!r} has shape {arrays[name].shape}: {remedy}.")
    return names


def _first(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    """Return the first of the wanted names that exists, with the path before it."""
    return next((name for key in wanted for name in names if name.rpartition("/")[2] == key), None)


def _describe(arrays: Mapping[str, LazyArray]) -> str:
    parts = [f"{name} {x.dtype} {x.shape}" for name, x in list(arrays.items())[:20]]
    return ", ".join(parts) + (", ..." if len(arrays) > 20 else "") or "nothing"


def _read_vector(array: LazyArray, name: str, n: int) -> NDArray[Any]:
    if len(array.shape) == 0 or not max(array.shape) == prod(array.shape) == n:
        problem = f"the array {name!r} has shape {array.shape}, but there are {n} samples"
        raise DataError(f"{problem}: store one value per sample, or rename the array.")
    return to_builtin_dtype(array.load().ravel())


def _read_mask(array: LazyArray, name: str, matrices: list[str], views: Views) -> NDArray[np.bool_]:
    """Return the mask of the chosen views; the columns of the file's mask are all its matrices in order."""
    if array.dtype.kind != "b" or array.shape != (len(views), len(matrices)):
        raise DataError(
            f"the array {name!r} is {array.dtype} of shape {array.shape}: store booleans for {len(views)} "
            f"samples and the views {', '.join(matrices)}, or rename the array."
        )
    columns = dict(zip(matrices, array.load().T, strict=True))
    return np.column_stack([columns.get(v, np.ones(len(views), dtype=np.bool_)) for v in views.names])


def to_builtin_dtype(values: Any) -> NDArray[Any]:
    """Return values as an array of numbers or texts, never of objects."""
    array = np.asarray(values)
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    if array.dtype.kind == "O":
        items = [value.decode() if isinstance(value, bytes) else value for value in array.tolist()]
        array = np.asarray(items, dtype=None if len({type(item) for item in items}) == 1 else str)
    return array if array.dtype.kind in "buifU" else array.astype(str)


def check_labels(y: NDArray[Any], views: Views) -> NDArray[Any]:
    """Return ground-truth labels, or raise `DataError` if one is NaN or infinite."""
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y)))
        raise DataError(f"the label of row {row} (id {str(views.sample_ids[row])!r}) is {y[row]}.")
    return y


@contextmanager
def open_npz(path: Path) -> Iterator[dict[str, LazyArray]]:
    """Yield the arrays of an `.npz` archive, in the order of the file."""
    with path.open("rb") as opened, NpzFile(opened, allow_pickle=False) as archive:
        arrays, members = {}, cast(ZipFile, archive.zip)
        for member in members.infolist():
            with members.open(member) as file:
                is_first_version = npy.read_magic(file) == (1, 0)
                read_header = npy.read_array_header_1_0 if is_first_version else npy.read_array_header_2_0
                shape, _, dtype = read_header(file)
            if dtype.hasobject:
                raise DataError(
                    f"{member.filename!r} has Python objects, which could run code: save numbers."
                )
            name = member.filename.removesuffix(".npy")
            arrays[name] = LazyArray(shape, dtype, partial(archive.__getitem__, name))
            check_ratio(member.filename, arrays[name].n_bytes, member.compress_size)
        yield arrays


def map_npy_files(files: Mapping[str, Path]) -> dict[str, LazyArray]:
    """Return `.npy` files as memory maps by name."""
    arrays = {}
    for name, path in files.items():
        with reading(path, ".npy data"):
            arrays[name] = npy.open_memmap(path, mode="r")
    return loaded_arrays(arrays)


def loaded_arrays(arrays: Mapping[str, Any]) -> dict[str, LazyArray]:
    """Return arrays that take no more memory, because they are loaded or memory-mapped already."""
    load = arrays.__getitem__
    return {name: LazyArray(x.shape, x.dtype, partial(load, name), True) for name, x in arrays.items()}
