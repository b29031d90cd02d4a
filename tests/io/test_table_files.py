"""Tables decode to frames whose first line is a header."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.io.temporary import folder

from protocol_mvc.data import memmap
from protocol_mvc.data.checks import is_mapped
from protocol_mvc.exceptions import DataError
from protocol_mvc.io import limits, table_files
from protocol_mvc.io.table_files import ROWS, UNNAMED, read_header, read_table

FRAME = pd.DataFrame({"a": [1.5, 2.0], "b": [3, 4]}, index=["x", "y"])


@pytest.mark.parametrize(
    ("text", "columns", "index"),
    [
        ("a,b\n1,2\n", ["a", "b"], None),
        (",a\nx,2\n", [UNNAMED, "a"], UNNAMED),
        ('"a","b"\n"x",1,2\n', [ROWS, "a", "b"], ROWS),
        ("\ufeffid,a\nx,2\n", ["id", "a"], None),
        ("\n0,1\n5,6\n", ["0", "1"], None),
        ("400.5,401,402\n5,6,7\n", ["400.5", "401", "402"], None),
    ],
    ids=["plain", "pandas", "R", "mark", "numbered", "wavelengths"],
)
def test_headers(tmp_path, text, columns, index):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    assert read_header(tmp_path / "t.csv") == (columns, index)
    assert list(read_table(tmp_path / "t.csv", []).columns) == columns


@pytest.mark.parametrize(
    ("text", "says"),
    [("0.5,0.1,3\n1,2,3\n", "first line holds numbers"), ("a,b\n", "no rows"), ("\n\n", "no rows")],
)
def test_files_without_a_header_or_rows_are_refused(tmp_path, text, says):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=says):
        read_header(tmp_path / "t.csv")


def test_columns_of_text_stay_as_written(tmp_path):
    (tmp_path / "t.tsv").write_text("id\ta\n007\t1\nNA\t2\n")
    frame = read_table(tmp_path / "t.tsv", ["id"])
    assert frame["id"].tolist() == ["007", "NA"]
    assert frame["a"].tolist() == [1, 2]


def test_parquet_tells_its_index(tmp_path):
    path = tmp_path / "t.parquet"
    FRAME.to_parquet(path)
    assert read_header(path).row_names == "__index_level_0__"
    FRAME.rename_axis("patient").to_parquet(path)
    assert read_header(path).row_names == "patient"
    assert set(read_table(path, []).columns) == {"a", "b", "patient"}
    FRAME.reset_index(drop=True).to_parquet(path)
    assert read_header(path) == (["a", "b"], None)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_sizes_are_checked_first(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"t{suffix}"
    FRAME.to_csv(path) if suffix == ".csv" else FRAME.to_parquet(path)
    monkeypatch.setattr(limits, "MAX_BYTES", 10)
    with pytest.raises(DataError, match="GiB"):
        read_table(path, [])


@given(arrays(np.float64, (3, 2), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_numbers_come_back_to_the_bit(x):
    with folder() as place:
        pd.DataFrame(x, columns=["a", "b"]).to_csv(place / "t.csv", index=False)
        np.testing.assert_array_equal(read_table(place / "t.csv", []).to_numpy(float), x)


TYPES = {
    "floats": ({"a": "f4", "b": "f4"}, "f4"),
    "both": ({"a": "f8", "b": "f4"}, "f8"),
    "mixed": ({"a": "f4", "b": "i8"}, "f8"),
    "whole": ({"a": "u1", "b": "?"}, "f8"),
}


@pytest.mark.parametrize("kind", TYPES)
def test_numbers_of_large_parquet_files_are_mapped(tmp_path, monkeypatch, kind):
    types, dtype = TYPES[kind]
    frame = pd.DataFrame({name: np.arange(5).astype(kind) for name, kind in types.items()})
    frame.insert(1, "id", list("vwxyz"))
    frame["truth"] = list("aabba")
    frame.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(memmap, "LARGE", 0)
    monkeypatch.setattr(table_files, "BLOCK", 4)  # two rows
    found = read_table(tmp_path / "t.parquet", ["id", "truth"])
    for name in ("id", "truth"):
        assert found.pop(name).tolist() == frame[name].tolist()
    assert is_mapped(found.to_numpy())
    assert found.to_numpy().dtype == dtype
    assert found.to_numpy().tolist() == frame[["a", "b"]].to_numpy(float).tolist()


def test_large_parquet_files_are_not_held_in_memory(tmp_path, monkeypatch):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(2**16, 16)), columns=list("abcdefghijklmnop"))
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=2**10)
    held: list[int] = []

    def look(name, shape, dtype, blocks):
        held.extend(pyarrow.total_allocated_bytes() for _ in blocks)
        return np.zeros(shape, dtype)

    monkeypatch.setattr(memmap, "LARGE", 0)
    monkeypatch.setattr(table_files, "BLOCK", 2**14)
    monkeypatch.setattr(table_files, "to_memmap", look)
    before = pyarrow.total_allocated_bytes()
    read_table(tmp_path / "t.parquet", [])
    assert len(held) == 64
    assert max(held) - before < frame.to_numpy().nbytes / 8


def test_gaps_in_large_parquet_files_are_nan(tmp_path, monkeypatch):
    pd.DataFrame({"a": pd.array([1, None, 3], "Int64"), "b": [1.0, 2.0, np.nan]}).to_parquet(
        tmp_path / "t.parquet"
    )
    monkeypatch.setattr(memmap, "LARGE", 0)
    found = read_table(tmp_path / "t.parquet", []).to_numpy()
    np.testing.assert_array_equal(found, [[1, 1], [np.nan, 2], [3, np.nan]])


def test_columns_of_other_kinds_are_left_to_be_refused(tmp_path, monkeypatch):
    pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": [[1], [2]]}).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(memmap, "LARGE", 0)
    assert read_table(tmp_path / "t.parquet", [])["b"].tolist() == ["x", "y"]


def test_parquet_that_unfolds_without_end_is_refused(tmp_path, monkeypatch):
    pd.DataFrame({"a": np.zeros(10**6)}).to_parquet(tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 8000
    monkeypatch.setattr("protocol_mvc.io.limits.SMALL", 2**10)
    with pytest.raises(DataError, match="made to exhaust memory"):
        read_table(tmp_path / "a.parquet", [])
