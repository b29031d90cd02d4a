"""New data get the views and columns of the fit, whatever order and container they come in."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol_mvc.data.matching import column_positions, match_views, read_like_fit, warn_without_names
from protocol_mvc.data.views import as_views
from protocol_mvc.exceptions import DataWarning

A = np.arange(12.0).reshape(6, 2)
B = np.arange(18.0).reshape(6, 3)
LISTED, NAMED = ("view_0", "view_1"), ("a", "b")
IDS = list("uvwxyz")


def match(X, names=LISTED, columns=None):
    """Return the views of a fit of A and B."""
    return match_views(read_like_fit(X, names, None), names, [2, 3], columns or {})


@pytest.mark.parametrize(
    ("X", "names"),
    [
        ([None, B], LISTED),
        ((None, B.tolist()), LISTED),
        ({1: B}, LISTED),
        ({np.int64(1): B, 0: None}, LISTED),
        ({"view_1": B}, LISTED),
        ({"b": B}, NAMED),
        (as_views({"b": B}), NAMED),
        ({"a": None, "b": pd.DataFrame(B)}, NAMED),
    ],
    ids=range(8),
)
def test_a_view_may_be_left_out(X, names):
    views = match(X, names)
    assert views.names == names
    assert views.n_features == (2, 3)
    assert views.mask.tolist() == [[False, True]] * 6
    np.testing.assert_array_equal(views.to_dense(1, dtype=np.float64), B)
    assert (views.to_dense(0) == 0).all()


def test_views_are_put_in_order():
    views = match({"b": B, "a": A}, NAMED)
    np.testing.assert_array_equal(views.stack(), np.hstack([A, B]))


@pytest.mark.parametrize(
    ("X", "names", "culprit"),
    [
        ([A], LISTED, "1 views, but fit saw 2.*None.*as_views"),
        (as_views([A]), LISTED, "1 views, but fit saw 2"),
        ([A, B, B], LISTED, "3 views"),
        ({2: A}, LISTED, "'view_2'"),
        ({"a": A, "z": B}, NAMED, "'z'.*'a', 'b'"),
        ([A, B], NAMED, "dict of views by name"),
        ({"a": B}, NAMED, "'a' has 3 features, but fit saw 2"),
        ([None, None], LISTED, "no views"),
    ],
    ids=range(8),
)
def test_other_views_are_refused(X, names, culprit):
    with pytest.raises(ValueError, match=culprit):
        match(X, names)


@given(st.permutations(["p", "q", "r"]))
def test_columns_are_put_in_the_order_of_the_fit(order):
    frame = pd.DataFrame(B, columns=["p", "q", "r"])
    views = match({"b": frame[order]}, NAMED, {"b": ("p", "q", "r")})
    np.testing.assert_array_equal(views.to_dense(1, dtype=np.float64), B)


def test_other_columns_are_ignored_with_one_warning():
    frame = pd.DataFrame(B, columns=["p", "q", "r"]).assign(**{f"x{i}": 0 for i in range(50)})
    with pytest.warns(DataWarning, match=r"'b' has 50 columns.*'x9' and 40 more") as caught:
        views = match({"b": frame}, NAMED, {"b": ("p", "q", "r")})
    assert len(caught) == 1
    np.testing.assert_array_equal(views.to_dense(1, dtype=np.float64), B)


def test_missing_columns_are_named_in_a_short_message():
    wanted = [f"gene{i}" for i in range(5000)]
    with pytest.raises(ValueError, match=r"lacks 4900 of the 5000 .*'gene100'") as caught:
        column_positions("View 'rna'", wanted[:100], wanted)
    assert len(str(caught.value)) < 300
    with pytest.raises(ValueError, match="one name"):
        column_positions("X", ["p", "p", "q"], ["q", "p"])


def test_numbers_of_columns_are_no_names():
    assert column_positions("X", ["p", "q"], ["0", "1"]) is None
    assert column_positions("X", ["0", "1"], ["p", "q"]) is None
    assert column_positions("X", None, ["p", "q"]) is None


FRAMES = as_views({"a": pd.DataFrame(A, IDS, ["p", "q"]), "b": pd.DataFrame(B, IDS, ["r", "s", "t"])})
COLUMNS = dict(zip(FRAMES.names, FRAMES.columns, strict=True))


class TestNames:
    @pytest.mark.parametrize(
        ("X", "culprit"),
        [
            ({"a": A, "b": B}, "column names in 'a', 'b' and no sample ids"),
            ({"a": A, "b": pd.DataFrame(B, IDS, ["r", "s", "t"])}, "column names in 'a', but"),
            ({"b": B}, "column names in 'b', but"),
        ],
        ids=["arrays", "one array", "one view"],
    )
    def test_data_without_the_names_of_the_fit_are_warned_of(self, X, culprit):
        with pytest.warns(DataWarning, match=culprit):
            warn_without_names(as_views(X), COLUMNS, FRAMES.sample_ids)

    def test_data_with_names_are_not(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn_without_names(FRAMES[:3], COLUMNS, FRAMES.sample_ids)
            warn_without_names(as_views([A, B]), {}, np.arange(3, 9))  # a part of some arrays
