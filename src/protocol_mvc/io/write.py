"""Write labels as a table or into a copy of an `.h5mu` or `.h5ad` file, and data as plain arrays."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import ArrayLike, NDArray

from protocol_mvc.data.checks import Matrix, is_sparse, row_slices
from protocol_mvc.exceptions import DataError
from protocol_mvc.io.arrays import IDS, MASK, is_special, to_builtin_dtype
from protocol_mvc.io.column_roles import LABEL_NAMES
from protocol_mvc.io.hdf5 import OMICS_PACKAGES, get_member, read_names
from protocol_mvc.io.limits import check_disk_space, reading, require_module
from protocol_mvc.io.read import AnyPath, MultiViewDataset, read_views
from protocol_mvc.io.table_format import SEPARATORS, escape_cell
from protocol_mvc.utils.files import atomic_write, atomic_write_folder

ANNOTATED = (".h5mu", ".h5ad")
KEY = "protocol_mvc"  # of all results in such a file


def write_labels(
    path: str | Path,
    sample_ids: ArrayLike,
    labels: ArrayLike,
    proba: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a table with the columns id, label, name (if there are names), confidence, proba_0, proba_1, ...

    Args:
        path: a `.csv`, `.tsv` or `.parquet` file; the latter needs the extra `data`.
        sample_ids: identifier of each sample (n,).
        labels: cluster of each sample (n,).
        proba: probability of each cluster (n, K); the confidence is the largest one.
        names: names of the clusters (K,).
        overwrite: whether an existing file may be replaced.

    Raises:
        ValueError: If the suffix is unknown, or the lengths differ.
        FileExistsError: If the file exists and `overwrite` is False.
    """
    return write_columns(path, label_columns(sample_ids, labels, proba, names), overwrite=overwrite)


def write_columns(path: str | Path, columns: Mapping[str, NDArray[Any]], *, overwrite: bool = False) -> Path:
    """Write columns by name to a `.csv`, `.tsv` or `.parquet` file; errors are those of `write_labels`."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet"):
        raise ValueError(f"A table cannot be written to {path}: use .csv, .tsv or .parquet.")
    with atomic_write(path, overwrite=overwrite) as temporary:
        if suffix in SEPARATORS:
            with temporary.open("x", newline="", encoding="utf-8") as file:
                write_table(file, columns, SEPARATORS[suffix])
        else:
            arrow, parquet = (require_module(name, "data", path) for name in ("pyarrow", "pyarrow.parquet"))
            lists = {name: x.tolist() if x.dtype.kind in "OU" else x for name, x in columns.items()}
            parquet.write_table(arrow.table(lists), temporary)
    return path


def label_columns(
    sample_ids: ArrayLike, labels: ArrayLike, proba: ArrayLike, names: Sequence[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the columns of a table of labels by name, or raise `ValueError` if the lengths differ."""
    ids, labels, proba = to_builtin_dtype(sample_ids), np.asarray(labels), np.asarray(proba)
    if labels.ndim != 1 or proba.ndim != 2 or not len(ids) == len(labels) == len(proba):
        others = f"labels of shape {labels.shape} and probabilities of shape {proba.shape}"
        raise ValueError(f"{len(ids)} ids do not match {others}.")
    columns = {f"proba_{k}": proba[:, k] for k in range(proba.shape[1])}
    named = {} if names is None else {"name": np.array(names)[labels]}
    return {"id": ids, "label": labels, **named, "confidence": proba.max(axis=1), **columns}


def write_table(file: IO[str], columns: Mapping[str, NDArray[Any]], delimiter: str = ",") -> None:
    """Write columns by name; numbers become the shortest text that is read back to the same bits.

    Texts that a spreadsheet would take for formulas are escaped (`escape_cell`).
    """
    texts = [[str(x) for x in column] for column in columns.values()]
    escaped = [
        [escape_cell(x) for x in text] if column.dtype.kind in "OU" else text
        for column, text in zip(columns.values(), texts, strict=True)
    ]
    for row in ([escape_cell(name) for name in columns], *zip(*escaped, strict=True)):
        file.write(delimiter.join(_quote(cell, delimiter) for cell in row) + "\n")


def _quote(cell: str, delimiter: str) -> str:
    """Return a cell in quotes if it needs them; the csv module of Python 3.11 forgets carriage returns."""
    return '"' + cell.replace('"', '""') + '"' if set(cell) & {delimiter, '"', "\r", "\n"} else cell


