"""Tables are matched by ids, hold numbers, and keep the truth apart."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.samples import A, assert_same, frame
from tests.io.temporary import folder

from protocol_mvc.data.checks import is_mapped
from protocol_mvc.io import read_views


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
    np.testing.assert_array_equal(np.asarray(loaded.views), [[1, 2, 5], [3, 4, 6]])
    assert loaded.y is None
    assert loaded.views.columns == (("p", "q"), ("r",))
    with pytest.raises(ValueError, match=r"no ids and different numbers of rows \(a 2, b 2, c 1\)"):
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


def test_the_first_common_name_is_taken(tmp_path):
    put(tmp_path, a="id,sample,p\n1,x,5\n2,y,6\n", b="sample,q\ny,7\nx,8\n")
    with pytest.raises(ValueError, match=r"a\.csv: the column 'id'|no number"):
        read_views(put(tmp_path, a="id,sample,p\nu,x,5\nv,y,6\n"))
    loaded = read_views(put(tmp_path, a="id,sample,p\n1,x,5\n2,y,6\n"))
    assert loaded.views.sample_ids.tolist() == ["x", "y"]
    assert loaded.views.n_features == (2, 1)


def test_an_empty_row_is_a_missing_view(tmp_path):
    loaded = read_views(put(tmp_path, a="id,p,q\nx,1,2\ny,,\n", b="id,r\nx,5\ny,6\n"))
    assert loaded.views.mask.tolist() == [[True, True], [False, True]]


def test_truth_is_in_any_table_and_in_no_view(tmp_path):
    put(tmp_path, a="id,p,kind\nx,1,red\ny,2,NA\n", b="id,kind,q\nz,blue,5\nx,red,6\n")
    loaded = read_views(tmp_path, labels="kind")
    assert loaded.views.columns == (("p",), ("q",))
    assert loaded.y is not None
    assert loaded.y.tolist() == ["red", "NA", "blue"]
    put(tmp_path, a="id,p,label\nx,1,2\ny,2,2\n", b="id,q,y\nx,6,1\ny,5,1\n")
    loaded = read_views(tmp_path)
    assert loaded.views.columns == (("p",), ("q", "y"))
    assert loaded.y is not None
    assert loaded.y.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("texts", "options", "says"),
    [
        ({"a": "id,p\nx,1\ny,2\nx,3\n"}, {}, r"a\.csv: rows 0 and 2 have the same id 'x' in the column 'id'"),
        ({"a": "id,p\nx,1\n,2\n"}, {}, r"a\.csv: row 1 has no id in the column 'id'"),
        ({"a": "id,p\nx,1\n", "b": "id,q\nu,1\n"}, {}, "'a' shares no id with any other view"),
        ({"a": "id,p\nx,1\n", "b": "q\n1\n"}, {}, r"table 'b' has no column of ids, as 'a' has, only q"),
        ({"a": "id,p\nx,1\n"}, {"id_column": "key"}, r"table 'a' has no column 'key', only id, p"),
        ({"a": "p,q\n1,2\n3,red\n"}, {}, r"a\.csv: the column 'q' holds 'red' in row 1, which is no number"),
        ({"a": "p,when\n1,2020-01-01\n"}, {}, r"the column 'when' holds '2020-01-01' in row 0"),
        ({"a": "p;q\n1;2\n"}, {}, r"the column 'p;q' holds '1;2' in row 0"),
        ({"a": "p,q\n1,2\n3,\n"}, {}, "'a' has NaN at row 1, column 1"),
        ({"a": "p,q\n1,2\n3,inf\n"}, {}, "'a' has infinity"),
        ({"a": "p\n1\n"}, {"labels": "kind"}, r"no table has the column 'kind' for the truth, only p"),
        ({"a": "p,label\n1,\n"}, {}, "truth of '0' is in no table"),
        ({"a": "id,p,gt\nx,1,2\n", "b": "id,q,gt\nx,1,3\n"}, {}, "disagree on the truth of 'x'"),
        ({"a": "id\nx\n"}, {}, r"a\.csv: it has no columns of numbers"),
        ({"a": 'p,q\n"1,2\n'}, {}, r"File .*a\.csv"),
        ({"a": "p,q\n1,2\n1,2,3,4\n"}, {}, r"File .*a\.csv cannot be read as a table"),
    ],
)
def test_faults_are_named(tmp_path, texts, options, says):
    with pytest.raises(ValueError, match=says):
        read_views(put(tmp_path, **texts), **options)


def test_dates_in_parquet_are_no_numbers(tmp_path):
    pd.DataFrame({"p": [1.0], "when": pd.to_datetime(["2020-01-01"])}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet: the column 'when' holds .*2020.* in row 0"):
        read_views(tmp_path)


def test_a_single_table_is_a_single_view(tmp_path):
    pd.DataFrame(np.nan_to_num(A)).to_csv(tmp_path / "a.csv", index=False)
    views = read_views(tmp_path / "a.csv").views
    assert views.names == ("a",)
    np.testing.assert_array_equal(np.asarray(views), np.nan_to_num(A))


@pytest.mark.parametrize("guarded", [False, True])
def test_large_tables_are_mapped_where_no_row_must_move(tmp_path, monkeypatch, guarded):
    rng = np.random.default_rng(0)
    for name, width in (("a", 3), ("b", 2)):
        x = pd.DataFrame(rng.normal(size=(6, width)).astype(np.float32)).add_prefix(name)
        x.assign(id=list("uvwxyz"), label=[0, 0, 1, 1, 2, 2]).to_parquet(tmp_path / f"{name}.parquet")
    plain = read_views(tmp_path)
    monkeypatch.setattr("protocol_mvc.data.memmap.LARGE", 0)
    large = read_views(tmp_path, guarded=guarded)
    assert [is_mapped(x) for x in (*plain.views.arrays, *large.views.arrays)] == [False] * 2 + [True] * 2
    for left, right in zip(plain.views.arrays, large.views.arrays, strict=True):
        assert left.dtype == right.dtype == np.float32
        np.testing.assert_array_equal(left, right)
    assert large.views.sample_ids.tolist() == list("uvwxyz")
    assert large.y is not None
    assert large.y.tolist() == [0, 0, 1, 1, 2, 2]
