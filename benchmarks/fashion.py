"""The data set Fashion from the files of Fashion-MNIST: three images of one class are the views of a sample.

`fashion_images.npy` names the images of the benchmark's file by the first bytes of their sha256 (n, 3, 5), so
that the same file can be made by everyone who has the images.
"""

import gzip
import hashlib
import math
import struct
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.datasets import DATASETS
from protocol_mvc.exceptions import DataFileError

Bytes = NDArray[np.uint8]
PARTS = ("train", "t10k")
CHOSEN = Path(__file__).with_name("fashion_images.npy")


def rebuild_fashion(
    source: Annotated[
        Path,
        typer.Option("--from", help="Folder with train- and t10k-images-idx3-ubyte and the labels, or .gz."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("fashion.npz"),
) -> None:
    """Make the file of the data set Fashion from the files of Fashion-MNIST."""
    images, labels = read_fashion_mnist(source)
    np.savez_compressed(output, **pair_images(images, labels, np.load(CHOSEN)))
    found = hashlib.sha256(output.read_bytes()).hexdigest()
    same = "as expected" if found == DATASETS["fashion"].sha256 else "another compression of the same arrays"
    typer.echo(f"{output}: sha256 {found}, {same}")


def read_fashion_mnist(folder: Path) -> tuple[Bytes, Bytes]:
    """Return all images (n, 784) and labels (n,) of the training and the test part."""
    images = [_read_idx(folder, f"{part}-images-idx3-ubyte") for part in PARTS]
    labels = [_read_idx(folder, f"{part}-labels-idx1-ubyte") for part in PARTS]
    return np.concatenate([x.reshape(len(x), -1) for x in images]), np.concatenate(labels)


def _read_idx(folder: Path, name: str) -> Bytes:
    """Return the array of an IDX file: two zeros, type, number of axes, sizes, and the bytes."""
    for path, read in ((folder / name, Path.read_bytes), (folder / f"{name}.gz", _read_gzip)):
        if path.exists():
            data = read(path)
            sizes = struct.unpack_from(f">{data[3]}I", data, 4) if data[:3] == b"\0\0\x08" else ()
            if not sizes or len(data) != 4 + 4 * len(sizes) + math.prod(sizes):
                raise DataFileError(f"File {path} is damaged, or no IDX file of bytes: get it again.")
            return np.frombuffer(data, np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)
    raise FileNotFoundError(f"There is no file {folder / name} or {name}.gz: get it from Fashion-MNIST.")


def _read_gzip(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def digests(images: Bytes, n_bytes: int) -> list[bytes]:
    """Return the first bytes of the sha256 of every image (n, 784)."""
    return [hashlib.sha256(image.tobytes()).digest()[:n_bytes] for image in images]


def pair_images(images: Bytes, labels: Bytes, chosen: Bytes) -> dict[str, Any]:
    """Return the arrays of the data set.

    Args:
        images: all images (n, 784).
        labels: their classes (n,).
        chosen: digests of the images of each sample and view (m, V, n_bytes).
    """
    row = {digest: i for i, digest in enumerate(digests(images, chosen.shape[2]))}
    wanted = [[row.get(digest.tobytes(), -1) for digest in sample] for sample in chosen]
    rows = np.array(wanted)  # (m, V)
    if (rows < 0).any():
        raise DataFileError(
            f"{(rows < 0).sum()} images of the data set are not in these files: get all four files again."
        )
    views = {f"view_{v}": images[rows[:, v]] for v in range(rows.shape[1])}
    return {**views, "labels": labels[rows[:, 0]].astype(np.int64)}
