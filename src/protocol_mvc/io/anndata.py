"""Read `.h5mu` and `.h5ad` files; only the elements that are asked for are read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.anndata import align_annotated
from protocol_mvc.data.checks import is_sparse, present_rows
from protocol_mvc.data.memmap import is_large
from protocol_mvc.data.views import Views, replace_mask
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.arrays import Contents, check_labels, to_builtin_dtype
from protocol_mvc.io.hdf5 import check_dataset, get_member, map_dataset
from protocol_mvc.io.limits import check_size, data_errors, require_module


class Libraries(NamedTuple):
    """The modules that these files need."""

    h5py: Any
    anndata_io: Any
    pandas: Any


def require_libraries(path: Path) -> Libraries:
    """Return the modules, or raise `ModuleNotFoundError` with the extra to install."""
    return Libraries(*(require_module(name, "omics", path) for name in ("h5py", "anndata.io", "pandas")))


class AnnotatedGroup:
    """An AnnData or MuData in a file, with the attributes that `align_annotated` uses, read on access."""

    def __init__(self, group: Any, libraries: Libraries) -> None:
        self.group, self.libraries = group, libraries
        if "mod" in group:
            members = self._member(group, "mod")
            names = [str(name) for name in members.attrs.get("mod-order", sorted(members))]
            self.mod = {name: AnnotatedGroup(self._member(members, name), libraries) for name in names}
            self.axis = int(group.attrs.get("axis", 0))

    @property
    def X(self) -> Any:
        """The main matrix, or None."""
        return self.read(self.group, "X") if "X" in self.group else None

    @property
    def obsm(self) -> Mapping[str, Any]:
        """The other matrices."""
        return _Elements(self, self._member(self.group, "obsm")) if "obsm" in self.group else {}

    @property
    def obs(self) -> Any:
        """The data frame of the samples."""
        return self.read(self.group, "obs")

    @property
    def obs_names(self) -> Any:
        """The sample ids, as a pandas index."""
        return self._index("obs")

    @property
    def var_names(self) -> Any:
        """The names of the columns of `X`, as a pandas index."""
        return self._index("var")

    def _index(self, axis: str) -> Any:
        table = self._member(self.group, axis)
        if "_index" not in table.attrs:
            raise DataError(f"its {axis!r} has an old format: open the file with anndata and save it again.")
        return self.libraries.pandas.Index(to_builtin_dtype(self.read(table, str(table.attrs["_index"]))))

    def read(self, group: Any, key: str) -> Any:
        """Read one element; large dense matrices are memory-mapped."""
        node = self._member(group, key)
        n_bytes = self._n_bytes(node)
        if isinstance(node, self.libraries.h5py.Dataset) and is_large(node.shape or (), node.dtype):
            return map_dataset(node)
        check_size(n_bytes)
        try:
            value = self.libraries.anndata_io.read_elem(node)
            if is_sparse(value):
                value.check_format(full_check=True)  # scipy follows indices without checking them
        except Exception as error:
            if isinstance(error, ValueError) or type(error).__module__.startswith("anndata"):
                raise DataError(f"{node.name!r} cannot be read ({error}): save the file again.") from error
            raise
        return value

    def _member(self, group: Any, key: str) -> Any:
        return get_member(group, key, self.libraries.h5py)

    def _n_bytes(self, node: Any) -> int:
        """Return the memory that an element takes, with what the shape of a sparse matrix may cost."""
        if isinstance(node, self.libraries.h5py.Dataset):
            return check_dataset(node)
        shape = node.attrs.get("shape", node.attrs.get("h5sparse_shape", ()))
        members = sum(self._n_bytes(self._member(node, key)) for key in node)
        return members + 8 * sum(map(int, shape))


class _Elements(Mapping[str, Any]):
    """The elements of a group, each read when it is accessed."""

    def __init__(self, owner: AnnotatedGroup, group: Any) -> None:
        self.owner, self.group = owner, group

    def __getitem__(self, key: str) -> Any:
        return self.owner.read(self.group, key)

    def __contains__(self, key: object) -> bool:
        return key in self.group

    def __iter__(self) -> Iterator[str]:
        return iter(self.group)

    def __len__(self) -> int:
        return len(self.group)


def read_anndata(path: Path, view_names: Sequence[str] | None, labels: str | None) -> Contents:
    """Read an `.h5mu` or `.h5ad` file.

    Args:
        path: the file.
        view_names: keys of the matrices, as for `align_annotated`.
        labels: a column of `obs`, or "modality:column"; None reads no labels.

    Raises:
        DataError: If a matrix or column does not exist, or the matrices do not match.
    """
    libraries = require_libraries(path)
    with libraries.h5py.File(path, "r") as file, data_errors():
        data = AnnotatedGroup(file, libraries)
        matrices, sample_ids, aligned, columns = align_annotated(data, view_names)
        views = Views(tuple(matrices.values()), tuple(matrices), sample_ids, aligned, columns)
        present = [present_rows(matrix, name, sample_ids) for name, matrix in matrices.items()]
        views = replace_mask(views, aligned & np.column_stack(present))
        views = replace(views, sample_ids=to_builtin_dtype(sample_ids))
        return Contents(views, None if labels is None else _read_labels(data, labels, views))


def _read_labels(data: AnnotatedGroup, labels: str, views: Views) -> NDArray[Any]:
    """Return a column of `obs` of the whole object or, as "modality:column", of one modality."""
    modality, _, column = labels.partition(":")
    table = data.obs
    if labels not in table.columns and modality in getattr(data, "mod", {}):
        table, labels = data.mod[modality].obs, column
    if labels not in table.columns:
        raise DataError(f"it has no column {labels!r}, only {', '.join(map(str, table.columns))}.")
    if not table.index.is_unique:
        raise DataError(f"its sample id {table.index[table.index.duplicated()][0]!r} occurs twice.")
    known = table[labels].reindex(views.sample_ids)
    if known.isna().any():
        row = int(np.argmax(known.isna().to_numpy()))
        raise DataError(
            f"{labels!r} of {str(views.sample_ids[row])!r} is missing: give every sample a label."
        )
    return check_labels(to_builtin_dtype(known.to_numpy()), views)
