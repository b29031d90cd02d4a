"""Tables are matched by ids, hold numbers, and keep the truth apart."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.io.samples import A, assert_same, frame
from tests.io.temporary import folder

from protocol_mvc.data import memmap
from protocol_mvc.data.checks import is_mapped
from protocol_mvc.exceptions import DataError
from protocol_mvc.io import limits, read_views, tables
from protocol_mvc.io.tables import UNNAMED, open_table


def put(place, **texts: str):
    for name, text in texts.items():
        (place / f"{name}.csv").write_text(text)
    return place


@pytest.mark.parametrize("key", ["id", "ID", "sample", "cell", "barcode", "Index", None, "my id"])
def test_the_column_of_ids_has_many_names(tmp_path, key):
    for name in "ab":
        frame(name).rename_axis(key).to_csv(tmp_path / f"{name}.csv")
    assert_same(read_views(tmp_path, id_column="my id" if key == "my id" else None))


@given(st.permutations(range(7)), st.permutations(range(7)))
def test_the_order_of_rows_is_free(first, second):
    with folder() as place:
        frame("a", first).to_csv(place / "a.csv")
        frame("b", second).to_parquet(place / "b.parquet")
        assert_same(read_views(place))


def test_without_ids_rows_are_matched_by_number(tmp_path):
    loaded = read_views(put(tmp_path, a="p,q\n1,2\n3,4\n", b="r\n5\n6\n"))
    assert loaded.views.sample_ids.tolist() == [0, 1]
    np.testing.assert_array_equal(loaded.views.stack(), [[1, 2, 5], [3, 4, 6]])
    assert loaded.y is None
    assert loaded.views.columns == (("p", "q"), ("r",))
    with pytest.raises(ValueError, match=r"a 2, b 2, c 1"):
        read_views(put(tmp_path, c="s\n7\n"))


def test_whole_numbers_are_numbers_unless_they_are_written_otherwise(tmp_path):
    assert read_views(put(tmp_path, a="id,p\n10,1\n9,2\n", b="id,q\n9,1\n")).views.sample_ids.tolist() == [
        10,
        9,
    ]
    assert read_views(put(tmp_path, a="id,p\n010,1\n9,2\n", b="id,q\n9,1\n")).views.sample_ids.tolist() == [
        "010",
        "9",
    ]
    pd.DataFrame({"id": [9, 10], "q": [1.0, 2.0]}).to_parquet(tmp_path / "c.parquet")
    put(tmp_path, a="id,p\n10,1\n9,2\n")
    assert read_views(tmp_path).views.mask.tolist() == [[True, False, True], [True, True, True]]


def test_an_empty_row_is_a_missing_view(tmp_path):
    loaded = read_views(put(tmp_path, a="id,p,q\nx,1,2\ny,,\n", b="id,r\nx,5\ny,6\n"))
    assert loaded.views.mask.tolist() == [[True, True], [False, True]]


def test_truth_is_in_any_table_and_in_no_view(tmp_path):
    put(tmp_path, a="id,p,kind\nx,1,red\ny,2,NA\n", b="id,kind,q\nz,blue,5\nx,red,6\n")
    loaded = read_views(tmp_path, labels="kind")
    assert loaded.views.columns == (("p",), ("q",))
    assert loaded.y is not None
    assert loaded.y.tolist() == ["red", "NA", "blue"]
    put(tmp_path, a="id,p,label\nx,1,2\ny,2,2\n", b="id,x,y\nx,6,1\ny,5,1\n")
    loaded = read_views(tmp_path)
    assert loaded.views.columns == (("p",), ("x", "y"))
    assert loaded.y is not None
    assert loaded.y.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ({"a": "id,p\nx,1\ny,2\nx,3\n"}, {}, r"a\.csv: line 4 .*'x' .*'id'"),
        ({"a": "id,p\nx,1\n,2\n"}, {}, r"a\.csv: line 3 .*'id'"),
        ({"a": "id,p\nx,1\n", "b": "id,q\nu,1\n"}, {}, "'a' shares no id"),
        ({"a": "id,p\nx,1\n", "b": "q\n1\n"}, {}, r"'b' .* only q"),
        ({"a": "id,p\nx,1\n"}, {"id_column": "key"}, r"'a' .*'key' .*only id, p"),
        ({"a": "p,q\n1,2\n3,red\n4,5\n"}, {}, r"a\.csv: the column 'q' has 'red' in line 3"),
        ({"a": "p,q\n1,2\n3,inf\n"}, {}, r"a\.csv: the column 'q' has inf in line 3"),
        ({"a": "p,q\nx,u\ny,v\n"}, {}, r"a\.csv: .*no column of numbers.* p, q"),
        ({"a": "p\n1\n"}, {"labels": "kind"}, r"'kind', only p"),
        ({"a": "p,label\n1,\n"}, {"labels": "label"}, "1 samples have no label, the first is '0'"),
        ({"a": "id,p,gt\nx,1,2\n", "b": "id,q,gt\nx,1,3\n"}, {"labels": "gt"}, "different labels of 'x'"),
        ({"a": "id\nx\n"}, {}, r"a\.csv: it has no columns"),
        ({"a": 'p,q\n"1,2\n'}, {}, r"File .*a\.csv"),
        ({"a": "p,q\n1,2\n1,2,3,4\n"}, {}, r"File .*a\.csv"),
        ({"a": "p,q\nx,1,2\n"}, {}, r"File .*a\.csv: .*more cells"),
        ({"a": "0.5,0.1\n1,2\n"}, {}, r"File .*a\.csv: .*first line"),
        ({"a": "p,q\n"}, {}, r"File .*a\.csv: .*no rows"),
    ],
)
def test_errors_name_the_culprit(tmp_path, texts, options, message):
    with pytest.raises(ValueError, match=message):
        read_views(put(tmp_path, **texts), **options)


def test_dates_in_parquet_are_left_out(tmp_path):
    pd.DataFrame({"p": [1.0], "when": pd.to_datetime(["2020-01-01"])}).to_parquet(tmp_path / "a.parquet")
    views, _, info = read_views(tmp_path)
    assert views.columns == (("p",),)
    assert "'when'" in info.notes[0]


def test_a_single_table_is_a_single_view(tmp_path):
    pd.DataFrame(np.nan_to_num(A)).to_csv(tmp_path / "a.csv", index=False)
    views = read_views(tmp_path / "a.csv").views
    assert views.names == ("a",)
    np.testing.assert_array_equal(views.stack(), np.nan_to_num(A))


def test_large_tables_are_mapped_where_no_row_must_move(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for name, width in (("a", 3), ("b", 2)):
        x = pd.DataFrame(rng.normal(size=(6, width)).astype(np.float32)).add_prefix(name)
        x.assign(id=list("uvwxyz"), label=[0, 0, 1, 1, 2, 2]).to_parquet(tmp_path / f"{name}.parquet")
    plain = read_views(tmp_path)
    monkeypatch.setattr("protocol_mvc.data.memmap.LARGE", 0)
    large = read_views(tmp_path)
    assert [is_mapped(x) for x in (*plain.views.arrays, *large.views.arrays)] == [False] * 2 + [True] * 2
    for left, right in zip(plain.views.arrays, large.views.arrays, strict=True):
        assert left.dtype == right.dtype == np.float32
        np.testing.assert_array_equal(left, right)
    assert large.views.sample_ids.tolist() == list("uvwxyz")
    assert large.y is not None
    assert large.y.tolist() == [0, 0, 1, 1, 2, 2]


FRAME = pd.DataFrame({"a": [1.5, 2.0], "b": [3, 4]}, index=["x", "y"])


@pytest.mark.parametrize(
    ("text", "columns", "index_column"),
    [
        ("a,b\n1,2\n", ["a", "b"], None),
        (",a\nx,2\n", [UNNAMED, "a"], UNNAMED),
        ("\ufeffid,a\nx,2\n", ["id", "a"], None),
        ("\n0,1\n5,6\n", ["0", "1"], None),
    ],
    ids=["plain", "pandas", "byte order mark", "numbered"],
)
def test_headers(tmp_path, text, columns, index_column):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    table = open_table(tmp_path / "t.csv")
    assert (table.columns, table.index_column) == (columns, index_column)
    assert list(table.read([]).columns) == columns


def test_columns_of_text_stay_as_written(tmp_path):
    (tmp_path / "t.tsv").write_text("id\ta\n007\t1\nNA\t2\n")
    frame = open_table(tmp_path / "t.tsv").read(["id"])
    assert frame["id"].tolist() == ["007", "NA"]
    assert frame["a"].tolist() == [1, 2]


def test_the_index_of_parquet_is_found(tmp_path):
    path = tmp_path / "t.parquet"
    FRAME.to_parquet(path)
    assert open_table(path).index_column == "__index_level_0__"
    FRAME.rename_axis("patient").to_parquet(path)
    assert open_table(path).index_column == "patient"
    assert set(open_table(path).read([]).columns) == {"a", "b", "patient"}
    FRAME.reset_index(drop=True).to_parquet(path)
    table = open_table(path)
    assert (table.columns, table.index_column) == (["a", "b"], None)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_sizes_are_checked_first(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"t{suffix}"
    FRAME.to_csv(path) if suffix == ".csv" else FRAME.to_parquet(path)
    monkeypatch.setenv(limits.MAX_MEMORY, str(10))
    with pytest.raises(DataError, match="GiB"):
        open_table(path).read([])


@given(arrays(np.float64, (3, 2), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_numbers_come_back_to_the_bit(x):
    with folder() as place:
        pd.DataFrame(x, columns=["a", "b"]).to_csv(place / "t.csv", index=False)
        np.testing.assert_array_equal(open_table(place / "t.csv").read([]).to_numpy(float), x)


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
    monkeypatch.setattr(tables, "BLOCK_CELLS", 4)  # two rows
    found = open_table(tmp_path / "t.parquet").read(["id", "truth"])
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
    monkeypatch.setattr(tables, "BLOCK_CELLS", 2**14)
    monkeypatch.setattr(tables, "to_memmap", look)
    before = pyarrow.total_allocated_bytes()
    open_table(tmp_path / "t.parquet").read([])
    assert len(held) == 64
    assert max(held) - before < frame.to_numpy().nbytes / 8


def test_gaps_in_large_parquet_files_are_nan(tmp_path, monkeypatch):
    pd.DataFrame({"a": pd.array([1, None, 3], "Int64"), "b": [1.0, 2.0, np.nan]}).to_parquet(
        tmp_path / "t.parquet"
    )
    monkeypatch.setattr(memmap, "LARGE", 0)
    found = open_table(tmp_path / "t.parquet").read([]).to_numpy()
    np.testing.assert_array_equal(found, [[1, 1], [np.nan, 2], [3, np.nan]])


def test_columns_of_other_kinds_are_left_to_be_refused(tmp_path, monkeypatch):
    pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": [[1], [2]]}).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(memmap, "LARGE", 0)
    assert open_table(tmp_path / "t.parquet").read([])["b"].tolist() == ["x", "y"]


def test_parquet_that_unfolds_without_end_is_refused(tmp_path, monkeypatch):
    pd.DataFrame({"a": np.zeros(10**6)}).to_parquet(tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 8000
    monkeypatch.setattr("protocol_mvc.io.limits.SMALL", 2**10)
    with pytest.raises(DataError, match="bytes"):
        open_table(tmp_path / "a.parquet").read([])
