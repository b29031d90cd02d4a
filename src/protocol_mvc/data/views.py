"""`Views`, the container of multi-view data, and `as_views`, which makes it from any input."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from protocol_mvc.data.anndata import ColumnNames, align_annotated, align_tables, is_annotated
from protocol_mvc.data.checks import (
    Bools,
    Matrix,
    as_matrix,
    drop_cached_pages,
    is_frame,
    is_sparse,
    present_rows,
    row_index,
)
from protocol_mvc.data.inputs import ViewColumns, align_frames, common_ids, name_views, split_columns
from protocol_mvc.data.memmap import take_rows
from protocol_mvc.exceptions import DataWarning
from protocol_mvc.utils.text import join_words, sanitize, short_repr

Rows: TypeAlias = slice | Sequence[int] | NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Views:
    """Several matrices about the same samples; use `as_views` to make one.

    Samples are indexed as in a numpy array (`len(views)`, `views[rows]`), so scikit-learn can split the data.
    A sample may lack views. The arrays keep what the user passed, so missing rows usually contain NaN;
    `to_dense` returns zeros there. All fields are read-only.

    Attributes:
        arrays: one numpy array or CSR matrix (n, D_v) per view, in its own numeric dtype.
        names: name of each view.
        sample_ids: identifier of each sample (n,).
        mask: (n, V), True where the sample has the view.
        columns: column names of each view that was a data frame, else None.
    """

    arrays: tuple[Matrix, ...]
    names: tuple[str, ...]
    sample_ids: NDArray[Any]
    mask: Bools
    columns: ColumnNames = ()

    def __post_init__(self) -> None:
        """Check that names, rows, ids and mask match."""
        if len(set(self.names)) != len(self.arrays):
            raise ValueError(f"The {len(self.arrays)} views are named {self.names}: give each its own name.")
        n = self.arrays[0].shape[0]
        for name, array in zip(self.names, self.arrays, strict=True):
            if array.shape[0] != n:
                raise ValueError(
                    f"View {self.names[0]!r} has {n} rows but view {name!r} has {array.shape[0]}: give all "
                    "views the same samples in the same order, or data frames, which are matched by index."
                )
        if self.mask.shape != (n, self.n_views) or len(self.sample_ids) != n:
            raise ValueError(
                f"{n} rows and {self.n_views} views do not match {len(self.sample_ids)} ids and a mask of "
                f"shape {self.mask.shape}: use `as_views`."
            )

    @property
    def n_views(self) -> int:
        """Number of views."""
        return len(self.arrays)

    @property
    def n_features(self) -> tuple[int, ...]:
        """Number of features of each view."""
        return tuple(int(array.shape[1]) for array in self.arrays)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples, and number of features of all views."""
        return len(self.sample_ids), sum(self.n_features)

    @property
    def is_complete(self) -> bool:
        """Whether every sample has every view."""
        return bool(self.mask.all())

    @property
    def views(self) -> dict[str, Matrix]:
        """The arrays by name."""
        return dict(zip(self.names, self.arrays, strict=True))

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.sample_ids)

    def __getitem__(self, key: Any) -> "Views":
        """Return the chosen samples; an integer gives a `Views` of one sample."""
        rows = row_index(key, len(self))
        if isinstance(rows, slice):
            arrays = tuple(array[rows] for array in self.arrays)
        else:
            arrays = tuple(take_rows(name, array, rows) for name, array in self.views.items())
        for array in self.arrays:
            drop_cached_pages(array)
        return Views(arrays, self.names, self.sample_ids[rows], self.mask[rows], self.columns)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return `stack()` with a warning, because another estimator may lose the views in this way."""
        if copy is False:
            raise ValueError("Views cannot become one array without a copy: drop copy=False.")
        ends = np.cumsum(self.n_features).tolist()
        view_columns = [*zip([0, *ends], ends, strict=False)]
        warnings.warn(
            f"Views become one array of {self.shape[1]} columns, so what follows does not know the views: "
            f"give it view_columns={short_repr(view_columns, 200)}, or call `stack()` if this is intended.",
            DataWarning,
            stacklevel=2,
        )
        return self.stack().astype(dtype, copy=False)

    def stack(self) -> NDArray[Any]:
        """Return all views side by side as one dense array, with NaN where a view is missing."""
        blocks = []
        for v in range(self.n_views):
            array: Any = self.arrays[v]
            block = array.toarray() if is_sparse(array) else array
            present = self.mask[:, [v]]
            blocks.append(block if present.all() else np.where(present, block, np.nan))
        return np.hstack(blocks)

    def to_dense(self, v: int, rows: Rows = slice(None), dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Return a dense copy of some rows of view `v`, with zeros in missing rows."""
        index = row_index(rows, len(self))
        array: Any = self.arrays[v]
        block = array[index].toarray() if is_sparse(array) else array[index]
        out: NDArray[Any] = block.astype(dtype, copy=isinstance(index, slice))
        out[~self.mask[index, v]] = 0
        return out

    def __repr__(self) -> str:
        """Return the numbers of samples and features on one line."""
        sizes = ", ".join(f"{sanitize(n, 60)}: {d}" for n, d in zip(self.names, self.n_features, strict=True))
        missing = "" if self.is_complete else f", missing={1 - self.mask.mean():.1%}"
        return f"Views(n_samples={len(self)}, n_features={{{sizes}}}{missing})"

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        present = self.mask.sum(axis=0)
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{width}</td><td>{array.dtype}</td><td>{count}</td></tr>"
            for name, width, array, count in zip(
                self.names, self.n_features, self.arrays, present, strict=True
            )
        )
        head = "<tr><th>view</th><th>features</th><th>dtype</th><th>samples present</th></tr>"
        return f"<table><caption>Views of {len(self)} samples</caption>{head}{rows}</table>"


