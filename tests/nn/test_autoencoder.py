"""Widths and shapes of the autoencoders."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from protocol_mvc.nn.autoencoder import Autoencoder, mlp
from protocol_mvc.nn.seeded import build

widths = st.lists(st.integers(1, 7), min_size=2, max_size=5)


def linear_shapes(module: nn.Module) -> list[tuple[int, int]]:
    return [(m.in_features, m.out_features) for m in module.modules() if isinstance(m, nn.Linear)]


def make(dim=5, hidden=(7, 6), latent=3) -> Autoencoder:
    return build(lambda: Autoencoder(dim, hidden, latent), torch.Generator().manual_seed(0))


@given(widths)
def test_an_mlp_has_the_given_widths_and_ends_linear(dims):
    layers = list(mlp(dims))
    assert linear_shapes(mlp(dims)) == list(pairwise(dims))
    assert all(isinstance(x, nn.Linear) for x in layers[::2])
    assert all(isinstance(x, nn.ReLU) for x in layers[1::2])
    assert len(layers) == 2 * len(dims) - 3


@given(st.integers(1, 6), st.lists(st.integers(1, 6), max_size=3), st.integers(1, 6))
def test_the_decoder_mirrors_the_encoder(dim, hidden, latent):
    model = Autoencoder(dim, hidden, latent)
    mirrored = [(outputs, inputs) for inputs, outputs in linear_shapes(model.encoder)[::-1]]
    assert linear_shapes(model.decoder) == mirrored


@pytest.mark.parametrize("n", [1, 4])
def test_forward_gives_code_and_reconstruction(n):
    model, x = make(), torch.randn(n, 5, generator=torch.Generator().manual_seed(1))
    z, x_hat = model(x)
    assert (z.shape, x_hat.shape) == ((n, 3), (n, 5))
    torch.testing.assert_close(z, model.encoder(x))
    torch.testing.assert_close(x_hat, model.decoder(z))


def test_samples_do_not_see_each_other():
    model, x = make(), torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model(x)[0][2:3], model(x[2:3])[0])


def test_codes_and_reconstructions_may_be_negative():
    z, x_hat = make()(torch.randn(50, 5, generator=torch.Generator().manual_seed(1)))
    assert (z < 0).any()
    assert (x_hat < 0).any()
