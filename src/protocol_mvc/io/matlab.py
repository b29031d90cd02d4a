"""Read the `.mat` files in which this literature passes its data sets around."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from protocol_mvc.data.checks import Matrix, is_sparse
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.matlab_files import DAMAGE, read_variables, variable_names

MAX_BYTES = 2**34  # of the arrays in memory; the largest set of the paper takes 1.4 GB as doubles
VIEWS = re.compile(r"(x|views?|data|fea)_?(\d*)", re.IGNORECASE)
LABELS = ("gt", "gnd", "truth", "truelabel", "label", "labels", "y")  # Y last: it may be anything


class MatFile(NamedTuple):
    """The contents of a `.mat` file."""

    views: list[Matrix]  # samples x features, in the numeric type of the file
    names: list[str]  # of the views: X1, or X{1} for the first cell of X
    labels: NDArray[np.int64] | None  # 0, 1, ... in the order of the file's values; None where it has none


def read_mat(
    path: str | os.PathLike[str], *, n_samples: int | None = None, max_bytes: int = MAX_BYTES
) -> MatFile:
    """Return the views and labels of a MATLAB file of any version (v7.3 needs h5py).

    The views are a cell array `X`, `data`, `fea` or `view(s)`, or the variables `X1`, `X2`, ... (or `view1`,
    ...); the labels are `Y`, `gt`, `gnd`, `truth`, `truelabel` or `label(s)`, once or as a cell per view.
    Samples are rows or columns, whichever are as many as the labels; images are flattened.

    Args:
        path: The file.
        n_samples: Number of samples, needed only where there are no labels and the shapes do not tell.
        max_bytes: Refuse contents that take more memory.

    Raises:
        FileNotFoundError: If there is no such file.
        ModuleNotFoundError: If the file is of v7.3 and h5py is not installed.
        ValueError: If the file is damaged or its contents are not views of one set of samples.
    """
    path = Path(path)
    try:
        views, label = _choose(variable_names(path))
        contents = read_variables(path, [*views, *label], max_bytes)
        return _arrange(contents, views, label, n_samples)
    except FileNotFoundError:
        raise
    except DataError as refusal:
        raise ValueError(f"File {path}: {refusal}") from None
    except DAMAGE as error:
        raise ValueError(
            f"File {path} cannot be read as a .mat file ({error!r}): it is damaged, too large or of another "
            "format, so fetch it again or save it anew."
        ) from error


def _choose(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the variables that hold the views, in order, and the one with the labels, if any."""
    families: dict[tuple[str, bool], dict[int, str]] = {}
    for name in names:
        if match := VIEWS.fullmatch(name):
            families.setdefault((match[1], bool(match[2])), {})[int(match[2] or 1)] = name
    if len(families) != 1:
        what = "views under several names" if families else "no views"
        raise DataError(f"it holds {what} ({', '.join(names)}): store one cell array X, or X1, X2, ...")
    (views,) = families.values()
    order = sorted(views)
    if order not in ([*range(len(order))], [*range(1, len(order) + 1)]):
        raise DataError(f"its views {', '.join(views.values())} are not numbered without gaps: rename them.")
    known = {name.lower(): name for name in names}
    return [views[i] for i in order], [known[key] for key in LABELS if key in known][:1]


def _arrange(
    contents: Mapping[str, list[Any]], views: Sequence[str], label: Sequence[str], n_samples: int | None
) -> MatFile:
    labels = _labels(contents[label[0]], label[0]) if label else None
    parts = {}
    for name in views:
        for i, part in enumerate(contents[name], start=1):
            where = name if len(contents[name]) == 1 else f"{name}{{{i}}}"
            parts[where] = _numeric(part, where)
    if not parts:
        raise DataError(f"the cell array {views[0]} is empty: store one matrix per view in it.")
    n = n_samples if labels is None else len(labels)
    return MatFile(_orient(parts, _common(parts) if n is None else n), list(parts), labels)


def _labels(parts: Sequence[Any], name: str) -> NDArray[np.int64]:
    """Return 0, 1, ... for the distinct values of a vector, or of a cell of identical vectors."""
    vectors = [_numeric(part, name) for part in parts]
    if not vectors or any(is_sparse(vector) or vector.size != max(vector.shape) for vector in vectors):
        shapes = ", ".join(str(vector.shape) for vector in vectors)
        raise DataError(f"the labels {name} have shape {shapes or 0}: store a full vector, one per sample.")
    first = vectors[0].ravel()
    if not np.isfinite(first).all():
        raise DataError(f"the labels {name} hold NaN or infinity: give every sample a label.")
    if not all(np.array_equal(first, vector.ravel()) for vector in vectors):
        raise DataError(f"the labels {name} differ between views: store the one vector that all views share.")
    return np.unique(first, return_inverse=True)[1].astype(np.int64)


def _numeric(part: Any, where: str) -> Any:
    """Return a part that holds real numbers, in the byte order of this machine."""
    if is_sparse(part):
        part = csc_array(part)
        part.check_format(full_check=True)  # indices come from the file and may point anywhere
    if not (is_sparse(part) or type(part) is np.ndarray) or part.dtype.kind not in "buif":
        what = getattr(part, "dtype", type(part).__name__)
        raise DataError(f"the variable {where} holds {what} values: store a matrix of real numbers.")
    if not all(part.shape):
        raise DataError(f"the variable {where} is empty (shape {part.shape}): leave it out or fill it.")
    return part.astype(part.dtype.newbyteorder("="), copy=False)


def _common(parts: Mapping[str, Any]) -> int:
    """Return the one length that all parts share along their first or last axis."""
    lengths = set.intersection(*({part.shape[0], part.shape[-1]} for part in parts.values()))
    if len(lengths) != 1:
        shapes = ", ".join(f"{where} {part.shape}" for where, part in parts.items())
        remedy = "pass `n_samples`." if lengths else "give every view the same samples."
        raise DataError(f"it has no labels, and the shapes do not tell the samples ({shapes}): {remedy}")
    return int(lengths.pop())


def _orient(parts: Mapping[str, Any], n: int) -> list[Matrix]:
    """Return all parts as samples x features."""
    axes = {where: _axes(part, where, n) for where, part in parts.items()}
    last = {found[0] > 0 for found in axes.values() if len(found) == 1}
    return [_rows_first(part, _axis(part, where, axes[where], last)) for where, part in parts.items()]


def _axes(part: Any, where: str, n: int) -> list[int]:
    """Return the outer axes along which the `n` samples may lie."""
    axes = [axis for axis in (0, part.ndim - 1) if part.shape[axis] == n]
    if not axes:
        raise DataError(
            f"the variable {where} has shape {part.shape}, but there are {n} samples: give every view as "
            "many rows, or as many columns, as there are labels."
        )
    return axes


def _axis(part: Any, where: str, axes: Sequence[int], last: set[bool]) -> int:
    """Return the axis of the samples; where both are possible, it is as in the views that tell (`last`)."""
    if len(axes) == 1:
        return axes[0]
    if len(last) == 1:
        return axes[int(True in last)]
    if part.ndim == 2 and (part != part.T).sum() == 0:
        return 0
    raise DataError(
        f"the variable {where} has shape {part.shape}, so its samples may lie along the first axis or the "
        "last, and no other view tells: load the array yourself and pass it to `as_views`."
    )


def _rows_first(part: Any, axis: int) -> Matrix:
    if is_sparse(part):
        return csr_array(part.T if axis else part)
    rows: NDArray[Any] = np.moveaxis(part, axis, 0)
    return rows.reshape(len(rows), -1)
