"""Read `.h5mu` and `.h5ad` files; only the matrices that are asked for are read."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.anndata import align_annotated
from protocol_mvc.data.checks import is_sparse, present_rows
from protocol_mvc.data.memmap import is_large
from protocol_mvc.data.views import Views, replace_mask
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.arrays import Contents, check_labels, to_builtin_dtype
from protocol_mvc.io.hdf5 import check_dataset, get_member, is_dataset, map_dataset
from protocol_mvc.io.limits import check_size, data_errors, require_module

PACKAGES = ("h5py", "anndata.io", "pandas")


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
    obsm = get_member(group, "obsm") if "obsm" in group else {}
    found = SimpleNamespace(
        X=_Element(group, "X") if "X" in group else None,
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

    Raises:
        DataError: If a matrix or column does not exist, or the matrices do not match.
    """
    h5py, *_ = (require_module(name, "omics", path) for name in PACKAGES)
    with h5py.File(path, "r") as file, data_errors():
        data = _annotated(file)
        matrices, sample_ids, aligned, columns = align_annotated(data, view_names)
        views = Views(tuple(matrices.values()), tuple(matrices), sample_ids, aligned, columns)
        present = [present_rows(matrix, name, sample_ids) for name, matrix in matrices.items()]
        views = replace_mask(views, aligned & np.column_stack(present))
        views = replace(views, sample_ids=to_builtin_dtype(sample_ids))
        return Contents(views, None if labels is None else _read_labels(data, labels, views))


def _read_labels(data: SimpleNamespace, labels: str, views: Views) -> NDArray[Any]:
    """Return a column of `obs` of the whole object or, as "modality:column", of one modality."""
    modality, _, column = labels.partition(":")
    table = data.obs.to_memory()
    if labels not in table.columns and modality in getattr(data, "mod", {}):
        table, labels = data.mod[modality].obs.to_memory(), column
    if labels not in table.columns:
        raise DataError(f"it has no column {labels!r}, only {', '.join(map(str, table.columns))}.")
    if not table.index.is_unique:
        raise DataError(f"its sample id {table.index[table.index.duplicated()][0]!r} occurs twice.")
    known = table[labels].reindex(views.sample_ids)
    if known.isna().any():
        sample = str(views.sample_ids[known.isna().to_numpy()][0])
        raise DataError(f"{labels!r} of {sample!r} is missing: give every sample a label.")
    return check_labels(to_builtin_dtype(known.to_numpy()), views)
