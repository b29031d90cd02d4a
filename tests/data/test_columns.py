"""One table, several views."""

from itertools import count

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array

from protocol_mvc.data.columns import split_columns

X = np.arange(15.0).reshape(3, 5)


@pytest.mark.parametrize("make", [np.asarray, csr_array, lambda x: pd.DataFrame(x, columns=list("abcde"))])
@pytest.mark.parametrize(
    ("group", "columns"),
    [((1, 3), [1, 2]), ([1, 3], [1, 3]), ([4, 0], [4, 0]), (slice(None, 2), [0, 1]), (np.array([2]), [2])],
)
def test_groups_select_columns(make, group, columns):
    part = split_columns(make(X), [group])["view_0"]
    dense = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
    np.testing.assert_array_equal(dense, X[:, columns])


def test_frames_are_split_by_name():
    frame = pd.DataFrame(X, columns=list("abcde"))
    parts = split_columns(frame, {"left": ["a", "c"], "right": ("b", "e")})
    assert [list(part.columns) for part in parts.values()] == [["a", "c"], ["b", "e"]]


@pytest.mark.parametrize("group", [(1, 4), [1, 2, 3]])
def test_neighbouring_columns_share_memory(group):
    assert np.shares_memory(split_columns(X, [group])["view_0"], X)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([], "`groups` is empty"),
        ({}, "`groups` is empty"),
        ([(0, 2), (2, 6)], "'view_1' asks for column 5, but X has 5 columns"),
        ({"a": [-1]}, "'a' asks for column -1"),
        ({"a": ["p"]}, "'a' asks for column 'p'"),
        ({"a": []}, "'a' selects no column"),
        ({"a": (3, 3)}, "'a' selects no column"),
        ({"a": 3}, "'a' is 3"),
        ({"a": (0, 10**12)}, "'a' asks for column 5"),
        ({"a": range(10**15)}, "'a' asks for column 5"),
        ({"a": count()}, "'a' asks for column 5"),
        ({"a": (0, 1.5)}, r"'a' is \(0, 1\.5\)"),
        ({"a": slice("x")}, r"'a' is slice\(None, 'x', None\)"),
        ({"a": [1.5]}, "'a' asks for column 1.5"),
        ({"a": [None]}, "'a' asks for column None"),
        ({"a": np.array(3)}, r"'a' is array\(3\)"),
        ({"a": [np.eye(2)]}, r"'a' asks for column array\(\[\[1., 0.\], \[0., 1.\]\]\), but"),
        ({"a": "b"}, "'a' is 'b'"),
    ],
)
def test_bad_groups_are_named(groups, message):
    with pytest.raises(ValueError, match=message):
        split_columns(X, groups)


@pytest.mark.parametrize("groups", [5, None, np.array(3), torch.tensor(3)], ids=str)
def test_groups_that_are_no_list_are_refused(groups):
    with pytest.raises(ValueError, match="list of column groups"):
        split_columns(np.ones((2, 3)), groups)
