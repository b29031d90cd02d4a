"""Shared parts of the methods with autoencoders."""

import pytest
import torch
from tests.examples import seeded
from tests.losses.known import QA, QB

from protocol_mvc.losses.clustering import kl_to_uniform
from protocol_mvc.losses.contrastive import class_contrast
from protocol_mvc.methods.autoencoder import AutoencoderConfig, SharedHeadsNetwork, label_agreement
from protocol_mvc.nn.seeded import build


@pytest.mark.parametrize("own", [True, False])
def test_label_agreement_is_a_sum_over_pairs_of_views(own: bool):
    losses = label_agreement([QA, QB, QA], 0.5, 0.7, own_negatives=own)
    pairs = [(QA, QB), (QA, QA), (QB, QA)]
    label = sum(class_contrast(a, b, temperature=0.5, own_negatives=own).item() for a, b in pairs)
    balance = 0.7 * sum((kl_to_uniform(a) + kl_to_uniform(b)).item() for a, b in pairs)
    assert losses["label"].item() == pytest.approx(label)
    assert losses["balance"].item() == pytest.approx(balance)
    assert label_agreement([QA], 0.5, 0.7) == {}


@pytest.mark.parametrize("head_hidden_dims", [(), (5,)], ids=["one layer", "two layers"])
@pytest.mark.parametrize("normalize", [True, False])
def test_shared_heads_are_applied_to_every_view(normalize: bool, head_hidden_dims: tuple[int, ...]):
    config, dims = AutoencoderConfig(hidden_dims=(7,), latent_dim=6, feature_dim=3), [5, 3, 4]
    make = lambda: SharedHeadsNetwork(config, dims, 4, head_hidden_dims=head_hidden_dims, normalize=normalize)
    net = build(make, seeded())
    outputs, x_hat = net([torch.randn(6, dim, generator=seeded()) for dim in dims])
    assert [x.shape for x in x_hat] == [(6, dim) for dim in dims]
    for z, h, logits in zip(*outputs, strict=True):
        torch.testing.assert_close(logits, net.classifier(z))
        assert h.shape == (6, 3)
        assert torch.allclose(h.norm(dim=1), torch.ones(6)) == normalize
