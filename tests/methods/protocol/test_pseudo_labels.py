"""The pseudo-labels: partition, warm-up, transport, and the end of a round."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.examples import TINY, TINY_PAPER, blobs, paired_blobs, seeded, source
from torch.nn import functional

from protocol_mvc.methods.base import infer_all
from protocol_mvc.methods.protocol import pseudo_labels
from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.methods.protocol.config import ProtocolConfig
from protocol_mvc.methods.protocol.pseudo_labels import InitializedPseudoLabels
from protocol_mvc.nn.seeded import build
from protocol_mvc.training.stage import SKIP, STOP
from protocol_mvc.transport import PotLabels
from protocol_mvc.utils.config import update_config

VIEWS, _ = blobs()
K = 3


def method(config: ProtocolConfig = TINY, **changes: Any) -> Protocol:
    made = build(lambda: Protocol(update_config(config, changes), [5, 4], K), seeded())
    return made.requires_grad_(False)


def started(protocol: Protocol, paired: bool = False) -> torch.Tensor:
    protocol.paired.fill_(paired)
    labels = protocol.pseudo_labels.start(source(VIEWS), seeded())
    assert isinstance(labels, torch.Tensor)
    return labels


@pytest.mark.parametrize("paired", [False, True])
def test_partition_sets_a_prior_and_prototypes(paired: bool):
    protocol = method()
    h = infer_all(protocol, source(VIEWS)).embedding.unflatten(1, (2, -1))
    labels = started(protocol, paired)
    sizes = torch.bincount(labels, minlength=K)
    torch.testing.assert_close(protocol.prior, (sizes + 1) / (90 + K))
    for cluster, prototype in enumerate(protocol.network.classifier.prototypes):
        mean = h[labels == cluster].mean((0, 1))
        torch.testing.assert_close(prototype, functional.normalize(mean, dim=0))


@pytest.mark.parametrize("paired", [False, True])
def test_partition_is_that_of_the_groups(paired: bool):
    views, kind = paired_blobs() if paired else blobs()
    protocol = method()
    protocol.paired.fill_(paired)
    labels = protocol.pseudo_labels.start(source(views), seeded())
    assert isinstance(labels, torch.Tensor)
    table = np.zeros((K, K))
    np.add.at(table, (kind, labels.numpy()), 1)
    assert table.max(1).sum() >= 0.9 * len(kind)


def test_untrained_projections_are_not_used():
    """Paired views are not aligned, so before the first round only the latent codes are trained."""
    protocol = method()
    protocol.network.project.weight.fill_(0.0)
    protocol.network.project.bias.fill_(1.0)  # every projection is the same
    labels = started(protocol, paired=True)
    assert torch.bincount(labels, minlength=K).min() > 0


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("known", [True, False])
def test_later_round_is_skipped_if_the_classifier_predicts_the_partition(monkeypatch, number, known):
    protocol = method()
    protocol.paired.fill_(True)
    predicted = infer_all(protocol, source(VIEWS)).log_proba.argmax(1).numpy()
    partition = (predicted + 1) % K if known else np.arange(len(predicted)) % K  # up to a permutation
    monkeypatch.setattr(pseudo_labels, "consensus_partition", lambda *args: partition)
    result = protocol.pseudo_labels.start(source(VIEWS), seeded(), number)
    assert (result is SKIP) is (known and number == 1)


@pytest.mark.parametrize("subsample", [False, True])
@pytest.mark.parametrize("number", [0, 1])
def test_predictions_for_a_new_subsample_are_candidates_to_keep(monkeypatch, number, subsample):
    protocol, data, given = method(), source(VIEWS), dict[str, Any]()
    data.is_subsample = subsample
    predicted = infer_all(protocol, data).log_proba.argmax(1).numpy()

    def select(*args: Any, **options: Any) -> Any:
        given.update(options)
        return predicted

    monkeypatch.setattr(pseudo_labels, "select_partition", select)
    protocol.pseudo_labels.start(data, seeded(), number)
    assert given["use_raw_views"] is (number == 0 or subsample)
    assert (given["current_labels"] is not None) is (number == 1 and subsample)


@pytest.mark.parametrize("fraction", [0.0, 0.4, 1.0])
def test_warmup_learns_the_partition_itself(fraction: float):
    protocol = method(pseudo_labels__warmup_fraction=fraction)
    labels = started(protocol)
    for progress in (0.0, 0.3, 0.5, 1.0):
        context = protocol.pseudo_labels.on_epoch_start(source(VIEWS), seeded(), progress, labels, 0)
        is_partition = torch.equal(context.soft, functional.one_hot(labels, K).to(context.soft))
        assert is_partition is (progress < fraction)


@pytest.mark.parametrize("mass", [0.1, 0.5, 1.0])
def test_labels_carry_the_transported_mass(mass: float):
    limits: dict[str, Any] = {"pseudo_labels__min_mass": mass, "pseudo_labels__max_mass": mass}
    protocol = method(**limits, pseudo_labels__warmup_fraction=0.0)
    labels = started(protocol)
    context = protocol.pseudo_labels.on_epoch_start(source(VIEWS), seeded(), 0.0, labels, 0)
    assert float(context.soft.sum(1).mean()) == pytest.approx(mass, abs=1e-5)
    assert float(context.soft.sum(1).max()) <= 1 + 1e-5
    assert protocol.training


def test_mass_grows_in_the_first_round_and_stays_in_the_next():
    labels = method(TINY_PAPER).pseudo_labels
    masses = [labels.on_epoch_start(source(VIEWS), seeded(), p, None, 0) for p in (0.0, 0.5, 1.0)]
    assert 0.1 <= masses[0] < masses[1] < masses[2] == pytest.approx(1.0)
    assert labels.on_epoch_start(source(VIEWS), seeded(), 0.0, None, 1) == 1.0


def test_batch_transport_has_a_uniform_prior_and_keeps_the_prototypes():
    protocol = method(TINY_PAPER)
    before = protocol.network.classifier.prototypes.clone()
    assert protocol.pseudo_labels.start(source(VIEWS), seeded()) is None
    torch.testing.assert_close(protocol.prior, torch.full((K,), 1 / K))
    assert torch.equal(protocol.network.classifier.prototypes, before)


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize("changed", [0, 1])
@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_round_stops_when_the_classifier_agrees_with_the_full_transport(
    monkeypatch, progress: float, changed: int, early_stopping: bool
):
    changes: dict[str, Any] = {
        "pseudo_labels__warmup_fraction": 0.0,
        "pseudo_labels__early_stopping": early_stopping,
    }
    protocol = method(**changes)
    start = started(protocol)
    predicted = infer_all(protocol, source(VIEWS)).log_proba.argmax(1)

    def labels(self: Any, log_p: torch.Tensor, mass: float) -> PotLabels:
        hard = predicted.clone()
        if changed or mass < 1:
            hard[:1] = (hard[:1] + 1) % K
        return PotLabels(functional.one_hot(hard, K).to(log_p), hard, torch.zeros(K))

    monkeypatch.setattr(InitializedPseudoLabels, "transport_labels", labels)
    context = protocol.pseudo_labels.on_epoch_start(source(VIEWS), seeded(), progress, start, 0)
    assert (context is STOP) is (early_stopping and progress > 0 and not changed)


def test_double_softmax_changes_the_labels():
    totals = []
    for double in (False, True):
        protocol = method(TINY_PAPER, pseudo_labels__double_softmax=double)
        protocol.pseudo_labels.start(source(VIEWS), seeded())
        log_p = torch.randn(20, K, generator=seeded()).log_softmax(1)
        totals.append(protocol.pseudo_labels.transport_labels(log_p, 0.5).soft)
    assert not torch.equal(*totals)
