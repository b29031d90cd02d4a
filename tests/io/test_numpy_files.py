"""Archives and arrays are checked by their headers before memory is taken, and nothing in them is run."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.io.samples import ARRAYS, WRITERS, A

from protocol_mvc.exceptions import DataError
from protocol_mvc.io import limits, read_views
from protocol_mvc.io.numpy_files import map_files, open_archive


def entry(array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def claiming(shape, descr="<f8", body=b"") -> bytes:
    """An array whose header says what is not so."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return bytes(file.getvalue() + body)


def archive(path: Path, method=zipfile.ZIP_STORED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def test_arrays_come_in_the_order_of_the_file(tmp_path):
    with open_archive(WRITERS["compressed npz"](tmp_path)) as arrays:
        assert list(arrays) == list(ARRAYS)
        for name, array in ARRAYS.items():
            assert (arrays[name].shape, arrays[name].dtype) == (array.shape, array.dtype)
            np.testing.assert_array_equal(arrays[name].load(), array)


class Trap:
    def __reduce__(self):
        return (Path("/tmp/trap").touch, ())


def test_pickled_objects_are_refused_and_never_run(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "touch", lambda *args: pytest.fail("ran"))
    trap = np.array([[Trap()]], dtype=object)
    np.savez(tmp_path / "trap.npz", a=A, b=trap)
    np.save(tmp_path / "trap.npy", trap)
    for path in (tmp_path / "trap.npz", tmp_path / "trap.npy"):
        with pytest.raises(ValueError, match=r"trap\.np.: '(b|trap)' is an array of Python objects"):
            read_views(path)
    (tmp_path / "trap.npz").write_bytes(b"\x80\x04\x95")  # the beginning of a bare pickle
    with pytest.raises(ValueError, match=r"cannot be read as an \.npz archive"):
        read_views(tmp_path / "trap.npz")


def test_an_archive_that_swells_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SMALL", 10**5)
    monkeypatch.setattr(limits, "MAX_RATIO", 100)
    zeros = entry(np.zeros((1000, 1000), dtype=np.int8))
    path = archive(tmp_path / "bomb.npz", zipfile.ZIP_DEFLATED, a=zeros)
    with pytest.raises(ValueError, match=r"bomb\.npz: 'a' takes 1 MiB but only \d+ bytes"):
        read_views(path)


def test_arrays_beyond_the_limit_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_BYTES", A.nbytes - 1)
    with pytest.raises(ValueError, match=r"set\.npz: its arrays take .* GiB"):
        read_views(WRITERS["npz"](tmp_path))


@pytest.mark.parametrize("shape", [(2**30, 2**30), (9, 3), (7, 3)])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_header_that_lies_is_refused_before_memory_is_taken(tmp_path, shape, method):
    path = archive(tmp_path / "lie.npz", method, a=claiming(shape, body=A.tobytes()))
    with pytest.raises(ValueError, match=r"lie\.npz: its member 'a' has \d+ bytes where its header asks for"):
        read_views(path)


def test_a_directory_that_lies_is_refused(tmp_path):
    path = archive(tmp_path / "lie.npz", zipfile.ZIP_DEFLATED, a=entry(A))
    whole = path.read_bytes()
    true = len(entry(A)).to_bytes(4, "little")
    assert whole.count(true) == 2
    path.write_bytes(whole.replace(true, (2**31).to_bytes(4, "little")))
    with pytest.raises(ValueError, match=r"lie\.npz"):
        read_views(path)


def test_members_that_overlap_are_refused(tmp_path):
    path = archive(tmp_path / "lie.npz", a=entry(A))
    with zipfile.ZipFile(path, "a") as file:
        for name in "bcd":
            twin = zipfile.ZipInfo(f"{name}.npy")
            first = file.infolist()[0]
            twin.header_offset, twin.CRC = first.header_offset, first.CRC
            twin.compress_size, twin.file_size = first.compress_size, first.file_size
            file.filelist.append(twin)
        file._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"lie\.npz: its members overlap"):
        read_views(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(tmp_path, method):
    with pytest.raises(ValueError, match="'a' is compressed in a way that numpy never uses"):
        read_views(archive(tmp_path / "odd.npz", method, a=entry(A)))


@pytest.mark.parametrize("content", [b"", b"words", b"\x93NUMPY\x09\x00", claiming((6,), descr="nonsense")])
def test_members_that_are_no_arrays_are_refused(tmp_path, content):
    with pytest.raises(ValueError, match=r"odd\.npz: its part 'note' is no array of numpy"):
        read_views(archive(tmp_path / "odd.npz", a=entry(A), note=content))


def test_altered_values_are_noticed(tmp_path):
    path = archive(tmp_path / "bad.npz", a=entry(A))
    whole = path.read_bytes()
    at = whole.index(A[-1].tobytes())
    path.write_bytes(whole[:at] + b"\1" + whole[at + 1 :])
    with pytest.raises(ValueError, match=r"bad\.npz cannot be read as an \.npz archive \(Bad CRC"):
        read_views(path)


def test_files_are_mapped_and_not_read(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.nan_to_num(A))
    monkeypatch.setattr(limits, "MAX_BYTES", 0)
    mapped = map_files([tmp_path / "a.npy"])["a"].load()
    assert isinstance(mapped, np.memmap)
    array = read_views(tmp_path / "a.npy").views.arrays[0]
    assert isinstance(array, np.ndarray)
    assert isinstance(array.base, np.memmap) or isinstance(array, np.memmap)
    assert not array.flags.writeable


def test_an_array_cut_short_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", A)
    whole = (tmp_path / "a.npy").read_bytes()
    for length in (5, 9, 60, 128, 130, len(whole) - 1):
        (tmp_path / "a.npy").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"^File .*a\.npy"):
            read_views(tmp_path)


def test_a_refusal_of_an_archive_is_without_its_name(tmp_path):
    with pytest.raises(DataError, match=r"^its part"), open_archive(archive(tmp_path / "x.npz", a=b"")):
        pass
