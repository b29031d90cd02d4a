"""AECoDDC: first the codes alone, then codes and clusters together."""

import pytest
import torch
from tests.examples import blobs, seeded, source
from tests.methods.small import made, small

from protocol_mvc.losses.contrastive import mutual_contrast
from protocol_mvc.methods.aecoddc import PRESETS, Aecoddc
from protocol_mvc.methods.base import sum_of
from protocol_mvc.nn.seeded import build

VIEWS, _ = blobs()
BATCH = source(VIEWS).take(torch.arange(30))


def test_the_published_values():
    c = PRESETS["default"]
    assert (c.n_epochs_reconstruct, c.n_epochs, c.lr, c.max_grad_norm) == (50, 100, 1e-3, 10)
    assert (c.contrast_weight, c.reconstruction_weight, c.temperature) == (0.1, 1, 0.1)


def test_the_decoder_mirrors_the_encoder():
    with torch.device("meta"):
        method = Aecoddc(PRESETS["default"], [7], 3)
    widths = lambda part: [x.out_features for x in part.modules() if isinstance(x, torch.nn.Linear)]
    assert widths(method.network.encoders[0]) == [1024] * 4 + [256]
    assert widths(method.decoders[0]) == [256, 1024, 1024, 1024, 7]


def test_the_stages():
    pretrain, cluster, _ = made("aecoddc", [5, 4]).stages()
    assert pretrain.monitor is None
    assert [stage.optimizer.max_grad_norm for stage in (pretrain, cluster)] == [None, 10]
    assert [stage.optimizer.reset for stage in (pretrain, cluster)] == ["stage", "stage"]


def test_the_losses_of_both_stages():
    method = made("aecoddc", [5, 4], contrast_weight=0.3, reconstruction_weight=2.0).eval()
    first = method.pretrain(BATCH, 0.0, None)
    z = method.network.encode(BATCH.views).z
    x_hat = [f(x) for f, x in zip(method.decoders, z, strict=True)]
    error = sum((a - b).square().mean().item() for a, b in zip(x_hat, BATCH.views, strict=True))
    assert all(0 < x.min() < x.max() < 1 for x in x_hat)
    assert first["reconstruction"].item() == pytest.approx(2 * error)
    assert first["contrast"].item() == pytest.approx(0.3 * mutual_contrast(z, temperature=0.1).item())
    second = method.step(BATCH, 0.0, seeded())
    assert list(second) == ["ddc1", "ddc2", "ddc3", *first]
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_pretraining_has_no_gradient_for_fusion_and_head():
    method = build(lambda: Aecoddc(made("aecoddc", [5, 4]).config, [5, 4], 3), seeded())
    sum_of(method.pretrain(BATCH, 0.0, None).values()).backward()
    assert method.network.fusion.view_logits.grad is None
    assert all(p.grad is None for p in method.network.head.parameters())


def test_views_are_scaled_to_the_range_of_a_sigmoid():
    model = small("aecoddc").fit(VIEWS)
    assert [scaling.kind for scaling in model.scalers_] == ["range", "range"]
    model = small("aecoddc", scaling="standard").fit(VIEWS)
    assert [scaling.kind for scaling in model.scalers_] == ["standard", "standard"]