def write_anndata(
    source: str | Path,
    target: str | Path,
    sample_ids: ArrayLike,
    labels: ArrayLike,
    proba: ArrayLike,
    embedding: ArrayLike,
    metadata: Mapping[str, Any],
    *,
    names: Sequence[str] | None = None,
    rankings: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a copy of an `.h5mu` or `.h5ad` file with the results in it.

    The copy gains `obs["protocol_mvc"]` (categories), `obs["protocol_mvc_confidence"]`,
    `obsm["X_protocol_mvc"]` and `uns["protocol_mvc"]`; everything else in the file stays as it is.

    Args:
        source: the file that the data came from.
        target: the copy.
        sample_ids: identifier of each sample (n,); those of the file in any order.
        labels: cluster of each sample (n,).
        proba: probability of each cluster (n, K).
        embedding: features of each sample (n, D).
        metadata: parameters, versions etc., stored in `uns`.
        names: names of the clusters, which become the categories; by default their numbers.
        rankings: markers of the views by name, as `Explanation.rank_genes_groups` returns them; those of the
            "X" of the file or of a modality are stored in its `uns["rank_genes_groups"]`.
        overwrite: whether an existing file, such as `source` itself, may be replaced.

    Raises:
        ValueError: If the source is not such a file, or has other sample ids.
        FileExistsError: If the target exists and `overwrite` is False.
        ModuleNotFoundError: If anndata is not installed.
        OSError: If the disk is full.
    """
    source, target = Path(source), Path(target)
    if source.suffix.lower() not in ANNOTATED or source.suffix.lower() != target.suffix.lower():
        raise ValueError(
            f"Results cannot be written from {source} to {target}: both must be .h5mu, or both .h5ad."
        )
    columns, features = label_columns(sample_ids, labels, proba), np.asarray(embedding)
    h5py, anndata_io, pandas = (require_module(name, "omics", source) for name in OMICS_PACKAGES)
    with atomic_write(target, overwrite=overwrite) as temporary:
        n_bytes = features.nbytes + 100 * len(features) + 2**20  # of the results
        check_disk_space(target, source.stat().st_size + n_bytes)
        shutil.copyfile(source, temporary)
        with reading(source, f"{source.suffix} data"), h5py.File(temporary, "r") as file:
            rows = _match_rows(file, columns["id"], len(features))
        n_clusters = max(len(columns) - 3, int(columns["label"].max(initial=-1)) + 1)
        categories = [str(k) for k in range(n_clusters)] if names is None else list(names)
        clusters = pandas.Categorical.from_codes(columns["label"][rows], categories)
        results = {KEY: clusters, f"{KEY}_confidence": columns["confidence"][rows]}
        with h5py.File(temporary, "r+") as file:
            _write_obs(file, results, h5py, anndata_io)
            _write_rankings(file, clusters, rankings or {}, h5py, anndata_io)
            for group, name, value in (("obsm", f"X_{KEY}", features[rows]), ("uns", KEY, _encode(metadata))):
                _write_member(file, group, name, value, anndata_io)
    return target


def _write_obs(part: Any, columns: Mapping[str, Any], h5py: Any, anndata_io: Any) -> None:
    """Add columns to the `obs` of a file or modality."""
    for name, column in columns.items():
        anndata_io.write_elem(part["obs"], name, column)
    order = [name for name in part["obs"].attrs["column-order"] if name not in columns]
    part["obs"].attrs.create("column-order", [*order, *columns], dtype=h5py.string_dtype())


def _write_member(part: Any, group: str, name: str, value: Any, anndata_io: Any) -> None:
    if group not in part:
        anndata_io.write_elem(part, group, {})
    anndata_io.write_elem(part[group], name, value)


def _write_rankings(
    file: Any, clusters: Any, rankings: Mapping[str, Any], h5py: Any, anndata_io: Any
) -> None:
    """Write markers to the `uns`, and clusters to the `obs`, of the file or modality they belong to."""
    for view, ranking in rankings.items():
        name = view.partition(":layers/")[0]  # of a modality, or "" for the whole file
        part = file["mod"][name] if "mod" in file and name in file["mod"] else None
        part = file if view == "X" or view.startswith("layers/") else part
        if part is not None:
            own = read_names(part, "obs").astype(str)
            rows = read_names(file, "obs").astype(str).get_indexer(own)
            _write_obs(part, {KEY: clusters[rows]}, h5py, anndata_io)
            _write_member(part, "uns", "rank_genes_groups", ranking, anndata_io)


def _match_rows(file: Any, ids: NDArray[Any], n: int) -> NDArray[np.intp]:
    """Return the result that belongs to each row of a file."""
    index = read_names(file, "obs").astype(str)
    for group in {"obs", "obsm", "uns"} & set(file):
        get_member(file, group)  # results must not be written through links
    if not len(index) == len(ids) == n:
        raise DataError(f"it has {len(index)} samples, but there are {len(ids)} labels and {n} embeddings.")
    ids = ids.astype(str)
    if (index == ids).all():
        return np.arange(n)
    if not index.is_unique:
        raise DataError(f"its sample id {index[index.duplicated()][0]!r} occurs twice.")
    rows: NDArray[np.intp] = type(index)(ids).get_indexer(index)
    if (rows < 0).any():
        raise DataError(f"its sample {index[rows < 0][0]!r} has no result.")
    return rows


def _encode(value: Any) -> Any:
    """Return metadata as anndata can write them; what is neither number, text nor array becomes JSON."""
    if isinstance(value, Mapping):
        return {str(key).replace("/", "_"): _encode(item) for key, item in value.items()}
    is_numeric_array = isinstance(value, np.ndarray) and value.dtype.kind in "buif"
    if isinstance(value, bool | int | float | str | np.generic) or is_numeric_array:
        return value
    return json.dumps(value, default=str)


def convert(
    source: AnyPath | Sequence[AnyPath],
    target: str | Path,
    *,
    view_columns: Sequence[str] | None = None,
    id_column: str | None = None,
    labels: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the views, sample ids, mask and labels of files as arrays.

    Args:
        source: as `path` of `read_views`.
        target: as in `write_views`.
        view_columns: as in `read_views`.
        id_column: as in `read_views`.
        labels: as in `read_views`.
        overwrite: as in `write_views`.

    Raises:
        ValueError: If the source cannot be read, or the name of a view has another meaning.
        FileExistsError: If the target exists and `overwrite` is False.
    """
    _check_array_file(Path(target))
    dataset = read_views(source, view_columns=view_columns, id_column=id_column, labels=labels)
    return write_views(target, dataset, overwrite=overwrite)


def write_views(target: str | Path, dataset: MultiViewDataset, *, overwrite: bool = False) -> Path:
    """Write views, sample ids, mask and labels as arrays.

    Args:
        target: an `.npz` or `.h5` file, or a folder for `.npy` files, which are memory-mapped when read.
            Sparse views are written as dense arrays, a few rows at a time.
        dataset: what `read_views` returns.
        overwrite: whether an existing file, or a folder of only `.npy` files, may be replaced.

    Raises:
        ValueError: If the suffix is unknown, or the name of a view has another meaning.
        FileExistsError: If the target exists and `overwrite` is False.
    """
    target = Path(target)
    suffix = _check_array_file(target)
    contents = _contents(dataset, suffix)
    if not suffix:
        if target.is_dir() and any(path.suffix != ".npy" or path.is_dir() for path in target.iterdir()):
            raise FileExistsError(f"The folder {target} has more than .npy files, so it is not replaced.")
        with atomic_write_folder(target, overwrite=overwrite) as folder:
            for name, array in contents.items():
                with (folder / f"{name}.npy").open("xb") as file:
                    _write_npy(file, array)
        return target
    with atomic_write(target, overwrite=overwrite) as temporary:
        if suffix == ".npz":
            with ZipFile(temporary, "x") as archive:  # uncompressed: numbers hardly shrink
                for name, array in contents.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                        _write_npy(file, array)
        else:
            n_bytes = sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in contents.values())
            check_disk_space(target, n_bytes + 2**20)
            _write_hdf5(temporary, contents, require_module("h5py", "data", target))
    return target


