"""Benchmark data sets by name: what they are, where their files are, and loading with verification."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.data.digits import load_digits_views
from protocol_mvc.data.sampling import imbalanced_subset
from protocol_mvc.data.views import Views, as_views
from protocol_mvc.exceptions import DataFileError
from protocol_mvc.io.read import read_views

DATA_HOME = "PROTOCOL_DATA"  # environment variable
OWN = ":"  # in the name of a data set that is not in the list: FILE+FILE:COLUMN
DataHome = str | os.PathLike[str] | None


class Dataset(NamedTuple):
    """A data set; its `.npz` file is verified by hash or, if that is unknown, by the sizes."""

    sha256: str
    description: str
    n_samples: int = 0
    n_classes: int = 0
    n_features: tuple[int, ...] = ()  # of each view; known for the data sets of the paper
    mat_names: tuple[str, ...] = ()  # names of its `.mat` file in the literature
    n_unused: int = 0  # columns at the end of each view of that file, which the papers do not use
    half: str = ""  # of the quality benchmark: "development", "confirmation", or neither; see NOTES.md
    balanced: bool = False  # classes of equal size: the quality benchmark draws an imbalanced subset

    @property
    def has_file(self) -> bool:
        """Whether the data set is a file, and not part of a library."""
        return bool(self.sha256 or self.n_features)

    @property
    def sizes(self) -> str:
        """The sizes, for messages."""
        return f"{self.n_samples} samples, {self.n_classes} classes, views of {self.n_features} features"


DATASETS = {
    "bbcsport": Dataset(
        "ffe0493e0495fa8528007a97d064508fd2cc4c743aa2af7e4becd403a9a757d4",
        "Sport news, two views of term counts, five classes of unequal size.",
        half="development",
    ),
    "bdgp": Dataset(
        "fa90cb83d1a52baa683133ce4d13cedff8d27788eaa25edf5bf48a7f5cbe73de",
        "Drosophila embryos, image and text features.",
        half="development",
        balanced=True,
    ),
    "caltech101_7_rc": Dataset(
        "1fd8922c5d5ce9f1aaeac62b467aa0fde2d5790e1ee15ce916d23c0952cd0b8e",
        "Caltech101-7, six re-extracted image features, seven classes of unequal size.",
        half="development",
    ),
    "caltech_5v_rc": Dataset(
        "68e6e39dbfcddd3bdfefacd584cc38f8571037b8f0251865f2930db0499342c9",
        "Caltech-101 images, five re-extracted features, a stand-in for Caltech-5V.",
        half="confirmation",
        balanced=True,
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
    "digits": Dataset(
        "",
        "The 8 x 8 digits of scikit-learn, four views computed here; needs no file.",
        half="development",
        balanced=True,
    ),
    "fashion": Dataset(
        "7453b11127858cfa832a0b61c054014f6b658600aee802681584b173bc69fb56",
        "Fashion-MNIST, three images of one class as three views.",
        *(10000, 10, (784, 784, 784), ("Fashion", "Fashion_MV")),
        half="confirmation",
        balanced=True,
    ),
    "handwritten": Dataset(
        "9b64cd471ab3f45836b619bc37b840753dc947d94a84d09874cbaf657740617b",
        "UCI multiple features, six descriptions of handwritten digits.",
        half="development",
        balanced=True,
    ),
    "hdigit": Dataset(
        "c5a620353a0965f79b08e0ed174b6daa0261c245b949e5f2ed885925a4d8f8a6",
        "MNIST and USPS digits as raw pixels.",
        *(10000, 10, (784, 256), ("Hdigit",)),
        half="development",
        balanced=True,
    ),
    "mnist_usps": Dataset(
        "778f9a4a106f38c7aa93b45634ddc8cb8ed988d30ab3c63e26f580ef27bf5741",
        "MNIST and USPS digits, both 28 x 28.",
        half="confirmation",
        balanced=True,
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
    "pbmc5k_cite": Dataset(
        "e2a07914b54eaad968f4a7d883aaa468adcd3aede5b1be32d2fcc70d27ed935c",
        "CITE-seq of 5,000 blood cells: RNA counts and 29 antibody tags, seven types.",
        half="development",
    ),
    "pbmc_inhouse_cite": Dataset(
        "ceb5cc86e2caeb3a3da4080df82b7e7d8150fb2ce700c97b1b514ea7658bb9b2",
        "CITE-seq of blood cells: RNA counts and ten antibody tags, six types, one of seven cells.",
        half="confirmation",
    ),
    "cbmc_cite": Dataset(
        "609c433903d04101577072535f4f0714cc95e2a569e60d0c489f4907bb5cdd60",
        "CITE-seq of cord blood: RNA components and 13 antibody tags, twelve types.",
        half="development",
    ),
    "snare_celllines": Dataset(
        "f6d76f25c33e4d9e029142331a081d5c9834788e4c7456c04ce647a65c3a53a6",
        "RNA components and ATAC topics of four cell lines.",
        half="development",
    ),
    "bmnc2_cite": Dataset(
        "eb8db11ad7c0433334d24ffb59b759fdfd8a1a1e7bb822161246d13ac365c2c8",
        "CITE-seq of bone marrow: RNA counts and 25 antibody tags, four types.",
        half="confirmation",
    ),
    "wiki17": Dataset(
        "0d4f9e490a0a682e004f13dd7ee823a6eb5e6c7ae3551a3c00d6fa3bf31cffa9",
        "Wikipedia pages of 17 topics: TF-IDF of words, and links; some pages have no text.",
        half="confirmation",
    ),
    "ccle_rppa_metab": Dataset(
        "9404b9c5568abffa6f769eecebe887ccb0a4ae4aaa50126003687a419ae43a79",
        "Cancer cell lines of 20 tissues: proteins and metabolites.",
        half="development",
    ),
    "dermatology": Dataset(
        "293090069997ccc07d458558105ac2ffa07d1befa96021215241062b7f0fcd30",
        "UCI dermatology: clinical and histological attributes, six diagnoses.",
        half="confirmation",
    ),
    "urban_landcover": Dataset(
        "2ac5164a8cab42149a126ff4972329f6fcf0ef38bd123485dd2d113af8159f13",
        "UCI urban land cover: seven scales of segmentation, nine classes.",
        half="development",
    ),
    "ctg10": Dataset(
        "a8e904f424e4c6a1f87fb9be0c982a07923491418a2d8558326ce06ddb7a1e87",
        "UCI cardiotocography: features of the signal and of its histogram, ten patterns.",
        half="confirmation",
    ),
    "tara_oceans": Dataset(
        "2ded152ebf48c42ee688482a8f8bf061bcafca0adf057be93ea4d975dc5371ae",
        "Ocean samples: chemistry, taxa counts and gene families, four depth layers.",
        half="confirmation",
    ),
    "nci60_4arrays": Dataset(
        "c1bbdd0b173b8f00d4586812ae4b80f2fee9eb4b6d1570a88cae62d920f1ddb9",
        "60 cell lines on four expression arrays, nine tissues; a smoke test.",
    ),
    "msrcv1": Dataset(
        "cacd30924b644a0ae11ffaa2c21baf43d29b7dbe44b6171eb9e08931c917fc7f",
        "MSRC-v1 images, five features, seven classes of equal size.",
        half="confirmation",
        balanced=True,
    ),
    "webkb2": Dataset(
        "294247772d624bf97a1a31f157d4723f9343d12ee22b3bae08ccf0f07a0384c0",
        "WebKB pages by their words and by the words of links to them, two classes.",
        half="development",
    ),
}


QUALITY_RATIO = 0.1  # imbalance ratio of balanced data sets in the quality benchmark


def list_datasets() -> list[str]:
    """Return the names of all known data sets."""
    return sorted(DATASETS)


def available_datasets(data_home: DataHome = None) -> list[str]:
    """Return the names of the data sets that need no file, or whose file exists."""
    return [
        name for name in list_datasets() if not DATASETS[name].has_file or any(_find_files(name, data_home))
    ]


def load_dataset(
    name: str, *, imbalance_ratio: float | None = None, random_state: int = 0, data_home: DataHome = None
) -> tuple[Views, NDArray[np.int64]]:
    """Load a data set in random order.

    Args:
        name: one of `list_datasets()`, or the name of one's own files by `own_name`.
        imbalance_ratio: draw a subset with this ratio of smallest to largest class; None uses all samples.
        random_state: seed of the subset and of the order.
        data_home: folder of the files; see `dataset_path`.

    Returns:
        The views, and the labels (n,).

    Raises:
        ValueError: If the name is unknown, or the file is damaged or another version.
        FileNotFoundError: If the file does not exist.
        ModuleNotFoundError: If the file is a `.mat` file of v7.3 and h5py is not installed.
    """
    if OWN in name:
        views, y = _read_own(name)
    elif not _entry(name).has_file:
        return load_digits_views(imbalance_ratio=imbalance_ratio, random_state=random_state)
    else:
        views, y = _read(dataset_path(name, data_home), _entry(name))
    rows = imbalanced_subset(y, imbalance_ratio, random_state)
    return views[rows], y[rows]


def own_name(files: Iterable[Path], truth: str) -> str:
    """Return the name of a data set of one's own: its files, and the column with the true labels."""
    return "+".join(map(str, files)) + OWN + truth


