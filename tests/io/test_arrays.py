"""Names and shapes decide what an array is; headers are checked before memory is taken."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.samples import ARRAYS as FILE_ARRAYS
from tests.io.samples import WRITERS
from tests.io.samples import A as VIEW

from protocol_mvc.exceptions import DataError
from protocol_mvc.io import limits, read_views
from protocol_mvc.io.arrays import LazyArray, assemble, map_npy_files, open_npz, to_builtin_dtype
from protocol_mvc.io.column_roles import LABEL_NAMES

A = np.arange(12.0).reshape(6, 2)
B = np.arange(18).reshape(6, 3)
Y = np.array([0, 0, 1, 1, 2, 2])


def stored(**arrays):
    def entry(array):
        return LazyArray(array.shape, array.dtype, lambda: array)

    return {name: entry(np.asarray(array)) for name, array in arrays.items()}


def test_matrices_are_views_and_other_things_are_not():
    words, size = np.array(["x"] * 6), np.float64(3)
    views, truth, *_ = assemble(stored(b=B, a=A, words=words, size=size, weights=Y), None, None)
    assert views.names == ("b", "a")
    assert views.sample_ids.tolist() == list(range(6))
    assert truth is None


@pytest.mark.parametrize("name", LABEL_NAMES)
@pytest.mark.parametrize("shape", [(6,), (6, 1), (1, 6)])
@pytest.mark.parametrize("kind", [int, float, str])
def test_labels_are_never_a_view(name, shape, kind):
    contents = assemble(stored(**{"a": A, name: Y.astype(kind).reshape(shape)}), None, None)
    assert contents.views.names == ("a",)
    assert contents.y is not None
    assert contents.y.tolist() == Y.astype(kind).tolist()


def test_labels_of_many_columns_are_a_question():
    with pytest.raises(DataError, match=r"'y' has shape \(6, 3\)"):
        assemble(stored(a=A, y=B), None, None)
    assert assemble(stored(a=A, y=B), ["a", "y"], None).views.names == ("a", "y")


def test_truth_may_have_another_name():
    arrays = stored(a=A, labels=Y, kind=Y[::-1], wide=B)
    truth = assemble(arrays, None, "kind").y
    assert truth is not None
    assert truth.tolist() == Y[::-1].tolist()
    assert assemble(arrays, None, "kind").views.names == ("a", "wide")


def test_the_last_part_of_a_path_counts():
    contents = assemble(stored(**{"g/a": A, "g/labels": Y, "g/ids": list("uvwxyz")}), None, None)
    assert contents.views.names == ("g/a",)
    assert contents.views.sample_ids.tolist() == list("uvwxyz")
    assert contents.y is not None


def test_the_mask_marks_missing_views():
    mask = np.ones((6, 2), dtype=bool)
    mask[1, 0] = mask[4, 1] = False
    views = assemble(stored(a=A, b=B, mask=mask), None, None).views
    np.testing.assert_array_equal(views.mask, mask)
    assert views.arrays[1].dtype == B.dtype
    turned = assemble(stored(a=A, b=B, mask=mask), ["b", "a"], None).views
    np.testing.assert_array_equal(turned.mask, mask[:, ::-1])
    with pytest.raises(DataError, match=r"Row 4 \(id '4'\)"):
        assemble(stored(a=A, b=B, mask=mask), ["b"], None)


@pytest.mark.parametrize("mask", [np.ones((6, 2)), np.ones((6, 3), dtype=bool), np.ones((5, 2), dtype=bool)])
def test_a_mask_of_another_form_is_refused(mask):
    with pytest.raises(DataError, match="'mask'"):
        assemble(stored(a=A, b=B, mask=mask), None, None)


@pytest.mark.parametrize(
    ("arrays", "views", "message"),
    [
        ({"y": Y}, None, r"only y int64 \(6,\)"),
        ({}, None, "only nothing"),
        ({"a": A.astype(str)}, None, "no numeric matrix"),
        ({"a": A, "c": np.zeros((6, 2, 2))}, None, r"'c' has shape \(6, 2, 2\)"),
        ({"a": A, "b": B[:4]}, None, "'a' has 6 rows but view 'b' has 4"),
        ({"a": A, "b": np.where(B == 4, np.nan, B)}, None, "'b' has NaN at row 1, column 1"),
        ({"a": A}, ["c"], r"'c', only a float64 \(6, 2\)"),
        ({"a": A}, [], "no view is named"),
        ({"a": A, "w": list("uvwxyz")}, ["w"], "'w' has <U1 values"),
        ({"a": A, "w": Y}, ["w"], "View 'w'.*1D"),
        ({"a": A, "labels": Y[:5]}, None, r"'labels' has shape \(5,\)"),
        ({"a": A, "ids": Y[:5]}, None, r"'ids' has shape \(5,\)"),
        ({"a": A, "labels": np.where(Y == 1, np.nan, Y)}, None, r"row 2 \(id '2'\) is nan"),
    ],
)
def test_what_does_not_fit_is_refused(arrays, views, message):
    with pytest.raises(DataError, match=message):
        assemble(stored(**arrays), views, None)


def test_only_what_is_used_is_read_and_counted(monkeypatch):
    def never():
        raise AssertionError("read")

    monkeypatch.setenv(limits.MAX_MEMORY, str(A.nbytes))
    arrays = stored(a=A) | {"huge": LazyArray((10**9, 10**9), np.dtype(float), never)}
    assert assemble(arrays, ["a"], None).views.names == ("a",)
    with pytest.raises(DataError, match="GiB"):
        assemble(arrays, None, None)


texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1)
values = st.one_of(st.lists(texts), st.lists(st.integers(-9, 9)))


@given(values)
def test_plain_values_are_the_same_without_objects(listed):
    array = to_builtin_dtype(np.array(listed, dtype=object))
    assert array.dtype.kind in "iUf"
    assert array.tolist() == listed


def test_bytes_are_text_and_mixtures_too():
    assert to_builtin_dtype(np.array([b"a", "\u00e9".encode()])).tolist() == ["a", "\u00e9"]
    assert to_builtin_dtype(np.array([b"a", "b"], dtype=object)).tolist() == ["a", "b"]
    assert to_builtin_dtype(np.array([1, "b"], dtype=object)).tolist() == ["1", "b"]
    assert to_builtin_dtype(np.array(["2020-01-01"], dtype="datetime64[D]")).tolist() == ["2020-01-01"]


def entry(array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def claiming(shape, descr="<f8", body=b"") -> bytes:
    """An array whose header message what is not so."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return bytes(file.getvalue() + body)


