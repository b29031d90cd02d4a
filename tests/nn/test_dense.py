"""Dense encoders, batch-norm, the clustering head and the network of them."""

import math

import pytest
import torch
from tests.examples import seeded
from torch import Tensor, nn

from protocol_mvc.nn.dense import HIDDEN, BatchNorm, FusionNetwork, HeLinear, normed_layers, relu_layers
from protocol_mvc.nn.seeded import build


def network(*, norm: bool = True, seed: int = 0) -> FusionNetwork:
    return build(lambda: FusionNetwork([5, 4], 3, (8, 8), 6, batch_norm=norm), seeded(seed))


def views(n: int = 7) -> list[Tensor]:
    return [torch.randn(n, d, generator=seeded(d)) for d in (5, 4)]


def kinds(layers: nn.Sequential) -> list[str]:
    return [type(part).__name__ for part in layers]


def test_the_layers_are_those_of_the_papers():
    assert kinds(relu_layers([5, 8, 6])) == ["HeLinear", "ReLU", "HeLinear", "ReLU"]
    assert kinds(normed_layers([5, 8, 6])) == ["Linear", "BatchNorm", "ReLU", "Linear"]
    assert kinds(network(norm=False).head) == ["HeLinear", "ReLU", "BatchNorm"]
    assert kinds(network(norm=True).head) == ["Linear", "ReLU", "BatchNorm"]
    assert isinstance(network(norm=False).output, HeLinear)
    assert type(network(norm=True).output) is nn.Linear


def test_he_linear_is_drawn_for_relu_from_the_generator_alone():
    before = torch.get_rng_state()
    layer = build(lambda: HeLinear(64, 500), seeded())
    assert torch.equal(torch.get_rng_state(), before)
    assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / 64), rel=0.02)
    assert 0 < layer.bias.abs().max() <= 1 / 8


def test_batch_norm_starts_as_the_identity():
    norm = build(lambda: BatchNorm(4), seeded())
    assert norm.state_dict()["running_var"].tolist() == norm.weight.tolist() == [1] * 4
    assert norm.state_dict()["running_mean"].tolist() == norm.bias.tolist() == [0] * 4


def test_a_row_without_company_is_normed_by_what_is_remembered():
    norm = build(lambda: BatchNorm(4), seeded())
    norm(torch.randn(9, 4, generator=seeded()))
    row = torch.randn(1, 4, generator=seeded())
    remembered = {name: x.clone() for name, x in norm.state_dict().items()}
    torch.testing.assert_close(norm(row), norm.eval()(row))
    assert all(torch.equal(x, remembered[name]) for name, x in norm.state_dict().items())


@pytest.mark.parametrize("norm", [True, False])
def test_the_network_encodes_fuses_and_clusters(norm: bool):
    module = network(norm=norm).eval()
    found = module(views())
    z = found.codes.z
    assert [x.shape for x in z] == [(7, 6), (7, 6)]
    assert found.hidden.shape == (7, HIDDEN)
    fused = (z[0] + z[1]) / 2  # all views weigh the same at first
    torch.testing.assert_close(module.output(module.head(fused)), found.logits)
    assert all(bool((x >= 0).all()) is not norm for x in z)  # ReLU ends the encoders without norm
    for code, feature in zip(z, found.codes.h, strict=True):
        torch.testing.assert_close(feature, code / code.norm(dim=1, keepdim=True))
