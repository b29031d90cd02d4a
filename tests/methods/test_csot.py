"""CSOT: prototypes, balanced transport to them, and the losses."""

import math

import pytest
import torch
from tests.examples import blobs, seeded, source
from tests.methods.small import made

from protocol_mvc.losses.clustering import kl_to_uniform
from protocol_mvc.losses.contrastive import class_contrast, paired_contrast
from protocol_mvc.methods.base import log_mean
from protocol_mvc.methods.csot import PRESETS

DATA = source(blobs(dims=(5, 4, 3))[0], batch_size=30)
DIMS = [5, 4, 3]


def batch():
    return next(DATA.shuffled(seeded()))


def test_the_transport_has_its_known_values():
    method = made("csot", DIMS, 2, epsilon=0.5)
    scores = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.1], [0.1, 0.9]])
    shares = method.transport(scores, torch.eye(2))
    known = torch.tensor([[0.6981, 0.3019], [0.6079, 0.3921], [0.6079, 0.3921], [0.0861, 0.9139]])
    torch.testing.assert_close(shares, known, atol=1e-4, rtol=0)
    torch.testing.assert_close(shares.mean(0), torch.tensor([0.5, 0.5]))


def test_matching_changes_only_the_order_of_prototypes():
    found = made("csot", DIMS).find_prototypes(DATA, seeded(), 0.0, None)
    named = made("csot", DIMS, match_prototypes=False).find_prototypes(DATA, seeded(), 0.0, None)
    assert found.shape == (3, 8)
    rows = lambda x: sorted(map(tuple, x.round(decimals=4).tolist()))
    assert rows(found) == rows(named)  # the same ones, in another order


def test_matched_prototypes_agree_best_with_the_predictions():
    method = made("csot", DIMS)
    prototypes = method.find_prototypes(DATA, seeded(), 0.0, None)
    outputs = method.network.encode(DATA.take(torch.arange(90)).views)
    feature, log_p = torch.stack(outputs.h).mean(0), log_mean(outputs.logits, None)
    nearest = torch.cdist(feature, prototypes).argmin(1)
    agreed = int((nearest == log_p.argmax(1)).sum())
    for order in ([1, 0, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0], [2, 0, 1]):
        assert agreed >= int((torch.tensor(order)[nearest] == log_p.argmax(1)).sum())


def test_the_loss_is_the_sum_of_its_terms():
    method, given = made("csot", DIMS), batch()
    prototypes = method.find_prototypes(DATA, seeded(), 0.0, None)
    losses = {name: value.item() for name, value in method.contrast(given, 0.0, prototypes).items()}
    codes = method.network.encode(given.views)
    p = [x.softmax(1) for x in codes.logits]
    shares = [method.transport(h.detach(), prototypes) for h in codes.h]
    semantic = sum((t * (t.log() - q)).mean().item() for t, q in zip(shares, p, strict=True))
    assert losses["semantic"] == pytest.approx(0.3 * semantic, rel=1e-4)
    feature = label = balance = 0.0
    for v, w in ((0, 1), (0, 2), (1, 2)):
        weight = 1 - torch.cat([shares[v].max(1).values, shares[w].max(1).values])
        feature += paired_contrast(codes.h[v], codes.h[w], temperature=0.5, anchor_weight=weight).item()
        label += 0.3 * class_contrast(p[v], p[w], temperature=0.5).item()
        balance += 0.3 * (kl_to_uniform(p[v]) + kl_to_uniform(p[w])).item()
    found = {name: losses[name] for name in ("feature", "label", "balance")}
    assert found == pytest.approx({"feature": feature, "label": label, "balance": balance}, rel=1e-4)


def test_the_published_preset_is_the_released_code():
    assert PRESETS["published"].kmeans_n_init == 100
    assert not PRESETS["published"].match_prototypes


def test_the_prototype_of_an_empty_cluster_is_finite():
    data = source([[[0.0, 1.0]] * 3 + [[1.0, 0.0]] * 3] * 2)
    prototypes = made("csot", [2, 2]).find_prototypes(data, seeded(), 0.0, None)
    assert prototypes.abs().max() <= 1
    assert not math.isnan(prototypes.sum())
