"""Every method is an estimator that uses no more of the true labels than their number."""

from importlib.util import find_spec

import numpy as np
import pytest
from benchmarks.methods import (
    ABLATION,
    AUTO,
    COMPARED,
    INCOMPLETE,
    METHODS,
    NETWORKS,
    config_of,
    fit_method,
    get_field,
    make_estimator,
)
from tests.benchmarks.recorded import quick
from tests.examples import blobs

from protocol_mvc.data import as_views, mask_views
from protocol_mvc.estimators.clusterers import ESTIMATORS

ARRAYS, LABELS = blobs()
VIEWS = as_views(ARRAYS)


def runs_here(name: str) -> bool:
    needed = {"umap": "umap", "leiden": "igraph"}.get(name.partition("-")[0])
    return needed is None or find_spec(needed) is not None


@pytest.mark.parametrize("name", [*filter(runs_here, METHODS)])
def test_every_method_fits_and_predicts(name: str):
    model = fit_method(name, VIEWS, 0, config_of(name, quick(name)), LABELS)
    assert model.labels_.shape == (90,)
    assert set(model.labels_) <= {-1, 0, 1, 2}
    np.testing.assert_array_equal(model.predict(VIEWS), model.labels_)
    np.testing.assert_array_equal(model.predict(VIEWS[:7]), model.labels_[:7])


@pytest.mark.parametrize("name", ["ward", "protocol", "simvc"])
def test_methods_use_the_number_of_true_labels_alone(name: str):
    config = config_of(name, quick(name))
    first, second = (fit_method(name, VIEWS, 0, config, labels).labels_ for labels in (LABELS, LABELS[::-1]))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("variant", "name", "value"),
    [("base", "schedule.n_epochs_rebalance", 0), ("base+pot", "losses.rebalanced", False)],
)
def test_a_variant_of_the_ablation_is_the_default_with_one_change(variant: str, name: str, value):
    assert config_of(variant) == config_of("protocol", {name: value})
    other = config_of(variant, {name: 3 if value == 0 else True, "pseudo_labels.consensus_weight": 0.25})
    assert get_field(other, name) == value, "changes do not undo the variant"
    assert get_field(other, "pseudo_labels.consensus_weight") == 0.25


def test_the_last_variant_is_the_method():
    assert config_of("base+pot+clr") == config_of("protocol")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_stored_config_makes_the_preset_again(name: str):
    estimator, preset, changes = NETWORKS[name]
    model = make_estimator(name, 3, 7, config_of(name))
    assert (model.n_clusters, model.random_state) == ("auto" if name == AUTO else 3, 7)
    assert (model.config == estimator._presets[preset]) is not bool(changes)


def test_every_estimator_has_its_name_and_every_preset_another():
    assert set(ESTIMATORS) <= set(METHODS)
    assert {"protocol-paper", "csot-published", "ardmvc-am"} <= set(METHODS)
    assert config_of("ardmvc-am")["mitigator"]
    assert not config_of("ardmvc")["mitigator"]
    assert set(COMPARED) <= set(METHODS)
    assert not set(COMPARED) & ABLATION.keys()


@pytest.mark.parametrize("name", [name for name in filter(runs_here, COMPARED) if name in INCOMPLETE])
def test_some_methods_take_samples_with_missing_views(name: str):
    gaps = mask_views(VIEWS, 0.3)
    assert not gaps.is_complete
    assert fit_method(name, gaps, 0, config_of(name, quick(name)), LABELS).labels_.shape == (90,)


def test_changes_are_for_methods_with_a_config():
    assert config_of("kmeans", {"readout": "kmeans"}) == config_of("kmeans") == {}
    assert config_of("protocol", {"readout": "kmeans"}) == config_of("protocol") | {"readout": "kmeans"}


@pytest.mark.parametrize("change", [{"losses.logit_adjustment": "x"}, {"losses.logit": 0.3}, {"loss.x": 1}])
def test_impossible_changes_are_refused_by_name(change):
    with pytest.raises(ValueError, match=r"logit_adjustment|'logit'|'loss'"):
        config_of("protocol", change)