def _read_own(name: str) -> tuple[Views, NDArray[np.int64]]:
    """Read the files that `own_name` named; samples without a true label are left out."""
    files, _, truth = name.rpartition(OWN)
    found = read_views(files.split("+"), labels=truth or None)
    if found.y is None:
        raise DataFileError(f"File {files} has no column of true labels: name one with --truth COLUMN.")
    rows = np.flatnonzero(found.y == found.y)  # NaN differs from itself
    return found.views[rows], np.unique(found.y[rows], return_inverse=True)[1].astype(np.int64)


def dataset_path(name: str, data_home: DataHome = None) -> Path:
    """Return the path of the `.npz` file of a data set or, for those of the paper, of its `.mat` file.

    Args:
        name: one of `list_datasets()`.
        data_home: folder of the files; by default the environment variable PROTOCOL_DATA, or else
            `~/protocol_mvc_data`. Case, hyphens and underscores of file names do not matter.

    Raises:
        ValueError: If the name is unknown, or the data set has no file.
        FileNotFoundError: If the folder has no such file.
    """
    entry = _entry(name)
    if not entry.has_file:
        raise ValueError(f"The data set {name!r} has no file: use load_dataset({name!r}).")
    for path in _find_files(name, data_home):
        return path
    files = [f"{name}.npz", *(f"{stem}.mat" for stem in entry.mat_names)]
    sizes = f" It has {entry.sizes}." if entry.n_features else ""
    raise FileNotFoundError(
        f"The data set {name!r} ({entry.description}{sizes}) is not in {_data_home(data_home)}: put "
        f"{' or '.join(files)} there, or set {DATA_HOME} to its folder."
    )


