"""The container: many ways in, rows like an array's, scikit-learn's tools around it."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.model_selection import GridSearchCV, cross_validate, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from protocol_mvc.data.views import Views, as_views
from protocol_mvc.exceptions import DataWarning

A = np.arange(12.0).reshape(6, 2)
B = np.arange(18).reshape(6, 3) % 5


@pytest.fixture
def views():
    b = B.astype(float)
    b[4] = np.nan
    return as_views({"a": A, "b": b, "c": csr_array(A)})


def equal(left, right):
    np.testing.assert_array_equal(left.stack(), right.stack())
    np.testing.assert_array_equal(left.mask, right.mask)
    return left.names == right.names and left.sample_ids.tolist() == right.sample_ids.tolist()


@pytest.mark.parametrize(
    "several",
    [
        [A, B],
        (A.tolist(), B.tolist()),
        [A, pd.DataFrame(B)],
        [pd.DataFrame(A), pd.DataFrame(B)],
        [torch.tensor(A), B],
        [csr_matrix(A), csr_array(B)],
    ],
)
def test_every_kind_of_list_means_the_same(several):
    assert equal(as_views(several), as_views({"view_0": A, "view_1": B}))


@pytest.mark.parametrize("make", [np.asarray, np.ndarray.tolist, pd.DataFrame, csr_array, torch.tensor, list])
def test_one_table_is_one_view(make):
    views = as_views(make(A))
    assert views.names == ("view_0",)
    np.testing.assert_array_equal(views.to_dense(0), A)


def test_view_columns_split_one_table():
    stacked = np.hstack([A, B])
    assert equal(as_views(stacked, view_columns=[(0, 2), [2, 3, 4]]), as_views([A, B]))
    assert as_views(stacked, view_columns={"x": (0, 2)}).names == ("x",)


def test_a_frame_lends_its_index_and_may_repeat_ids():
    frame = pd.DataFrame(A, index=list("abcabc"), columns=["p", "q"])
    assert as_views(frame).sample_ids.tolist() == list("abcabc")
    assert as_views(frame, view_columns={"x": ["q"]}).sample_ids.tolist() == list("abcabc")


def test_views_pass_unchanged(views):
    assert as_views(views) is views


def test_properties(views):
    assert (views.shape, views.n_features, views.n_views, len(views)) == ((6, 7), (2, 3, 2), 3, 6)
    assert not views.is_complete
    assert views[:4].is_complete
    assert list(views.views) == ["a", "b", "c"]
    assert repr(views) == "Views(n_samples=6, n_features={a: 2, b: 3, c: 2}, missing=5.6%)"
    assert "<td>float64</td><td>5</td>" in views._repr_html_()


def test_names_are_escaped_in_html():
    assert "<b>" not in as_views({"<b>": A})._repr_html_()


rows = st.one_of(
    st.lists(st.integers(-6, 5)),
    st.lists(st.booleans(), min_size=6, max_size=6),
    st.slices(6),
    st.lists(st.integers(0, 5)).map(lambda x: np.array(x, dtype=int)),
)


@given(rows, st.booleans())
def test_choosing_rows_commutes_with_stacking(key, as_tuple):
    views = as_views([A, csr_array(B)])
    chosen = views[key, ...] if as_tuple else views[key]
    expected = np.hstack([A, B])[key if isinstance(key, slice) or len(key) else np.array([], dtype=int)]
    np.testing.assert_array_equal(chosen.stack(), expected)
    np.testing.assert_array_equal(chosen.to_dense(1), expected[:, 2:])


def test_an_integer_gives_one_row(views):
    assert views[-1].shape == (1, 7)
    assert views[np.int64(2)].sample_ids.tolist() == [2]


@pytest.mark.parametrize("key", [6, [0, 9], (slice(None), 1), "a", [True]])
def test_other_keys_are_refused(views, key):
    with pytest.raises(IndexError):
        views[key]


def test_dense_is_a_finite_copy(views):
    block = views.to_dense(1, [4, 5])
    assert block.dtype == np.float32
    np.testing.assert_array_equal(block, [[0, 0, 0], [0, 1, 2]])
    views.to_dense(0, dtype=np.float64)[:] = -1
    assert views.arrays[0][0, 1] == 1


def test_stacking_marks_what_is_missing(views):
    assert np.isnan(views.stack()[4]).tolist() == [False] * 2 + [True] * 3 + [False] * 2
    with pytest.raises(ValueError, match="copy"):
        np.asarray(views, copy=False)


def test_pickle_keeps_everything(views):
    assert equal(pickle.loads(pickle.dumps(views)), views)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "no view"),
        ({}, "no view"),
        ([A, A[:, 0]], "'view_1'.*1D"),
        (A[:, 0], "'view_0'.*1D"),
        ({"x": A, "y": A[:5]}, "'x' has 6 rows but view 'y' has 5"),
        ({1: A, "1": A}, "'1'"),
        (np.where(A == 3, np.nan, A), "NaN at row 1, column 1"),
        (np.where(A < 2, np.nan, A), "Row 0 "),
    ],
)
def test_bad_input_is_named(bad, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        as_views(bad)


@pytest.mark.parametrize("X", [[A, B], {"a": A}])
def test_view_columns_need_one_table(X):
    with pytest.raises(ValueError, match="view_columns"):
        as_views(X, view_columns=[(0, 1)])


@pytest.mark.parametrize(
    "parts",
    [
        ((A, A), ("x", "x"), np.arange(6), np.ones((6, 2), bool)),
        ((A,), ("x",), np.arange(5), np.ones((5, 1), bool)),
        ((A,), ("x",), np.arange(6), np.ones((6, 2), bool)),
    ],
)
def test_parts_must_fit(parts):
    with pytest.raises(ValueError, match=r"name|match"):
        Views(*parts)


def test_arrays_beside_frames_have_the_ids_of_the_frames():
    named = pd.DataFrame(B, index=list("uvwxyz"))
    assert as_views([A, named, named]).sample_ids.tolist() == list("uvwxyz")
    with pytest.raises(ValueError, match="'view_1' and 'view_2'"):
        as_views([A, named, named[::-1]])


class FirstViewMeans(ClusterMixin, BaseEstimator):
    """K-means on the first view: the smallest estimator that takes `Views`."""

    def __init__(self, n_clusters=2):
        self.n_clusters = n_clusters

    def fit(self, X, y=None):
        self.model_ = KMeans(self.n_clusters, n_init=1, random_state=0).fit(as_views(X).to_dense(0))
        return self

    def predict(self, X):
        return self.model_.predict(as_views(X).to_dense(0))

    def score(self, X, y=None):
        return self.model_.score(as_views(X).to_dense(0))


def test_scikit_learn_splits_views(views):
    train, test, left, right = train_test_split(views, np.arange(6), test_size=2, random_state=0)
    assert (len(train), len(test)) == (4, 2)
    assert train.sample_ids.tolist() == left.tolist()
    assert test.sample_ids.tolist() == right.tolist()


def test_scikit_learn_cross_validates_and_searches(views):
    scores = cross_validate(FirstViewMeans(), views, cv=3)["test_score"]
    assert np.isfinite(scores).all()
    search = GridSearchCV(FirstViewMeans(), {"n_clusters": [1, 2]}, cv=2).fit(views)
    assert search.predict(views).shape == (6,)


def test_scikit_learn_pipes_views(views):
    pipe = make_pipeline(FunctionTransformer(lambda x: x[:]), FirstViewMeans())
    assert pipe.fit(views).predict(views).shape == (6,)


def test_other_estimators_see_the_stacked_matrix_with_a_warning(views):
    complete, kmeans = views[:4], KMeans(2, n_init=1, random_state=0)
    with pytest.warns(DataWarning, match=r"view_columns=\[\(0, 2\), \(2, 5\), \(5, 7\)\]"):
        from_views = kmeans.fit_predict(complete)
    assert from_views.tolist() == kmeans.fit_predict(complete.stack()).tolist()


@pytest.mark.parametrize("make", [np.asarray, csr_array])
@pytest.mark.parametrize("key", [None, "a", 1.5, [0.5], np.zeros((2, 2), dtype=int), [[1], [2, 3]]])
def test_rows_are_whole_numbers(make, key):
    views = as_views([make(np.ones((3, 2)))])
    with pytest.raises(IndexError):
        views[key]


def test_the_line_about_views_stays_a_line():
    assert repr(as_views({"a\nb" + "x" * 100: np.ones((2, 1))})).startswith(
        "Views(n_samples=2, n_features={a bxxx"
    )


@pytest.mark.parametrize("key", [(), (0, 1), (0, np.arange(3)), (slice(None), slice(1))], ids=range(4))
def test_columns_are_not_chosen_by_index(key):
    with pytest.raises(IndexError, match="sample"):
        as_views([np.ones((3, 2))])[key]
