"""Convert files of any supported format to plain arrays."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from protocol_mvc.data.checks import Matrix, is_sparse, row_slices
from protocol_mvc.io.arrays import IDS, LABEL_NAMES, MASK, SPECIAL_NAMES
from protocol_mvc.io.limits import check_disk_space, require_module
from protocol_mvc.io.read import MultiViewDataset, read_views
from protocol_mvc.utils.files import atomic_write, atomic_write_folder

SUFFIXES = (".npz", ".h5", ".hdf5", "")


def convert(
    source: str | Path | Sequence[str | Path],
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
        target: an `.npz` or `.h5` file, or a folder for `.npy` files, which are memory-mapped when read.
            Sparse views are written as dense arrays, a few rows at a time.
        view_columns: as in `read_views`.
        id_column: as in `read_views`.
        labels: as in `read_views`.
        overwrite: whether an existing file, or a folder of only `.npy` files, may be replaced.

    Raises:
        ValueError: If the source cannot be read, or the name of a view has another meaning.
        FileExistsError: If the target exists and `overwrite` is False.
    """
    target = Path(target)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{target} cannot be written: use .npz, .h5 or .hdf5, or a folder without a suffix.")
    dataset = read_views(source, view_columns=view_columns, id_column=id_column, labels=labels)
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
            _write_npz(temporary, contents)
        else:
            n_bytes = sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in contents.values())
            check_disk_space(target, n_bytes + 2**20)
            _write_hdf5(temporary, contents, require_module("h5py", "data", target))
    return target


def _contents(dataset: MultiViewDataset, suffix: str) -> dict[str, Matrix]:
    """Return all arrays by name; default ids and a mask without gaps are left out.

    The views have the order in which they will be read, which is that of the columns of the mask.
    """
    views = dataset.views
    names = [name if suffix else _file_name(name) for name in views.names]
    for name in names:
        if name.rpartition("/")[2] in SPECIAL_NAMES or names.count(name) > 1:
            raise ValueError(f"A view of {dataset.path} cannot be written as {name!r}: rename it.")
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


def _write_npz(path: Path, contents: Mapping[str, Matrix]) -> None:
    """Write an uncompressed archive: numbers hardly shrink, and reading is faster."""
    with ZipFile(path, "x") as archive:
        for name, array in contents.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                _write_npy(file, array)


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
    for rows in row_slices(array) if array.ndim == 2 else [slice(None)]:
        block: Any = array[rows]
        yield rows, block.toarray() if is_sparse(block) else block
