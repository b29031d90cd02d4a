"""Named arrays of a file become views, labels, sample ids and a mask; `.npz` and `.npy` files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from protocol_mvc.data.views import Views, as_views, replace_mask
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.limits import check_ratio, check_size, data_errors, file_errors

LABEL_NAMES = ("labels", "label", "y", "Y", "truth", "gt", "class", "cluster")
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
    """Views of a file, and the ground-truth labels (n,), if it has any."""

    views: Views
    y: NDArray[Any] | None


def assemble(
    arrays: Mapping[str, LazyArray], view_names: Sequence[str] | None, labels: str | None
) -> Contents:
    """Find views, labels, ids and mask among named arrays, and read only these.

    Args:
        arrays: arrays by name; of a path such as "group/labels" the last part counts.
        view_names: names of the views; by default all numeric matrices but the mask and the labels.
        labels: name of the labels; by default the first of `LABEL_NAMES` that exists.

    Raises:
        DataError: If the arrays are not views of one set of samples.
    """
    if labels is not None and labels not in arrays:
        raise DataError(f"it has no array {labels!r}, only {_describe(arrays)}.")
    special = {labels, *(name for name in arrays if _base(name) in (*LABEL_NAMES, IDS, MASK))}
    matrices = [
        name for name, x in arrays.items() if name not in special and x.is_numeric and len(x.shape) > 1
    ]
    chosen = _default_views(arrays, matrices) if view_names is None else _check_views(arrays, view_names)
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
            views = replace_mask(
                views, views.mask & _read_mask(arrays[mask_name], mask_name, matrices, views)
            )
    if label_name is None:
        return Contents(views, None)
    return Contents(views, check_labels(_read_vector(arrays[label_name], label_name, len(views)), views))


def _default_views(arrays: Mapping[str, LazyArray], matrices: list[str]) -> list[str]:
    for name in matrices:
        if len(arrays[name].shape) > 2:
            raise DataError(
                f"the array {name!r} has shape {arrays[name].shape}: make it samples x features, or name the "
                f"views to read among {', '.join(matrices)}."
            )
    if not matrices:
        raise DataError(f"it has no numeric matrix to use as a view, only {_describe(arrays)}.")
    return matrices


def _check_views(arrays: Mapping[str, LazyArray], view_names: Sequence[str]) -> list[str]:
    for name in view_names:
        if name not in arrays:
            raise DataError(f"it has no view {name!r}, only {_describe(arrays)}.")
        if not arrays[name].is_numeric:
            raise DataError(f"the view {name!r} has {arrays[name].dtype} values: store numbers.")
    if not view_names:
        raise DataError(f"no view is named: choose at least one of {_describe(arrays)}.")
    return list(dict.fromkeys(view_names))


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _first(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    return next((name for base in wanted for name in names if _base(name) == base), None)


def _describe(arrays: Mapping[str, LazyArray]) -> str:
    parts = [f"{name} {x.dtype} {x.shape}" for name, x in list(arrays.items())[:20]]
    return ", ".join(parts) + (", ..." if len(arrays) > 20 else "") or "nothing"


def _read_vector(array: LazyArray, name: str, n: int) -> NDArray[Any]:
    if len(array.shape) == 0 or not max(array.shape) == prod(array.shape) == n:
        raise DataError(
            f"the array {name!r} has shape {array.shape}, but there are {n} samples: store one value per "
            "sample, or rename the array."
        )
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
        array = (
            np.asarray(items) if len({type(item) for item in items}) == 1 else np.asarray(items, dtype=str)
        )
    return array if array.dtype.kind in "buifU" else array.astype(str)


def check_labels(y: NDArray[Any], views: Views) -> NDArray[Any]:
    """Return ground-truth labels.

    Raises:
        DataError: If a label is NaN or infinite.
    """
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y)))
        raise DataError(f"the label of row {row} (id {str(views.sample_ids[row])!r}) is {y[row]}.")
    return y


@contextmanager
def open_npz(path: Path) -> Iterator[dict[str, LazyArray]]:
    """Yield the arrays of an `.npz` archive, in the order of the file."""
    with ZipFile(path) as archive:
        yield {
            member.filename.removesuffix(".npy"): _member(archive, member) for member in archive.infolist()
        }


def _member(archive: ZipFile, member: ZipInfo) -> LazyArray:
    with archive.open(member) as file:
        shape, dtype = _read_header(file, member.filename)
    array = LazyArray(shape, dtype, partial(_load_member, archive, member))
    check_ratio(member.filename, array.n_bytes, member.compress_size)
    return array


def _read_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(file)
    if version not in readers:
        raise DataError(f"its part {name!r} has the unknown format version {version}: save it again.")
    shape, _, dtype = readers[version](file)
    if dtype.hasobject:
        raise DataError(f"{name!r} has Python objects, which could run code when read: save numbers or text.")
    return shape, dtype


def _load_member(archive: ZipFile, member: ZipInfo) -> NDArray[Any]:
    with archive.open(member) as file:
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array


def map_npy_files(paths: Sequence[Path]) -> dict[str, LazyArray]:
    """Return `.npy` files as memory maps, by the stems of their names."""
    arrays = {}
    for path in paths:
        with file_errors(path, "an .npy array"):
            arrays[path.stem] = npy.open_memmap(path, mode="r")
    return loaded_arrays(arrays)


def loaded_arrays(arrays: Mapping[str, Any]) -> dict[str, LazyArray]:
    """Return arrays that take no more memory, because they are loaded or memory-mapped already."""
    return {
        name: LazyArray(x.shape, x.dtype, partial(arrays.__getitem__, name), mapped=True)
        for name, x in arrays.items()
    }
