"""Samples of unseen kinds have high outlier scores, known ones seldom; rejected samples have the label -1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score
from tests.examples import TINY_PAPER, blobs, tiny, with_gaps

from protocol_mvc import PROTOCOL, load_model
from protocol_mvc.exceptions import DataWarning
from protocol_mvc.partition import outliers

VIEWS, TRUTH = blobs((150, 100, 60, 40))
KNOWN, UNSEEN = np.flatnonzero(TRUTH < 3), np.flatnonzero(TRUTH == 3)
TRAIN, TEST = KNOWN[:210], KNOWN[210:]


def take(rows, views=VIEWS):
    return [x[rows] for x in views]


@pytest.fixture(scope="module")
def model():
    return tiny().fit(take(TRAIN))


def test_an_unseen_kind_is_told_from_known_ones(model):
    known, unseen = model.outlier_score(take(TEST)), model.outlier_score(take(UNSEEN))
    scores, is_new = np.concatenate([known, unseen]), np.repeat([0, 1], [len(TEST), len(UNSEEN)])
    assert roc_auc_score(is_new, scores) > 0.97
    assert np.all((scores >= 0) & (scores <= 1))
    np.testing.assert_array_equal(model.score_samples(take(TEST)), -known)


def test_at_most_one_in_twenty_training_samples_is_rejected_at_095(model):
    assert (model.outlier_scores_ > 0.95).mean() <= 0.05
    np.testing.assert_array_equal(model.outlier_score(take(TRAIN)), model.outlier_scores_)


def test_rejected_samples_have_no_cluster_and_the_others_keep_theirs(model):
    X = take(np.concatenate([TEST, UNSEEN]))
    with pytest.warns(DataWarning, match="outlier_score"):
        labels = model.predict(X)
    rejected = model.predict(X, reject=0.95)
    is_out = model.outlier_score(X) > 0.95
    np.testing.assert_array_equal(rejected, np.where(is_out, -1, labels))
    assert is_out[len(TEST) :].mean() > 0.8
    np.testing.assert_array_equal(model.predict(X, reject=np.float32(1)), labels)
    table = model.predict_frame(X, reject=0.95)
    assert table.label.tolist() == rejected.tolist()
    assert ((table.name == "") == is_out).all()
    for wrong in (-0.1, 2, "a", True):
        with pytest.raises(ValueError, match="reject"):
            model.predict(X, reject=wrong)


def test_scores_are_those_of_the_sample_alone_and_of_the_loaded_and_the_edited_model(model, tmp_path):
    X = take(TEST)
    scores = model.outlier_score(X)
    np.testing.assert_array_equal(model.outlier_score([x[5:8] for x in X]), scores[5:8])
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.outlier_score(X), scores)
    np.testing.assert_array_equal(loaded.outlier_scores_, model.outlier_scores_)
    np.testing.assert_array_equal(loaded.merge_clusters([0, 1]).outlier_score(X), scores)


def test_gaps_one_view_and_sparse_wide_views(monkeypatch, tmp_path):
    gaps = with_gaps(VIEWS)
    model = tiny().fit(take(TRAIN, gaps))
    scores = [model.outlier_score(take(rows, gaps)) for rows in (TEST, UNSEEN)]
    assert np.median(scores[0]) < 0.6
    assert np.median(scores[1]) > 0.9
    alone = tiny().fit(VIEWS[0][TRAIN])
    assert np.median(alone.outlier_score(VIEWS[0][UNSEEN])) > np.median(alone.outlier_score(VIEWS[0][TEST]))
    monkeypatch.setattr(outliers, "MAX_WIDTH", 3)
    monkeypatch.setattr(outliers, "N_COMPONENTS", 2)
    wide = PROTOCOL(3, config=TINY_PAPER, random_state=0, batch_size=32)
    wide.fit([csr_array(x) for x in take(TRAIN)])
    assert wide._reference is not None
    assert [axes.shape[1] for axes in wide._reference.axes] == [2, 2]
    wide.save(tmp_path / "wide")
    found = load_model(tmp_path / "wide").outlier_score(take(UNSEEN))
    np.testing.assert_array_equal(found, wide.outlier_score(take(UNSEEN)))
    assert np.median(found) > 0.8


def test_a_copy_of_a_training_sample_is_no_outlier():
    repeated = [np.vstack([x[TRAIN], np.repeat(x[TRAIN[:1]], 30, axis=0)]) for x in VIEWS]
    model = tiny().fit(repeated)
    assert model.outlier_score([x[:1] for x in repeated])[0] < 0.5
    constant = tiny(2).fit([np.ones((20, 3)), np.ones((20, 2))])
    assert np.isfinite(constant.outlier_scores_).all()


EQUAL_WIDTHS, _ = blobs((150, 100, 60), (5, 5))


@pytest.fixture(scope="module")
def other():
    return tiny().fit(EQUAL_WIDTHS)


class TestOtherData:
    """A prediction for data that are not like those of the fit comes with a warning."""

    @pytest.mark.parametrize(
        ("change", "culprit"),
        [
            (lambda a, b: [b, a], "'view_0' and 'view_1'"),
            (lambda a, b: [a, b * 20], "the view 'view_1':"),
            (lambda a, b: [None, b + 30], "the view 'view_1':"),
            (lambda a, b: [a, b[::-1]], "rows of all views"),
        ],
        ids=["swapped", "units", "one view", "rows"],
    )
    @pytest.mark.parametrize("method", ["predict", "predict_proba", "transform", "score"])
    def test_it_is_told(self, other, change, culprit, method):
        with pytest.warns(DataWarning, match=culprit) as caught:
            getattr(other, method)(change(*EQUAL_WIDTHS))
        assert len(caught) == 1

    @given(rows=st.lists(st.integers(0, 309), min_size=1))
    def test_samples_like_those_of_the_fit_are_no_reason(self, other, rows):
        near = [x[rows] + 1e-3 for x in EQUAL_WIDTHS]
        other.predict(near)  # a warning would be an error

    def test_one_cluster_is_no_reason(self, other):
        for cluster in range(3):
            other.predict([x[other.labels_ == cluster] for x in EQUAL_WIDTHS])

    def test_who_asks_for_outliers_is_not_told(self, other):
        far = [x + 100 for x in EQUAL_WIDTHS]
        assert (other.predict(far, reject=0.95) == -1).all()
        assert other.predict_frame(far).outlier_score.min() > 0.95
