"""What MATLAB writes passes with its size; what is built otherwise never gets to scipy."""

import struct
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.io import savemat
from scipy.sparse import csc_array
from tests.io.mat_writers import write_v5
from tests.io.temporary import folder

from protocol_mvc.exceptions import DataError
from protocol_mvc.io.forked import check_survival
from protocol_mvc.io.matlab import read_mat
from protocol_mvc.io.matlab_tags import check_variables

A = np.arange(12.0).reshape(4, 3)
Y = np.array([0.0, 1, 1, 0])


@given(
    arrays(st.sampled_from(["f8", "f4", "i1", "u2", "i8"]), st.tuples(st.integers(0, 4), st.integers(0, 4)))
)
def test_every_matrix_passes_with_its_size(x):
    with folder() as place:
        for compress in (False, True):
            variables = {"X": x, "long_name": [x, [x, "text"]], "Y": np.arange(3)}
            write_v5(place / "a.mat", variables, compress=compress)
            assert check_variables(place / "a.mat", ["X"]) == 8 * x.size
            assert check_variables(place / "a.mat", ["X", "Y"]) == 8 * x.size + 24
            assert check_variables(place / "a.mat", ["long_name"]) >= 16 * x.size
            assert check_variables(place / "a.mat", []) == 0


def test_sparse_and_complex_ones_pass(tmp_path):
    savemat(tmp_path / "a.mat", {"X": csc_array(A), "Z": A + 1j, "S": csc_array(A * 1j)})
    assert check_variables(tmp_path / "a.mat", ["X", "Z", "S"]) > 0


def test_v4_is_not_looked_at(tmp_path):
    savemat(tmp_path / "a.mat", {"X": A}, format="4")
    assert check_variables(tmp_path / "a.mat", ["X"]) == 0


@pytest.mark.parametrize("value", [{"field": A}, [A, {"field": A}]], ids=["struct", "struct in a cell"])
def test_only_matrices_and_cells_are_taken(tmp_path, value):
    write_v5(tmp_path / "a.mat", {"X": value, "Y": Y})
    with pytest.raises(DataError, match="the variable X holds struct values"):
        check_variables(tmp_path / "a.mat", ["X"])
    assert check_variables(tmp_path / "a.mat", ["Y"]) == 32  # what is not asked for does not matter


def element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def matrix(kind: int, dims: tuple[int, ...], *parts: bytes, flags: int = 0) -> bytes:
    head = element(6, struct.pack("<II", kind | flags, 0)) + element(5, struct.pack(f"<{len(dims)}i", *dims))
    return element(14, head + element(1, b"X") + b"".join(parts))


def file_of(variable: bytes, *, compress: bool) -> bytes:
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 256) + b"IM"
    if compress:
        packed = zlib.compress(variable)
        variable = struct.pack("<II", 15, len(packed)) + packed
    return header + variable


TWO = element(9, struct.pack("<2d", 1, 2))
COMPLEX = 0x800


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(
    "variable",
    [
        matrix(6, (1, 2), element(80, bytes(16))),
        matrix(6, (1, 2), element(14, b"")),
        matrix(6, (1, 2), TWO, element(14, b""), flags=COMPLEX),
        matrix(6, (1, 2), TWO, flags=COMPLEX),
        matrix(6, (1, 3), TWO),
        matrix(6, (2**31 - 1, 2**31 - 1), TWO),
        matrix(6, (1, 2)),
        matrix(6, (1, 2), struct.pack("<II", 9, 2**32 - 1)),
        matrix(1, (1, 2**30), matrix(6, (1, 2), TWO)),
        matrix(1, (1, 1), TWO),
        matrix(1, (1, 1), struct.pack("<II", 14, 1000)),
        matrix(5, (1, 2), TWO, TWO),
        matrix(6, tuple([1] * 2000), TWO),
        element(14, element(6, bytes(8))),
        element(9, bytes(16)),
    ],
    ids=range(15),
)
def test_what_is_not_built_as_it_says_is_refused(tmp_path, variable: bytes, compress: bool):
    (tmp_path / "a.mat").write_bytes(file_of(variable, compress=compress))
    with pytest.raises(ValueError, match=r"element|parts"):
        check_variables(tmp_path / "a.mat", ["X"])


def test_cells_in_cells_have_an_end(tmp_path):
    variable = matrix(6, (1, 2), TWO)
    for _ in range(50):
        variable = matrix(1, (1, 1), variable)
    (tmp_path / "a.mat").write_bytes(file_of(variable, compress=False))
    with pytest.raises(ValueError, match="parts do not fit"):
        check_variables(tmp_path / "a.mat", ["X"])


def test_what_unfolds_without_end_is_known_before_it_is_read(tmp_path):
    huge = matrix(1, (1, 1), matrix(6, (2**11, 2**11), element(9, bytes(2**25))))
    (tmp_path / "a.mat").write_bytes(file_of(huge, compress=True))
    assert (tmp_path / "a.mat").stat().st_size < 2**16
    with pytest.raises(ValueError, match=r"its arrays take 0\.0312 GiB"):
        read_mat(tmp_path / "a.mat", max_bytes=2**20)


@pytest.mark.skipif(sys.platform != "linux", reason="a crash must not end the tests")
def test_no_altered_byte_of_a_tag_crashes_scipy(tmp_path):
    path = write_v5(tmp_path / "a.mat", {"X": [A, A], "Y": Y})
    whole, rng = path.read_bytes(), np.random.default_rng(0)

    def read_all() -> None:
        for place in range(128, len(whole)):
            data = bytearray(whole)
            data[place] = int(rng.integers(256))
            path.write_bytes(data)
            try:
                read_mat(path)
            except ValueError:
                continue

    check_survival(read_all, path, 0)
