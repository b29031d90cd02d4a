"""Multi-layer perceptrons, batch normalization and the autoencoder."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import seeded
from torch import nn

from protocol_mvc.nn.layers import Autoencoder, BatchNorm, HeLinear, batch_norm_mlp, he_relu_mlp, mlp
from protocol_mvc.nn.seeded import build


def linear_shapes(module: nn.Module) -> list[tuple[int, int]]:
    return [(m.in_features, m.out_features) for m in module.modules() if isinstance(m, nn.Linear)]


def kinds(layers: nn.Sequential) -> list[str]:
    return [type(part).__name__ for part in layers]


def autoencoder() -> Autoencoder:
    return build(lambda: Autoencoder(5, (7, 6), 3), seeded())


@given(st.lists(st.integers(1, 7), min_size=2, max_size=5))
def test_an_mlp_has_the_given_widths_and_ends_linear(dims):
    layers = mlp(dims)
    assert linear_shapes(layers) == list(pairwise(dims))
    assert kinds(layers) == (["Linear", "ReLU"] * len(dims))[: 2 * len(dims) - 3]


def test_the_layers_of_the_other_encoders():
    assert kinds(he_relu_mlp([5, 8, 6])) == ["HeLinear", "ReLU", "HeLinear", "ReLU"]
    assert kinds(batch_norm_mlp([5, 8, 6])) == ["Linear", "BatchNorm", "ReLU", "Linear"]
    assert (
        linear_shapes(he_relu_mlp([5, 8, 6])) == linear_shapes(batch_norm_mlp([5, 8, 6])) == [(5, 8), (8, 6)]
    )


def test_he_initialization_draws_from_the_generator_alone():
    before = torch.get_rng_state()
    layer = build(lambda: HeLinear(64, 500), seeded())
    assert torch.equal(torch.get_rng_state(), before)
    assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / 64), rel=0.02)
    assert 0 < layer.bias.abs().max() <= 1 / 8


def test_batch_norm_starts_as_the_identity():
    norm = build(lambda: BatchNorm(4), seeded())
    assert norm.state_dict()["running_var"].tolist() == norm.weight.tolist() == [1] * 4
    assert norm.state_dict()["running_mean"].tolist() == norm.bias.tolist() == [0] * 4


def test_a_batch_of_one_row_is_normalized_by_the_running_statistics():
    norm = build(lambda: BatchNorm(4), seeded())
    norm(torch.randn(9, 4, generator=seeded()))
    row = torch.randn(1, 4, generator=seeded())
    before = {name: x.clone() for name, x in norm.state_dict().items()}
    torch.testing.assert_close(norm(row), norm.eval()(row))
    assert all(torch.equal(x, before[name]) for name, x in norm.state_dict().items())


@given(st.integers(1, 6), st.lists(st.integers(1, 6), max_size=3), st.integers(1, 6))
def test_the_decoder_mirrors_the_encoder(dim, hidden_dims, latent_dim):
    model = Autoencoder(dim, hidden_dims, latent_dim)
    mirrored = [(outputs, inputs) for inputs, outputs in linear_shapes(model.encoder)[::-1]]
    assert linear_shapes(model.decoder) == mirrored


@pytest.mark.parametrize("n", [1, 4])
def test_an_autoencoder_returns_code_and_reconstruction(n):
    model, x = autoencoder(), torch.randn(n, 5, generator=seeded(1))
    z, x_hat = model(x)
    assert (z.shape, x_hat.shape) == ((n, 3), (n, 5))
    torch.testing.assert_close(z, model.encoder(x))
    torch.testing.assert_close(x_hat, model.decoder(z))


def test_codes_and_reconstructions_may_be_negative():
    z, x_hat = autoencoder()(torch.randn(50, 5, generator=seeded(1)))
    assert (z < 0).any()
    assert (x_hat < 0).any()
