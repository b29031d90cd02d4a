"""Bad parameters and bad data raise a ValueError that names the culprit."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from tests.examples import TINY, blobs, tiny

from protocol_mvc import PROTOCOL, as_views

VIEWS, _ = blobs()
A, B = VIEWS


def spoiled(value: float):
    b = B.copy()
    b[3, 2] = value
    return [A, b]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ({"image": A, "text": B[:50]}, "'image' has 90 rows but view 'text' has 50"),
        (spoiled(np.nan), "'view_1' has NaN at row 3, column 2"),
        ([A, pd.DataFrame({"colour": ["red"] * 90})], "'view_1'.*red"),
        ([A, None], "'view_1' is None"),
        ([np.where(np.arange(90)[:, None] == 4, np.nan, x) for x in VIEWS], "Row 4 "),
        ([], "no view"),
        ([A[:1], B[:1]], "n_samples = 1"),
    ],
)
def test_data_that_cannot_be_clustered(X, message: str):
    with pytest.raises(ValueError, match=message):
        tiny().fit(X)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        *(({"n_clusters": k}, f"n_clusters .* {k!r}") for k in (1, -1, 2.5, "3", None, True, 91)),
        *(({"config": c}, r"config .*'default', 'paper'") for c in ("papper", None, 5, dict[str, int]())),
        *(({"batch_size": b}, f"batch_size .* {b!r}") for b in (0, 1, 2.5, None, "8", True)),
        *(({"device": d}, f"device {d!r}") for d in ("toaster", "cuda:99")),
        ({"scaling": "big"}, "'big' for view 'view_0'"),
        ({"scaling": ["standard"]}, "1 kinds for 2 views"),
        ({"scaling": {"sound": "l2"}}, "'sound'"),
        ({"scaling": None}, "scaling .* None"),
        ({"verbose": "loud"}, "verbose .* 'loud'"),
        *(({"random_state": r}, "random_state must be") for r in (-1, 1.5, "0", [0])),
        ({"view_columns": [(0, 2), (2, 4)]}, "view_columns"),
    ],
    ids=str,
)
def test_parameters_are_checked_in_fit(params, message: str):
    with pytest.raises(ValueError, match=message):
        tiny(**params).fit(VIEWS)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"config__readou": 1}, "'readou'"),
        ({"config__network__logit_scale": -2}, "'logit_scale' cannot be -2"),
        ({"config__network__hidden_dims": (0,)}, "'hidden_dims.0' cannot be 0"),
        ({"clusters": 3}, "'clusters'"),
    ],
    ids=str,
)
def test_parameters_are_checked_in_set_params(params, message: str):
    with pytest.raises(ValueError, match=message):
        tiny().set_params(**params)


@pytest.mark.parametrize("name", ["predict", "predict_proba", "transform", "score"])
def test_unfitted_estimators_raise_an_error(name: str):
    with pytest.raises(NotFittedError, match="PROTOCOL instance is not fitted"):
        getattr(tiny(), name)(VIEWS)


@pytest.fixture(scope="module")
def numbered():
    return tiny().fit(VIEWS)


@pytest.fixture(scope="module")
def named():
    return tiny().fit({"a": A, "b": B})


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([A, B[:, :2]], "'view_1' has 2 features, but fit saw 4"),
        ([A], "1 views, but fit saw 2"),
        ([A, B, A], "3 views, but fit saw 2"),
        (A, "5 features, .* 9 features"),
        (np.hstack(VIEWS), "1 views, but fit saw 2"),
        (spoiled(np.inf), "'view_1' has infinity"),
        ([A[:0], B[:0]], "0 sample"),
        (as_views(VIEWS)[:0], "0 sample"),
    ],
)
def test_new_samples_must_have_the_views_of_fit(numbered, X, message: str):
    with pytest.raises(ValueError, match=message):
        numbered.predict(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [({"a": A, "c": B}, "'c'"), ({"a": B}, "'a' has 4 features, but fit saw 5"), (VIEWS, "'a', 'b'")],
)
def test_views_are_matched_by_name(named, X, message: str):
    with pytest.raises(ValueError, match=message):
        named.predict(X)


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
    with pytest.raises(ValueError, match="View 'x' lacks"):
        model.predict({"x": frame.rename(columns={"c": "d"}), "y": other})
    assert (model.predict({"x": frame, "y": other}) == model.labels_).all()


def test_names_are_checked_before_the_training():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["a", 0, 1])
    with pytest.raises(TypeError, match="string"):
        PROTOCOL(2, config="never reached").fit(frame)
