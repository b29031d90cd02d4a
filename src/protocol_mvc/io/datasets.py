"""Load the data sets of the benchmark by name, with their contents verified."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.digits import load_digits_views
from protocol_mvc.data.sampling import imbalanced_subset
from protocol_mvc.data.views import Views, as_views
from protocol_mvc.io.catalogue import DATASETS, Dataset
from protocol_mvc.io.matlab import read_mat
from protocol_mvc.io.matlab import DAMAGE

Folder = str | os.PathLike[str] | None
UNREADABLE: tuple[type[Exception], ...] = (*DAMAGE, BadZipFile)


def list_datasets() -> list[str]:
    """Return the names that `load` knows."""
    return sorted(DATASETS)


def available_datasets(data_home: Folder = None) -> list[str]:
    """Return the names that `load` finds here: those that need no file, and those whose file is there."""
    return [name for name in list_datasets() if not DATASETS[name].has_file or any(_found(name, data_home))]


def load_dataset(
    name: str, *, imbalance_ratio: float | None = None, random_state: int = 0, data_home: Folder = None
) -> tuple[Views, NDArray[np.int64]]:
    """Return the views and labels of a named set, in shuffled order.

    Args:
        name: One of `names()`.
        ratio: Keep an imbalanced subset whose smallest class has this part of the largest; all rows if None.
        seed: Seed of the subset and of the order.
        folder: Where the file is; by default as `find` searches.

    Raises:
        ValueError: If the name is unknown or the file is not the expected one.
        FileNotFoundError: If the file is nowhere to be found.
        ModuleNotFoundError: If the file is a `.mat` of v7.3 and h5py is not installed.
    """
    views, labels = (
        _read(dataset_path(name, data_home), name) if _entry(name).has_file else load_digits_views()
    )
    if imbalance_ratio is None:
        rows = np.random.default_rng(random_state).permutation(len(labels))
    else:
        rows = imbalanced_subset(labels, imbalance_ratio, random_state)
    return views[rows], labels[rows]


def dataset_path(name: str, data_home: Folder = None) -> Path:
    """Return the path of the file of a named set.

    Looks in `folder` alone if given, else in $PROTOCOL_DATA, the user's cache and `../shared/data`, for the
    `.npz` file and, if the set is one of the paper's, a `.mat` file. Case, hyphens and underscores of the
    file's name do not matter.

    Raises:
        ValueError: If the name is unknown or stands for no file.
        FileNotFoundError: If the file is in none of these.
    """
    entry = _entry(name)
    if not entry.has_file:
        raise ValueError(f"Data set {name!r} comes with the library and has no file: use `load({name!r})`.")
    for path in _found(name, data_home):
        return path
    files = [f"{name}.npz", *(f"{stem}.mat" for stem in entry.alternatives)]
    sizes = f" It has {entry.sizes}." if entry.dims else ""
    places = " or ".join(map(str, _folders(data_home)))
    raise FileNotFoundError(
        f"Data set {name!r} is not here. What it is: {entry.description}{sizes} No {' or '.join(files)} was "
        f"found in {places}: put the file there, or name its folder in PROTOCOL_DATA."
    )


def _entry(name: str) -> Dataset:
    if name not in DATASETS:
        raise ValueError(f"Unknown data set {name!r}: use one of {list_datasets()}.")
    return DATASETS[name]


def _folders(folder: Folder = None) -> list[Path]:
    if folder:
        return [Path(folder)]
    chosen = os.environ.get("PROTOCOL_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [*([Path(chosen)] if chosen else []), cache / "protocol_mvc", Path("..") / "shared" / "data"]


def _found(name: str, folder: Folder) -> Iterator[Path]:
    """Yield the files that may hold a set, `.npz` first, since its contents can be verified."""
    entry = _entry(name)
    stems = {_plain(stem) for stem in (name, *entry.alternatives)}
    for place in _folders(folder):
        files = sorted(
            path for path in (place.iterdir() if place.is_dir() else ()) if _plain(path.stem) in stems
        )
        for suffix in (".npz", *([".mat"] if entry.dims else [])):
            yield from (path for path in files if path.suffix.lower() == suffix and path.is_file())


def _plain(stem: str) -> str:
    """Return the part of a file's name that does not depend on taste."""
    return stem.lower().replace("-", "").replace("_", "").replace(" ", "")


def _read(path: Path, name: str) -> tuple[Views, NDArray[np.int64]]:
    entry = _entry(name)
    if path.suffix.lower() == ".mat":
        arrays, _, labels = read_mat(path)
        return _checked(path, entry, arrays, labels)
    with path.open("rb") as file:
        if entry.sha256:
            _verify(file, path, entry.sha256)
        return _checked(path, entry, *_read_arrays(file, path))


def _verify(file: IO[bytes], path: Path, sha256: str) -> None:
    found = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    if found != sha256:
        raise ValueError(
            f"File {path} has sha256 {found} but {sha256} is expected: it is damaged or another version, "
            "so fetch it again."
        )
    file.seek(0)


def _read_arrays(file: IO[bytes], path: Path) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the contents of an `.npz` file with arrays `view_0`, `view_1`, ... and `labels`."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            views = [arrays[f"view_{v}"] for v in range(len(arrays.files) - 1)]
            return views, np.unique(arrays["labels"], return_inverse=True)[1].astype(np.int64)
    except UNREADABLE as error:
        raise ValueError(
            f"File {path} cannot be read as arrays view_0, view_1, ... and labels ({error}): fetch it again "
            "or save it anew with `numpy.savez`."
        ) from error


def _checked(
    path: Path, entry: Dataset, arrays: list[Any], labels: NDArray[np.int64] | None
) -> tuple[Views, NDArray[np.int64]]:
    """Return the contents of a file, unless their sizes are not those of the set."""
    if labels is None:
        raise ValueError(f"File {path} holds no labels: add them under the name Y, one number per sample.")
    try:
        views = as_views(arrays)
        if entry.surplus and views.n_features == tuple(dim + entry.surplus for dim in entry.dims):
            views = as_views([array[:, : -entry.surplus] for array in arrays])
    except ValueError as error:
        raise ValueError(f"File {path}: {error}") from error
    found = entry._replace(samples=len(views), classes=len(np.unique(labels)), dims=views.n_features)
    if len(labels) != len(views) or (entry.dims and found != entry):
        raise ValueError(
            f"File {path} holds {found.sizes} and {len(labels)} labels, but expected are {entry.sizes} and "
            "as many labels as samples: it is another version of the set, so fetch the one of the paper."
        )
    return views, labels