def as_views(X: Any, view_columns: ViewColumns | None = None) -> Views:
    """Validate multi-view data.

    Args:
        X: `Views`; a list, tuple or dict of 2-D data (numpy array, memory map, nested lists, data frame,
            scipy sparse matrix, torch tensor) or of AnnData; one 2-D array or data frame; or a MuData or
            AnnData. Rows of data frames and AnnData are matched by index, all others by position; beside
            arrays, data frames must have one index. A row of NaN means that the sample lacks the view.
        view_columns: how to split the columns of one 2-D `X` into views: for each view a `(start, stop)`
            tuple, a slice, or a list of column positions or names; as a list, or as a dict by view name.
            Of a MuData or AnnData: the keys of the matrices, see `align_annotated`.

    Returns:
        The views; arrays are not copied unless their type or order must change.

    Raises:
        ValueError: If a view is not numeric, not finite, or does not match the other views.
    """
    if is_annotated(X):
        matrices, sample_ids, aligned, columns = align_annotated(X, view_columns)
        return _assemble(matrices, sample_ids, aligned, columns)
    has_views = holds_views(X)
    if has_views and view_columns is not None:
        raise ValueError("view_columns splits one 2-D array, but X has views already: leave it out.")
    if isinstance(X, Views):
        return X
    parts = name_views(X if has_views else [X]) if view_columns is None else split_columns(X, view_columns)
    if not parts:
        raise ValueError("X has no views: give at least one 2-D array.")
    if has_views and all(map(is_annotated, parts.values())):
        return _assemble(*align_tables(parts))
    columns = tuple(tuple(map(str, part.columns)) if is_frame(part) else None for part in parts.values())
    if has_views and all(is_frame(part) for part in parts.values()):
        return _assemble(*align_frames(parts), columns)
    matrices = {name: as_matrix(part, name) for name, part in parts.items()}
    n = next(iter(matrices.values())).shape[0]
    ids = common_ids({"X": X} if is_frame(X) else parts)
    ids = np.arange(n) if ids is None else ids
    return _assemble(matrices, ids, np.ones((n, len(matrices)), dtype=np.bool_), columns)


def holds_views(X: Any) -> bool:
    """Return whether X is a container of views, and not one table."""
    if isinstance(X, list | tuple):  # a list of rows is one 2-D table
        return not X or any(x is None or _ndim(x) >= 2 for x in X)
    return isinstance(X, Views | Mapping) and not is_sparse(X)  # a sparse matrix may be a mapping, too


def _ndim(x: Any) -> int:
    """Return the number of axes; of nested lists at most 2 are counted."""
    if hasattr(x, "shape"):
        return len(x.shape)
    if not isinstance(x, list | tuple):
        return 0
    nested = len(x) > 0 and (isinstance(x[0], list | tuple) or len(getattr(x[0], "shape", ())) > 0)
    return 2 if nested else 1


def _assemble(
    matrices: Mapping[str, Matrix], sample_ids: NDArray[Any], aligned: Bools, columns: ColumnNames
) -> Views:
    views = Views(tuple(matrices.values()), tuple(matrices), sample_ids, aligned, columns)
    present = [present_rows(matrix, name, sample_ids) for name, matrix in matrices.items()]
    return replace_mask(views, aligned & np.column_stack(present))


def replace_mask(views: Views, mask: Bools) -> Views:
    """Return the views with another mask.

    Raises:
        ValueError: If a sample has no view.
    """
    lost = np.flatnonzero(~mask.any(axis=1))
    if len(lost):
        raise ValueError(
            f"Row {lost[0]} (id {str(views.sample_ids[lost[0]])!r}) has none of the views "
            f"{', '.join(views.names)}: drop the row, or fill one of its views."
        )
    return replace(views, mask=mask)


def warn_unconnected(views: Views) -> None:
    """Warn if no sample connects some views with the others, so that these cannot be aligned."""
    together = views.mask.T.astype(np.int64) @ views.mask
    n_groups, group = connected_components(csr_array(together), directed=False)
    if n_groups > 1:
        first = [repr(name) for name, g in zip(views.names, group, strict=True) if g == 0]
        others = [repr(name) for name, g in zip(views.names, group, strict=True) if g > 0]
        warnings.warn(
            f"No sample has {join_words(first)} together with {join_words(others)}, so these views cannot be "
            "aligned and a cluster may mean something else in each: check the ids, or fit them apart.",
            DataWarning,
            stacklevel=2,
        )
