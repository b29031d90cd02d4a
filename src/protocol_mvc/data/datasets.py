"""Load the data sets of the benchmark by name, with their contents verified."""

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.checks import is_sparse, row_slices
from protocol_mvc.data.digits import load_digits_views
from protocol_mvc.data.imbalance import imbalanced_subset
from protocol_mvc.data.views import Views, as_views

__all__ = ["DATASETS", "Dataset", "data_hash", "find", "load", "names"]


class Dataset(NamedTuple):
    """A named set: the hash of its file (empty if it comes with the library) and what it is."""

    sha256: str
    description: str


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
    "digits": Dataset("", "The 8 x 8 digits of scikit-learn, four views computed here; needs no file."),
    "fashion": Dataset(
        "7453b11127858cfa832a0b61c054014f6b658600aee802681584b173bc69fb56",
        "Fashion-MNIST, three images of one class as three views.",
    ),
    "handwritten": Dataset(
        "9b64cd471ab3f45836b619bc37b840753dc947d94a84d09874cbaf657740617b",
        "UCI multiple features, six descriptions of handwritten digits.",
    ),
    "hdigit": Dataset(
        "c5a620353a0965f79b08e0ed174b6daa0261c245b949e5f2ed885925a4d8f8a6",
        "MNIST and USPS digits as raw pixels.",
    ),
    "mnist_usps": Dataset(
        "778f9a4a106f38c7aa93b45634ddc8cb8ed988d30ab3c63e26f580ef27bf5741",
        "MNIST and USPS digits, both 28 x 28.",
    ),
    "synthetic3d": Dataset(
        "a558ea21535fa2c35e275238b9e76b84304c551bf6cc5ec18d71429077709eea",
        "Three views of three features, for quick tests.",
    ),
}


def names() -> list[str]:
    """Return the names that `load` knows."""
    return sorted(DATASETS)


def load(
    name: str, *, ratio: float | None = None, seed: int = 0, folder: str | os.PathLike[str] | None = None
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
    """
    sha256 = _entry(name).sha256
    views, labels = _read(find(name, folder), sha256) if sha256 else load_digits_views()
    if ratio is None:
        rows = np.random.default_rng(seed).permutation(len(labels))
    else:
        rows = imbalanced_subset(labels, ratio, seed)
    return views[rows], labels[rows]


def find(name: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of the file of a named set.

    Looks in `folder` alone if given, else in $PROTOCOL_DATA, the user's cache and `../shared/data`.

    Raises:
        ValueError: If the name is unknown or stands for no file.
        FileNotFoundError: If the file is in none of these.
    """
    if not _entry(name).sha256:
        raise ValueError(f"Data set {name!r} comes with the library and has no file: use `load({name!r})`.")
    paths = [place / f"{name}.npz" for place in ([Path(folder)] if folder else _folders())]
    for path in paths:
        if path.is_file():
            return path
    looked = ", ".join(str(path) for path in paths)
    raise FileNotFoundError(
        f"Data set {name!r} is at none of {looked}: put the file there, or name its folder in PROTOCOL_DATA."
    )


def _entry(name: str) -> Dataset:
    if name not in DATASETS:
        raise ValueError(f"Unknown data set {name!r}: use one of {names()}.")
    return DATASETS[name]


def _folders() -> list[Path]:
    chosen = os.environ.get("PROTOCOL_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [*([Path(chosen)] if chosen else []), cache / "protocol_mvc", Path("..") / "shared" / "data"]


def _read(path: Path, sha256: str) -> tuple[Views, NDArray[np.int64]]:
    """Return the contents of an `.npz` file with arrays `view_0`, `view_1`, ... and `labels`."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise ValueError(
                f"File {path} has sha256 {found} but {sha256} is expected: it is damaged or another version, "
                "so fetch it again."
            )
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            views = as_views([arrays[f"view_{v}"] for v in range(len(arrays.files) - 1)])
            return views, arrays["labels"].astype(np.int64)


def data_hash(views: Views) -> str:
    """Return a sha256 over values, dtypes, shapes and missing rows of all views, to name data in records."""
    digest = hashlib.sha256()
    for array in views.arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        for rows in row_slices(array):
            for part in _parts(array[rows]):
                digest.update(np.ascontiguousarray(part).data)
    digest.update(np.packbits(views.mask).data)
    return digest.hexdigest()


def _parts(block: Any) -> tuple[NDArray[Any], ...]:
    return (block.indptr, block.indices, block.data) if is_sparse(block) else (block,)