def _check_array_file(target: Path) -> str:
    """Return the suffix of a file that arrays can be written to, "" for a folder."""
    suffix = target.suffix.lower()
    if suffix not in (".npz", ".h5", ".hdf5", ""):
        raise ValueError(f"{target} cannot be written: use .npz, .h5 or .hdf5, or a folder without a suffix.")
    return suffix


def _contents(dataset: MultiViewDataset, suffix: str) -> dict[str, Matrix]:
    """Return all arrays by name; default ids and a mask without gaps are left out.

    The views have the order in which they will be read, which is that of the columns of the mask.
    """
    views = dataset.views
    names = [name if suffix else _file_name(name) for name in views.names]
    for name in names:
        if is_special(name) or names.count(name) > 1:
            raise ValueError(f"A view of {dataset.info.path} cannot be written as {name!r}: rename it.")
    order = list(range(len(names))) if suffix == ".npz" else sorted(range(len(names)), key=names.__getitem__)
    contents = {names[v]: views.arrays[v] for v in order}
    if not np.array_equal(views.sample_ids, np.arange(len(views))):
        contents[IDS] = views.sample_ids
    if not views.is_complete:
        contents[MASK] = views.mask[:, order]
    if dataset.y is not None:
        contents[LABEL_NAMES[0]] = dataset.y
    return contents


def _file_name(name: str) -> str:
    """Replace characters that file names may not have on some systems."""
    return re.sub(r"^\.|[^\w .,+{}()\[\]=@-]", "_", name) or "_"


def _write_npy(file: IO[bytes], array: Matrix) -> None:
    header = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    npy.write_array_header_1_0(file, header)
    for _, block in _blocks(array):
        file.write(np.ascontiguousarray(block).tobytes())


def _write_hdf5(path: Path, contents: Mapping[str, Matrix], h5py: Any) -> None:
    with h5py.File(path, "x") as file:
        for name, array in contents.items():
            if array.dtype.kind == "U":
                file.create_dataset(name, data=array.astype(object), dtype=h5py.string_dtype())
                continue
            node = file.create_dataset(name, shape=array.shape, dtype=array.dtype)
            for rows, block in _blocks(array):
                node[rows] = block


def _blocks(array: Matrix) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield dense blocks of rows that take little memory."""
    for rows in row_slices(array, dense=True) if array.ndim == 2 else [slice(None)]:
        block: Any = array[rows]
        yield rows, block.toarray() if is_sparse(block) else block
