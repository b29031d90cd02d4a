"""The data set Fashion is made from files of the layout of Fashion-MNIST."""

import gzip
import hashlib
import struct

import numpy as np
import pytest
from benchmarks import fashion
from benchmarks.datasets import DATASETS, dataset_path
from benchmarks.fashion import CHOSEN, PARTS, digests, pair_images, read_fashion_mnist

from protocol_mvc.exceptions import DataFileError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (12, 28, 28), dtype=np.uint8)
LABELS = np.repeat([0, 1], 6).astype(np.uint8)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(folder, images=IMAGES, labels=LABELS, *, compress=False):
    """Write the first two thirds as the training part, and the rest as the test part."""
    cut = 2 * len(images) // 3
    for part, rows in zip(PARTS, (slice(cut), slice(cut, None)), strict=True):
        for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            data = idx(array[rows])
            path = folder / (f"{name}.gz" if compress else name)
            path.write_bytes(gzip.compress(data) if compress else data)


@pytest.mark.parametrize("compress", [False, True])
def test_files_are_read_as_they_were_written(tmp_path, compress):
    write(tmp_path, compress=compress)
    images, labels = read_fashion_mnist(tmp_path)
    np.testing.assert_array_equal(images, IMAGES.reshape(12, 784))
    np.testing.assert_array_equal(labels, LABELS)


def test_images_are_found_wherever_they_are():
    flat, rows = IMAGES.reshape(12, 784), np.array([[0, 1, 2], [6, 7, 8], [5, 4, 3]])
    chosen = np.array([[list(d) for d in digests(flat[sample], 5)] for sample in rows], np.uint8)
    order = RNG.permutation(12)
    found = pair_images(flat[order], LABELS[order], chosen)
    np.testing.assert_array_equal(found["labels"], [0, 1, 0])
    for v in range(3):
        np.testing.assert_array_equal(found[f"view_{v}"], flat[rows[:, v]])
    with pytest.raises(DataFileError, match="9 images"):
        pair_images(flat[9:], LABELS[9:], chosen)


def test_damaged_and_absent_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="train-images"):
        read_fashion_mnist(tmp_path)
    write(tmp_path)
    path = tmp_path / "t10k-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataFileError, match="t10k-labels"):
        read_fashion_mnist(tmp_path)


def test_the_file_of_the_benchmark_is_made_again(tmp_path):
    try:
        known = np.load(dataset_path("fashion"))
    except FileNotFoundError:
        pytest.skip("the data set is not available")
    images = np.concatenate([known[f"view_{v}"] for v in range(3)])
    order = RNG.permutation(len(images))
    write(tmp_path, images[order].reshape(-1, 28, 28), np.tile(known["labels"], 3)[order].astype(np.uint8))
    fashion.rebuild_fashion(tmp_path, tmp_path / "fashion.npz")
    found = np.load(tmp_path / "fashion.npz")
    assert all((found[name] == known[name]).all() for name in known)


def test_the_chosen_images_have_the_sizes_of_the_data_set():
    chosen, entry = np.load(CHOSEN), DATASETS["fashion"]
    assert chosen.shape[:2] == (entry.n_samples, len(entry.n_features))
    assert len({hashlib.sha256(d.tobytes()).hexdigest() for d in chosen.reshape(-1, 5)}) > 29_000
