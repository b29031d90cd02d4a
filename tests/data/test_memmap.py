"""A matrix that is mapped from a temporary file has the numbers of the one that was given."""

import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol_mvc.data import checks, memmap
from protocol_mvc.data.checks import is_mapped
from protocol_mvc.data.memmap import LARGE, is_large, take_rows, to_memmap
from protocol_mvc.exceptions import DataError


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 9), st.sampled_from(["f4", "f8", "i2", "?"]))
def test_blocks_become_one_map(n: int, d: int, height: int, dtype: str):
    x = np.random.default_rng(0).normal(size=(n, d)).astype(dtype)
    found = to_memmap("x", x.shape, x.dtype, (x[i : i + height].T.copy().T for i in range(0, n, height)))
    assert is_mapped(found)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x)
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1


def test_nothing_stays_in_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = to_memmap("x", (2, 1), np.dtype(float), [np.ones((2, 1))])
    assert list(tmp_path.iterdir()) == []
    assert found.sum() == 2


def test_a_disk_that_is_too_small_raises_an_error(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=7))
    with pytest.raises(DataError, match=r"'x' .* TMPDIR"):
        to_memmap("x", (1, 1), np.dtype(float), [])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk here")
def test_a_disk_that_fills_up_raises_an_error(monkeypatch):
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda: full)
        with pytest.raises(DataError, match=r"'x' .*No space left.* TMPDIR"):
            to_memmap("x", (1, 1), np.dtype(float), [np.ones((1, 1))])


@given(st.lists(st.integers(-1, 7), min_size=1, max_size=20), st.booleans())
def test_rows_of_a_map_are_a_map_again_if_they_are_many(rows: list[int], large: bool):
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("f4")
    source = to_memmap("x", x.shape, x.dtype, [x])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "CHUNK_BYTES", 48)  # two rows
        patch.setattr(memmap, "LARGE", 0 if large else LARGE)
        found = take_rows("x", source, np.array(rows))
    assert is_mapped(found) is large
    np.testing.assert_array_equal(found, np.vstack([x, np.full(3, np.nan)])[rows])


@pytest.mark.parametrize(
    ("shape", "dtype", "large"),
    [
        ((LARGE // 8, 1), "f8", False),
        ((LARGE // 8 + 1, 1), "f8", True),
        ((LARGE // 8 + 1, 1), "f4", False),
        ((LARGE, 2), "U8", False),
        ((LARGE,), "f8", False),
        ((LARGE, 1, 1), "f8", False),
    ],
    ids=str,
)
def test_large_matrices_of_numbers_are_mapped(shape: tuple[int, ...], dtype: str, large: bool):
    assert is_large(shape, np.dtype(dtype)) is large
