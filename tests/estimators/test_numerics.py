"""Extreme values are clustered as well as others, or a warning or error names the cause."""

from typing import Any

import numpy as np
import pytest
from tests.examples import TINY, TINY_PAPER, blobs, tiny

from protocol_mvc import PROTOCOL, ProtocolConfig
from protocol_mvc.evaluation.metrics import clustering_accuracy
from protocol_mvc.exceptions import ConstantViewWarning, DivergenceError, UnreliableClusterWarning

VIEWS, TRUTH = blobs((60, 30, 15), noise=0.3)
LONGER = {"config__schedule__n_epochs_align": 5, "config__schedule__n_epochs_rebalance": 10}


def fitted(views: Any, **params: Any):
    return tiny(**params).set_params(**LONGER).fit(views)


@pytest.mark.parametrize("factor", [1e12, 1e-12, 1e30])
def test_labels_do_not_depend_on_the_unit_of_a_view(factor: float):
    plain = fitted(VIEWS)
    assert clustering_accuracy(TRUTH, plain.labels_) > 0.95
    np.testing.assert_array_equal(fitted([VIEWS[0], VIEWS[1] * factor]).labels_, plain.labels_)


def test_constant_view_is_named_and_the_other_is_clustered():
    with pytest.warns(ConstantViewWarning, match="view_1"):
        model = fitted([VIEWS[0], np.zeros_like(VIEWS[1])])
    assert clustering_accuracy(TRUTH, model.labels_) > 0.9


def test_view_of_noise_does_not_spoil_the_other():
    noise = np.random.default_rng(0).normal(size=VIEWS[1].shape)
    assert clustering_accuracy(TRUTH, fitted([VIEWS[0], noise]).labels_) > 0.6


def test_collapsed_clusters_are_warned_of():
    same = [np.ones((30, 3)), np.ones((30, 2))]
    with pytest.warns(UnreliableClusterWarning):
        model = tiny(scaling="none").fit(same)
    assert len(set(model.labels_.tolist())) == 1


def diverged(model: PROTOCOL) -> bool:
    """Fit; return whether a learning rate was lowered or the fit failed. Results are finite in any case."""
    try:
        model.fit(VIEWS)
    except DivergenceError:
        return True
    assert np.isfinite(model.predict_proba(VIEWS)).all()
    assert np.isfinite(model.embedding_).all()
    return any(record["lr_factor"] < 1 for record in model.history_)


@pytest.mark.parametrize(
    ("config", "stage"),
    [(TINY_PAPER, "reconstruct"), *((c, s) for c in (TINY, TINY_PAPER) for s in ("align", "rebalance"))],
)
@pytest.mark.filterwarnings("ignore::protocol_mvc.exceptions.DivergenceWarning")
def test_huge_learning_rate_of_any_stage_is_lowered_or_an_error(config: ProtocolConfig, stage: str):
    rate = {f"config__schedule__lr_{stage}": 1e25}
    assert diverged(tiny(config=config).set_params(**rate))


@pytest.mark.parametrize("lr", [10.0, 1e3])
@pytest.mark.filterwarnings("ignore::protocol_mvc.exceptions.DivergenceWarning")
def test_large_learning_rate_without_scaling_gives_finite_results_or_an_error(lr: float):
    rates = {f"config__schedule__lr_{stage}": lr for stage in ("align", "rebalance")}
    diverged(tiny(scaling="none").set_params(**rates))
