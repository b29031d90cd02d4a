"""Every method is an estimator; only upper bounds see the truth."""

import numpy as np
import pytest
from benchmarks import methods
from benchmarks.methods import ABLATION, COMPARED, CONFIGS, FOR_GAPS, METHODS, NETWORKS, config_of, fitted
from tests.benchmarks.recorded import quick
from tests.examples import blobs

from protocol_mvc.data import as_views, mask_views
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.methods.protocol.config import PRESETS

ARRAYS, TRUTH = blobs()
VIEWS = as_views(ARRAYS)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_fits_and_predicts(name: str):
    model = fitted(name, VIEWS, 0, config_of(name, quick(name)), TRUTH)
    assert model.labels_.shape == (90,)
    assert set(model.labels_) <= {0, 1, 2}
    np.testing.assert_array_equal(model.predict(VIEWS), model.labels_)
    np.testing.assert_array_equal(model.predict(VIEWS[:7]), model.labels_[:7])


@pytest.mark.parametrize("name", sorted(METHODS.keys() - methods.UPPER_BOUNDS))
def test_the_truth_tells_the_others_no_more_than_the_number_of_clusters(name: str):
    config = config_of(name, quick(name))
    first, second = (fitted(name, VIEWS, 0, config, truth).labels_ for truth in (TRUTH, TRUTH[::-1]))
    np.testing.assert_array_equal(first, second)


def test_the_ablation_is_a_chain_of_single_changes():
    full = dict(PRESETS["default"])
    changed = {name: {f for f in full if CONFIGS[name][f] != full[f]} for name in ABLATION}
    assert changed == {"base": {"rounds"}, "base+pot": {"rebalance"}, "base+pot+clr": set()}
    assert CONFIGS.keys() <= METHODS.keys()


def test_a_change_does_not_bring_back_what_a_variant_lacks():
    config = config_of("base", {"rounds": 3, "mix": 0.25})
    assert (config["rounds"], config["mix"]) == (0, 0.25)
    assert not config_of("base+pot", {"rebalance": True})["rebalance"]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_config_is_full_and_comes_back(name: str):
    kind = type(NETWORKS[name][0]._presets["default"])
    config = config_of(name)
    assert config.keys() == kind.model_fields.keys()
    assert kind(**config) == kind(**CONFIGS[name])


def test_every_estimator_has_its_name_and_every_preset_another():
    assert ESTIMATORS.keys() <= METHODS.keys()
    assert {"protocol-paper", "csot-published", "ardmvc-am"} <= METHODS.keys()
    assert config_of("ardmvc-am")["mitigator"]
    assert not config_of("ardmvc")["mitigator"]
    assert set(COMPARED) <= METHODS.keys()
    assert not set(COMPARED) & ABLATION.keys()


@pytest.mark.parametrize("name", [name for name in COMPARED if name in FOR_GAPS])
def test_some_methods_are_for_samples_that_lack_views(name: str):
    gaps = mask_views(VIEWS, 0.3)
    assert not gaps.is_complete
    assert fitted(name, gaps, 0, config_of(name, quick(name)), TRUTH).labels_.shape == (90,)


def test_changes_are_for_methods_with_a_config():
    assert config_of("kmeans", {"mix": 0.3}) == config_of("kmeans") == {}
    assert config_of("protocol", {"mix": 0.25}) == config_of("protocol") | {"mix": 0.25}
    assert config_of("protocol", {"mix": "0.25"})["mix"] == 0.25


@pytest.mark.parametrize("change", [{"mix": 3}, {"mixx": 0.3}])
def test_impossible_changes_are_refused_by_name(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        config_of("protocol", change)


def test_the_estimator_gets_the_fields():
    model = METHODS["protocol"](4, 7, config_of("protocol", {"mix": 0.25}))
    assert (model.n_clusters, model.random_state, model.config.mix) == (4, 7, 0.25)
