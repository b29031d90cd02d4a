"""Results out: labels as a table, or in a copy of the `.h5mu` or `.h5ad` file that the data came from."""

import csv
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol_mvc.exceptions import DataError
from protocol_mvc.io.arrays import to_builtin_dtype
from protocol_mvc.io.hdf5 import member, writing
from protocol_mvc.io.limits import need, readable
from protocol_mvc.io.omics import Annotated, Tools
from protocol_mvc.utils.files import atomic_write

SUFFIXES = (".csv", ".tsv", ".parquet")
ANNOTATED = (".h5mu", ".h5ad")
NAME = "protocol_mvc"  # of all that is written into such a file


def write_labels(
    path: str | Path, ids: ArrayLike, labels: ArrayLike, proba: ArrayLike, *, overwrite: bool = False
) -> Path:
    """Write a table with the columns id, label, confidence, proba_0, ... whole or not at all.

    Args:
        path: A `.csv`, `.tsv` or `.parquet` file; the latter needs the extra `data`.
        ids: Identifier of each sample.
        labels: Cluster of each sample.
        proba: Probability of each cluster; the confidence is the largest.
        overwrite: Whether a file of that name may be replaced.

    Raises:
        ValueError: If the suffix is another, or the parts are not of one length.
        FileExistsError: If the file is there already.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"Labels cannot be written to {path}: give it one of the endings {', '.join(SUFFIXES)}."
        )
    columns = label_columns(ids, labels, proba)
    write = _write_parquet if path.suffix.lower() == ".parquet" else _write_text
    with atomic_write(path, overwrite=overwrite) as temporary:
        write(temporary, columns, path)
    return path


def _checked(
    ids: ArrayLike, labels: ArrayLike, proba: ArrayLike
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return ids, labels and probabilities as arrays.

    Raises:
        ValueError: If they are not of one length.
    """
    names, numbers, shares = to_builtin_dtype(ids), np.asarray(labels), np.asarray(proba)
    if numbers.ndim != 1 or shares.ndim != 2 or not len(names) == len(numbers) == len(shares):
        raise ValueError(
            f"{len(names)} ids do not fit labels of shape {numbers.shape} and probabilities of shape "
            f"{shares.shape}: give one label and one row for each sample."
        )
    return names, numbers, shares


def label_columns(ids: ArrayLike, labels: ArrayLike, proba: ArrayLike) -> dict[str, NDArray[Any]]:
    """Return the columns of a table of labels by name."""
    ids, labels, proba = _checked(ids, labels, proba)
    shares = {f"proba_{k}": proba[:, k] for k in range(proba.shape[1])}
    return {"id": ids, "label": labels, "confidence": proba.max(axis=1), **shares}


def _write_text(target: Path, columns: dict[str, NDArray[Any]], path: Path) -> None:
    with target.open("x", newline="", encoding="utf-8") as file:
        write_table(file, columns, "\t" if path.suffix.lower() == ".tsv" else ",")


def write_table(file: IO[str], columns: Mapping[str, NDArray[Any]], delimiter: str = ",") -> None:
    """Write columns by name; values become the shortest text that reads back to the same bits."""
    table = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    table.writerow(columns)
    table.writerows(zip(*(map(str, column) for column in columns.values()), strict=True))


def _write_parquet(target: Path, columns: dict[str, NDArray[Any]], path: Path) -> None:
    arrow, parquet = need("pyarrow", "data", path), need("pyarrow.parquet", "data", path)
    table = arrow.table(
        {name: column.tolist() if name == "id" else column for name, column in columns.items()}
    )
    parquet.write_table(table, target)


