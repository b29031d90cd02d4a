"""Properties that every estimator has, for every method."""

import math
from itertools import pairwise

import numpy as np
import pytest
from tests.examples import blobs, with_gaps
from tests.methods.small import small
from tests.training.interruptions import interrupted_at_every_epoch

from protocol_mvc.data import as_views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import ESTIMATORS, load_model
from protocol_mvc.exceptions import ModelFileError

VIEWS, TRUTH = blobs(dims=(5, 4, 3))
every = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(scope="module")
def fitted() -> dict[str, MultiViewClusterer]:
    return {}


@pytest.fixture
def model(name: str, fitted: dict[str, MultiViewClusterer]) -> MultiViewClusterer:
    """The method fitted once for all tests here."""
    if name not in fitted:
        fitted[name] = small(name).fit(VIEWS)
    return fitted[name]


@every
def test_labels_are_numbered_by_cluster_size(name: str, model: MultiViewClusterer):
    assert model.labels_.shape == (90,)
    assert set(model.labels_) <= {0, 1, 2}
    assert model.cluster_sizes_.tolist() == np.bincount(model.labels_, minlength=3).tolist()
    assert all(a >= b for a, b in pairwise(model.cluster_sizes_))


@every
def test_prior_and_weights_are_distributions(name: str, model: MultiViewClusterer):
    for shares, length in ((model.class_prior_, 3), (model.view_weights_, 3)):
        assert shares.shape == (length,)
        assert (shares >= 0).all()
        assert shares.sum() == pytest.approx(1, abs=1e-5)
    assert model.predict_proba(VIEWS).sum(1) == pytest.approx(1, abs=1e-5)


@every
def test_the_labels_of_fit_are_those_of_predict(name: str, model: MultiViewClusterer):
    assert np.array_equal(model.predict(VIEWS), model.labels_)
    assert np.array_equal(model.transform(VIEWS), model.embedding_)
    assert np.array_equal(model.predict_proba(VIEWS), model.label_distributions_)


@every
@pytest.mark.parametrize(
    "rows", [[5], [89, 3, 3, 40], list(range(89, -1, -1))], ids=["one", "some", "turned"]
)
def test_a_sample_depends_on_itself_alone(name: str, rows: list[int], model: MultiViewClusterer):
    part = [view[rows] for view in VIEWS]
    assert np.array_equal(model.predict_proba(part), model.predict_proba(VIEWS)[rows])
    assert np.array_equal(model.transform(part), model.embedding_[rows])


@every
def test_the_history_is_of_finite_numbers(name: str, model: MultiViewClusterer):
    assert model.n_iter_ == len(model.history_) > 0
    for record in model.history_:
        assert len(record) > 4  # at least one loss
        assert all(math.isfinite(value) for key, value in record.items() if key != "stage")


@every
def test_the_same_seed_gives_the_same_bits_for_any_y(name: str, model: MultiViewClusterer):
    again = small(name).fit(VIEWS, TRUTH)
    assert np.array_equal(again.predict_proba(VIEWS), model.predict_proba(VIEWS))
    other = small(name, random_state=1).fit(VIEWS)
    assert not np.array_equal(other.predict_proba(VIEWS), model.predict_proba(VIEWS))


@every
def test_a_saved_model_predicts_the_same_bits(name: str, model: MultiViewClusterer, tmp_path):
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is type(model)
    assert loaded._config == model._config
    assert np.array_equal(loaded.predict_proba(VIEWS), model.predict_proba(VIEWS))
    assert np.array_equal(loaded.transform(VIEWS), model.embedding_)
    other = ESTIMATORS["sem" if name != "sem" else "mflvc"]
    with pytest.raises(ModelFileError, match=f"{type(model).__name__}.load"):
        other.load(tmp_path / "model")


@every
def test_fit_interrupted_at_every_epoch_resumes_to_the_same_bits(
    name: str, model: MultiViewClusterer, tmp_path
):
    resumed, n_interruptions = interrupted_at_every_epoch(lambda: small(name), VIEWS, tmp_path)
    assert n_interruptions >= model.n_iter_ - 1
    assert np.array_equal(resumed.predict_proba(VIEWS), model.predict_proba(VIEWS))
    assert [record["epoch"] for record in resumed.history_] == [r["epoch"] for r in model.history_]


@every
@pytest.mark.parametrize("n_views", [1, 2])
def test_one_view_and_two_are_enough(name: str, n_views: int):
    assert small(name).fit(as_views(VIEWS[:n_views])).labels_.shape == (90,)


@every
def test_few_samples_make_a_batch(name: str):
    assert small(name, 2).fit([view[:3] for view in VIEWS]).labels_.shape == (3,)


@every
def test_samples_that_lack_views_are_used_or_refused(name: str, model: MultiViewClusterer):
    gaps = with_gaps(VIEWS)
    if ESTIMATORS[name]._method.incomplete:
        assert set(small(name).fit(gaps).labels_) <= {0, 1, 2}
        assert model.predict(gaps).shape == (90,)
        return
    for act in (small(name).fit, model.predict):
        with pytest.raises(ValueError, match=f"{type(model).__name__} needs all views of every sample"):
            act(gaps)
