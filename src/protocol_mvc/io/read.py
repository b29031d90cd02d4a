"""Read multi-view data from files of any supported format."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

from protocol_mvc.data.views import Views
from protocol_mvc.exceptions import DataError, DataFileError
from protocol_mvc.io.arrays import Contents, assemble, loaded_arrays, map_npy_files, open_npz
from protocol_mvc.io.hdf5 import open_hdf5, read_anndata
from protocol_mvc.io.limits import reading
from protocol_mvc.io.matlab import read_mat
from protocol_mvc.io.table_columns import TableViews
from protocol_mvc.io.table_format import DEFAULTS, TableOptions, split_name
from protocol_mvc.io.table_preparation import Preparation
from protocol_mvc.io.table_views import read_tables
from protocol_mvc.io.tables import TABLE_FILES

TABLES = "tables"
FORMATS = (".npz", ".npy", ".mat", ".h5", ".hdf5", ".h5mu", ".h5ad")
AnyPath: TypeAlias = str | Path


class ReadInfo(NamedTuple):
    """Where data come from and how they were read."""

    path: Path  #: of the file or folder
    notes: tuple[str, ...] = ()  #: what was found and decided, in sentences
    preparation: Mapping[str, Preparation] = {}  #: of the columns of tables, by view; repeat it for new data


class MultiViewDataset(NamedTuple):
    """Multi-view data from files."""

    views: Views
    y: NDArray[Any] | None  #: ground-truth labels (n,), if the files have any
    info: ReadInfo  #: the path, notes on the data, and how tables were prepared


def read_views(
    path: AnyPath | Sequence[AnyPath] | Mapping[str, AnyPath],
    *,
    view_columns: Sequence[str] | TableViews | None = None,
    id_column: str | Mapping[str, str] | None = None,
    labels: str | None = None,
    table_options: TableOptions | None = None,
    preparation: Mapping[str, Preparation] | None = None,
) -> MultiViewDataset:
    """Read multi-view data.

    Args:
        path: an `.npz`, `.mat`, `.h5`, `.h5mu` or `.h5ad` file; or `.npy` files or tables (`.csv`, `.tsv`,
            `.xlsx`, `.feather`, `.parquet`), one per view, in a list or in a dict by name of the view; or a
            folder of these.
        view_columns: names of the views to read; all by default. docs/files.md lists the names per format.
            Of one table: a dict that gives for each view the prefix of its columns, or their names.
        id_column: column of tables that identifies the samples, or a dict by name of the view or file.
        labels: array or column with ground-truth labels; by default one with a usual name, such as "labels".
        table_options: separator, decimal mark, encoding etc. of tables, where the files do not show them.
        preparation: how tables were prepared for a fit (`info.preparation`); new data are prepared likewise.

    Returns:
        The views, the labels if there are any, and `ReadInfo`.

    Raises:
        FileNotFoundError: If a file does not exist.
        ModuleNotFoundError: If the format needs a package that is not installed.
        DataFileError: If a file is damaged or too large, or has no views.
    """
    if isinstance(path, Mapping):
        by_view = {str(name): Path(part) for name, part in path.items()}
        paths = files = list(by_view.values())
        _check_exists(paths)
    else:
        paths = [Path(path)] if isinstance(path, str | Path) else [Path(part) for part in path]
        files, by_view = _list_files(paths), {}
    kind = _format(files)
    place = paths[0] if len(paths) == 1 else paths[0].parent
    if kind != TABLES:
        for what, given in {"id column": id_column, "options of tables": table_options}.items():
            if given is not None and given != DEFAULTS:
                raise DataFileError(f"File {files[0]} is not a table: leave the {what} ({given}) out.")
    with reading(place, "a table" if kind == TABLES else f"{kind} data"):
        if kind in (TABLES, ".npy"):
            by_view = by_view or _name_files(files)
        if kind == TABLES:
            columns = view_columns if isinstance(view_columns, Mapping) else None
            names = None if columns is not None or view_columns is None else list(view_columns)
            chosen, options = _choose_files(by_view, names), table_options or DEFAULTS
            contents = read_tables(chosen, id_column, labels, columns, options, preparation)
        else:
            names = None if view_columns is None else list(view_columns)
            contents = _read_arrays(place, kind, by_view, names, labels)
    return MultiViewDataset(contents.views, contents.y, ReadInfo(place, contents.notes, contents.preparation))


def _read_arrays(
    place: Path, kind: str, by_view: Mapping[str, Path], view_names: list[str] | None, labels: str | None
) -> Contents:
    """Read files that hold arrays."""
    if kind in (".h5mu", ".h5ad"):
        return read_anndata(place, view_names, labels)
    if kind == ".npy":
        return assemble(map_npy_files(by_view), view_names, labels)
    if kind == ".mat":
        if labels is not None:
            raise DataError(f"its labels are found by their usual names: leave {labels!r} out.")
        return assemble(loaded_arrays(read_mat(place)), view_names, None)
    with (open_npz if kind == ".npz" else open_hdf5)(place) as arrays:
        return assemble(arrays, view_names, labels)


def _check_exists(paths: Sequence[Path]) -> None:
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"There is no file or folder {path}.")
        if not (path.is_file() or path.is_dir()):  # reading a pipe would wait for ever
            raise DataFileError(f"{path} is not a file or folder.")


def _list_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files, or the data files of a single folder."""
    _check_exists(paths)
    if len(paths) != 1 or not paths[0].is_dir():
        return list(paths)
    visible = [path for path in paths[0].iterdir() if path.is_file() and not path.name.startswith(".")]
    visible.sort(key=lambda path: split_name(path)[0])
    arrays = [path for path in visible if path.suffix.lower() == ".npy"]
    tables = [path for path in visible if split_name(path)[1] in TABLE_FILES]
    if bool(arrays) == bool(tables):
        what = "both arrays and tables" if arrays else "no arrays and no tables"
        listed = ", ".join(path.name for path in visible[:10]) or "it is empty"
        raise DataFileError(
            f"Folder {paths[0]} has {what} ({listed}): put one .npy file or one table per view into it, "
            f"only arrays or only tables ({', '.join(TABLE_FILES)})."
        )
    return arrays or tables


def _format(files: Sequence[Path]) -> str:
    """Return the suffix that decides how the files are read, or `TABLES`."""
    suffixes = {split_name(path)[1] for path in files}
    if suffixes and suffixes <= set(TABLE_FILES):
        return TABLES
    if suffixes == {".npy"} or (len(files) == 1 and suffixes <= set(FORMATS)):
        return suffixes.pop()
    known = (*FORMATS, *TABLE_FILES)
    for path in files:
        if split_name(path)[1] not in known:
            raise DataFileError(f"{path} has an unknown format: use {', '.join(known)}, or a folder.")
    raise DataFileError(
        f"{len(files)} files with the suffixes {', '.join(sorted(suffixes))} cannot be read together: give "
        "one file, or tables or .npy files, one per view."
    )


def _name_files(files: Sequence[Path]) -> dict[str, Path]:
    """Return the file of each view; the stem of its name is the name of the view."""
    by_name: dict[str, Path] = {}
    for path in files:
        name = split_name(path)[0]
        if name in by_name:
            raise DataError(f"two files have the view name {name!r}: rename one.")
        by_name[name] = path
    return by_name


def _choose_files(by_name: Mapping[str, Path], names: Sequence[str] | None) -> Mapping[str, Path]:
    """Return the files of the views that are asked for."""
    for name in names or ():
        if name not in by_name:
            raise DataError(f"there is no view {name!r}, only {', '.join(by_name)}.")
    return by_name if names is None else {name: by_name[name] for name in names}
