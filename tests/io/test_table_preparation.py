"""Columns become features, and those of new data in the same way as those of the fit."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.temporary import folder

from protocol_mvc.io import TableOptions, read_views

COLORS = ["red", "blue", "red", "green", "blue", "red", "red", "blue"]
AGES = [30.0, None, 50, 20, 20, None, 80, 35]
SUMS = np.arange(8) ** 2.5 // 1


def customers(**columns) -> pd.DataFrame:
    values = {"id": [f"c{i}" for i in range(8)], "age": AGES, "color": COLORS, "name": [*"stuvwxyz"]}
    return pd.DataFrame({**values, "sum": SUMS, **columns})


def write(place, frame: pd.DataFrame, name: str = "a.csv"):
    frame.to_csv(place / name, index=False)
    return place / name


def test_text_and_gaps_become_numbers(tmp_path):
    views, _, info = read_views(write(tmp_path, customers()))
    found = pd.DataFrame(views.to_dense(0, dtype=float), columns=views.columns[0])
    assert [*found] == ["age", "sum", "missing cells", "color=blue", "color=green", "color=red"]
    assert found["age"].tolist() == [30, 32.5, 50, 20, 20, 32.5, 80, 35]
    assert found["missing cells"].tolist() == [0, 0.5, 0, 0, 0, 0.5, 0, 0]
    assert found["color=red"].tolist() == [color == "red" for color in COLORS]
    for name in ("'age' 2", "'color' (3)", "'name' (text with 8 values)"):
        assert any(name in note for note in info.notes)


def test_gaps_are_refused_on_demand_with_their_number_and_the_first_place(tmp_path):
    path = write(tmp_path, customers(sum=[1, 2, None, 4, 5, 6, 7, 8]))
    with pytest.raises(ValueError, match=r"a\.csv: 3 cells are empty, the first in line 3, column 'age'"):
        read_views(path, table_options=TableOptions(missing="error"))
    complete = read_views(path, table_options=TableOptions(missing="error", drop=("age", "sum")))
    assert complete.views.n_features == (3,)


def test_wrong_cells_are_counted(tmp_path):
    path = write(tmp_path, customers(sum=["1", "x", "2", "oops", "-", "5", "6", "7"]))
    with pytest.raises(ValueError, match=r"a\.csv: the column 'sum' has 'x' in line 3.*2 such cells"):
        read_views(path)
    assert read_views(path, table_options=TableOptions(drop=("sum",))).views.n_features == (5,)


def test_new_data_are_prepared_as_those_of_the_fit(tmp_path):
    views, _, info = read_views(write(tmp_path, customers()))
    new = customers(color=["pink", *COLORS[1:]], sum=[None, *range(7)], extra=1.0)
    found, _, told = read_views(write(tmp_path, new.iloc[:, ::-1]), preparation=info.preparation)
    assert found.columns == views.columns
    frame = pd.DataFrame(found.to_dense(0, dtype=float), columns=found.columns[0])
    assert frame["sum"][0] == np.median(SUMS)
    assert frame.filter(like="color").iloc[0].tolist() == [0, 0, 0]
    assert any("pink" in note for note in told.notes)
    assert any("extra" in note for note in told.notes)
    assert told.preparation == info.preparation


def test_columns_that_are_not_there_are_named_and_not_too_many_of_them(tmp_path):
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 40)).round(3)).add_prefix("f")
    preparation = read_views(write(tmp_path, wide)).info.preparation
    with pytest.raises(ValueError, match=r"lacks 30 of .*: f10, f11,") as raised:
        read_views(write(tmp_path, wide.iloc[:, :10]), preparation=preparation)
    assert len(str(raised.value)) < 300


def test_numbers_of_the_fit_may_not_become_text(tmp_path):
    preparation = read_views(write(tmp_path, customers())).info.preparation
    with pytest.raises(ValueError, match=r"'sum' has 'a' in line 2.*8 such cells"):
        read_views(write(tmp_path, customers(sum=[*"abcdefgh"])), preparation=preparation)
    digits = customers(color=[*"11221122"])
    assert read_views(write(tmp_path, digits), preparation=preparation).views.n_features == (6,)


cells = st.one_of(st.none(), st.floats(-1e9, 1e9), st.sampled_from(["red", "blue", "-"]))


@given(
    st.lists(st.tuples(cells, st.one_of(st.none(), st.floats(-1e9, 1e9))), min_size=4, max_size=12),
    st.randoms(),
)
def test_a_part_of_the_data_is_prepared_like_the_whole(rows, random):
    frame = pd.DataFrame(rows, columns=["p", "q"]).assign(id=[f"s{i}" for i in range(len(rows))], r=1.5)
    with folder() as place:
        try:
            whole, _, info = read_views(write(place, frame))
        except ValueError:  # a few words among numbers
            return
        chosen = sorted(random.sample(range(len(rows)), k=len(rows) // 2))
        part = read_views(write(place, frame.iloc[chosen]), preparation=info.preparation).views
        np.testing.assert_array_equal(part.stack(), whole.stack()[chosen])


@pytest.mark.parametrize("suffix", [".xlsx", ".feather", ".parquet", ".csv", ".tsv"])
def test_all_kinds_of_files_have_the_same_features(tmp_path, suffix):
    frame, path = customers(when=pd.date_range("2020-01-01", periods=8)), tmp_path / f"a{suffix}"
    if suffix in (".csv", ".tsv"):
        frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    else:
        getattr(frame, {".xlsx": "to_excel"}.get(suffix, f"to_{suffix[1:]}"))(
            path, **{"index": False} if suffix == ".xlsx" else {}
        )
    views, _, _ = read_views(path)
    expected = read_views(write(tmp_path, customers(), "b.csv")).views
    assert views.sample_ids.tolist() == expected.sample_ids.tolist()
    assert views.columns == expected.columns
    np.testing.assert_array_equal(views.stack(), expected.stack())


def test_sheets_that_are_not_read_are_named(tmp_path):
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        customers(sum=["x", *range(7)]).to_excel(book, sheet_name="data", index=False)
        customers().to_excel(book, sheet_name="more", index=False)
    with pytest.raises(ValueError, match=r"'x' in row 2"):
        read_views(tmp_path / "a.xlsx")
    assert "more" in read_views(tmp_path / "a.xlsx", table_options=TableOptions(drop=("sum",))).info.notes[0]
