"""Shared parts of the methods with autoencoders."""

import pytest
from tests.losses.known import QA, QB

from protocol_mvc.losses.clustering import kl_to_uniform
from protocol_mvc.losses.contrastive import class_contrast
from protocol_mvc.methods.autoencoder import label_agreement


@pytest.mark.parametrize("own", [True, False])
def test_label_agreement_is_a_sum_over_pairs_of_views(own: bool):
    losses = label_agreement([QA, QB, QA], 0.5, 0.7, own_negatives=own)
    pairs = [(QA, QB), (QA, QA), (QB, QA)]
    label = sum(class_contrast(a, b, temperature=0.5, own_negatives=own).item() for a, b in pairs)
    balance = 0.7 * sum((kl_to_uniform(a) + kl_to_uniform(b)).item() for a, b in pairs)
    assert losses["label"].item() == pytest.approx(label)
    assert losses["balance"].item() == pytest.approx(balance)
    assert label_agreement([QA], 0.5, 0.7) == {}
