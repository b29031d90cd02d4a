"""One door for files of all kinds."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from protocol_mvc.data.views import Views
from protocol_mvc.exceptions import DataError, DataFileError
from protocol_mvc.io.arrays import Contents, Stored, assemble
from protocol_mvc.io.forked import RISKY, check_survival
from protocol_mvc.io.hdf5 import open_arrays
from protocol_mvc.io.limits import readable
from protocol_mvc.io.matlab import read_mat
from protocol_mvc.io.numpy_files import map_files, open_archive
from protocol_mvc.io.omics import read_annotated
from protocol_mvc.io.tables import read_tables

TABLES = "tables"
TABLE_FILES = (".csv", ".tsv", ".parquet")
KINDS = {
    ".npz": "an .npz archive",
    ".npy": "an .npy array",
    ".mat": "a .mat file",
    ".h5": "an HDF5 file",
    ".hdf5": "an HDF5 file",
    ".h5mu": "an .h5mu file",
    ".h5ad": "an .h5ad file",
}


class MultiViewDataset(NamedTuple):
    """What `read` found."""

    views: Views
    y: NDArray[Any] | None  #: ground truth of each sample, if the file has it
    path: Path  #: of the file or folder


def read_views(
    path: str | Path | Sequence[str | Path],
    *,
    view_columns: Sequence[str] | None = None,
    id_column: str | None = None,
    labels: str | None = None,
    guarded: bool = False,
) -> MultiViewDataset:
    """Return the views, and the truth if there is any, that files hold.

    Args:
        path: An `.npz`, `.mat`, `.h5`, `.h5mu` or `.h5ad` file; or `.npy`, `.csv`, `.tsv` or `.parquet`,
            one for each view; or a folder of such.
        views: Names of the views to read, by default all; docs/files.md has the names for each kind.
        id_column: Column by which the rows of tables are matched.
        truth: Name of the array or column that holds the truth, by default one that is called so.
        guarded: Read files of kinds whose libraries may crash in a process of its own first; see `trial`.

    Raises:
        FileNotFoundError: If there is no such file.
        ModuleNotFoundError: If the kind needs a package that is not installed.
        ValueError: If a file is damaged, too large, or holds no views.
    """
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(part) for part in path]
    files = _files(paths)
    kind = _kind(files)
    place = paths[0] if len(paths) == 1 else paths[0].parent
    if id_column is not None and kind != TABLES:
        raise DataFileError(
            f"File {files[0]} is no table: id_column={id_column!r} is for these only, so leave it out."
        )

    def contents() -> Contents:
        with readable(place, KINDS.get(kind, "a table")):
            if kind == TABLES:
                return read_tables(_by_name(files, view_columns), id_column, labels)
            if kind == ".npy":
                return assemble(map_files([*_by_name(files, None).values()]), view_columns, labels)
            return _READERS[kind](place, view_columns, labels)

    if guarded and any(_suffix(file) in RISKY for file in files):
        check_survival(contents, place, sum(file.stat().st_size for file in files))
    return MultiViewDataset(*contents(), place)


def _files(paths: Sequence[Path]) -> list[Path]:
    """Return the files, those of a folder if it is one."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"There is no file or folder {path}: check its name.")
    if len(paths) == 1 and paths[0].is_dir():
        return _inside(paths[0])
    for path in paths:
        if not (path.is_file() or path.is_dir()):  # a pipe would be waited for without end
            raise DataFileError(f"{path} is no file: give files, or one folder of them.")
    return list(paths)


def _inside(folder: Path) -> list[Path]:
    visible = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    visible.sort(key=lambda path: path.stem)
    kinds = [[path for path in visible if _suffix(path) in suffixes] for suffixes in ((".npy",), TABLE_FILES)]
    found = [files for files in kinds if files]
    if len(found) != 1:
        what = "both arrays and tables" if found else "no arrays and no tables"
        raise DataFileError(
            f"Folder {folder} holds {what} "
            f"({', '.join(path.name for path in visible[:10]) or 'it is empty'}): put one .npy, .csv, .tsv "
            "or .parquet file for each view into it, all of them arrays or all tables."
        )
    return found[0]


def _suffix(path: Path) -> str:
    return path.suffix.lower()


def _kind(files: Sequence[Path]) -> str:
    """Return the suffix that decides how the files are read, or `TABLES`."""
    suffixes = {_suffix(path) for path in files}
    if suffixes and suffixes <= set(TABLE_FILES):
        return TABLES
    if suffixes == {".npy"} or (len(files) == 1 and suffixes <= KINDS.keys()):
        return suffixes.pop()
    for path in files:
        if _suffix(path) not in (*KINDS, *TABLE_FILES):
            known = ", ".join((*KINDS, *TABLE_FILES))
            raise DataFileError(f"{path} is of no known kind: give a folder, or a file that ends in {known}.")
    raise DataFileError(
        f"{len(files)} files of the kinds {', '.join(sorted(suffixes)) or 'nothing'} cannot be read "
        "together: give one file, or tables or .npy files, one for each view."
    )


def _by_name(files: Sequence[Path], views: Sequence[str] | None) -> dict[str, Path]:
    """Return the wanted files by the names of their views."""
    named = {path.stem: path for path in files}
    if len(named) < len(files):
        twice = Counter(path.stem for path in files).most_common(1)[0][0]
        raise DataError(f"two files would make a view {twice!r}: give each its own name.")
    for name in views or ():
        if name not in named:
            raise DataError(f"there is no view {name!r}, only {', '.join(named)}.")
    return named if views is None else {name: named[name] for name in views}


def _read_archive(path: Path, views: Sequence[str] | None, truth: str | None) -> Contents:
    with open_archive(path) as arrays:
        return assemble(arrays, views, truth)


def _read_hdf5(path: Path, views: Sequence[str] | None, truth: str | None) -> Contents:
    with open_arrays(path) as arrays:
        return assemble(arrays, views, truth)


def _read_matlab(path: Path, views: Sequence[str] | None, truth: str | None) -> Contents:
    """Return the contents of a `.mat` file, whose reader has its own ways to find views and labels."""
    try:
        matrices, names, labels = read_mat(path)
    except ValueError as error:
        raise DataFileError(str(error)) from error
    if truth is not None:
        raise DataError(f"its labels are found by their usual names, so leave truth={truth!r} out.")
    parts: dict[str, Any] = dict(zip(names, matrices, strict=True))
    parts |= {} if labels is None else {"labels": labels}
    arrays = {name: Stored(part.shape, part.dtype, _giver(part), mapped=True) for name, part in parts.items()}
    return assemble(arrays, views, None)


def _giver(value: Any) -> Callable[[], Any]:
    return lambda: value


_READERS: dict[str, Callable[[Path, Sequence[str] | None, str | None], Contents]] = {
    ".npz": _read_archive,
    ".mat": _read_matlab,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
    ".h5mu": read_annotated,
    ".h5ad": read_annotated,
}
