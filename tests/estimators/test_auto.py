"""n_clusters="auto": every estimator finds the number of clusters, within bounds, or one group."""

import numpy as np
import pytest
from sklearn.base import clone
from tests.examples import blobs, tiny
from tests.methods.small import small_config

from protocol_mvc import PROTOCOL, load_model, stability, suggest_n_clusters
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.exceptions import UnreliableClusterWarning
from protocol_mvc.training.stage import Callback, TrainingState

VIEWS, TRUTH = blobs((80, 40, 20), dims=(6, 5), noise=0.5, seed=1)
CLOUD = [np.random.default_rng(v).normal(size=(60, 4)) for v in range(2)]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_finds_the_number(name: str, tmp_path):
    model = ESTIMATORS[name]("auto", config=small_config(name), random_state=0).fit(VIEWS)
    assert model.n_clusters_ == len(set(TRUTH)) == model.predict_proba(VIEWS).shape[1]
    assert model.get_params()["n_clusters"] == "auto"
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.n_clusters_ == 3
    np.testing.assert_array_equal(loaded.predict(VIEWS), model.labels_)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_group_is_a_possible_answer(name: str):
    model = ESTIMATORS[name]("auto", config=small_config(name), random_state=0)
    with pytest.warns(UnreliableClusterWarning, match="One group"):
        model.fit(CLOUD)
    assert model.n_clusters_ == 1
    assert set(model.labels_) == {0} == set(model.predict(CLOUD))


def test_the_number_is_that_of_the_suggestion():
    model = tiny("auto").fit(VIEWS)
    assert model.cluster_count_ == suggest_n_clusters(VIEWS, random_state=model.seed_)
    assert tiny(3).fit(VIEWS).cluster_count_ is None


@pytest.mark.parametrize(("bounds", "expected"), [("auto:4-6", 4), ("auto:2-2", 2), ("auto:1-9", 3)])
def test_bounds_are_kept(bounds: str, expected: int):
    assert tiny(bounds).fit(VIEWS).n_clusters_ == expected


@pytest.mark.parametrize("wrong", ["auto:5-2", "auto:0-3", "auto:", "Auto", "3", "auto:2-", 1, 2.0, True])
def test_anything_else_is_refused(wrong):
    with pytest.raises(ValueError, match="n_clusters"):
        tiny(wrong).fit(VIEWS)


def test_refits_have_the_number_that_was_found():
    model = tiny("auto").fit(VIEWS)
    assert stability(model, VIEWS, n_resamples=1).cluster_jaccard.shape == (3,)
    assert clone(model).n_clusters == "auto"


@pytest.mark.parametrize("batch_size", ["auto", 32])
def test_the_fit_is_that_with_the_number_given(batch_size):
    model = PROTOCOL("auto", batch_size=batch_size, random_state=0).fit(VIEWS)
    given = PROTOCOL(3, batch_size=batch_size, random_state=0).fit(VIEWS)
    np.testing.assert_array_equal(model.predict_proba(VIEWS), given.predict_proba(VIEWS))


def test_an_interrupted_fit_resumes_to_the_same_bits(tmp_path):
    class Stop(Callback):
        def on_epoch_start(self, state: TrainingState) -> None:
            if state.stage == 3 and state.epoch == 2:
                raise KeyboardInterrupt

    whole = PROTOCOL("auto", random_state=0).fit(VIEWS)
    model = PROTOCOL("auto", random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(VIEWS, checkpoint_dir=tmp_path, callbacks=[Stop()])
    resumed = model.fit(VIEWS, checkpoint_dir=tmp_path)
    np.testing.assert_array_equal(resumed.predict_proba(VIEWS), whole.predict_proba(VIEWS))
