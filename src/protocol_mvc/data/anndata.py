"""Views of MuData and AnnData objects, recognised by class name so that neither package is required."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.checks import Bools, Matrix, as_matrix, is_frame
from protocol_mvc.data.inputs import align, union
from protocol_mvc.utils.text import list_names

ColumnNames: TypeAlias = tuple[tuple[str, ...] | None, ...]

CLASSES = {("mudata", "MuData"), ("anndata", "AnnData")}
DERIVED = ("X_umap", "X_tsne", "X_protocol_mvc")  # keys of plots and results, which are not views


class _Part(NamedTuple):
    matrix: Any
    index: Any
    columns: tuple[str, ...] | None


def is_annotated(x: object) -> bool:
    """Return whether `x` is a MuData or AnnData."""
    return any((kind.__module__.partition(".")[0], kind.__name__) in CLASSES for kind in type(x).__mro__)


def align_annotated(
    x: Any, view_columns: Any = None
) -> tuple[dict[str, Matrix], NDArray[Any], Bools, ColumnNames]:
    """Return the views of a MuData or AnnData, with rows in the order of its samples.

    Args:
        x: the object, or anything with the same `mod`, `obs_names`, `var_names`, `X`, `layers` and `obsm`.
        view_columns: keys of the matrices, as a list or a dict by view name. Of an AnnData: "X",
            "layers/key", "obsm/key" or a key of `obsm`. Of a MuData: a modality (its `X`), or "modality:"
            before such a key. By default the `X` of every modality, or all numeric matrices in `obsm`.

    Returns:
        The matrices by name, the sample ids (n,), which sample has which view (n, V), and the column names.

    Raises:
        ValueError: If there is no such matrix, or its rows do not match the samples.
    """
    is_mudata = hasattr(x, "mod")
    parts = (_modality_parts if is_mudata else _obsm_parts)(x, _keys(view_columns))
    columns = tuple(part.columns for part in parts.values())
    matrices = {name: part.matrix for name, part in parts.items()}
    if is_mudata:
        return *align(matrices, {name: part.index for name, part in parts.items()}, x.obs_names), columns
    sample_ids = x.obs_names.to_numpy()
    present = np.ones((len(sample_ids), len(matrices)), dtype=np.bool_)
    return {name: as_matrix(matrix, name) for name, matrix in matrices.items()}, sample_ids, present, columns


def align_tables(
    tables: Mapping[str, Any],
) -> tuple[dict[str, Matrix], NDArray[Any], Bools, ColumnNames]:
    """Return the `X` of several AnnData by view name as `align_annotated` does; rows are matched by name."""
    parts = {name: _part(table, "X", f"view {name!r}") for name, table in tables.items()}
    indexes = {name: part.index for name, part in parts.items()}
    matrices = {name: part.matrix for name, part in parts.items()}
    return *align(matrices, indexes, union(indexes.values())), tuple(part.columns for part in parts.values())


def present_keys(x: Any, view_columns: Any) -> Any:
    """Return the keys of the matrices that a MuData or AnnData has, or all keys if it has none of them."""
    parts_of, found = _modality_parts if hasattr(x, "mod") else _obsm_parts, dict[str, str]()
    for name, key in (_keys(view_columns) or {}).items():
        try:
            found |= dict.fromkeys(parts_of(x, {name: key}), key)
        except ValueError:
            continue  # the samples lack this view
    return found or view_columns


def _keys(view_columns: Any) -> dict[str, str] | None:
    """Return the keys of the matrices by view name."""
    if view_columns is None:
        return None
    if not isinstance(view_columns, Mapping):
        if isinstance(view_columns, str) or not isinstance(view_columns, Iterable):
            view_columns = [view_columns]
        view_columns = {str(key).removeprefix("obsm/"): key for key in view_columns}
    if not view_columns:
        raise ValueError("view_columns is empty: name at least one view, or leave it out.")
    for name, key in view_columns.items():
        if not isinstance(key, str):
            raise ValueError(
                f"The key of view {name!r} is {key!r}: use keys such as 'X', 'X_pca' or 'rna:X_pca'."
            )
    return {str(name): key for name, key in view_columns.items()}


def _modality_parts(x: Any, keys: dict[str, str] | None) -> dict[str, _Part]:
    if getattr(x, "axis", 0) == 1:
        raise ValueError("The modalities of this MuData share features (axis=1): views must share samples.")
    names = list(x.mod)
    parts = {}
    for name, key in ({name: name for name in names} if keys is None else keys).items():
        modality, _, inner = (key, "", "X") if key in names else key.partition(":")
        if modality not in names:
            raise ValueError(f"There is no modality {modality!r}, only {names}.")
        parts[name] = _part(x.mod[modality], inner, f"modality {modality!r}")
    return parts


def _obsm_parts(x: Any, keys: dict[str, str] | None) -> dict[str, _Part]:
    if keys is not None:
        return {name: _part(x, key, "the AnnData") for name, key in keys.items()}
    found = {key: _part(x, key, "the AnnData") for key in x.obsm if not key.startswith(DERIVED)}
    parts = {key: part for key, part in found.items() if _is_numeric(part.matrix)}
    if len(parts) < 2:
        raise ValueError(
            f"The obsm of the AnnData has {list(parts) or 'no matrix'} to use as views: name at least two "
            f"of {_list_keys(x)} as views."
        )
    return parts


def _part(x: Any, key: str, where: str) -> _Part:
    group, _, name = key.rpartition("/") if key.startswith(("layers/", "obsm/")) else ("obsm", "", key)
    is_x, is_layer = key == "X", group == "layers"
    matrix = getattr(x, "X", None) if is_x else (x.layers if is_layer else x.obsm).get(name)
    if matrix is None:
        what = key if is_x or is_layer else repr(name)
        raise ValueError(f"There is no {what} in {where}, only {_list_keys(x)}.")
    if hasattr(matrix, "to_memory"):  # a sparse matrix of a backed object
        matrix = matrix.to_memory()
    columns = x.var_names if is_x or is_layer else getattr(matrix, "columns", None)
    return _Part(matrix, x.obs_names, None if columns is None else tuple(map(str, columns)))


def matrix_keys(x: Any) -> list[str]:
    """Return the keys of the matrices of an AnnData, as `align_annotated` takes them."""
    own = ["X"] if getattr(x, "X", None) is not None else []
    return [*own, *(f"layers/{key}" for key in x.layers), *map(str, x.obsm)]


def _list_keys(x: Any) -> str:
    return list_names(matrix_keys(x), 20) or "no matrix"


def _is_numeric(matrix: Any) -> bool:
    if len(getattr(matrix, "shape", ())) != 2:
        return False
    dtypes = matrix.dtypes if is_frame(matrix) else [matrix.dtype]
    return matrix.shape[1] > 0 and all(dtype.kind in "buif" for dtype in dtypes)
