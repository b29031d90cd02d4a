"""Every method is an estimator; only upper bounds see the truth."""

import numpy as np
import pytest
from tests.bench.recorded import QUICK
from tests.examples import blobs

from protocol_mvc.assignment import kmeans
from protocol_mvc.bench import methods
from protocol_mvc.bench.methods import ABLATION, CONFIGS, METHODS, ViewKMeans, config_of, fitted
from protocol_mvc.data import as_views
from protocol_mvc.methods.protocol_config import PRESETS, ProtocolConfig
from protocol_mvc.metrics import accuracy

ARRAYS, TRUTH = blobs()
VIEWS = as_views(ARRAYS)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_fits_and_predicts(name: str):
    model = fitted(name, VIEWS, 0, config_of(name, QUICK), TRUTH)
    assert model.labels_.shape == (90,)
    assert set(model.labels_) <= {0, 1, 2}
    np.testing.assert_array_equal(model.predict(VIEWS), model.labels_)
    np.testing.assert_array_equal(model.predict(VIEWS[:7]), model.labels_[:7])


@pytest.mark.parametrize("name", sorted(METHODS.keys() - methods.UPPER_BOUNDS))
def test_the_truth_tells_the_others_no_more_than_the_number_of_clusters(name: str):
    config = config_of(name, QUICK)
    first, second = (fitted(name, VIEWS, 0, config, truth).labels_ for truth in (TRUTH, TRUTH[::-1]))
    np.testing.assert_array_equal(first, second)


def test_the_best_view_is_at_least_as_good_as_each():
    best = accuracy(TRUTH, fitted("kmeans-best-view", VIEWS, 0, {}, TRUTH).labels_)
    for v in range(2):
        assert best >= accuracy(TRUTH, ViewKMeans(3, 0, [v]).fit(VIEWS).labels_)


def test_one_view_alone_is_plain_kmeans():
    model = ViewKMeans(3, 0, [1]).fit(VIEWS)
    np.testing.assert_array_equal(model.labels_, kmeans(model._joined(VIEWS), 3, 0))
    assert model._joined(VIEWS).shape == (90, 4)


def test_new_samples_are_scaled_like_the_old_ones():
    model = ViewKMeans(3, 0).fit(VIEWS)
    np.testing.assert_array_equal(model._joined(VIEWS[:2]), model._joined(VIEWS)[:2])


def test_a_cluster_that_is_empty_is_never_predicted():
    points = as_views([np.repeat([[0.0, 1.0], [5.0, 2.0]], 5, axis=0)])
    model = ViewKMeans(3, 0).fit(points)
    assert len(np.unique(model.labels_)) == 2
    np.testing.assert_array_equal(model.predict(points), model.labels_)


def test_the_ablation_is_a_chain_of_single_changes():
    full = dict(PRESETS["default"])
    changed = {name: {f for f in full if CONFIGS[name][f] != full[f]} for name in ABLATION}
    assert changed == {"base": {"rounds"}, "base+pot": {"rebalance"}, "base+pot+clr": set()}
    assert CONFIGS.keys() <= METHODS.keys()


def test_a_change_does_not_bring_back_what_a_variant_lacks():
    config = config_of("base", {"rounds": 3, "mix": 0.25})
    assert (config["rounds"], config["mix"]) == (0, 0.25)
    assert not config_of("base+pot", {"rebalance": True})["rebalance"]


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_is_full_and_comes_back(name: str):
    config = config_of(name)
    assert config.keys() == ProtocolConfig.model_fields.keys()
    assert ProtocolConfig(**config) == ProtocolConfig(**CONFIGS[name])


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
