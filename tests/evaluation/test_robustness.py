"""An attack stays within eps for every method, and raises the contrast between views."""

import numpy as np
import pytest
import torch
from tests.examples import blobs, tiny, with_gaps
from tests.methods.small import small

from protocol_mvc.data.scaling import scaled_rows
from protocol_mvc.data.views import as_views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.evaluation.robustness import pgd_attack
from protocol_mvc.losses.contrastive import mutual_contrast

VIEWS, _ = blobs()


def scaled(model: MultiViewClusterer) -> list[np.ndarray]:
    views = as_views(VIEWS)
    return [scaled_rows(views, v, slice(None), s) for v, s in enumerate(model.scalers_)]


def contrast(model: MultiViewClusterer, views: list[np.ndarray]) -> float:
    h = model.module_.network.encode([torch.from_numpy(x) for x in views]).h
    return mutual_contrast(h, temperature=0.1).item()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_model_of_any_method_can_be_attacked(name: str):
    model = small(name).fit(VIEWS)
    before = {key: x.clone() for key, x in model.module_.state_dict().items()}
    found = pgd_attack(model, VIEWS, 0.3, n_steps=4)
    assert found.labels.shape == (90,)
    assert set(found.labels) <= {0, 1, 2}
    assert contrast(model, found.views) > contrast(model, scaled(model))
    for clean, moved in zip(scaled(model), found.views, strict=True):
        unit = 1.0 if model.scalers_[0].bounds else clean.std(0)
        assert (np.abs(moved - clean) <= 0.3 * unit + 1e-5).all()
    assert all(torch.equal(x, before[key]) for key, x in model.module_.state_dict().items())
    assert np.array_equal(model.predict(VIEWS), model.labels_)


@pytest.mark.parametrize("clip", [True, False])
def test_values_are_clipped_on_demand(clip: bool):
    model = tiny(scaling="range").set_params(config__n_components=None).fit(VIEWS)
    found = pgd_attack(model, VIEWS, 2.0, clip=clip)
    inside = [bool(0 <= x.min() <= x.max() <= 1) for x in found.views]
    assert inside == [clip, clip]


def test_a_tiny_attack_changes_nothing():
    model = tiny().fit(VIEWS)
    assert np.array_equal(pgd_attack(model, VIEWS, 1e-9).labels, model.labels_)


def test_the_seed_decides_the_attack():
    model = tiny().fit(VIEWS)
    one, same, other = (pgd_attack(model, VIEWS, 0.3, random_state=seed).views[0] for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_samples_that_lack_views_are_attacked_in_those_they_have():
    model = tiny().fit(VIEWS)
    assert pgd_attack(model, with_gaps(VIEWS), 0.3, n_steps=2).labels.shape == (90,)
    with pytest.raises(ValueError, match="SiMVC"):
        pgd_attack(small("simvc").fit(VIEWS), with_gaps(VIEWS), 0.3)


def test_one_view_or_no_eps_is_refused():
    with pytest.raises(ValueError, match="1 views"):
        pgd_attack(tiny().fit(VIEWS[0]), VIEWS[0], 0.3)
    with pytest.raises(ValueError, match="eps=0"):
        pgd_attack(tiny().fit(VIEWS), VIEWS, 0)
