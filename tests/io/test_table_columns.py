"""No column that may be the truth, an index or a copy of the ids is a feature, unless it is named as one."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol_mvc.io import TableOptions, read_views
from protocol_mvc.io.column_roles import looks_like_ids, looks_like_truth

N = 12
RNG = np.random.default_rng(0)
KIND = np.arange(N) % 3
TRUTHS = ("label", "Label", "labels", "class", "Class", "target", "y", "truth", "gt", "cluster", "cell_type")
MORE = ("label.1", "CellType", "true_label", "class_label", "ground truth", "y_true", "cluster_id", "leiden")


def table(**columns):
    return pd.DataFrame({"p": RNG.normal(size=N), **columns, "q": RNG.normal(size=N)})


@pytest.mark.parametrize("name", [*TRUTHS, *MORE])
def test_names_of_the_truth_are_known(tmp_path, name):
    table(**{name: KIND}).to_csv(tmp_path / "a.csv", index=False)
    views, y, info = read_views(tmp_path / "a.csv")
    assert views.columns == (("p", "q"),)
    assert y is not None
    assert y.tolist() == KIND.tolist()
    assert any(repr(name) in note for note in info.notes)


@pytest.mark.parametrize(
    "name", ["age", "classical_score", "yield", "price_target_distance", "labelled_cells", "x"]
)
def test_names_of_features_are_none_of_the_truth(name):
    assert not looks_like_truth(name)


@given(st.sets(st.sampled_from([*TRUTHS, *MORE]), min_size=2, max_size=5), st.sets(st.sampled_from(TRUTHS)))
def test_of_several_candidates_none_is_a_feature_and_none_the_truth(tmp_path_factory, first, second):
    place = tmp_path_factory.mktemp("tables")
    table(**dict.fromkeys(first, KIND)).to_csv(place / "a.csv", index=False)
    table(**dict.fromkeys(second, KIND)).to_csv(place / "b.csv", index=False)
    views, y, info = read_views(place)
    assert views.columns == (("p", "q"), ("p", "q"))
    assert y is None
    assert all(repr(name) in " ".join(info.notes) for name in first | second)


def test_candidates_are_used_as_they_are_named(tmp_path):
    table(label=KIND, Class=KIND + 5).to_csv(tmp_path / "a.csv", index=False)
    views, y, _ = read_views(tmp_path, labels="Class", table_options=TableOptions(features=("label",)))
    assert views.columns == (("p", "label", "q"),)
    assert y is not None
    assert y.tolist() == (KIND + 5).tolist()


def test_an_incomplete_candidate_is_set_aside(tmp_path):
    table(label=[*"ab" * 5, "", ""]).to_csv(tmp_path / "a.csv", index=False)
    views, y, info = read_views(tmp_path)
    assert (views.columns, y) == ((("p", "q"),), None)
    assert "'label'" in info.notes[0]


def test_indices_ids_and_constants_are_set_aside(tmp_path):
    ids = RNG.permutation(N) + 100
    odd = {
        "Unnamed: 0": np.arange(N),
        "Unnamed: 0.1": np.arange(N),
        "customer_no": ids,
        "row": np.arange(1, N + 1),
        "order_id": RNG.permutation(1000)[:N],
        "one": np.ones(N),
        "word": ["same"] * N,
        "empty": [None] * N,
    }
    table(id=[f"c{i}" for i in ids], **odd, age=RNG.permutation(N)).to_csv(tmp_path / "a.csv", index=False)
    views, _, info = read_views(tmp_path)
    assert views.columns == (("p", "age", "q"),)
    assert all(repr(name) in info.notes[0] for name in odd if not name.startswith("Unnamed"))
    kept = read_views(tmp_path, table_options=TableOptions(features=("row", "one")))
    assert kept.views.columns == (("p", "row", "one", "age", "q"),)


def test_a_view_of_constants_is_left_to_the_fit(tmp_path):
    pd.DataFrame({"p": np.ones(N), "q": np.zeros(N)}).to_csv(tmp_path / "a.csv", index=False)
    assert read_views(tmp_path).views.columns == (("p", "q"),)


@pytest.mark.parametrize(
    "name", ["id", "customer_id", "customerID", "Kundennummer", "order no", "Nr", "row_number"]
)
def test_names_of_ids_are_known(name):
    assert looks_like_ids(name)
    assert not looks_like_ids(f"{name}_ratio")


def test_a_column_of_all_tables_that_is_like_an_id_is_no_feature(tmp_path):
    for name in "ab":
        table(customer=RNG.permutation(1000)[:N]).to_csv(tmp_path / f"{name}.csv", index=False)
    views, _, info = read_views(tmp_path)
    assert views.columns == (("p", "q"), ("p", "q"))
    assert "'customer'" in info.notes[0]


def test_ids_have_a_column_of_their_own_name_in_every_file(tmp_path):
    a = table(customer=[f" c{i} " for i in range(N)])
    b = table(client=[f"c{i}" for i in range(N)])
    a.to_csv(tmp_path / "a.csv", index=False)
    b[::-1].to_csv(tmp_path / "b.csv", index=False)
    for keys in (("a.csv", "b.csv"), ("a", "b")):
        views = read_views(tmp_path, id_column=dict(zip(keys, ("customer", "client"), strict=True))).views
        assert views.sample_ids.tolist() == [f"c{i}" for i in range(N)]
        assert views.is_complete
        np.testing.assert_array_equal(views.arrays[1], b[["p", "q"]])
    with pytest.raises(ValueError, match=r"'c\.csv'.*a, b"):
        read_views(tmp_path, id_column={"c.csv": "customer"})


def test_whole_numbers_are_the_same_ids_however_they_are_written(tmp_path):
    table(id=np.arange(N)).to_csv(tmp_path / "a.csv", index=False)
    table(id=np.arange(N).astype(float)).to_csv(tmp_path / "b.csv", index=False)
    table(id=[f" {i}" for i in range(N)]).to_parquet(tmp_path / "c.parquet", index=False)
    views = read_views(tmp_path).views
    assert views.is_complete
    assert views.sample_ids.tolist() == list(range(N))


WIDE = pd.DataFrame(
    {"id": [*"stuv"], "image_a": [1, 2, 3, 4], "image_b": [5, 6, 7, 9], "text_a": [9, 8, 6, 7]}
)


@pytest.mark.parametrize(
    "view_columns",
    [{"image": "image_", "text": "text_"}, {"image": ["image_a", "image_b"], "text": ["text_a"]}],
)
def test_the_columns_of_one_table_belong_to_views(tmp_path, view_columns):
    WIDE.assign(other=[3, 1, 4, 1], label=[0, 0, 1, 1]).to_csv(tmp_path / "all.csv", index=False)
    views, y, info = read_views(tmp_path / "all.csv", view_columns=view_columns)
    assert views.names == ("image", "text")
    assert views.columns == (("image_a", "image_b"), ("text_a",))
    assert views.sample_ids.tolist() == [*"stuv"]
    assert y is not None
    assert any("other" in note for note in info.notes)


@pytest.mark.parametrize("view_columns", [{"a": "sound_"}, {"a": ["image_c"]}, {"a": []}])
def test_views_without_columns_are_refused(tmp_path, view_columns):
    WIDE.to_csv(tmp_path / "all.csv", index=False)
    with pytest.raises(ValueError, match=r"all\.csv.*image_a"):
        read_views(tmp_path / "all.csv", view_columns=view_columns)
