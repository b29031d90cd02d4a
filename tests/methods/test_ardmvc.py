"""AR-DMVC: the attack raises the contrast and changes nothing else; AR-DMVC-AM adds the mitigator."""

import numpy as np
import pytest
import torch
from tests.examples import blobs, seeded
from tests.methods.small import made, small, small_config

from protocol_mvc import ARDMVC
from protocol_mvc.data import as_views, fit_scalers
from protocol_mvc.data.batches import Source
from protocol_mvc.methods.ardmvc import PRESETS

VIEWS, _ = blobs(dims=(5, 4, 3))
UNIT = (0.0, 1.0)


def unit_source() -> Source:
    views = as_views(VIEWS)
    return Source(views, fit_scalers(views, "range"), batch_size=32, device=torch.device("cpu"))


BATCH = unit_source().take(torch.arange(30))
CONTEXT = [UNIT] * 3


def test_the_published_values():
    c = PRESETS["default"]
    assert (c.attack_eps, c.attack_step_size, c.n_attack_steps) == (0.2, 0.1, 10)
    assert (c.attack_weight, c.mitigator_weight, c.n_epochs) == (1, 0.1, 30)
    assert (c.max_grad_norm, c.eval_interval, c.mitigator) == (None, None, False)
    assert PRESETS["am"].mitigator


@pytest.mark.parametrize("seed", range(3))
def test_attacked_views_are_near_within_bounds_and_have_a_higher_contrast(seed: int):
    method = made("ardmvc", [5, 4, 3], n_attack_steps=5)
    moved = method.attack(BATCH.views, seeded(seed), CONTEXT)
    still = made("ardmvc", [5, 4, 3], n_attack_steps=1, attack_step_size=1e-9)
    start = still.attack(BATCH.views, seeded(seed), CONTEXT)
    for before, after in zip(BATCH.views, moved, strict=True):
        assert (after - before).abs().max() <= 0.2 + 1e-6
        assert 0 <= after.min() <= after.max() <= 1
        assert not after.requires_grad
    value = lambda views: method.contrast(method.network(views), seeded()).item()
    assert value(moved) > value(start)


def test_every_view_is_attacked():
    method = made("ardmvc", [5, 4, 3], n_attack_steps=3)
    moved = method.attack(BATCH.views, seeded(), CONTEXT)
    start = [x + 0.2 * (2 * torch.rand(x.shape, generator=g) - 1) for g in [seeded()] for x in BATCH.views]
    for before, after in zip(start, moved, strict=True):
        assert not torch.allclose(before.clamp(0, 1), after, atol=1e-3)


def test_an_attack_changes_neither_weights_nor_batch_statistics():
    method = made("ardmvc", [5, 4, 3])
    before = {name: x.clone() for name, x in method.state_dict().items()}
    method.attack(BATCH.views, seeded(), CONTEXT)
    assert all(torch.equal(x, before[name]) for name, x in method.state_dict().items())
    assert all(p.grad is None for p in method.parameters())


@pytest.mark.parametrize("mitigator", [False, True])
def test_the_losses_are_those_of_clean_and_of_attacked_views(mitigator: bool):
    method = made("ardmvc", [5, 4, 3], mitigator=mitigator, attack_weight=0.5).eval()
    losses = method.robust_step(BATCH, 0.0, (seeded(), CONTEXT))
    moved = method.attack(BATCH.views, seeded(), CONTEXT)
    clean = method.objective(BATCH, method.network(BATCH.views), seeded())
    attacked = method.objective(BATCH, method.network(moved), seeded())
    own = ["mitigator"] if mitigator else []
    assert list(losses) == [*clean, *(f"attacked {name}" for name in clean), *own]
    for name, value in clean.items():
        torch.testing.assert_close(losses[name], value)
        torch.testing.assert_close(losses[f"attacked {name}"], 0.5 * attacked[name])


def test_the_mitigator_is_zero_where_nothing_changes():
    method = made("ardmvc", [5, 4, 3], mitigator=True, attack_eps=1e-12).eval()
    losses = method.robust_step(BATCH, 0.0, (seeded(), CONTEXT))
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


def test_the_mitigator_can_be_set_by_preset_and_by_field():
    assert ARDMVC(config="am").get_params()["config__mitigator"] is True
    assert ARDMVC(3).set_params(config__mitigator=True).config == PRESETS["am"]


def test_the_bounds_are_those_of_the_scaling():
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
