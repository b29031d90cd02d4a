"""The views of a MuData or AnnData, which are known by name, so that neither package need be here."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.alignment import align
from protocol_mvc.data.checks import Bools, Matrix, as_matrix, is_frame

Columns = tuple[tuple[str, ...] | None, ...]

KINDS = {("mudata", "MuData"), ("anndata", "AnnData")}
DERIVED = ("X_umap", "X_tsne", "X_protocol_mvc")  # pictures and results, which are no views of the samples


class _Part(NamedTuple):
    """One view before it is aligned: the matrix, its row labels, and the names of its columns."""

    matrix: Any
    index: Any
    columns: tuple[str, ...] | None


def is_annotated(x: object) -> bool:
    """Tell whether `x` is a MuData or AnnData."""
    return any((kind.__module__.partition(".")[0], kind.__name__) in KINDS for kind in type(x).__mro__)


def align_annotated(x: Any, groups: Any = None) -> tuple[dict[str, Matrix], NDArray[Any], Bools, Columns]:
    """Return the matrices of a MuData or AnnData with the order of its samples.

    Args:
        x: The object, or anything with the same `mod`, `obs_names`, `var_names`, `X` and `obsm`.
        groups: Which matrices, a list or a dict by name: for a MuData the modality (its `X`) or
            "modality:key" of its `obsm`; for an AnnData "X" or a key of `obsm`, with "obsm/" before it or
            not. By default the `X` of every modality, or all matrices of numbers in `obsm`.

    Returns:
        The matrices by name, the sample ids, which sample has which view, and the names of the columns.

    Raises:
        ValueError: If there is no such matrix, or its rows do not fit the samples.
    """
    whole = hasattr(x, "mod")
    parts = (_of_modalities if whole else _of_table)(x, _wanted(groups))
    columns = tuple(part.columns for part in parts.values())
    contents = {name: part.matrix for name, part in parts.items()}
    if whole:
        return *align(contents, {name: part.index for name, part in parts.items()}, x.obs_names), columns
    matrices = {name: as_matrix(matrix, name) for name, matrix in contents.items()}
    ids = x.obs_names.to_numpy()
    return matrices, ids, np.ones((len(ids), len(matrices)), dtype=np.bool_), columns


def _wanted(groups: Any) -> dict[str, str] | None:
    """Return keys by the name of their view."""
    if groups is None:
        return None
    if not isinstance(groups, Mapping):
        if isinstance(groups, str) or not isinstance(groups, Iterable):
            groups = [groups]
        groups = {str(key).removeprefix("obsm/"): key for key in groups}
    if not groups:
        raise ValueError("The list of views is empty: name at least one, or leave it out.")
    for name, key in groups.items():
        if not isinstance(key, str):
            raise ValueError(
                f"View {name!r} is asked for by {key!r}: name the views of a MuData or AnnData by keys such "
                "as 'X', 'X_pca' or 'rna:X_pca'."
            )
    return {str(name): key for name, key in groups.items()}


def _of_modalities(x: Any, wanted: dict[str, str] | None) -> dict[str, _Part]:
    if getattr(x, "axis", 0) == 1:
        raise ValueError(
            "The modalities of this MuData share features, not samples (axis=1): give views of the same "
            "samples."
        )
    names = list(x.mod)
    parts = {}
    for name, key in ({name: name for name in names} if wanted is None else wanted).items():
        modality, _, inner = (key, "", "X") if key in names else key.partition(":")
        if modality not in names:
            raise ValueError(f"There is no modality {modality!r}, only {names}: choose views among these.")
        parts[name] = _part(x.mod[modality], inner, f"modality {modality!r}")
    return parts


def _of_table(x: Any, wanted: dict[str, str] | None) -> dict[str, _Part]:
    if wanted is not None:
        return {name: _part(x, key, "the AnnData") for name, key in wanted.items()}
    found = {key: _part(x, key, "the AnnData") for key in x.obsm if not key.startswith(DERIVED)}
    parts = {key: part for key, part in found.items() if _is_numeric(part.matrix)}
    if len(parts) < 2:
        raise ValueError(
            f"The AnnData has {list(parts) or 'nothing'} among its obsm that may be a view, and one view is "
            "not enough to choose without being told: name the views, such as view_columns=['X', 'X_pca']."
        )
    return parts


def _part(x: Any, key: str, where: str) -> _Part:
    if key == "X":
        if (matrix := getattr(x, "X", None)) is None:
            raise ValueError(
                f"There is no X in {where}: name a view among its obsm, which has {list(x.obsm)}."
            )
        return _Part(_loaded(matrix), x.obs_names, tuple(map(str, x.var_names)))
    inner = key.removeprefix("obsm/")
    if inner not in x.obsm:
        raise ValueError(f"There is no {inner!r} in {where}: choose 'X' or one of its obsm, {list(x.obsm)}.")
    matrix = _loaded(x.obsm[inner])
    return _Part(matrix, x.obs_names, tuple(map(str, matrix.columns)) if is_frame(matrix) else None)


def _loaded(matrix: Any) -> Any:
    """Return a matrix in memory; a sparse one of an object that stays in its file must be fetched."""
    return matrix.to_memory() if hasattr(matrix, "to_memory") else matrix


def _is_numeric(matrix: Any) -> bool:
    if len(getattr(matrix, "shape", ())) != 2:
        return False
    dtypes = matrix.dtypes if is_frame(matrix) else [matrix.dtype]
    return matrix.shape[1] > 0 and all(dtype.kind in "buif" for dtype in dtypes)
