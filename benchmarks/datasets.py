"""The data sets of the benchmark, loaded by name and verified.

Files are searched in `data_home`, else in the folder of the environment variable PROTOCOL_DATA, else in
`~/protocol_mvc_data`.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.digits import load_digits_views
from protocol_mvc.data.sampling import imbalanced_subset
from protocol_mvc.data.views import Views, as_views
from protocol_mvc.io.matlab import DAMAGE, read_mat

Folder = str | os.PathLike[str] | None


class Dataset(NamedTuple):
    """A data set. Its `.npz` file is verified by the sha256, or by the sizes if there is none.

    Attributes:
        sha256: hash of the `.npz` file.
        description: one line.
        samples: number of samples; sizes are given for the data sets of the paper.
        classes: number of classes.
        dims: number of features of each view.
        alternatives: names of the `.mat` file in the literature.
        surplus: unused columns at the end of each view of the distributed file.
    """

    sha256: str
    description: str
    samples: int = 0
    classes: int = 0
    dims: tuple[int, ...] = ()
    alternatives: tuple[str, ...] = ()
    surplus: int = 0

    @property
    def has_file(self) -> bool:
        """Whether the data set is read from a file."""
        return bool(self.sha256 or self.dims)

    @property
    def sizes(self) -> str:
        """The sizes as text."""
        return f"{self.samples} samples, {self.classes} classes, views of {self.dims} features"


DATASETS = {
    "bbcsport": Dataset(
        "ffe0493e0495fa8528007a97d064508fd2cc4c743aa2af7e4becd403a9a757d4",
        "Sport news, two views of term counts, five classes of unequal size.",
    ),
    "bdgp": Dataset(
        "fa90cb83d1a52baa683133ce4d13cedff8d27788eaa25edf5bf48a7f5cbe73de",
        "Drosophila embryos, image and text features.",
    ),
    "caltech101_7_rc": Dataset(
        "1fd8922c5d5ce9f1aaeac62b467aa0fde2d5790e1ee15ce916d23c0952cd0b8e",
        "Caltech101-7, six re-extracted image features, seven classes of unequal size.",
    ),
    "caltech_5v_rc": Dataset(
        "68e6e39dbfcddd3bdfefacd584cc38f8571037b8f0251865f2930db0499342c9",
        "Caltech-101 images, five re-extracted features, a stand-in for Caltech-5V.",
    ),
    "caltech5v": Dataset(
        "",
        "Caltech-5V: Caltech-101 images by wavelet moments, CENTRIST, HOG, GIST and LBP.",
        *(1400, 7, (40, 254, 1984, 512, 928), ("Caltech-5V",)),
    ),
    "cifar10": Dataset(
        "",
        "Cifar10: CIFAR-10 images, three views of deep features.",
        *(50000, 10, (512, 2048, 1024), ("Cifar10", "cifar_10")),
    ),
    "digits": Dataset("", "The 8 x 8 digits of scikit-learn, four views computed here; needs no file."),
    "fashion": Dataset(
        "7453b11127858cfa832a0b61c054014f6b658600aee802681584b173bc69fb56",
        "Fashion-MNIST, three images of one class as three views.",
        *(10000, 10, (784, 784, 784), ("Fashion", "Fashion_MV")),
    ),
    "handwritten": Dataset(
        "9b64cd471ab3f45836b619bc37b840753dc947d94a84d09874cbaf657740617b",
        "UCI multiple features, six descriptions of handwritten digits.",
    ),
    "hdigit": Dataset(
        "c5a620353a0965f79b08e0ed174b6daa0261c245b949e5f2ed885925a4d8f8a6",
        "MNIST and USPS digits as raw pixels.",
        *(10000, 10, (784, 256), ("Hdigit",)),
    ),
    "mnist_usps": Dataset(
        "778f9a4a106f38c7aa93b45634ddc8cb8ed988d30ab3c63e26f580ef27bf5741",
        "MNIST and USPS digits, both 28 x 28.",
    ),
    "nuswide": Dataset(
        "",
        "NUS-WIDE: web images by colour histogram, moments, correlogram, edge directions and wavelets.",
        *(5000, 5, (64, 225, 144, 73, 128), ("NUSWIDE", "NUS-WIDE"), 1),
    ),
    "synthetic3d": Dataset(
        "a558ea21535fa2c35e275238b9e76b84304c551bf6cc5ec18d71429077709eea",
        "Three views of three features, for quick tests.",
    ),
}

UNREADABLE: tuple[type[Exception], ...] = (*DAMAGE, BadZipFile)


def list_datasets() -> list[str]:
    """Return the names of all data sets."""
    return sorted(DATASETS)


def available_datasets(data_home: Folder = None) -> list[str]:
    """Return the names of the data sets whose file exists, or that need none."""
    return [name for name in list_datasets() if not DATASETS[name].has_file or any(_found(name, data_home))]


def load_dataset(
    name: str, *, imbalance_ratio: float | None = None, random_state: int = 0, data_home: Folder = None
) -> tuple[Views, NDArray[np.int64]]:
    """Return the views and labels of a data set, in shuffled order.

    Args:
        name: One of `list_datasets()`.
        imbalance_ratio: Keep a subset with this ratio of smallest to largest class; None keeps all samples.
        random_state: Seed of the subset and of the order.
        data_home: Folder of the file.

    Raises:
        ValueError: If the name is unknown or the file is not the expected one.
        FileNotFoundError: If there is no file.
        ModuleNotFoundError: If the file is a `.mat` of v7.3 and h5py is not installed.
    """
    if not _entry(name).has_file:
        return load_digits_views(imbalance_ratio=imbalance_ratio, random_state=random_state)
    views, labels = _read(dataset_path(name, data_home), name)
    rows = imbalanced_subset(labels, imbalance_ratio, random_state)
    return views[rows], labels[rows]


def dataset_path(name: str, data_home: Folder = None) -> Path:
    """Return the path of the `.npz` file, or of the `.mat` file of a data set of the paper.

    Case, hyphens and underscores of file names are ignored.

    Raises:
        ValueError: If the name is unknown or needs no file.
        FileNotFoundError: If there is no file.
    """
    entry = _entry(name)
    if not entry.has_file:
        raise ValueError(f"Data set {name!r} needs no file: use load_dataset({name!r}).")
    for path in _found(name, data_home):
        return path
    files = [f"{name}.npz", *(f"{stem}.mat" for stem in entry.alternatives)]
    sizes = f" It has {entry.sizes}." if entry.dims else ""
    places = " or ".join(map(str, _folders(data_home)))
    raise FileNotFoundError(
        f"Data set {name!r} ({entry.description}{sizes}) needs {' or '.join(files)} in {places}: put the "
        "file there, or set PROTOCOL_DATA to its folder."
    )


def _entry(name: str) -> Dataset:
    if name not in DATASETS:
        raise ValueError(f"Unknown data set {name!r}: use one of {list_datasets()}.")
    return DATASETS[name]


def _folders(folder: Folder = None) -> list[Path]:
    return [Path(folder or os.environ.get("PROTOCOL_DATA") or Path.home() / "protocol_mvc_data")]


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
