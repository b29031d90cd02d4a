"""Read HDF5 files: `.h5`, and `.h5mu` and `.h5ad`, of which only the matrices that are asked for are read.

Links and external data are never followed, so nothing outside a file is read.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from protocol_mvc.data.anndata import align_annotated, matrix_keys
from protocol_mvc.data.checks import is_sparse, present_rows, row_slices
from protocol_mvc.data.memmap import LARGE, is_large, to_memmap
from protocol_mvc.data.views import Views, replace_mask
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.arrays import Contents, LazyArray, check_labels, to_builtin_dtype
from protocol_mvc.io.limits import check_column, check_ratio, check_size, data_errors, reading, require_module

OMICS_PACKAGES = ("h5py", "anndata.io", "pandas")


@contextmanager
def open_hdf5(path: Path) -> Iterator[dict[str, LazyArray]]:
    """Yield the data sets of a file by path, in alphabetical order."""
    h5py = require_module("h5py", "data", path)
    with h5py.File(path, "r") as file:
        nodes: dict[str, Any] = {}
        file.visititems(lambda name, node: nodes.update({name: node}))  # does not follow links
        arrays = {}
        for name, node in sorted(nodes.items()):
            if not is_dataset(node) or not node.shape:
                continue
            check_dataset(node)
            mapped = is_large(node.shape, node.dtype)
            load = partial(map_dataset, node) if mapped else partial(node.__getitem__, ())
            arrays[name] = LazyArray(node.shape, node.dtype, load, mapped)
            if h5py.check_string_dtype(node.dtype):
                arrays[name] = LazyArray(node.shape, np.dtype(np.str_), partial(node.asstr().__getitem__, ()))
        yield arrays


def is_dataset(node: Any) -> bool:
    """Return whether a node of a file has values; groups and stored types have none."""
    return hasattr(node, "shape")


def map_dataset(node: Any) -> NDArray[Any]:
    """Copy a matrix to a temporary file and return its memory map.

    Blocks of rows end with a chunk of the data set, if memory allows it, so that no chunk is decoded twice.
    """
    n_bytes = int(node.dtype.itemsize) * node.shape[1]
    height = max(rows.stop - rows.start for rows in row_slices(node))
    if node.chunks:
        height = min(-(-height // node.chunks[0]) * node.chunks[0], max(height, LARGE // n_bytes))
    blocks = (node[rows] for rows in gen_batches(node.shape[0], height))
    return to_memmap(node.name, node.shape, node.dtype, blocks)


def check_dataset(node: Any) -> int:
    """Return the size of a data set, or raise `DataError` if its values are elsewhere or far too few."""
    if node.external or node.is_virtual:
        raise DataError(f"the data set {node.name!r} has its values in another file: copy them into it.")
    n_bytes = prod(node.shape or ()) * int(node.dtype.itemsize)
    check_ratio(node.name, n_bytes, node.id.get_storage_size())
    return n_bytes


def get_member(group: Any, key: str) -> Any:
    """Return the member `key` of a group, or raise `DataError` if it does not exist or is a link."""
    from h5py import HardLink

    if key not in group:
        raise DataError(f"it has no {key!r} in {group.name!r}, only {sorted(group)}.")
    if not isinstance(group.get(key, getlink=True), HardLink):
        raise DataError(f"{key!r} in {group.name!r} is a link: store the values in its place.")
    return group[key]


class _Element(NamedTuple):
    """An element of a file that `align_annotated` reads when it needs it, as those of a backed AnnData."""

    group: Any
    key: str

    def to_memory(self) -> Any:
        """Read the element; large dense matrices are memory-mapped."""
        from anndata.io import read_elem

        node = get_member(self.group, self.key)
        n_bytes = _n_bytes(node)
        if is_dataset(node) and is_large(node.shape or (), node.dtype):
            return map_dataset(node)
        check_size(n_bytes)
        try:
            value = read_elem(node)
            if is_sparse(value):
                value.check_format(full_check=True)  # scipy follows indices without checking them
        except Exception as error:
            if isinstance(error, ValueError) or type(error).__module__.startswith("anndata"):
                raise DataError(f"{node.name!r} cannot be read ({error}): save the file again.") from error
            raise
        return value


def _n_bytes(node: Any) -> int:
    """Return the memory that an element takes, with what the shape of a sparse matrix may cost."""
    if is_dataset(node):
        return check_dataset(node)
    shape = node.attrs.get("shape", node.attrs.get("h5sparse_shape", ()))
    return sum(_n_bytes(get_member(node, key)) for key in node) + 8 * sum(map(int, shape))


def read_names(group: Any, axis: str) -> Any:
    """Return the names of the samples (`axis` "obs") or features ("var") of a file as a pandas index."""
    from pandas import Index

    table = get_member(group, axis)
    if "_index" not in table.attrs:
        raise DataError(f"its {axis!r} has an old format: open the file with anndata and save it again.")
    return Index(to_builtin_dtype(_Element(table, str(table.attrs["_index"])).to_memory()))


def _annotated(group: Any) -> SimpleNamespace:
    """Return an AnnData or MuData in a file, with the attributes that `align_annotated` uses."""
    layers, obsm = (get_member(group, key) if key in group else {} for key in ("layers", "obsm"))
    found = SimpleNamespace(
        X=_Element(group, "X") if "X" in group else None,
        layers={key: _Element(layers, key) for key in layers},
        obsm={key: _Element(obsm, key) for key in obsm},
        obs=_Element(group, "obs"),
        obs_names=read_names(group, "obs"),
        var_names=read_names(group, "var"),
    )
    if "mod" in group:
        members = get_member(group, "mod")
        names = [str(name) for name in members.attrs.get("mod-order", sorted(members))]
        found.mod = {name: _annotated(get_member(members, name)) for name in names}
        found.axis = int(group.attrs.get("axis", 0))
    return found


def read_anndata(path: Path, view_names: Sequence[str] | None, labels: str | None) -> Contents:
    """Read an `.h5mu` or `.h5ad` file.

    Args:
        path: the file.
        view_names: keys of the matrices, as for `align_annotated`.
        labels: a column of `obs`, or "modality:column"; None reads no labels.
    """
    h5py, *_ = (require_module(name, "omics", path) for name in OMICS_PACKAGES)
    with h5py.File(path, "r") as file, data_errors():
        data = _annotated(file)
        matrices, sample_ids, aligned, columns = align_annotated(data, view_names)
        views = Views(tuple(matrices.values()), tuple(matrices), sample_ids, aligned, columns)
        present = [present_rows(matrix, name, sample_ids) for name, matrix in matrices.items()]
        views = replace_mask(views, aligned & np.column_stack(present))
        views = replace(views, sample_ids=to_builtin_dtype(sample_ids))
        return Contents(views, None if labels is None else _read_labels(data, labels, views))


def read_obs_column(path: Path, column: str) -> Any:
    """Return a column of `obs`, or "modality:column", of an `.h5mu` or `.h5ad` file as a pandas series."""
    h5py, *_ = (require_module(name, "omics", path) for name in OMICS_PACKAGES)
    with h5py.File(path, "r") as file:
        return _obs_column(_annotated(file), column)


class Inventory(NamedTuple):
    """What an `.h5mu` or `.h5ad` file has beside the chosen views."""

    obs_columns: list[str]  # also "modality:column"
    matrices: list[str]  # names that `view_columns` takes


def list_contents(path: Path) -> Inventory:
    """Return columns of `obs` and matrices of an `.h5mu` or `.h5ad` file, named as for `read_views`."""
    h5py, *_ = (require_module(name, "omics", path) for name in OMICS_PACKAGES)
    with reading(path, f"{path.suffix} data"), h5py.File(path, "r") as file:
        data = _annotated(file)
        if not hasattr(data, "mod"):
            return Inventory(_obs_columns(data), matrix_keys(data))
        columns, matrices = _obs_columns(data), list[str]()
        for name, modality in data.mod.items():
            columns += [f"{name}:{column}" for column in _obs_columns(modality)]
            matrices += [name if key == "X" else f"{name}:{key}" for key in matrix_keys(modality)]
        return Inventory(columns, matrices)


def _obs_columns(data: SimpleNamespace) -> list[str]:
    table = get_member(data.obs.group, "obs")
    return [str(name) for name in table.attrs.get("column-order", ())]


def _obs_column(data: SimpleNamespace, name: str) -> Any:
    """Return a column of `obs` of the whole object or, as "modality:column", of one modality."""
    modality, _, column = name.partition(":")
    table = data.obs.to_memory()
    if name not in table.columns and modality in getattr(data, "mod", {}):
        table, name = data.mod[modality].obs.to_memory(), column
    check_column(name, table.columns)
    if not table.index.is_unique:
        raise DataError(f"its sample id {table.index[table.index.duplicated()][0]!r} occurs twice.")
    return table[name]


def _read_labels(data: SimpleNamespace, labels: str, views: Views) -> NDArray[Any]:
    """Return a column of `obs` as labels; every sample must have one."""
    known = _obs_column(data, labels).reindex(views.sample_ids)
    if known.isna().any():
        sample = str(views.sample_ids[known.isna().to_numpy()][0])
        raise DataError(f"{known.name!r} of {sample!r} is missing: give every sample a label.")
    return check_labels(to_builtin_dtype(known.to_numpy()), views)
