"""Plain HDF5 files: views by path, nothing from elsewhere."""

import h5py
import numpy as np
import pytest
from tests.io.samples import IDS, KIND, A, B

from protocol_mvc.data import checks, memmap
from protocol_mvc.data.checks import is_mapped
from protocol_mvc.exceptions import DataError
from protocol_mvc.io import convert, hdf5, limits, read_views
from protocol_mvc.io.hdf5 import get_member, open_hdf5


@pytest.fixture
def path(tmp_path):
    return tmp_path / "set.h5"


def test_views_lie_in_groups_and_text_comes_in_two_ways(path):
    with h5py.File(path, "w") as file:
        file["one/a"], file["two/b"], file["labels"] = A, B, KIND.astype("S")
        file["ids"] = IDS.astype(object)
        file["note"] = "words"
        file["nothing"] = h5py.Empty("f8")
    loaded = read_views(path)
    assert loaded.views.names == ("one/a", "two/b")
    assert loaded.views.sample_ids.tolist() == IDS.tolist()
    assert loaded.y is not None
    assert loaded.y.tolist() == KIND.astype(str).tolist()


def test_a_circle_of_groups_ends(path):
    with h5py.File(path, "w") as file:
        file["g/a"] = A
        file["g/again"] = file["/"]
    with open_hdf5(path) as arrays:
        assert list(arrays) == ["g/a"]


def external(file):
    file["a"] = h5py.ExternalLink("secret.h5", "a")


def soft(file):
    file["a"] = h5py.SoftLink("/b")


@pytest.mark.parametrize("link", [external, soft])
def test_links_are_not_followed(path, monkeypatch, link):
    monkeypatch.chdir(path.parent)
    with h5py.File("secret.h5", "w") as secret:
        secret["a"] = A
    with h5py.File(path, "w") as file:
        file["b"] = np.nan_to_num(B)
        link(file)
        with pytest.raises(DataError, match="'a' in '/' is a link"):
            get_member(file, "a")
    assert read_views(path).views.names == ("b",)


def raw_file(file):
    file.create_dataset("a", shape=A.shape, dtype="f8", external=[("secret.bin", 0, A.nbytes)])


def virtual(file):
    layout = h5py.VirtualLayout(A.shape, dtype="f8")
    layout[:] = h5py.VirtualSource("secret.h5", "a", A.shape)
    file.create_virtual_dataset("a", layout)


@pytest.mark.parametrize("put", [raw_file, virtual])
def test_values_of_other_files_are_refused(path, monkeypatch, put):
    monkeypatch.chdir(path.parent)
    A.tofile("secret.bin")
    with h5py.File("secret.h5", "w") as secret:
        secret["a"] = A
    with h5py.File(path, "w") as file:
        put(file)
    with pytest.raises(ValueError, match=r"set\.h5: .*'/a' .*another file"):
        read_views(path)


def test_sizes_are_checked_before_memory_is_taken(path, monkeypatch):
    with h5py.File(path, "w") as file:
        file.create_dataset("a", shape=(2**20, 2**20), dtype="f8", chunks=(64, 64))
    with pytest.raises(ValueError, match=r"set\.h5: '/a' takes .* only 0 bytes"):
        read_views(path)
    with h5py.File(path, "w") as file:
        file["a"] = A
    monkeypatch.setenv(limits.MAX_MEMORY, str(A.nbytes - 1))
    with pytest.raises(ValueError, match=r"set\.h5: its contents take"):
        read_views(path)


def test_missing_elements_are_named(path):
    with h5py.File(path, "w") as file:
        file["a"] = A
        with pytest.raises(DataError, match=r"no 'b' in '/', only \['a'\]"):
            get_member(file, "b")


@pytest.fixture
def all_are_large(monkeypatch):
    monkeypatch.setattr(memmap, "LARGE", 0)


@pytest.mark.parametrize(
    ("chunks", "large", "height"),
    [((6, 2), 2**28, 6), ((3, 1), 2**28, 6), ((100, 1), 2**28, 100), ((100, 1), 800, 25), (None, 2**28, 4)],
    ids=str,
)
def test_chunks_are_decoded_once_if_memory_allows_it(path, monkeypatch, chunks, large, height):
    monkeypatch.setattr(checks, "CHUNK_BYTES", 4 * 8 * 4)  # four rows
    monkeypatch.setattr(hdf5, "LARGE", large)
    heights: list[int] = []
    monkeypatch.setattr(hdf5, "to_memmap", lambda *args: heights.extend(len(block) for block in args[-1]))
    with h5py.File(path, "w") as file:
        hdf5.map_dataset(file.create_dataset("a", data=np.ones((100, 4)), chunks=chunks))
    assert set(heights[:-1] or heights) == {height}
    assert sum(heights) == 100


def test_large_matrices_are_mapped_and_take_no_memory(path, monkeypatch, all_are_large):
    with h5py.File(path, "w") as file:
        file["a"], file["labels"] = A, KIND.astype("S")
        file.create_dataset("b", data=B, chunks=True, compression="gzip")
    monkeypatch.setenv(limits.MAX_MEMORY, str(KIND.nbytes))
    views = read_views(path).views
    assert all(map(is_mapped, views.arrays))
    assert np.array_equal(np.asarray(views.arrays[0]), A, equal_nan=True)
    assert np.array_equal(np.asarray(views.arrays[1]), B, equal_nan=True)
    again = read_views(convert(path, path.with_suffix(""))).views
    assert np.array_equal(np.asarray(again.arrays[1]), B, equal_nan=True)