def _entry(name: str) -> Dataset:
    if name not in DATASETS:
        raise ValueError(f"Unknown data set {name!r}: use one of {list_datasets()}.")
    return DATASETS[name]


def _data_home(data_home: DataHome) -> Path:
    return Path(data_home or os.environ.get(DATA_HOME) or Path.home() / "protocol_mvc_data")


def _find_files(name: str, data_home: DataHome) -> Iterator[Path]:
    """Yield the files of a data set, `.npz` first, because its contents can be verified."""
    folder, entry = _data_home(data_home), _entry(name)
    stems = {_normalize(stem) for stem in (name, *entry.mat_names)}
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    for suffix in (".npz", ".mat") if entry.n_features else (".npz",):
        for path in files:
            if path.suffix.lower() == suffix and _normalize(path.stem) in stems and path.is_file():
                yield path


def _normalize(stem: str) -> str:
    return stem.lower().replace("-", "").replace("_", "").replace(" ", "")


def _read(path: Path, entry: Dataset) -> tuple[Views, NDArray[np.int64]]:
    if entry.sha256 and path.suffix.lower() == ".npz":
        with path.open("rb") as file:
            found_hash = hashlib.file_digest(file, "sha256").hexdigest()
        if found_hash != entry.sha256:
            raise DataFileError(f"File {path} has sha256 {found_hash}, but {entry.sha256} is expected.")
    dataset = read_views(path)
    if dataset.y is None:
        raise DataFileError(f"File {path} has no labels: add them under the name Y, one per sample.")
    arrays = list(dataset.views.arrays)
    if entry.n_unused and dataset.views.n_features == tuple(d + entry.n_unused for d in entry.n_features):
        arrays = [array[:, : -entry.n_unused] for array in arrays]
    views, y = as_views(arrays), np.unique(dataset.y, return_inverse=True)[1].astype(np.int64)
    found = entry._replace(n_samples=len(views), n_classes=int(y.max()) + 1, n_features=views.n_features)
    if entry.n_features and found != entry:
        raise DataFileError(f"File {path} has {found.sizes}, but {entry.sizes} are expected.")
    return views, y