def archive(path: Path, method=zipfile.ZIP_STORED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def test_arrays_come_in_the_order_of_the_file(tmp_path):
    with open_npz(WRITERS["compressed npz"](tmp_path)) as arrays:
        assert list(arrays) == list(FILE_ARRAYS)
        for name, array in FILE_ARRAYS.items():
            assert (arrays[name].shape, arrays[name].dtype) == (array.shape, array.dtype)
            np.testing.assert_array_equal(arrays[name].load(), array)


class Trap:
    def __reduce__(self):
        return (Path("/tmp/trap").touch, ())


def test_pickled_objects_are_refused_and_never_run(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "touch", lambda *args: pytest.fail("ran"))
    trap = np.array([[Trap()]], dtype=object)
    np.savez(tmp_path / "trap.npz", a=VIEW, b=trap)
    np.save(tmp_path / "trap.npy", trap)
    for path in (tmp_path / "trap.npz", tmp_path / "trap.npy"):
        with pytest.raises(ValueError, match=r"trap\.np"):
            read_views(path)
    (tmp_path / "trap.npz").write_bytes(b"\x80\x04\x95")  # the beginning of a bare pickle
    with pytest.raises(ValueError, match=r"cannot be read as \.npz data"):
        read_views(tmp_path / "trap.npz")


def test_an_archive_that_swells_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SMALL", 10**5)
    monkeypatch.setattr(limits, "MAX_RATIO", 100)
    zeros = entry(np.zeros((1000, 1000), dtype=np.int8))
    path = archive(tmp_path / "bomb.npz", zipfile.ZIP_DEFLATED, a=zeros)
    with pytest.raises(ValueError, match=r"bomb\.npz: 'a\.npy' takes 1 MiB"):
        read_views(path)


def test_arrays_beyond_the_limit_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(limits.MAX_MEMORY, str(VIEW.nbytes - 1))
    with pytest.raises(ValueError, match=r"set\.npz: its contents take .* GiB"):
        read_views(WRITERS["npz"](tmp_path))


@pytest.mark.parametrize("shape", [(2**30, 2**30), (9, 3)])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_header_that_lies_is_refused_before_memory_is_taken(tmp_path, shape, method):
    path = archive(tmp_path / "lie.npz", method, a=claiming(shape, body=VIEW.tobytes()))
    with pytest.raises(ValueError, match=r"lie\.npz"):
        read_views(path)


@pytest.mark.parametrize("content", [b"", b"words", b"\x93NUMPY\x09\x00", claiming((6,), descr="nonsense")])
def test_members_that_are_no_arrays_are_refused(tmp_path, content):
    with pytest.raises(ValueError, match=r"odd\.npz"):
        read_views(archive(tmp_path / "odd.npz", a=entry(VIEW), note=content))


def test_altered_values_are_noticed(tmp_path):
    path = archive(tmp_path / "bad.npz", a=entry(VIEW))
    whole = path.read_bytes()
    at = whole.index(VIEW[-1].tobytes())
    path.write_bytes(whole[:at] + b"\1" + whole[at + 1 :])
    with pytest.raises(ValueError, match=r"bad\.npz cannot be read as \.npz data \(Bad CRC"):
        read_views(path)


def test_files_are_mapped_and_not_read(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.nan_to_num(VIEW))
    monkeypatch.setenv(limits.MAX_MEMORY, str(0))
    mapped = map_npy_files({"a": tmp_path / "a.npy"})["a"].load()
    assert isinstance(mapped, np.memmap)
    array = read_views(tmp_path / "a.npy").views.arrays[0]
    assert isinstance(array, np.ndarray)
    assert isinstance(array.base, np.memmap) or isinstance(array, np.memmap)
    assert not array.flags.writeable


def test_an_array_cut_short_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", VIEW)
    whole = (tmp_path / "a.npy").read_bytes()
    for length in (5, 9, 60, 128, 130, len(whole) - 1):
        (tmp_path / "a.npy").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"^File .*a\.npy"):
            read_views(tmp_path)