def write_anndata(
    source: str | Path,
    target: str | Path,
    ids: ArrayLike,
    labels: ArrayLike,
    proba: ArrayLike,
    embedding: ArrayLike,
    note: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> Path:
    """Write a copy of an `.h5mu` or `.h5ad` file with the results in it, whole or not at all.

    The copy gains `obs["protocol_mvc"]` (categories), `obs["protocol_mvc_confidence"]`,
    `obsm["X_protocol_mvc"]` and `uns["protocol_mvc"]`; all else in the file stays as it is, to the bit.

    Args:
        source: The file that the data came from.
        target: The copy.
        ids: Identifier of each sample; those of the file in any order.
        labels: Cluster of each sample.
        proba: Probability of each cluster.
        embedding: Features of each sample.
        note: What else is to be known, such as parameters and versions.
        overwrite: Whether a file of that name may be replaced, be it the source itself.

    Raises:
        ValueError: If the source is no such file, or the ids are not its own.
        FileExistsError: If the target is there already.
        ModuleNotFoundError: If anndata is not installed.
    """
    source, target = Path(source), Path(target)
    if source.suffix.lower() not in ANNOTATED or source.suffix.lower() != target.suffix.lower():
        raise ValueError(
            f"Results cannot be written from {source} to {target}: both must be .h5mu, or both .h5ad."
        )
    names, numbers, shares = _checked(ids, labels, proba)
    features = np.asarray(embedding)
    tools = Tools.of(source)
    with atomic_write(target, overwrite=overwrite) as temporary:
        shutil.copyfile(source, temporary)
        with readable(source, f"an {source.suffix} file"):
            rows = _rows(temporary, names, len(features), tools)
        with writing(temporary, "r+", tools.h5py) as file:
            _put_columns(file, tools, _judgement(numbers[rows], shares[rows], tools))
            _put(file, "obsm", f"X_{NAME}", features[rows], tools)
            _put(file, "uns", NAME, _writable(note), tools)
    return target


def _rows(path: Path, ids: NDArray[Any], n: int, tools: Tools) -> NDArray[np.intp]:
    """Return which result belongs to each row of a file, whose groups must be its own."""
    with tools.h5py.File(path, "r") as file:
        index = Annotated(file, tools).obs_names
        for place in {"obs", "obsm", "uns"} & set(file):
            member(file, place, tools.h5py)
    if len(index) != len(ids) or n != len(ids):
        raise DataError(
            f"it has {len(index)} samples but there are results of {len(ids)} and features of {n}."
        )
    texts = index.astype(str)
    if (texts == ids.astype(str)).all():
        return np.arange(n)
    if not texts.is_unique:
        raise DataError(
            f"its id {texts[texts.duplicated()][0]!r} is there twice, so results cannot be matched to it."
        )
    rows: NDArray[np.intp] = type(texts)(ids.astype(str)).get_indexer(texts)
    if (rows < 0).any():
        raise DataError(f"its sample {texts[rows < 0][0]!r} is not among the ids of the results.")
    return rows


def _judgement(labels: NDArray[Any], proba: NDArray[Any], tools: Tools) -> dict[str, Any]:
    """Return the new columns of `obs`; categories are texts, as plotting tools like them."""
    categories = [str(k) for k in range(max(proba.shape[1], int(labels.max(initial=-1)) + 1))]
    return {
        NAME: tools.pandas.Categorical([str(label) for label in labels], categories=categories),
        f"{NAME}_confidence": proba.max(axis=1),
    }


def _put_columns(file: Any, tools: Tools, columns: Mapping[str, Any]) -> None:
    table = file["obs"]
    for name, column in columns.items():
        tools.io.write_elem(table, name, column)
    order = [name for name in table.attrs["column-order"] if name not in columns]
    table.attrs.create("column-order", [*order, *columns], dtype=tools.h5py.string_dtype())


def _put(file: Any, place: str, name: str, value: Any, tools: Tools) -> None:
    if place not in file:
        tools.io.write_elem(file, place, {})
    tools.io.write_elem(file[place], name, value)


def _writable(note: Mapping[str, Any]) -> dict[str, Any]:
    """Return a note as anndata can write it: what is neither number, text nor array becomes JSON."""
    return {str(key).replace("/", "_"): _value(value) for key, value in note.items()}


def _value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _writable(value)
    if isinstance(value, bool | int | float | str | np.generic) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "buif"
    ):
        return value
    return json.dumps(value, default=str)
