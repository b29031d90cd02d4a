"""MFLVC: its losses, the matched labels of its last stage, and its predictions."""

import math

import numpy as np
import pytest
import torch
from tests.examples import blobs, seeded, source
from tests.methods.small import made
from torch.nn import functional

from protocol_mvc.losses.clustering import kl_to_uniform
from protocol_mvc.losses.contrastive import class_contrast, paired_contrast
from protocol_mvc.methods.base import infer_all
from protocol_mvc.nn.network import ViewOutputs
from protocol_mvc.training.loop import train

DATA = source(blobs(dims=(5, 4, 3))[0], batch_size=30)
DIMS = [5, 4, 3]


def batch():
    return next(DATA.shuffled(seeded()))


def test_the_contrast_is_the_sum_over_pairs_of_views():
    method, given = made("mflvc", DIMS), batch()
    losses = method.contrast(given, 0.0, None)
    codes, x_hat = method.network(given.views)
    p = [x.softmax(1) for x in codes.logits]
    feature = label = balance = 0.0
    for v, w in ((0, 1), (0, 2), (1, 2)):
        feature += paired_contrast(codes.h[v], codes.h[w], temperature=0.5).item()
        label += class_contrast(p[v], p[w], temperature=1.0).item()
        balance += (kl_to_uniform(p[v]) + kl_to_uniform(p[w])).item()
    error = sum(functional.mse_loss(a, b).item() for a, b in zip(x_hat, given.views, strict=True))
    found = {name: value.item() for name, value in losses.items()}
    expected = {"feature": feature, "label": label, "balance": balance, "reconstruction": error}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("double", "k", "floor"), [(True, 10, 1.461150), (True, 5, 0.904833), (False, 10, 0.0)]
)
def test_the_floor_of_the_matched_loss(double: bool, k: int, floor: float):
    method, given = made("mflvc", [5], k, double_softmax=double), source(blobs(dims=(5,))[0])
    sure = torch.full((90, k), -1e4)
    sure[:, 3] = 1e4
    method.network.encode = lambda views: ViewOutputs([], [], [sure])
    labels = torch.full((90, 1), 3)
    taken = given.take(torch.arange(90))
    assert method.match(taken, 0.0, labels)["matched"].item() == pytest.approx(floor, abs=1e-5)
    if double:
        assert floor == pytest.approx(math.log(math.e + k - 1) - 1, abs=1e-6)


def test_matched_labels_are_the_kmeans_labels_renumbered():
    method = made("mflvc", DIMS)
    clusters = method.kmeans_labels(DATA, seeded())
    assert clusters.shape == (90, 3)
    labels = method.matched_labels(DATA, seeded(), 0.0, clusters)
    whole = method.network.encode(DATA.take(torch.arange(90)).views)
    for v in range(3):
        pairs = set(zip(clusters[:, v].tolist(), labels[:, v].tolist(), strict=True))
        assert len(pairs) == 3  # the numbers change, the clusters do not
        head = whole.logits[v].argmax(1)
        agreed = lambda found, head=head: int((found == head).sum())
        assert agreed(labels[:, v]) >= agreed(clusters[:, v])


def test_matching_trains_the_classifier_and_the_encoders_alone():
    method = made("mflvc", DIMS)
    labels = torch.zeros(90, 3, dtype=torch.int64)
    method.match(batch(), 0.0, labels)["matched"].backward()
    learning = {name for name, x in method.named_parameters() if x.grad is not None}
    assert learning
    assert all("decoder" not in name and "project" not in name for name in learning)


def test_predictions_are_the_mean_over_views():
    method = made("mflvc", DIMS)
    inferred = infer_all(method, DATA)
    logits = method.network.encode(DATA.take(torch.arange(90)).views).logits
    mean = torch.stack([x.softmax(1) for x in logits]).mean(0)
    torch.testing.assert_close(inferred.log_proba.exp(), mean.detach())


def test_the_stages_are_those_of_the_paper():
    method = made("mflvc", DIMS)
    trained = {stage.name: stage for stage in method.stages() if stage.step}
    assert list(trained) == ["reconstruct", "contrast", "match"]
    assert [stage.optimizer.reset for stage in trained.values()] == ["stage", "never", "never"]
    assert trained["match"].sampling.full_batch
    train(method, method.stages(), DATA, seeded())
    assert np.allclose(method.class_prior(), infer_all(method, DATA).log_proba.exp().mean(0))
