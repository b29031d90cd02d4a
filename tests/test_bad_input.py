"""Every fault of the user is one clear ValueError that names the culprit."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from tests.examples import TINY, blobs, tiny

from protocol_mvc import PROTOCOL, as_views

VIEWS, _ = blobs()
A, B = VIEWS
NO_CONFIGS: tuple[Any, ...] = ("papper", None, 5, [], {})


def spoiled(value: float):
    b = B.copy()
    b[3, 2] = value
    return [A, b]


@pytest.mark.parametrize(
    ("X", "says"),
    [
        ([A, B[:50]], "'view_0' has 90 rows but view 'view_1' has 50"),
        ({"image": A, "text": B[:50]}, "'image' has 90 rows but view 'text' has 50"),
        (spoiled(np.nan), "'view_1' holds NaN at row 3, column 2"),
        (spoiled(np.inf), "'view_1' holds infinity .* at row 3, column 2"),
        ([A, B[:, :0]], "'view_1'.*0 feature"),
        ([A[:0], B[:0]], "'view_0'.*0 sample"),
        ([A, np.full((90, 2), "x")], "'view_1'.*strings"),
        ([A, pd.DataFrame({"colour": ["red"] * 90})], "'view_1'.*red"),
        ([A, 1j * B], "'view_1'.*[Cc]omplex"),
        ([A, None], "'view_1' is None"),
        ([A, np.zeros((90, 2, 2))], "'view_1'.*dim 3"),
        ([np.where(np.arange(90)[:, None] == 4, np.nan, x) for x in VIEWS], "Row 4 .* has no view at all"),
        ([], "no view"),
        ({}, "no view"),
        (None, "is None"),
        (A[0], "Expected 2D array"),
        ([A[:1], B[:1]], "at least 2 samples, got n_samples = 1"),
    ],
)
def test_views_that_cannot_be_clustered(X, says: str):
    with pytest.raises(ValueError, match=says):
        tiny().fit(X)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        *(
            ({"n_clusters": k}, f"n_clusters .* 2 .* got {k!r}")
            for k in (1, 0, -1, 2.5, 3.0, "3", None, True)
        ),
        ({"n_clusters": 91}, r"number of samples \(90\), got 91"),
        *(({"config": c}, r"config must be .*'default', 'paper'.* got") for c in NO_CONFIGS),
        *(({"batch_size": b}, f"batch_size .* got {b!r}") for b in (0, 1, -2, 2.5, None, "8", True)),
        *(({"device": d}, f"device {d!r} cannot be used") for d in ("toaster", "cuda:99")),
        ({"scaling": "big"}, "scaling 'big' for view 'view_0'"),
        ({"scaling": ["standard", "big"]}, "scaling 'big' for view 'view_1'"),
        ({"scaling": ["standard"]}, "1 kinds for 2 views"),
        ({"scaling": {"sound": "l2"}}, "'sound'"),
        ({"scaling": 5}, "scaling must .* got 5"),
        ({"verbose": "loud"}, "verbose must be a whole number, got 'loud'"),
        ({"scaling": None}, "scaling must .* got None"),
        *(({"random_state": r}, "random_state must be") for r in (-1, 1.5, "0", [0])),
        ({"view_columns": [(0, 2), (2, 4)]}, "X has views already"),
    ],
    ids=str,
)
def test_parameters_are_checked_in_fit(params, says: str):
    model = tiny(**params)
    with pytest.raises(ValueError, match=says):
        model.fit(VIEWS)


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([(0, 99)], "column 5, but X has 5 columns"),
        ({"left": [7]}, "'left' asks for column 7"),
        ({"left": []}, "'left' selects no column"),
        ([], "empty"),
        ({"left": "x"}, "'left' is 'x'"),
    ],
)
def test_groups_of_columns_must_be_there(groups, says: str):
    with pytest.raises(ValueError, match=says):
        tiny(view_columns=groups).fit(A)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"config__mixx": 1}, "'mixx'"),
        ({"config__mix": 2}, "'mix' cannot be 2"),
        ({"config__hidden": (0,)}, "'hidden.0' cannot be 0"),
        ({"clusters": 3}, "Invalid parameter 'clusters'"),
    ],
    ids=str,
)
def test_fields_are_checked_when_they_are_set(params, says: str):
    with pytest.raises(ValueError, match=says):
        tiny().set_params(**params)


@pytest.mark.parametrize("name", ["predict", "predict_proba", "transform", "score"])
def test_fit_comes_first(name: str):
    with pytest.raises(NotFittedError, match="PROTOCOL instance is not fitted"):
        getattr(tiny(), name)(VIEWS)


@pytest.fixture(scope="module")
def numbered():
    return tiny().fit(VIEWS)


@pytest.fixture(scope="module")
def named():
    return tiny().fit({"a": A, "b": B})


@pytest.mark.parametrize(
    ("X", "says"),
    [
        ([A, B[:, :2]], "'view_1' has 2 features, but 4 are expected"),
        ([A], "views .'view_0'., but the expected ones are .'view_0', 'view_1'"),
        ([A, B, A], "'view_2'"),
        (A, "X has 5 features, but PROTOCOL is expecting 9 features"),
        (np.hstack(VIEWS), "the expected ones are .'view_0', 'view_1'"),
        (spoiled(np.nan), "'view_1' holds NaN"),
        ([A[:0], B[:0]], "0 sample"),
    ],
)
def test_new_samples_must_look_like_the_old_ones(numbered, X, says: str):
    with pytest.raises(ValueError, match=says):
        numbered.predict(X)


@pytest.mark.parametrize(
    ("X", "says"),
    [
        ({"a": A, "c": B}, "views .'a', 'c'., but the expected ones are .'a', 'b'"),
        ({"a": B}, "'a' has 4 features, but 5 are expected"),
        (VIEWS, "views .'view_0', 'view_1'., but the expected ones are .'a', 'b'"),
    ],
)
def test_views_are_known_by_name(named, X, says: str):
    with pytest.raises(ValueError, match=says):
        named.predict(X)


def test_one_table_must_have_its_columns_in_order():
    model = tiny().fit(pd.DataFrame(A, columns=list("abcde")))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(A, columns=list("edcba")))


def test_a_fit_that_fails_leaves_the_estimator_as_it_was(numbered, monkeypatch):
    fresh = tiny()
    fitted = tiny().fit(VIEWS)

    def broken(*args):
        raise RuntimeError("out of luck")

    monkeypatch.setattr("protocol_mvc.estimators.base.train", broken)
    for model in (fresh, fitted):
        with pytest.raises(RuntimeError, match="out of luck"):
            model.fit([B, A, A])
    np.testing.assert_array_equal(fitted.predict(VIEWS), numbered.labels_)
    with pytest.raises(NotFittedError):
        fresh.predict(VIEWS)


def test_frames_with_other_columns_than_at_fit_are_refused():
    rng = np.random.default_rng(0)
    frame, other = pd.DataFrame(rng.normal(size=(30, 3)), columns=list("abc")), rng.normal(size=(30, 2))
    model = PROTOCOL(2, config=TINY, random_state=0).fit({"x": frame, "y": other})
    with pytest.raises(ValueError, match="View 'x' has the columns"):
        model.predict({"x": frame[list("cba")], "y": other})
    assert (model.predict({"x": frame, "y": other}) == model.labels_).all()


def test_nothing_to_predict_is_refused():
    x = np.random.default_rng(0).normal(size=(20, 2))
    model = PROTOCOL(2, config=TINY, random_state=0).fit([x, x])
    with pytest.raises(ValueError, match="0 samples"):
        model.predict(as_views([x, x])[:0])


def test_names_are_checked_before_the_training():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["a", 0, 1])
    with pytest.raises(TypeError, match="string"):
        PROTOCOL(2, config="never reached").fit(frame)
