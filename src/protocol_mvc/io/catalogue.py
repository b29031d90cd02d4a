"""The data sets known by name: what they are, and how their files are recognised."""

from typing import NamedTuple


class Dataset(NamedTuple):
    """A named set; its `.npz` file is verified by the hash, and by the sizes where there is no hash.

    The sizes are those of the paper's sets, which are read from `.mat` files too.
    """

    sha256: str
    description: str
    samples: int = 0
    classes: int = 0
    dims: tuple[int, ...] = ()
    alternatives: tuple[str, ...] = ()  # names that the literature gives to its `.mat` file
    surplus: int = 0  # columns that its circulated file has at the end of each view, unused by the papers

    @property
    def has_file(self) -> bool:
        """Whether the set has to be read, being no part of the library."""
        return bool(self.sha256 or self.dims)

    @property
    def sizes(self) -> str:
        """The sizes in words."""
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
