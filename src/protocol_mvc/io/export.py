"""Write what `read` reads as plain arrays, which need no other package or can be mapped."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from protocol_mvc.data.checks import Matrix, is_sparse, row_slices
from protocol_mvc.io.arrays import IDS, MASK, TRUTH
from protocol_mvc.io.hdf5 import writing
from protocol_mvc.io.limits import need
from protocol_mvc.io.read import MultiViewDataset, read_views
from protocol_mvc.utils.files import atomic_write, atomic_write_folder


def convert(
    src: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    view_columns: Sequence[str] | None = None,
    id_column: str | None = None,
    labels: str | None = None,
    guarded: bool = False,
    overwrite: bool = False,
) -> Path:
    """Write the views, ids, missing rows and truth of files as arrays, whole or not at all.

    Args:
        src: What `read` takes.
        out: An `.npz` or `.h5` file, or a folder for `.npy` files, which later are mapped and not read. Views
            that are sparse are written in full, a few rows at a time.
        view_columns: As `read` has it.
        id_column: As `read` has it.
        labels: As `read` has it.
        guarded: As `read` has it.
        overwrite: Whether a file, or a folder of nothing but `.npy` files, may be replaced.

    Raises:
        ValueError: If the source cannot be read, or a view has the name of something else.
        FileExistsError: If the target is there already.
    """
    out = Path(out)
    if out.suffix.lower() not in _WRITERS:
        known = ", ".join(filter(None, _WRITERS))
        raise ValueError(
            f"{out} cannot be written: give a name that ends in {known}, or in nothing for a folder."
        )
    kind = out.suffix.lower()
    loaded = read_views(src, view_columns=view_columns, id_column=id_column, labels=labels, guarded=guarded)
    contents = _contents(loaded, in_order=kind == ".npz", rename=str if kind else _file_name)
    if not kind:
        _check_folder(out)
    with (atomic_write if kind else atomic_write_folder)(out, overwrite=overwrite) as temporary:
        _WRITERS[kind](temporary, contents)
    return out


def _check_folder(folder: Path) -> None:
    if folder.is_dir() and any(path.suffix != ".npy" or path.is_dir() for path in folder.iterdir()):
        raise FileExistsError(f"The folder {folder} holds more than .npy files, so it is not replaced.")


def _contents(loaded: MultiViewDataset, *, in_order: bool, rename: Callable[[str], str]) -> dict[str, Matrix]:
    """Return all arrays by name; ids that are mere row numbers and a mask without gaps are left out.

    The views are in the order in which they will be read, which is that of the columns of the mask.
    """
    views, names = loaded.views, [rename(name) for name in loaded.views.names]
    for name in names:
        if name.rpartition("/")[2] in (*TRUTH, IDS, MASK) or names.count(name) > 1:
            raise ValueError(
                f"A view of {loaded.path} would be written as {name!r}, which is taken: rename it."
            )
    order = range(len(names)) if in_order else sorted(range(len(names)), key=names.__getitem__)
    contents = {names[v]: views.arrays[v] for v in order}
    if not np.array_equal(views.sample_ids, np.arange(len(views))):
        contents[IDS] = views.sample_ids
    if not views.is_complete:
        contents[MASK] = views.mask[:, order]
    if loaded.y is not None:
        contents[TRUTH[0]] = loaded.y
    return contents


def _file_name(name: str) -> str:
    """Return a name that files may have on all systems."""
    return re.sub(r"^\.|[^\w .,+{}()\[\]=@-]", "_", name) or "_"


def _write_archive(target: Path, contents: Mapping[str, Matrix]) -> None:
    """Write an `.npz` file, uncompressed, since numbers hardly shrink and reading is faster."""
    with ZipFile(target, "x") as archive:
        for name, array in contents.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                _write_array(file, array)


def _write_folder(target: Path, contents: Mapping[str, Matrix]) -> None:
    for name, array in contents.items():
        with (target / f"{name}.npy").open("xb") as file:
            _write_array(file, array)


def _write_array(file: IO[bytes], array: Matrix) -> None:
    header = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    npy.write_array_header_1_0(file, header)
    for _, block in _blocks(array):
        file.write(np.ascontiguousarray(block).tobytes())


def _blocks(array: Matrix) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield dense blocks of rows, few enough to take little memory."""
    for rows in row_slices(array) if array.ndim == 2 else [slice(None)]:
        block: Any = array[rows]
        yield rows, block.toarray() if is_sparse(block) else block


def _write_hdf5(target: Path, contents: Mapping[str, Matrix]) -> None:
    h5py = need("h5py", "data", target)
    with writing(target, "x", h5py) as file:
        for name, array in contents.items():
            if array.dtype.kind == "U":
                file.create_dataset(name, data=array.astype(object), dtype=h5py.string_dtype())
                continue
            node = file.create_dataset(name, shape=array.shape, dtype=array.dtype)
            for rows, block in _blocks(array):
                node[rows] = block


_WRITERS: dict[str, Callable[[Path, Mapping[str, Matrix]], None]] = {
    ".npz": _write_archive,
    ".h5": _write_hdf5,
    ".hdf5": _write_hdf5,
    "": _write_folder,
}
