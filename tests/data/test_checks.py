"""One view: what counts as a matrix, and which rows are present."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import coo_array, csr_array, csr_matrix

from protocol_mvc.data import checks
from protocol_mvc.data.checks import as_matrix, drop_cached_pages, is_mapped, present_rows, row_slices

IDS = np.arange(9)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float16", "float32", "float64"])
def test_numeric_arrays_are_kept_without_copy_or_conversion(dtype):
    x = np.ones((3, 2), dtype=dtype)
    matrix = as_matrix(x, "a")
    assert matrix.dtype == x.dtype
    assert np.shares_memory(matrix, x)


def test_memory_maps_are_not_copied(tmp_path):
    x = np.memmap(tmp_path / "x", dtype=np.float32, mode="w+", shape=(4, 3))
    assert np.shares_memory(as_matrix(x, "a"), x)


@pytest.mark.parametrize("container", [csr_array, csr_matrix, coo_array])
def test_sparse_becomes_csr_with_each_cell_stored_once(container):
    x = container(([1.0, 2.0, 3.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    matrix: Any = as_matrix(x, "a")
    assert matrix.format == "csr"
    assert matrix.nnz == 2
    np.testing.assert_array_equal(matrix.toarray(), [[0, 3], [3, 0]])
    assert x.nnz >= 2  # the caller's object still stands


def test_a_csr_matrix_that_stores_a_cell_twice_is_left_as_it_is():
    x = csr_array(([1.0, 2.0, 3.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    matrix: Any = as_matrix(x, "a")
    assert (matrix.nnz, x.nnz) == (2, 3)
    np.testing.assert_array_equal(matrix.toarray(), [[0, 3], [3, 0]])


@pytest.mark.parametrize(
    "x",
    [
        [[1, 2], [3, 4]],
        pd.DataFrame({"p": [1, 3], "q": [2, 4]}),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True),
        np.array([[1, 2], [3, 4]], dtype=object),
    ],
)
def test_other_tables_become_numeric_arrays(x):
    np.testing.assert_array_equal(as_matrix(x, "a"), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("bad", "kind", "message"),
    [
        (None, ValueError, "None"),
        ([], ValueError, "1D array"),
        (np.ones(3), ValueError, "1D array"),
        (np.ones((2, 2, 2)), ValueError, "dim 3"),
        (np.ones((0, 3)), ValueError, r"0 sample\(s\)"),
        (
            np.ones((12, 0)),
            ValueError,
            r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1 is required",
        ),
        (np.ones((2, 2)) * 1j, ValueError, "Complex data not supported"),
        (np.array([["a", "b"]]), ValueError, "strings"),
        (pd.DataFrame({"p": ["a", "b"]}), ValueError, "could not convert string"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), ValueError, "datetime64"),
        (np.array([[{"foo": "bar"}]], dtype=object), TypeError, "argument must be .* string.* number"),
        ([[1, 2], [3]], ValueError, "inhomogeneous"),
        (np.ones((2, 2), dtype=np.longdouble), ValueError, "has dtype float128|has dtype float96|longdouble"),
        (torch.ones(2, 2, dtype=torch.bfloat16), TypeError, "BFloat16"),
    ],
)
def test_everything_else_is_refused_by_name_of_the_view(bad, kind, message):
    with pytest.raises(kind, match=f"(?s)View 'eyes'.*{message}"):
        as_matrix(bad, "eyes")


def test_all_nan_rows_are_absent():
    x = np.array([[1.0, 2.0], [np.nan, np.nan], [3.0, 4.0]])
    np.testing.assert_array_equal(present_rows(x, "a", IDS), [True, False, True])


def test_integers_are_always_present():
    assert present_rows(np.ones((3, 2), dtype=int), "a", IDS).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.asarray, csr_array])
@pytest.mark.parametrize("chunk", [1, 2**24])
def test_a_bad_cell_is_named(monkeypatch, value, make, chunk):
    monkeypatch.setattr(checks, "CHUNK_BYTES", chunk)
    x = np.ones((4, 3))
    x[2, 1] = value
    what = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=f"'a' has {what}.* row 2, column 1"):
        present_rows(make(x), "a", IDS)


def test_a_bad_cell_is_named_by_its_id():
    with pytest.raises(ValueError, match=r"row 1 \(id 'q'\)"):
        present_rows(np.array([[1.0, 1], [1, np.inf]]), "a", np.array(["p", "q"]))


@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_row_slices_cover_all_rows_in_bounded_steps(monkeypatch, make):
    monkeypatch.setattr(checks, "CHUNK_BYTES", 100)
    x = make(np.ones((10, 4)))
    slices = list(row_slices(x))
    assert [i for s in slices for i in range(10)[s]] == list(range(10))
    assert all((s.stop - s.start) * 4 * 8 <= 100 for s in slices)


def test_masked_arrays_are_refused():
    with pytest.raises(ValueError, match="View 'a' is a masked array"):
        as_matrix(np.ma.masked_array(np.ones((2, 2)), np.eye(2, dtype=bool)), "a")


@pytest.mark.parametrize(
    "bad", [np.ones(500), np.ones((2, 2, 2)), np.full((2, 2), "x\ny"), [["x" * 9000]]], ids=range(4)
)
def test_refusals_are_one_short_line(bad):
    with pytest.raises(ValueError, match="View 'eyes'") as caught:
        as_matrix(bad, "eyes")
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400


def sparse_parts(**changes: Any) -> csr_array[Any, tuple[int, int]]:
    matrix = csr_array(np.eye(3))
    for name, value in changes.items():
        setattr(matrix, name, np.asarray(value))
    return matrix


@pytest.mark.parametrize(
    "parts",
    [
        {"indices": [0, 1, 10**6]},
        {"indices": [0, -1, 2]},
        {"indptr": [0, 1, 2, 10**6]},
        {"indptr": [0, 2, 1, 3]},
        {"indptr": [1, 1, 2, 3]},
        {"indptr": [0, 3]},
    ],
    ids=str,
)
def test_invalid_sparse_matrices_are_refused(parts):
    with pytest.raises(ValueError, match="View 'a'"):
        as_matrix(sparse_parts(**parts), "a")


def test_maps_are_known_through_their_views(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert all(is_mapped(part) for part in (x, x[:2], np.asarray(x), np.asarray(x)[1:], as_matrix(x, "x")))
    assert not any(is_mapped(part) for part in (np.ones(3), np.ones(3)[:2], x[[0, 1]], None, "x"))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="looks at pages in /proc")
def test_what_was_read_of_a_map_is_released(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2**18, 4)))  # half a chunk
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    for rows in row_slices(np.asarray(x)):
        assert x[rows].sum() == x[rows].size
        assert resident(tmp_path / "x.npy") > 0
    assert resident(tmp_path / "x.npy") == 0
    assert (x == 1).all()


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_what_was_written_to_a_map_is_never_released(tmp_path, mode):
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    x = np.load(tmp_path / "x.npy", mmap_mode=mode)
    x[:] = 7
    for part in (x, x[1:], np.asarray(x), np.ones(3), None):
        drop_cached_pages(part)
    assert (x == 7).all()


def resident(path):
    """Kilobytes of a mapped file that are in memory."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    (place,) = (number for number, line in enumerate(lines) if line.endswith(str(path)))
    return int(next(line for line in lines[place:] if line.startswith("Rss:")).split()[1])
