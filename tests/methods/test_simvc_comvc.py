"""CoMVC: the contrast is scaled by the smallest view weight, without gradient for it."""

import pytest
import torch
from tests.examples import blobs, seeded, source
from tests.methods.small import made
from torch import nn

from protocol_mvc.losses.contrastive import mutual_contrast, selective_contrast
from protocol_mvc.methods.simvc import COMVC_PRESETS as PRESETS

VIEWS, _ = blobs(dims=(5, 4, 3))
BATCH = source(VIEWS).take(torch.arange(30))


def test_the_published_values():
    c = PRESETS["default"]
    assert (c.contrast_weight, c.temperature, c.negative_samples_ratio) == (0.1, 0.1, 0.25)
    assert PRESETS["deepmvc"].negative_samples_ratio is None
    assert PRESETS["deepmvc"].batch_norm


@pytest.mark.parametrize("negatives", [None, 0.25])
def test_the_contrast_is_scaled_by_the_smallest_view_weight(negatives: float | None):
    method = made("comvc", [5, 4, 3], negative_samples_ratio=negatives).eval()
    method.network.fusion.view_logits.data = torch.tensor([0.0, 1.0, -2.0])
    found = method.network(BATCH.views)
    z, cluster = found.views.z, found.logits.argmax(1)
    plain = mutual_contrast(z, temperature=0.1)
    if negatives is not None:
        plain = selective_contrast(z, cluster, temperature=0.1, ratio=negatives, generator=seeded())
    least = method.view_weights().min().item()
    losses = method.objective(BATCH, found, seeded())
    assert list(losses) == ["ddc1", "ddc2", "ddc3", "contrast"]
    assert losses["contrast"].item() == pytest.approx(0.1 * least * plain.item(), rel=1e-5)


def test_the_weights_of_views_get_no_gradient_from_the_contrast():
    method = made("comvc", [5, 4, 3])
    losses = method.step(BATCH, 0.0, seeded())
    view_logits = method.network.fusion.view_logits
    (slope,) = torch.autograd.grad(losses["contrast"], view_logits, retain_graph=True, allow_unused=True)
    assert slope is None or not slope.any()
    (slope,) = torch.autograd.grad(losses["ddc1"], view_logits)
    assert slope.any()


def test_a_batch_of_one_cluster_has_no_contrast():
    method = made("comvc", [5, 4, 3]).eval()
    nn.init.zeros_(method.network.output.weight)
    losses = method.step(BATCH, 0.0, seeded())
    assert losses["contrast"].item() == 0
    assert all(value.isfinite() for value in losses.values())
