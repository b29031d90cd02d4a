"""Names and shapes tell what an array is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol_mvc.exceptions import DataError
from protocol_mvc.io import limits
from protocol_mvc.io.arrays import TRUTH, Stored, assemble, check_truth, to_builtin_dtype

A = np.arange(12.0).reshape(6, 2)
B = np.arange(18).reshape(6, 3)
Y = np.array([0, 0, 1, 1, 2, 2])


def stored(**arrays):
    def entry(array):
        return Stored(array.shape, array.dtype, lambda: array)

    return {name: entry(np.asarray(array)) for name, array in arrays.items()}


def test_matrices_are_views_and_other_things_are_not():
    words, size = np.array(["x"] * 6), np.float64(3)
    views, truth = assemble(stored(b=B, a=A, words=words, size=size, weights=Y), None, None)
    assert views.names == ("b", "a")
    assert views.sample_ids.tolist() == list(range(6))
    assert truth is None


@pytest.mark.parametrize("name", TRUTH)
@pytest.mark.parametrize("shape", [(6,), (6, 1), (1, 6)])
@pytest.mark.parametrize("kind", [int, float, str])
def test_labels_are_never_a_view(name, shape, kind):
    contents = assemble(stored(**{"a": A, name: Y.astype(kind).reshape(shape)}), None, None)
    assert contents.views.names == ("a",)
    assert contents.truth is not None
    assert contents.truth.tolist() == Y.astype(kind).tolist()


def test_labels_of_many_columns_are_a_question():
    with pytest.raises(DataError, match=r"'y' has shape \(6, 3\), but there are 6 samples: .* another name"):
        assemble(stored(a=A, y=B), None, None)
    assert assemble(stored(a=A, y=B), ["a", "y"], None).views.names == ("a", "y")


def test_truth_may_have_another_name():
    arrays = stored(a=A, labels=Y, kind=Y[::-1], wide=B)
    truth = assemble(arrays, None, "kind").truth
    assert truth is not None
    assert truth.tolist() == Y[::-1].tolist()
    assert assemble(arrays, None, "kind").views.names == ("a", "wide")


def test_the_last_part_of_a_path_counts():
    contents = assemble(stored(**{"g/a": A, "g/labels": Y, "g/ids": list("uvwxyz")}), None, None)
    assert contents.views.names == ("g/a",)
    assert contents.views.sample_ids.tolist() == list("uvwxyz")
    assert contents.truth is not None


def test_the_mask_tells_what_is_missing():
    mask = np.ones((6, 2), dtype=bool)
    mask[1, 0] = mask[4, 1] = False
    views = assemble(stored(a=A, b=B, mask=mask), None, None).views
    np.testing.assert_array_equal(views.mask, mask)
    assert views.arrays[1].dtype == B.dtype
    turned = assemble(stored(a=A, b=B, mask=mask), ["b", "a"], None).views
    np.testing.assert_array_equal(turned.mask, mask[:, ::-1])
    with pytest.raises(DataError, match=r"row 4 \(id '4'\) has none of the views b"):
        assemble(stored(a=A, b=B, mask=mask), ["b"], None)


@pytest.mark.parametrize("mask", [np.ones((6, 2)), np.ones((6, 3), dtype=bool), np.ones((5, 2), dtype=bool)])
def test_a_mask_of_another_form_is_refused(mask):
    with pytest.raises(
        DataError, match=r"'mask' is .*: store True or False for each of 6 samples and 2 views"
    ):
        assemble(stored(a=A, b=B, mask=mask), None, None)


@pytest.mark.parametrize(
    ("arrays", "views", "says"),
    [
        ({"y": Y}, None, r"no matrix of numbers to be a view, only y int64 \(6,\)"),
        ({}, None, "only nothing"),
        ({"a": A.astype(str)}, None, "no matrix of numbers"),
        ({"a": A * 1j}, None, "no matrix of numbers"),
        ({"a": A, "c": np.zeros((6, 2, 2))}, None, r"'c' has shape \(6, 2, 2\): .*name the views .*\(a\)"),
        ({"a": A, "b": B[:4]}, None, "'a' has 6 rows but view 'b' has 4"),
        ({"a": A, "b": np.where(B == 4, np.nan, B)}, None, "'b' has NaN at row 1, column 1"),
        ({"a": A}, ["c"], r"no view 'c', only a float64 \(6, 2\)"),
        ({"a": A}, [], "no view is named"),
        ({"a": A, "w": list("uvwxyz")}, ["w"], "'w' holds <U1 values: store numbers"),
        ({"a": A, "w": Y}, ["w"], "View 'w'.*1D"),
        ({"a": A, "labels": Y[:5]}, None, r"'labels' has shape \(5,\), but there are 6 samples"),
        ({"a": A, "ids": Y[:5]}, None, r"'ids' has shape \(5,\), but there are 6 samples"),
        ({"a": A, "labels": np.where(Y == 1, np.nan, Y)}, None, r"truth of row 2 \(id '2'\) is nan"),
    ],
)
def test_what_does_not_fit_is_refused(arrays, views, says):
    with pytest.raises(DataError, match=says):
        assemble(stored(**arrays), views, None)


def test_only_what_is_used_is_read_and_counted(monkeypatch):
    def never():
        raise AssertionError("read")

    monkeypatch.setattr(limits, "MAX_BYTES", A.nbytes)
    arrays = stored(a=A) | {"huge": Stored((10**9, 10**9), np.dtype(float), never)}
    assert assemble(arrays, ["a"], None).views.names == ("a",)
    with pytest.raises(DataError, match="GiB"):
        assemble(arrays, None, None)


texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1)
values = st.one_of(st.lists(texts), st.lists(st.integers(-9, 9)))


@given(values)
def test_plain_values_are_the_same_without_objects(listed):
    array = to_builtin_dtype(np.array(listed, dtype=object))
    assert array.dtype.kind in "iUf"
    assert array.tolist() == listed


def test_bytes_are_text_and_mixtures_too():
    assert to_builtin_dtype(np.array([b"a", "\u00e9".encode()])).tolist() == ["a", "\u00e9"]
    assert to_builtin_dtype(np.array([b"a", "b"], dtype=object)).tolist() == ["a", "b"]
    assert to_builtin_dtype(np.array([1, "b"], dtype=object)).tolist() == ["1", "b"]
    assert to_builtin_dtype(np.array(["2020-01-01"], dtype="datetime64[D]")).tolist() == ["2020-01-01"]


def test_a_complete_truth_passes():
    assert check_truth(Y, Y) is Y
