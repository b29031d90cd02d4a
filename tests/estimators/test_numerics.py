"""Numbers at the edge: they cluster as well as others, or the fit says what is wrong with them."""

from typing import Any

import numpy as np
import pytest
from tests.examples import blobs, tiny

from protocol_mvc import PROTOCOL
from protocol_mvc.evaluation.metrics import clustering_accuracy
from protocol_mvc.exceptions import ConstantViewWarning, DivergenceError, UnreliableClusterWarning

VIEWS, TRUTH = blobs((60, 30, 15), noise=0.3)
LONGER: dict[str, Any] = {"config__reconstruct_length": 20, "config__rebalance_length": 10}


def fitted(views: Any, **params: Any):
    return tiny(**params).set_params(**LONGER).fit(views)


@pytest.mark.parametrize("factor", [1e12, 1e-12, 1e30])
def test_a_view_in_another_unit_changes_nothing_but_its_unit(factor: float):
    plain = fitted(VIEWS)
    assert clustering_accuracy(TRUTH, plain.labels_) > 0.95
    np.testing.assert_array_equal(fitted([VIEWS[0], VIEWS[1] * factor]).labels_, plain.labels_)


def test_a_dead_view_is_named_and_the_other_still_clusters():
    with pytest.warns(ConstantViewWarning, match="'view_1' is the same in all samples"):
        model = fitted([VIEWS[0], np.zeros_like(VIEWS[1])])
    assert clustering_accuracy(TRUTH, model.labels_) > 0.9


def test_a_view_of_noise_does_not_spoil_the_other():
    noise = np.random.default_rng(0).normal(size=VIEWS[1].shape)
    assert clustering_accuracy(TRUTH, fitted([VIEWS[0], noise]).labels_) > 0.6


def test_clusters_that_collapse_are_told():
    same = [np.ones((30, 3)), np.ones((30, 2))]
    with pytest.warns(UnreliableClusterWarning, match="fewer than 5 samples"):
        model = tiny(scaling="none").fit(same)
    assert len(set(model.labels_.tolist())) == 1


def outcome(model: PROTOCOL) -> str:
    """How a fit ended, which is never with labels of a broken network."""
    try:
        model.fit(VIEWS)
    except DivergenceError as error:
        return str(error)
    assert np.isfinite(model.predict_proba(VIEWS)).all()
    assert np.isfinite(model.embedding_).all()
    return "lower the learning rate" if len({record["rate"] for record in model.history_}) > 1 else ""


@pytest.mark.parametrize("rate", ["reconstruct_rate", "align_rate", "rebalance_rate"])
@pytest.mark.filterwarnings("ignore::protocol_mvc.exceptions.DivergenceWarning")
def test_a_wild_learning_rate_of_any_stage_is_met_or_told(rate: str):
    model = tiny().set_params(**{f"config__{rate}": 1e25, "config__align_twins": True})
    assert "lower the learning rate" in outcome(model)


@pytest.mark.parametrize("rate", [10.0, 1e3])
@pytest.mark.filterwarnings("ignore::protocol_mvc.exceptions.DivergenceWarning")
def test_without_scaling_a_high_rate_gives_finite_results_or_none(rate: float):
    outcome(tiny(scaling="none").set_params(config__reconstruct_rate=rate, config__align_rate=rate))
