"""Read multi-view data from files of any supported format."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from protocol_mvc.data.views import Views
from protocol_mvc.exceptions import DataError, DataFileError
from protocol_mvc.io.arrays import assemble, loaded_arrays, map_npy_files, open_npz
from protocol_mvc.io.hdf5 import open_hdf5, read_anndata
from protocol_mvc.io.limits import file_errors
from protocol_mvc.io.matlab import read_mat
from protocol_mvc.io.tables import read_tables

TABLES = "tables"
TABLE_FILES = (".csv", ".tsv", ".parquet")
FORMATS = (".npz", ".npy", ".mat", ".h5", ".hdf5", ".h5mu", ".h5ad")


class MultiViewDataset(NamedTuple):
    """Multi-view data from files."""

    views: Views
    y: NDArray[Any] | None  #: ground-truth labels (n,), if the files have any
    path: Path  #: of the file or folder


def read_views(
    path: str | Path | Sequence[str | Path],
    *,
    view_columns: Sequence[str] | None = None,
    id_column: str | None = None,
    labels: str | None = None,
) -> MultiViewDataset:
    """Read multi-view data.

    Args:
        path: an `.npz`, `.mat`, `.h5`, `.h5mu` or `.h5ad` file; or `.npy`, `.csv`, `.tsv` or `.parquet`
            files, one per view; or a folder of these.
        view_columns: names of the views to read; all by default. docs/files.md lists the names per format.
        id_column: column of tables that identifies the samples.
        labels: array or column with ground-truth labels; by default one with a usual name, such as "labels".

    Returns:
        The views, the labels if there are any, and the path of the file or folder.

    Raises:
        FileNotFoundError: If a file does not exist.
        ModuleNotFoundError: If the format needs a package that is not installed.
        DataFileError: If a file is damaged or too large, or has no views.
    """
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(part) for part in path]
    files = _list_files(paths)
    kind = _format(files)
    place = paths[0] if len(paths) == 1 else paths[0].parent
    if id_column is not None and kind != TABLES:
        raise DataFileError(f"File {files[0]} is not a table: leave id_column={id_column!r} out.")
    with file_errors(place, "a table" if kind == TABLES else f"{kind} data"):
        if kind == TABLES:
            contents = read_tables(_by_view(files, view_columns), id_column, labels)
        elif kind in (".h5mu", ".h5ad"):
            contents = read_anndata(place, view_columns, labels)
        elif kind == ".npy":
            contents = assemble(map_npy_files(_by_view(files, None)), view_columns, labels)
        elif kind == ".mat":
            if labels is not None:
                raise DataError(f"its labels are found by their usual names: leave {labels!r} out.")
            contents = assemble(loaded_arrays(read_mat(place)), view_columns, None)
        else:
            with (open_npz if kind == ".npz" else open_hdf5)(place) as arrays:
                contents = assemble(arrays, view_columns, labels)
    return MultiViewDataset(*contents, place)


def _list_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files, or the data files of a single folder."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"There is no file or folder {path}.")
        if not (path.is_file() or path.is_dir()):  # reading a pipe would wait for ever
            raise DataFileError(f"{path} is not a file or folder.")
    if len(paths) != 1 or not paths[0].is_dir():
        return list(paths)
    visible = [path for path in paths[0].iterdir() if path.is_file() and not path.name.startswith(".")]
    visible.sort(key=lambda path: path.stem)
    arrays = [path for path in visible if path.suffix.lower() == ".npy"]
    tables = [path for path in visible if path.suffix.lower() in TABLE_FILES]
    if bool(arrays) == bool(tables):
        what = "both arrays and tables" if arrays else "no arrays and no tables"
        listed = ", ".join(path.name for path in visible[:10]) or "it is empty"
        raise DataFileError(
            f"Folder {paths[0]} has {what} ({listed}): put one .npy, .csv, .tsv or .parquet file per view "
            "into it, only arrays or only tables."
        )
    return arrays or tables


def _format(files: Sequence[Path]) -> str:
    """Return the suffix that decides how the files are read, or `TABLES`."""
    suffixes = {path.suffix.lower() for path in files}
    if suffixes and suffixes <= set(TABLE_FILES):
        return TABLES
    if suffixes == {".npy"} or (len(files) == 1 and suffixes <= set(FORMATS)):
        return suffixes.pop()
    known = (*FORMATS, *TABLE_FILES)
    for path in files:
        if path.suffix.lower() not in known:
            raise DataFileError(f"{path} has an unknown format: use {', '.join(known)}, or a folder.")
    raise DataFileError(
        f"{len(files)} files with the suffixes {', '.join(sorted(suffixes))} cannot be read together: give "
        "one file, or tables or .npy files, one per view."
    )


def _by_view(files: Sequence[Path], view_names: Sequence[str] | None) -> dict[str, Path]:
    """Return the file of each view; the stem of its name is the name of the view."""
    by_name: dict[str, Path] = {}
    for path in files:
        if path.stem in by_name:
            raise DataError(f"two files have the view name {path.stem!r}: rename one.")
        by_name[path.stem] = path
    for name in view_names or ():
        if name not in by_name:
            raise DataError(f"there is no view {name!r}, only {', '.join(by_name)}.")
    return by_name if view_names is None else {name: by_name[name] for name in view_names}
