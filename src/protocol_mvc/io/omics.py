"""`.h5mu` and `.h5ad` files, of which only what is asked for is read."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.anndata import align_annotated
from protocol_mvc.data.checks import is_sparse, present_rows
from protocol_mvc.data.views import Views
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.arrays import Contents, check_truth, to_builtin_dtype, with_ids
from protocol_mvc.io.hdf5 import checked, is_large_matrix, mapped, member
from protocol_mvc.io.limits import need


class Tools(NamedTuple):
    """The modules that such a file needs."""

    h5py: Any
    io: Any  # of anndata: reads and writes single elements
    pandas: Any

    @classmethod
    def of(cls, path: Path) -> "Tools":
        """Return the modules, or tell how to install them."""
        return cls(*(need(module, "omics", path) for module in ("h5py", "anndata.io", "pandas")))


class _Elements(Mapping[str, Any]):
    """The elements of a group, each read when it is asked for."""

    def __init__(self, group: Any, tools: Tools) -> None:
        self.group, self.tools = group, tools

    def __getitem__(self, key: str) -> Any:
        """Read an element."""
        value = self._read(key)
        if is_sparse(value):
            _check_indices(value, key)
        return value

    def _read(self, key: str) -> Any:
        node = checked(self.group, key, self.tools.h5py)
        if is_large_matrix(node, self.tools.h5py):
            return mapped(node)
        try:
            return self.tools.io.read_elem(node)
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "anndata":  # whose own errors have no public name
                raise
            raise DataError(f"anndata cannot read {node.name!r} ({error}): save the file anew.") from error

    def __contains__(self, key: object) -> bool:
        """Tell whether there is such an element, without reading it."""
        return key in self.group

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self.group)

    def __len__(self) -> int:
        """Return the number of elements."""
        return len(self.group)


def _check_indices(matrix: Any, key: str) -> None:
    """Refuse indices that point out of the matrix, where scipy would follow them."""
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise DataError(f"{key!r} is a damaged sparse matrix ({error}): fetch the file again.") from error


class Annotated:
    """A group of a file with the face of an AnnData, as far as `align_annotated` looks at it."""

    def __init__(self, group: Any, tools: Tools) -> None:
        self.group, self.tools = group, tools

    @property
    def X(self) -> Any:
        """The main matrix."""
        return _Elements(self.group, self.tools)["X"] if "X" in self.group else None

    @property
    def obsm(self) -> Mapping[str, Any]:
        """The other matrices."""
        if "obsm" not in self.group:
            return {}
        return _Elements(member(self.group, "obsm", self.tools.h5py), self.tools)

    @property
    def obs_names(self) -> Any:
        """The ids of the rows."""
        return self._names("obs")

    @property
    def var_names(self) -> Any:
        """The names of the columns of `X`."""
        return self._names("var")

    @property
    def obs(self) -> Any:
        """The table of the rows."""
        return _Elements(self.group, self.tools)["obs"]

    def _names(self, axis: str) -> Any:
        table = member(self.group, axis, self.tools.h5py)
        if "_index" not in table.attrs:
            raise DataError(
                f"its {axis!r} is no table that anndata writes today: open it with anndata and save it anew."
            )
        return self.tools.pandas.Index(
            to_builtin_dtype(_Elements(table, self.tools)[str(table.attrs["_index"])])
        )


class _Modalities(Annotated):
    """A whole file with the face of a MuData."""

    @property
    def mod(self) -> dict[str, Annotated]:
        """The modalities, in the order of the file."""
        group = member(self.group, "mod", self.tools.h5py)
        names = [str(name) for name in group.attrs.get("mod-order", sorted(group))]
        return {name: Annotated(member(group, name, self.tools.h5py), self.tools) for name in names}

    @property
    def axis(self) -> int:
        """What the modalities share: 0 the rows."""
        return int(self.group.attrs.get("axis", 0))


def read_annotated(path: Path, views: Sequence[str] | None, truth: str | None) -> Contents:
    """Return the contents of an `.h5mu` or `.h5ad` file.

    Args:
        path: The file.
        views: Keys of the matrices, as `align_annotated` knows them.
        truth: A column of `obs`, or "modality:column".

    Raises:
        Refusal: If there is no such matrix or column, or the matrices do not fit together.
    """
    tools = Tools.of(path)
    with tools.h5py.File(path, "r") as file:
        data = (_Modalities if "mod" in file else Annotated)(file, tools)
        found = _views(data, views)
        return Contents(found, None if truth is None else _truth(data, truth, found.sample_ids))


def _views(data: Annotated, views: Sequence[str] | None) -> Views:
    try:
        matrices, ids, aligned, columns = align_annotated(data, views)
        found = Views(tuple(matrices.values()), tuple(matrices), to_builtin_dtype(ids), aligned, columns)
        present = [present_rows(matrix, name, found.sample_ids) for name, matrix in matrices.items()]
    except DataError:
        raise
    except ValueError as error:
        raise DataError(str(error)) from error
    return with_ids(found, found.sample_ids, aligned & np.column_stack(present))


def _truth(data: Annotated, truth: str, ids: NDArray[Any]) -> NDArray[Any]:
    """Return a column of the table of all rows, or of that of one modality."""
    modality, _, column = truth.partition(":")
    table = data.obs
    if truth not in table.columns and isinstance(data, _Modalities) and modality in data.mod:
        table, truth = data.mod[modality].obs, column
    if truth not in table.columns:
        raise DataError(
            f"it has no column {truth!r} for the truth, only {', '.join(map(str, table.columns))}."
        )
    if not table.index.is_unique:
        raise DataError(
            f"its id {table.index[table.index.duplicated()][0]!r} is there twice: make the ids unique."
        )
    known = table[truth].reindex(ids)
    if known.isna().any():
        row = int(np.argmax(known.isna().to_numpy()))
        raise DataError(
            f"{truth!r} of {str(ids[row])!r} is missing: give every sample a truth, or name no truth."
        )
    return check_truth(to_builtin_dtype(known.to_numpy()), ids)
