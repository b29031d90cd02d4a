"""The one container of multi-view data, and the one door into it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from protocol_mvc.data.alignment import align_frames
from protocol_mvc.data.anndata import Columns, align_annotated, is_annotated
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
from protocol_mvc.data.columns import Groups, default_name, named, split_columns
from protocol_mvc.data.memmap import take_rows
from protocol_mvc.utils.text import sanitize

Rows: TypeAlias = slice | Sequence[int] | NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Views:
    """Several matrices about the same samples, as `as_views` makes them.

    Rows behave as in a numpy array (`len(views)`, `views[rows]`), so that scikit-learn can split it. A sample
    may lack some views: `mask` says which. The arrays are kept as given, hence missing rows usually hold NaN;
    read them through `to_dense`, which fills those rows with zero. Treat all fields as read-only.

    Attributes:
        arrays: One 2-D numpy array or CSR matrix per view, in its own numeric dtype.
        names: Name of each view.
        sample_ids: Identifier of each sample.
        mask: Samples x views, True where the sample has the view.
        columns: Column names of each view that came as a data frame, None for the others.
    """

    arrays: tuple[Matrix, ...]
    names: tuple[str, ...]
    sample_ids: NDArray[Any]
    mask: Bools
    columns: Columns = ()

    def __post_init__(self) -> None:
        """Check that the parts fit together; the values were checked by `as_views`."""
        if len(set(self.names)) != len(self.arrays):
            raise ValueError(f"The {len(self.arrays)} views are named {self.names}: give each its own name.")
        lengths = [array.shape[0] for array in self.arrays]
        for name, length in zip(self.names, lengths, strict=True):
            if length != lengths[0]:
                raise ValueError(
                    f"View {self.names[0]!r} has {lengths[0]} rows but view {name!r} has {length}: give "
                    "every view the same samples in the same order, or data frames to be matched by index."
                )
        if self.mask.shape != (len(self.sample_ids), self.n_views) or len(self.sample_ids) != lengths[0]:
            raise ValueError(
                f"{lengths[0]} rows in {self.n_views} views do not fit {len(self.sample_ids)} ids and a mask of "
                f"shape {self.mask.shape}: build the container with `as_views`."
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
        """Number of samples, and of features over all views."""
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
        rows = row_index(key)
        if isinstance(rows, slice):
            arrays = tuple(array[rows] for array in self.arrays)
        else:
            rows = np.arange(len(self))[rows]
            arrays = tuple(take_rows(name, array, rows) for name, array in self.views.items())
        for array in self.arrays:
            drop_cached_pages(array)
        return Views(arrays, self.names, self.sample_ids[rows], self.mask[rows], self.columns)

    def select(self, names: Sequence[str], dims: Sequence[int]) -> "Views":
        """Return exactly the views `names` with `dims` features; a named view not here is missing everywhere.

        Raises:
            ValueError: If a view is unknown or of another width, or nameless views are fewer than expected.
        """
        nameless = self.names == tuple(default_name(i) for i in range(self.n_views))
        unknown = [name for name in self.names if name not in names]
        if unknown or (nameless and self.n_views != len(names)):
            raise ValueError(f"X has the views {list(self.names)}, but the expected ones are {list(names)}.")
        for name, dim in zip(names, dims, strict=True):
            if name in self.names and self.views[name].shape[1] != dim:
                width = self.views[name].shape[1]
                raise ValueError(f"View {name!r} has {width} features, but {dim} are expected.")
        own = dict(zip(self.names, self.mask.T, strict=True))
        mask = [own.get(name, np.zeros(len(self), dtype=np.bool_)) for name in names]
        # An empty sparse matrix stands for the view that is not here, at no cost in memory.
        empty: list[Any] = [csr_array((len(self), dim), dtype=np.float32) for dim in dims]
        arrays = (self.views.get(name, nothing) for name, nothing in zip(names, empty, strict=True))
        return Views(tuple(arrays), tuple(names), self.sample_ids, np.column_stack(mask))

    def check_columns(self, expected: Mapping[str, tuple[str, ...] | None]) -> None:
        """Refuse named columns that are not those expected of their view, in their order.

        Raises:
            ValueError: If a view has other column names; views without names are taken as they are.
        """
        for name, columns in zip(self.names, self.columns, strict=False):
            wanted = expected.get(name)
            if columns and wanted and columns != wanted:
                raise ValueError(
                    f"View {name!r} has the columns {list(columns)}, but fit saw {list(wanted)}: "
                    "give the same columns in the same order."
                )

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all views side by side as one dense array, with NaN for what is missing."""
        if copy is False:
            raise ValueError("Views cannot become one array without a copy: drop copy=False.")
        return np.hstack([self._side(v) for v in range(self.n_views)]).astype(dtype, copy=False)

    def _side(self, v: int) -> NDArray[Any]:
        present = self.mask[:, [v]]
        array: Any = self.arrays[v]
        block = array.toarray() if is_sparse(array) else array
        return block if present.all() else np.where(present, block, np.nan)

    def to_dense(self, v: int, rows: Rows = slice(None), dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Return a fresh dense copy of some rows of view `v`, finite throughout, with missing rows set to 0.

        Values too large for `dtype` become its largest number.
        """
        index = row_index(rows)
        array: Any = self.arrays[v]
        block = array[index].toarray() if is_sparse(array) else array[index]
        with np.errstate(over="ignore"):
            out: NDArray[Any] = block.astype(dtype, copy=isinstance(index, slice))
        out[~self.mask[index, v]] = 0
        return out if np.can_cast(array.dtype, out.dtype) else np.nan_to_num(out, copy=False)

    def __repr__(self) -> str:
        """Return one line with the numbers of samples and features."""
        sizes = ", ".join(
            f"{sanitize(n, 60)}: {dim}" for n, dim in zip(self.names, self.n_features, strict=True)
        )
        missing = "" if self.is_complete else f", missing={1 - self.mask.mean():.1%}"
        return f"Views(n_samples={len(self)}, dims={{{sizes}}}{missing})"

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        present = self.mask.sum(axis=0)
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{dim}</td><td>{array.dtype}</td><td>{count}</td></tr>"
            for name, dim, array, count in zip(self.names, self.n_features, self.arrays, present, strict=True)
        )
        head = "<tr><th>view</th><th>features</th><th>dtype</th><th>samples present</th></tr>"
        return f"<table><caption>Views of {len(self)} samples</caption>{head}{rows}</table>"


def as_views(X: Any, view_columns: Groups | None = None) -> Views:
    """Return `X` as validated views.

    Args:
        X: `Views`; or a list, tuple or dict of 2-D things (numpy, memory map, nested lists, data frame,
            scipy sparse, torch tensor); or one 2-D thing; or a MuData or AnnData. Data frames and modalities
            are matched by their index, all else by position. A row of NaN means that the sample lacks that
            view.
        groups: How to split the columns of one 2-D `X` into views: per view a `(start, stop)` tuple, or a
            list of column positions or data-frame column names; a list of these or a dict by name. Of a
            MuData or AnnData: the keys of the matrices, see `align_annotated`.

    Raises:
        ValueError: If the input is not a set of numeric, finite, matching views.
    """
    if is_annotated(X):
        matrices, ids, aligned, columns = align_annotated(X, view_columns)
        return _assemble(columns, matrices, ids, aligned)
    # A scipy matrix in dictionary format is a mapping too.
    several = (isinstance(X, Views | Mapping) and not is_sparse(X)) or _is_list_of_views(X)
    if several and view_columns is not None:
        raise ValueError("`groups` splits one 2-D array, but X has views already: pass groups=None.")
    if isinstance(X, Views):
        return X
    parts = named(X if several else [X]) if view_columns is None else split_columns(X, view_columns)
    if not parts:
        raise ValueError("X holds no view: give at least one 2-D array.")
    columns = tuple(tuple(map(str, part.columns)) if is_frame(part) else None for part in parts.values())
    if several and all(is_frame(part) for part in parts.values()):
        return _assemble(columns, *align_frames(parts))
    matrices = {name: as_matrix(part, name) for name, part in parts.items()}
    n = next(iter(matrices.values())).shape[0]
    ids = X.index.to_numpy() if is_frame(X) else np.arange(n)
    return _assemble(columns, matrices, ids, np.ones((n, len(matrices)), dtype=np.bool_))


def _is_list_of_views(X: Any) -> bool:
    """Tell a list of 2-D things from a list of rows, which is one 2-D thing itself."""
    return isinstance(X, list | tuple) and (not X or any(x is None or _ndim(x) >= 2 for x in X))


def _ndim(x: Any, most: int = 2) -> int:
    """Number of axes, counted up to `most` in lists, which may hold themselves."""
    if hasattr(x, "shape"):
        return len(x.shape)
    if most == 0 or not isinstance(x, list | tuple):
        return 0
    return 1 + (_ndim(x[0], most - 1) if len(x) else 0)


def _assemble(columns: Columns, matrices: Mapping[str, Matrix], ids: NDArray[Any], aligned: Bools) -> Views:
    views = Views(tuple(matrices.values()), tuple(matrices), ids, aligned)
    present = [present_rows(matrix, name, ids) for name, matrix in matrices.items()]
    mask = aligned & np.column_stack(present)
    lost = np.flatnonzero(~mask.any(axis=1))
    if len(lost):
        raise ValueError(
            f"Row {lost[0]} (id {str(ids[lost[0]])!r}) has no view at all, each being NaN or absent: drop "
            "the row or fill in at least one of its views."
        )
    return Views(views.arrays, views.names, ids, mask, columns)
