"""The pseudo-labels: partition, warm-up, transport; and the temperature of the final probabilities."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from tests.examples import TINY, TINY_PAPER, blobs, seeded, source, with_gaps
from torch.nn import functional

from protocol_mvc.exceptions import DivergenceError
from protocol_mvc.methods.base import infer_all
from protocol_mvc.methods.protocol import pseudo_labels
from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.methods.protocol.config import BatchTransport, ProtocolConfig
from protocol_mvc.methods.protocol.pseudo_labels import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    DatasetPseudoLabels,
    calibrated_temperature,
    complete_views,
)
from protocol_mvc.nn.seeded import build
from protocol_mvc.partition.selection import Selection
from protocol_mvc.utils.config import update_config

VIEWS, TRUTH = blobs()
K = 3


def method(config: ProtocolConfig = TINY, **changes: Any) -> Protocol:
    made = build(lambda: Protocol(update_config(config, changes), [5, 4], K), seeded())
    return made.requires_grad_(False)


def started(protocol: Protocol, views: Any = VIEWS) -> torch.Tensor:
    return protocol.pseudo_labels.start(source(views), seeded())


def logits(n: int = 200, seed: int = 0) -> torch.Tensor:
    return (3 * torch.randn(n, K, generator=seeded(seed))).log_softmax(1)


def confidence(log_proba: torch.Tensor, temperature: float) -> float:
    return float((log_proba / temperature).softmax(1).amax(1).mean())


def test_partition_sets_a_prior_prototypes_and_the_expected_accuracy(monkeypatch):
    protocol, labels = method(), np.arange(90) % K
    found = Selection(labels, np.linspace(0, 1, 90))
    monkeypatch.setattr(pseudo_labels, "find_partition", lambda *args: found)
    h = infer_all(protocol, source(VIEWS)).embedding.unflatten(1, (2, -1))
    assert started(protocol).tolist() == labels.tolist()
    torch.testing.assert_close(protocol.prior, torch.full((K,), 31 / 93))
    assert float(protocol.expected_accuracy) == pytest.approx(0.25)  # the square of the agreement
    for cluster, prototype in enumerate(protocol.network.classifier.prototypes):
        mean = h[torch.from_numpy(labels == cluster)].mean((0, 1))
        torch.testing.assert_close(prototype, functional.normalize(mean, dim=0))


@pytest.mark.parametrize("views", [VIEWS, with_gaps(VIEWS)], ids=["complete", "gaps"])
def test_partition_is_that_of_the_groups(views):
    protocol = method()
    labels = started(protocol, views)
    assert adjusted_rand_score(TRUTH, labels.numpy()) > 0.9
    assert protocol.prior.sort().values.tolist() == pytest.approx([11 / 93, 21 / 93, 61 / 93], abs=0.03)
    assert 0 < float(protocol.expected_accuracy) <= 1


def test_partition_gets_prepared_views_and_learned_features(monkeypatch):
    protocol, given = method(), list[Any]()

    def find(*args: Any) -> Selection:
        given.extend(args)
        return Selection(np.arange(90) % K, np.ones(90))

    monkeypatch.setattr(pseudo_labels, "find_partition", find)
    started(protocol)
    views, learned, n_clusters = given[:3]
    assert [x.shape for x in views] == [(90, 5), (90, 4)]
    assert [x.shape for x in learned] == [(90, TINY.network.projection_dim)] * 2
    embedding = infer_all(protocol, source(VIEWS)).embedding.numpy()
    np.testing.assert_array_equal(np.hstack(learned), embedding)
    assert n_clusters == K


def test_complete_views_have_no_gaps():
    gaps = with_gaps(VIEWS)
    filled, plain = complete_views(source(gaps)), complete_views(source(VIEWS))
    for x, view in zip(filled, gaps, strict=True):
        absent = np.isnan(view[:, 0])
        assert np.isfinite(x).all()
        assert absent.any()
        assert x[absent].any()  # not the zeros of an absent view
    data = source(VIEWS)
    batch = data.take(torch.arange(90))
    assert all(np.array_equal(x, y.numpy()) for x, y in zip(plain, batch.views, strict=True))


@pytest.mark.parametrize("fraction", [0.0, 0.4, 1.0])
def test_warmup_learns_the_partition_itself_and_then_a_transport(fraction: float):
    protocol = method(pseudo_labels__warmup_fraction=fraction)
    labels = started(protocol)
    for progress in (0.0, 0.3, 0.5, 1.0):
        context = protocol.pseudo_labels.on_epoch_start(source(VIEWS), seeded(), progress, labels)
        is_partition = torch.equal(context.soft, functional.one_hot(labels, K).to(context.soft))
        assert is_partition is (progress < fraction)
        if is_partition:
            assert torch.equal(context.hard, labels)
            torch.testing.assert_close(context.log_frequency.exp(), protocol.prior)


def test_mass_grows_from_its_minimum_after_the_warmup_to_its_maximum():
    protocol = method(pseudo_labels__warmup_fraction=0.4)
    labels = started(protocol)
    masses = [
        float(protocol.pseudo_labels.on_epoch_start(source(VIEWS), seeded(), p, labels).soft.sum(1).mean())
        for p in (0.4, 0.7, 1.0)
    ]
    assert 0.5 - 1e-5 <= masses[0] < masses[1] < masses[2] == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("mass", [0.1, 0.5, 1.0])
def test_labels_carry_the_transported_mass(mass: float):
    limits: dict[str, Any] = {"pseudo_labels__min_mass": mass, "pseudo_labels__max_mass": mass}
    protocol = method(**limits, pseudo_labels__warmup_fraction=0.0)
    labels = started(protocol)
    context = protocol.pseudo_labels.on_epoch_start(source(VIEWS), seeded(), 0.0, labels)
    assert float(context.soft.sum(1).mean()) == pytest.approx(mass, abs=1e-5)
    assert float(context.soft.sum(1).max()) <= 1 + 1e-5
    assert protocol.training


BATCHES = update_config(TINY_PAPER, {"pseudo_labels": BatchTransport()})


def test_batch_transport_has_a_uniform_prior_and_keeps_the_prototypes():
    protocol = method(BATCHES)
    before = protocol.network.classifier.prototypes.clone()
    started(protocol)
    torch.testing.assert_close(protocol.prior, torch.full((K,), 1 / K))
    assert torch.equal(protocol.network.classifier.prototypes, before)
    assert float(protocol.expected_accuracy) == 0


def test_mass_of_batch_transport_grows():
    labels, data = method(BATCHES).pseudo_labels, source(VIEWS)
    start = torch.zeros(90, dtype=torch.int64)
    masses = [labels.on_epoch_start(data, seeded(), p, start) for p in (0.0, 0.5, 1.0)]
    assert 0.1 <= masses[0] < masses[1] < masses[2] == pytest.approx(1.0)


@pytest.mark.parametrize("views", [VIEWS, with_gaps(VIEWS)], ids=["complete", "gaps"])
def test_dataset_transport_labels_all_samples_with_the_mass_of_the_epoch(views):
    protocol = method(TINY_PAPER)
    labels = started(protocol, views)
    torch.testing.assert_close(protocol.prior, torch.full((K,), 1 / K))
    assert set(labels.tolist()) == set(range(K))
    masses = [
        float(protocol.pseudo_labels.on_epoch_start(source(views), seeded(), p, labels).soft.sum(1).mean())
        for p in (0.0, 0.5, 1.0)
    ]
    assert 0.1 < masses[0] < masses[1] < masses[2] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("views", [VIEWS, with_gaps(VIEWS)], ids=["complete", "gaps"])
def test_dataset_transport_starts_from_clusters_that_the_data_judge(views, monkeypatch):
    protocol, given = method(TINY_PAPER), list[Any]()
    labels = np.arange(90) % K

    def find(*args: Any) -> Selection:
        given.extend(args)
        return Selection(labels, np.ones(90))

    monkeypatch.setattr(pseudo_labels, "find_partition", find)
    assert started(protocol, views).tolist() == labels.tolist()
    data, learned, n_clusters, _, options = given
    for x, expected in zip(data, complete_views(source(views)), strict=True):
        np.testing.assert_array_equal(x, expected)
    transport = protocol.pseudo_labels
    assert isinstance(transport, DatasetPseudoLabels)
    consensus, mixed = transport.features(source(views), seeded())
    np.testing.assert_allclose(learned[0], consensus.numpy(), rtol=1e-5)
    assert (len(data), len(learned), n_clusters) == (2, 1, K)
    assert options == transport.options.partition
    for cluster, prototype in enumerate(protocol.network.classifier.prototypes):
        mean = mixed[torch.from_numpy(labels == cluster)].mean(0)
        assert float(functional.cosine_similarity(prototype, mean, dim=0)) == pytest.approx(1, abs=1e-5)
    torch.testing.assert_close(protocol.prior, torch.full((K,), 1 / K))
    assert protocol.training


def test_prototypes_of_stage_2_can_be_kept():
    protocol = method(TINY_PAPER, pseudo_labels__partition=None)
    before = protocol.network.classifier.prototypes.clone()
    started(protocol)
    assert torch.equal(protocol.network.classifier.prototypes, before)


def test_double_softmax_changes_the_labels():
    totals = []
    for double in (False, True):
        protocol = method(TINY_PAPER, pseudo_labels__double_softmax=double)
        started(protocol)
        totals.append(protocol.pseudo_labels.transport_labels(logits(20), 0.5).soft)
    assert not torch.equal(*totals)


def test_predictions_that_are_not_finite_are_an_error():
    protocol = method()
    with pytest.raises(DivergenceError, match="finite"):
        protocol.pseudo_labels.transport_labels(torch.full((4, K), math.nan), 0.5)


class TestTemperature:
    @settings(max_examples=20)
    @given(st.integers(0, 100), st.floats(0.05, 0.95))
    def test_mean_confidence_is_the_expected_accuracy(self, seed: int, part: float):
        log_proba = logits(seed=seed)
        low, high = (confidence(log_proba, t) for t in (MAX_TEMPERATURE, MIN_TEMPERATURE))
        accuracy = low + part * (high - low)  # within reach
        assert confidence(log_proba, calibrated_temperature(log_proba, accuracy)) == pytest.approx(
            accuracy, abs=1e-3
        )

    def test_temperature_falls_with_the_expected_accuracy(self):
        found = [calibrated_temperature(logits(), accuracy) for accuracy in np.linspace(0.4, 1, 13)]
        assert found == sorted(found, reverse=True)
        assert all(MIN_TEMPERATURE <= t <= MAX_TEMPERATURE * (1 + 1e-6) for t in found)

    def test_temperature_of_calibrated_predictions_is_1(self):
        assert calibrated_temperature(logits(), confidence(logits(), 1.0)) == pytest.approx(1, abs=1e-3)

    @pytest.mark.parametrize("accuracy", [0.0, 0.1, 1.0])
    def test_accuracy_out_of_reach_gives_a_bound(self, accuracy: float):
        bound = MIN_TEMPERATURE if accuracy == 1 else MAX_TEMPERATURE
        assert calibrated_temperature(logits(), accuracy) == pytest.approx(bound, rel=1e-3)

    def test_certain_predictions_give_a_finite_temperature(self):
        certain = (1e4 * torch.eye(K)).log_softmax(1)
        assert math.isfinite(calibrated_temperature(certain, 0.8))
