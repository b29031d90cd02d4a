"""Frames are matched by index."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol_mvc.data.alignment import align_frames
from protocol_mvc.data.checks import is_sparse
from protocol_mvc.data.views import as_views


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
    np.testing.assert_array_equal(np.asarray(one), np.asarray(two))


@given(st.permutations(range(4)))
def test_shuffling_all_frames_shuffles_the_samples(order):
    a, b = frame(list("wxyz")), frame(list("zyxw"))
    views, shuffled = as_views([a, b]), as_views([a.iloc[order], b])
    np.testing.assert_array_equal(np.asarray(views[order]), np.asarray(shuffled))


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
    with pytest.raises(ValueError, match="'b' has the id 'x' on several rows"):
        as_views({"a": frame(["x", "y"]), "b": frame(["x", "x"])})


def test_frames_without_a_common_id_are_refused():
    first, second = pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"b": [1.0, 2.0]}, index=["x", "y"])
    with pytest.raises(ValueError, match="shares no id"):
        align_frames({"first": first, "second": second})


def test_an_empty_frame_is_named():
    with pytest.raises(ValueError, match=r"View 'b'.*0 sample"):
        as_views({"a": pd.DataFrame({"x": [1.0]}), "b": pd.DataFrame({"y": []}, dtype=float)})
