"""Variables are decoded only as numbers, from this file alone, and within bounds."""

import struct
import sys

import h5py
import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csr_array
from tests.io.mat_writers import WRITERS, write_v5, write_v73

from protocol_mvc.io.matlab import read_mat

A = np.arange(24.0).reshape(6, 4)
Y = np.repeat([1.0, 2.0], 3)
NESTED = np.array([[A[0], Y]], dtype=object)


def test_doubles_are_doubles_however_they_are_stored(tmp_path):
    savemat(tmp_path / "set.mat", {"X": A, "Y": Y}, format="4")
    assert read_mat(tmp_path / "set.mat").views[0].dtype == np.float64
    path = write_v5(tmp_path / "set.mat", {"X": A, "Y": Y})
    # As MATLAB saves whole numbers: an array of class double (6) whose values are bytes (type 2).
    stored, small = A.ravel(order="F").astype("<f8").tobytes(), A.ravel(order="F").astype("u1").tobytes()
    long, short = struct.pack("<II", 9, len(stored)) + stored, struct.pack("<II", 2, len(small)) + small
    whole = path.read_bytes()
    at = whole.index(long)
    begin = whole.rindex(struct.pack("<I", 14), 0, at)
    size = struct.unpack_from("<I", whole, begin + 4)[0] - len(long) + len(short)
    head = whole[:begin] + struct.pack("<II", 14, size) + whole[begin + 8 : at]
    path.write_bytes(head + short + whole[at + len(long) :])
    (read,) = read_mat(path).views
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read, A)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize(
    "views", [{"X": [A, A]}, {"X1": A}, {"X": [csr_array(A)]}], ids=["cell", "full", "sparse"]
)
def test_contents_beyond_the_limit_are_refused(tmp_path, write, views):
    path = write(tmp_path / "set.mat", {**views, "Y": Y})
    with pytest.raises(ValueError, match=r"set\.mat: its arrays take .* GiB allowed.*max_bytes"):
        read_mat(path, max_bytes=10)
    assert read_mat(path, max_bytes=10_000).views


def huge_array(file):
    file.create_dataset("X1", shape=(2**20, 2**20), dtype="f8", chunks=(64, 64))


def huge_cell(file):
    file.create_dataset("X", shape=(2**40, 1), dtype=h5py.ref_dtype, chunks=(64, 1))


def huge_sparse(file):
    file.create_group("fea").attrs["MATLAB_sparse"] = 2**40


@pytest.mark.parametrize("put", [huge_array, huge_cell, huge_sparse])
def test_sizes_are_checked_before_memory_is_taken(tmp_path, put):
    with h5py.File(tmp_path / "set.mat", "w") as file:
        put(file)
    with pytest.raises(ValueError, match="max_bytes"):
        read_mat(tmp_path / "set.mat")


def wrong_index(file):
    group = file.create_group("X1")
    group.attrs["MATLAB_sparse"] = 6
    group["jc"], group["ir"], group["data"] = [0, 1], [2**62], [1.0]


def a_struct(file):
    file.create_group("X1")["field"] = A


def other_file(file):
    file["X1"] = h5py.ExternalLink("secret.h5", "X1")


def raw_file(file):
    file.create_dataset("X1", shape=(6, 4), dtype="f8", external=[("secret.bin", 0, 192)])


def virtual(file):
    layout = h5py.VirtualLayout((6, 4), dtype="f8")
    layout[:] = h5py.VirtualSource("secret.h5", "X1", (6, 4))
    file.create_virtual_dataset("X1", layout)


def sparse_elsewhere(file):
    group = file.create_group("X1")
    group.attrs["MATLAB_sparse"] = 6
    group["jc"] = h5py.ExternalLink("secret.h5", "X1")


def text(file):
    file["X1"] = np.full((6, 4), 65, dtype=np.uint16)
    file["X1"].attrs["MATLAB_class"] = np.bytes_("char")


def strings(file):
    file["X1"] = ["some", "words"]


def nested(file):
    file["X1"] = np.array(
        [[file.create_dataset("c", data=[file.ref], dtype=h5py.ref_dtype).ref]], h5py.ref_dtype
    )


def nowhere(file):
    file.create_dataset("X1", shape=(1, 1), dtype=h5py.ref_dtype)


def nothing(file):
    file.create_dataset("X1", data=h5py.Empty("f8"))


@pytest.mark.parametrize(
    "put",
    [
        wrong_index,
        a_struct,
        other_file,
        raw_file,
        virtual,
        sparse_elsewhere,
        text,
        strings,
        nested,
        nowhere,
        nothing,
    ],
)
def test_what_is_no_matrix_in_a_file_of_v73_is_refused(tmp_path, monkeypatch, put):
    monkeypatch.chdir(tmp_path)
    with h5py.File("secret.h5", "w") as secret:
        secret["X1"] = A.T
    A.tofile("secret.bin")
    with h5py.File("set.mat", "w") as file:
        put(file)
        file["Y"] = Y
    with pytest.raises(ValueError, match=r"^File set\.mat"):
        read_mat("set.mat")


@pytest.mark.parametrize(
    "value",
    [
        np.array(["text"] * 6),
        {"field": A},
        A + 1j,
        csr_array(A + 1j),
        [NESTED, A],
        ["words", A],
        np.array([[{"a": 1}, A]], dtype=object),
    ],
    ids=["text", "struct", "complex", "sparse complex", "nested", "words", "objects"],
)
def test_what_is_no_matrix_in_a_file_of_v5_is_refused(tmp_path, value):
    path = write_v5(tmp_path / "set.mat", {"X": value, "Y": Y})
    with pytest.raises(ValueError, match=r"set\.mat: (the variable X\S*|one of X, Y) holds .*: store"):
        read_mat(path)


def test_an_array_of_one_axis_is_a_column(tmp_path):
    with h5py.File(tmp_path / "set.mat", "w") as file:
        file["X1"], file["Y"] = Y, Y
    np.testing.assert_array_equal(read_mat(tmp_path / "set.mat").views[0], Y[:, None])


def test_an_empty_matrix_of_v73_is_refused(tmp_path):
    with h5py.File(tmp_path / "set.mat", "w") as file:
        file["X1"], file["Y"] = np.array([[6, 0]], dtype=np.uint64), Y
        file["X1"].attrs["MATLAB_empty"] = 1
    with pytest.raises(ValueError, match="X1 is empty"):
        read_mat(tmp_path / "set.mat")


def test_without_h5py_one_line_tells_what_to_install(tmp_path, monkeypatch):
    path = write_v73(tmp_path / "set.mat", {"X": [A], "Y": Y})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ModuleNotFoundError, match=r"set\.mat.*pip install 'protocol-mvc\[mat73\]'"):
        read_mat(path)
    write_v5(path, {"X": [A], "Y": Y})
    assert read_mat(path).views
