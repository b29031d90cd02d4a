"""Columns of one table become views; rows of data frames are matched by index."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from protocol_mvc.data.checks import is_sparse
from protocol_mvc.data.inputs import align_frames, split_columns
from protocol_mvc.data.views import as_views
from protocol_mvc.exceptions import DataWarning

X = np.arange(15.0).reshape(3, 5)


@pytest.mark.parametrize("make", [np.asarray, csr_array, lambda x: pd.DataFrame(x, columns=list("abcde"))])
@pytest.mark.parametrize(
    ("columns", "positions"),
    [((1, 3), [1, 2]), ([1, 3], [1, 3]), ([4, 0], [4, 0]), (slice(None, 2), [0, 1]), (np.array([2]), [2])],
)
def test_columns_are_selected(make, columns, positions):
    part = split_columns(make(X), [columns])["view_0"]
    dense = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
    np.testing.assert_array_equal(dense, X[:, positions])


def test_frames_are_split_by_name():
    frame = pd.DataFrame(X, columns=list("abcde"))
    parts = split_columns(frame, {"left": ["a", "c"], "right": ("b", "e")})
    assert [list(part.columns) for part in parts.values()] == [["a", "c"], ["b", "e"]]


@pytest.mark.parametrize("group", [(1, 4), [1, 2, 3]])
def test_neighbouring_columns_share_memory(group):
    assert np.shares_memory(split_columns(X, [group])["view_0"], X)


@pytest.mark.parametrize(
    ("view_columns", "message"),
    [
        ([], "empty"),
        ([(0, 2), (2, 6)], "'view_1' .* column 5, but X has 5"),
        ({"a": [-1]}, "'a' .* -1"),
        ({"a": ["p"]}, "'a' .* 'p'"),
        ({"a": []}, "'a' has no columns"),
        ({"a": (3, 3)}, "'a' has no columns"),
        ({"a": 3}, "'a' are 3"),
        ({"a": "b"}, "'a' are 'b'"),
        ({"a": (0, 10**12)}, "'a' .* column 5"),
        ({"a": [1.5]}, "'a' .* 1.5"),
        ({"a": [None]}, "'a' .* None"),
        (5, "view_columns is 5"),
    ],
)
def test_columns_that_do_not_exist_are_named(view_columns, message):
    with pytest.raises(ValueError, match=message):
        split_columns(X, view_columns)


def frame(ids, dtype=float):
    return pd.DataFrame({"p": range(len(ids)), "q": 1}, index=ids, dtype=dtype)


def test_union_in_order_of_first_appearance():
    matrices, ids, mask = align_frames({"a": frame(["y", "x"]), "b": frame(["z", "x"])})
    assert ids.tolist() == ["y", "x", "z"]
    assert mask.tolist() == [[True, False], [True, True], [False, True]]
    np.testing.assert_array_equal(matrices["b"], [[np.nan] * 2, [1, 1], [0, 1]])


@given(st.permutations(range(6)), st.sets(st.integers(0, 5), min_size=1))
def test_the_order_of_rows_is_free(order, kept):
    first, second = frame(list(range(6))), frame(list(range(6))).loc[sorted(kept)]
    shuffled = second.loc[[i for i in order if i in kept]]
    one, two = as_views([first, second]), as_views([first, shuffled])
    assert one.sample_ids.tolist() == two.sample_ids.tolist()
    np.testing.assert_array_equal(one.mask, two.mask)
    np.testing.assert_array_equal(one.stack(), two.stack())


@given(st.permutations(range(4)))
def test_shuffling_all_frames_shuffles_the_samples(order):
    a, b = frame(list("wxyz")), frame(list("zyxw"))
    views, shuffled = as_views([a, b]), as_views([a.iloc[order], b])
    np.testing.assert_array_equal(views[order].stack(), shuffled.stack())


def test_integers_stay_integers_unless_rows_are_absent():
    whole, part = frame([2, 1], "int64"), frame([1], "uint8")
    assert as_views([whole, whole.iloc[::-1]]).arrays[1].dtype == np.int64
    assert as_views([whole, part]).arrays[1].dtype == np.float16


def test_sparse_frames_stay_sparse_and_know_what_is_missing():
    sparse = frame(["a", "c"]).astype(pd.SparseDtype(float, 0.0))
    views = as_views({"s": sparse, "d": frame(["c", "b"])})
    assert is_sparse(views.arrays[0])
    assert views.mask[:, 0].tolist() == [True, True, False]
    np.testing.assert_array_equal(views.to_dense(0), [[0, 1], [1, 1], [0, 0]])


def test_a_repeated_id_is_refused():
    with pytest.raises(ValueError, match=r"'b' .* 'x'"):
        as_views({"a": frame(["x", "y"]), "b": frame(["x", "x"])})


def test_frames_without_a_common_id_are_refused():
    first, second = pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"b": [1.0, 2.0]}, index=["x", "y"])
    with pytest.raises(ValueError, match="shares no id"):
        align_frames({"first": first, "second": second})


def test_an_empty_frame_is_named():
    with pytest.raises(ValueError, match=r"View 'b'.*0 sample"):
        as_views({"a": pd.DataFrame({"x": [1.0]}), "b": pd.DataFrame({"y": []}, dtype=float)})


@pytest.mark.parametrize(
    "other",
    ["s7 ", "S7", "s07", "ｓ7", "s7\N{NO-BREAK SPACE}"],
    ids=["blank", "case", "zeros", "Unicode", "hard blank"],
)
def test_ids_that_are_nearly_equal_are_counted_and_named(other):
    ids = [f"s{i}" for i in range(12)]
    changed = [other if name == "s7" else name for name in ids]
    with pytest.warns(DataWarning, match=r"1 ids.*'s7' in view 'a' and .* in view 'b'"):
        views = as_views({"a": frame(ids), "b": frame(changed)})
    assert len(views) == 13
    with pytest.raises(ValueError, match="1 ids differ only"):
        as_views({"a": frame(["s7", "t"]), "b": frame([other, "u"])})


@given(st.sets(st.integers(0, 2000), min_size=1), st.sets(st.integers(0, 2000), min_size=1))
def test_numbers_are_never_nearly_equal(first, second):
    ids = [sorted(x | {3000}) for x in (first, second)]
    for convert in (int, str, lambda i: f"cell {i}.25", lambda i: f"{i / 100:.2f}"):
        as_views([frame([convert(i) for i in x]) for x in ids])  # a warning would be an error
