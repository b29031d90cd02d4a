"""AR-DMVC: the attack climbs the contrast and leaves no trace; the mitigator is the one difference to AM."""

import inspect

import numpy as np
import pytest
import torch
from sklearn.base import clone
from tests.examples import blobs, seeded
from tests.methods.small import made, small, small_config

from protocol_mvc import ARDMVC, load_model
from protocol_mvc.data import as_views, fit_scalers
from protocol_mvc.data.batches import Source
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.methods.ardmvc import PRESETS

VIEWS, _ = blobs(dims=(5, 4, 3))
UNIT = (0.0, 1.0)


def in_box() -> Source:
    views = as_views(VIEWS)
    return Source(views, fit_scalers(views, "range"), batch_size=32, device=torch.device("cpu"))


BATCH = in_box().take(torch.arange(30))
CONTEXT = [UNIT] * 3


def test_the_published_values():
    c = PRESETS["default"]
    assert (c.attack_size, c.attack_step, c.attack_steps) == (0.2, 0.1, 10)
    assert (c.attack_weight, c.mitigator_weight, c.cluster_length) == (1, 0.1, 30)
    assert (c.clip, c.evaluate_every, c.mitigator) == (None, None, False)
    assert PRESETS["am"].mitigator


@pytest.mark.parametrize("seed", range(3))
def test_attacked_views_are_near_in_the_box_and_apart(seed: int):
    method = made("ardmvc", [5, 4, 3], attack_steps=5)
    moved = method.attack(BATCH.views, seeded(seed), CONTEXT)
    still = made("ardmvc", [5, 4, 3], attack_steps=1, attack_step=1e-9)
    start = still.attack(BATCH.views, seeded(seed), CONTEXT)
    for before, after in zip(BATCH.views, moved, strict=True):
        assert (after - before).abs().max() <= 0.2 + 1e-6
        assert 0 <= after.min() <= after.max() <= 1
        assert not after.requires_grad
    value = lambda views: method.contrast(method.network(views), seeded()).item()
    assert value(moved) > value(start)


def test_every_view_is_attacked():
    method = made("ardmvc", [5, 4, 3], attack_steps=3)
    moved = method.attack(BATCH.views, seeded(), CONTEXT)
    start = [x + 0.2 * (2 * torch.rand(x.shape, generator=g) - 1) for g in [seeded()] for x in BATCH.views]
    for before, after in zip(start, moved, strict=True):
        assert not torch.allclose(before.clamp(0, 1), after, atol=1e-3)


@pytest.mark.parametrize("remember", [False, True])
def test_batch_norms_remember_an_attack_only_if_asked_to(remember: bool):
    method = made("ardmvc", [5, 4, 3], attack_statistics=remember)
    before = {name: x.clone() for name, x in method.state_dict().items()}
    method.attack(BATCH.views, seeded(), CONTEXT)
    changed = {name for name, x in method.state_dict().items() if not torch.equal(x, before[name])}
    statistics = {name for name in before if "running" in name or "tracked" in name}
    assert changed == (statistics if remember else set())  # those of the head too
    assert all(p.grad is None for p in method.parameters())


@pytest.mark.parametrize("mitigator", [False, True])
def test_the_losses_are_those_of_clean_and_of_attacked_views(mitigator: bool):
    method = made("ardmvc", [5, 4, 3], mitigator=mitigator, attack_weight=0.5).eval()
    losses = method.defend(BATCH, 0.0, (seeded(), CONTEXT))
    moved = method.attack(BATCH.views, seeded(), CONTEXT)
    clean = method.objective(BATCH, method.network(BATCH.views), seeded())
    attacked = method.objective(BATCH, method.network(moved), seeded())
    own = ["mitigator"] if mitigator else []
    assert list(losses) == [*clean, *(f"attacked {name}" for name in clean), *own]
    for name, value in clean.items():
        torch.testing.assert_close(losses[name], value)
        torch.testing.assert_close(losses[f"attacked {name}"], 0.5 * attacked[name])


def test_the_mitigator_asks_nothing_where_nothing_changes():
    method = made("ardmvc", [5, 4, 3], mitigator=True, attack_size=1e-12).eval()
    losses = method.defend(BATCH, 0.0, (seeded(), CONTEXT))
    assert losses["mitigator"].item() == pytest.approx(0, abs=1e-8)


def test_a_mitigator_without_weight_changes_nothing():
    plain = small("ardmvc").fit(VIEWS)
    idle = small_config("ardmvc", mitigator=True, mitigator_weight=0.0)
    assert np.array_equal(
        small("ardmvc", config=idle).fit(VIEWS).predict_proba(VIEWS), plain.predict_proba(VIEWS)
    )
    real = small_config("ardmvc", mitigator=True)
    assert not np.array_equal(
        small("ardmvc", config=real).fit(VIEWS).predict_proba(VIEWS), plain.predict_proba(VIEWS)
    )


def test_the_mitigator_is_a_parameter_of_the_estimator(tmp_path):
    preset = small("ardmvc", config=small_config("ardmvc", mitigator=True)).fit(VIEWS)
    model = clone(small("ardmvc", mitigator=True))
    assert model.get_params()["mitigator"] is True
    assert model.config == small_config("ardmvc")  # which stays as it was given
    found = model.fit(VIEWS).predict_proba(VIEWS)
    assert np.array_equal(found, preset.predict_proba(VIEWS))
    assert model._config.mitigator
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert loaded._config == model._config
    assert np.array_equal(loaded.predict_proba(VIEWS), found)


def test_the_mitigator_can_be_set_and_taken_back():
    model = ARDMVC(3).set_params(mitigator=True, config__attack_steps=1)
    assert (model.mitigator, model.config.attack_steps, model._settled().mitigator) == (True, 1, True)
    assert not model.set_params(mitigator=False)._settled().mitigator
    assert model.set_params(config="am")._settled() == PRESETS["am"]
    assert ARDMVC(mitigator=True)._settled() == PRESETS["am"]
    assert repr(ARDMVC(3, mitigator=True)) == "ARDMVC(mitigator=True, n_clusters=3)"


def test_every_other_parameter_is_that_of_all_estimators():
    common = inspect.signature(MultiViewClusterer).parameters
    own = dict(inspect.signature(ARDMVC).parameters)
    assert own.pop("mitigator").default is False
    assert own == dict(common)


def test_views_live_in_the_box_unless_scaled_otherwise():
    method, seen = made("ardmvc", [5, 4, 3]), []
    stage = method.stages()[0]
    assert stage.on_epoch_start is not None
    for kind in ("range", "minmax", "standard"):
        views = as_views(VIEWS)
        data = Source(views, fit_scalers(views, kind), batch_size=32, device=torch.device("cpu"))
        seen.append(stage.on_epoch_start(data, seeded(), 0.0, None)[1])
    assert seen == [[UNIT] * 3, [UNIT] * 3, [None] * 3]
    assert small("ardmvc", scaling="standard").fit(VIEWS).labels_.shape == (90,)


def test_the_weights_are_those_of_the_last_epoch():
    history = small("ardmvc").fit(VIEWS).history_
    assert ["monitor" in row for row in history] == [False] * 7 + [True]
