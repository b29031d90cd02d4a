"""Algorithm 1: its stages, what each learns from, and what it must not depend on."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.examples import TINY, TINY_PAPER, blobs, seeded, source, with_gaps

from protocol_mvc.data.batches import Batch
from protocol_mvc.methods.base import infer_all
from protocol_mvc.methods.protocol import Protocol
from protocol_mvc.nn.seeded import build
from protocol_mvc.training import Step, train
from protocol_mvc.transport import PotLabels

VIEWS, _ = blobs()
DIMS = [5, 4]
K = 3
CALM: dict[str, Any] = {"dropout": 0.0}  # no noise: one batch has one loss


def method(config=TINY, **changes) -> Protocol:
    return build(lambda: Protocol(config.model_copy(update=changes), DIMS, K), seeded())


def batches(views=VIEWS) -> list[Batch]:
    return list(source(views).shuffled(seeded()))


def perceived(protocol: Protocol, views=VIEWS, mass: float = 0.7) -> PotLabels:
    """The labels of all samples after perceiving."""
    protocol.perceive(source(views), seeded())
    return protocol.label(source(views), seeded(), mass)


def touched(protocol: Protocol, losses) -> set[str]:
    """The parts of the network that a sum of losses gives a gradient to."""
    protocol.zero_grad()
    torch.stack(list(losses.values())).sum().backward()
    moved = [name for name, p in protocol.network.named_parameters() if p.grad is not None and p.grad.any()]
    return {name.split(".")[0] for name in moved}


ALL_PARTS = {"autoencoders", "project", "project_consensus", "attention", "consensus", "classifier"}


@pytest.mark.parametrize(
    ("rounds", "names"),
    [
        (0, ["reconstruct", "align", "read out"]),
        (1, ["reconstruct", "align", "rebalance", "read out"]),
        (2, ["reconstruct", "align", "rebalance 1", "rebalance 2", "read out"]),
    ],
)
def test_the_stages_are_those_of_algorithm_1(rounds: int, names: list[str]):
    assert [stage.name for stage in method(rounds=rounds).stages()] == names


def test_stages_take_lengths_unit_and_rates_from_the_config():
    stages = method(unit="steps", align_length=7, align_rate=0.25, rounds=2).stages()
    assert stages[1].duration == (7, "steps")
    assert stages[1].learning_rate == 0.25
    assert stages[-1].duration.length == 0
    assert all(stage.begin is not None for stage in stages[2:])


def test_reconstruction_touches_the_autoencoders_alone():
    protocol = method()
    losses = protocol.reconstruct(batches()[0], 0.0, None)
    assert losses.keys() == {"reconstruction"}
    assert touched(protocol, losses) == {"autoencoders"}


def test_alignment_touches_every_part():
    protocol = method()
    losses = protocol.align(batches()[0], 0.0, None)
    assert losses.keys() == {"feature", "class", "reconstruction"}
    assert touched(protocol, losses) == ALL_PARTS


def test_rebalancing_touches_every_part():
    protocol = method()
    losses = protocol.rebalance(batches()[0], 0.0, perceived(protocol))
    assert losses.keys() == {"label", "feature", "class", "reconstruction"}
    assert touched(protocol, losses) == ALL_PARTS


def test_the_pot_labels_reach_the_classifier():
    protocol = method()
    losses = protocol.rebalance(batches()[0], 0.0, perceived(protocol))
    assert "classifier" in touched(protocol, {"label": losses["label"]})


@pytest.mark.parametrize("config", [TINY, TINY_PAPER], ids=["default", "paper"])
@pytest.mark.parametrize("views", [VIEWS, with_gaps(VIEWS)], ids=["complete", "gaps"])
def test_every_step_has_finite_losses(config, views):
    protocol = method(config)
    labels: PotLabels | float = 0.5 if config.label_scope == "batch" else perceived(protocol, views)
    protocol.perceive(source(views), seeded())
    for batch in batches(views):
        for losses in (
            protocol.reconstruct(batch, 0.0, None),
            protocol.align(batch, 0.0, None),
            protocol.rebalance(batch, 0.0, labels),
        ):
            assert all(value.ndim == 0 and bool(value.isfinite()) for value in losses.values())


def test_without_rebalancing_the_contrasts_are_the_plain_ones():
    protocol = method(**CALM, rebalance=False)
    batch, labels = batches()[0], perceived(protocol)
    plain, last = protocol.align(batch, 0.0, None), protocol.rebalance(batch, 0.0, labels)
    for term in ("feature", "class", "reconstruction"):
        assert torch.equal(plain[term], last[term])


def test_without_a_shift_the_feature_contrast_is_the_plain_one():
    protocol = method(**CALM, logit_shift=0.0)
    batch, labels = batches()[0], perceived(protocol)
    plain, last = protocol.align(batch, 0.0, None), protocol.rebalance(batch, 0.0, labels)
    assert torch.equal(plain["feature"], last["feature"])
    assert not torch.equal(plain["class"], last["class"])


@pytest.mark.parametrize(("field", "term"), [("label_weight", "label"), ("class_weight", "class")])
def test_a_weight_multiplies_its_term(field: str, term: str):
    values = []
    for weight in (0.0, 1.0, 2.0):
        protocol = method(**CALM, **{field: weight})
        values.append(float(protocol.rebalance(batches()[0], 0.0, perceived(protocol))[term].detach()))
    assert values[0] == 0
    assert values[2] == pytest.approx(2 * values[1])


@pytest.mark.parametrize(
    "change",
    [
        {"structure_weight": 1.0},
        {"label_loss": "mixed"},
        {"label_shift": 0.0},
        {"double_softmax": True},
        {"temperature_feature": 1.0},
        {"temperature_class": 0.5},
        {"sample_weight": 0.1},
    ],
    ids=str,
)
def test_each_choice_changes_the_last_stage(change):
    totals = []
    for changes in (CALM, CALM | change):
        protocol = method(**changes)
        losses = protocol.rebalance(batches()[0], 0.0, perceived(protocol))
        totals.append(float(torch.stack(list(losses.values())).sum().detach()))
    assert totals[0] != totals[1]


def test_what_an_absent_view_holds_changes_no_loss():
    protocol = method(**CALM)
    gaps = with_gaps(VIEWS)
    labels = perceived(protocol, gaps)
    for batch in batches(gaps):
        assert batch.present is not None
        noise = seeded(1)
        other = batch._replace(
            views=[
                torch.where(here[:, None], x, 100 * torch.randn(x.shape, generator=noise))
                for x, here in zip(batch.views, batch.present.T, strict=True)
            ]
        )
        steps: list[tuple[Step, Any]] = [
            (protocol.reconstruct, None),
            (protocol.align, None),
            (protocol.rebalance, labels),
            (protocol.rebalance, 0.5),
        ]
        for step, context in steps:
            mine, theirs = step(batch, 0.0, context), step(other, 0.0, context)
            assert mine.keys() == theirs.keys()
            assert all(torch.equal(mine[name], theirs[name]) for name in mine)
        first, second = protocol.infer(batch), protocol.infer(other)
        assert torch.equal(first.embedding, second.embedding)
        assert torch.equal(first.log_proba, second.log_proba)


def test_a_view_that_a_batch_lacks_altogether_is_left_out():
    gone = [VIEWS[0], np.where(np.arange(90)[:, None] < 89, np.nan, VIEWS[1])]
    protocol = method(**CALM)
    labels = perceived(protocol, gone)
    for batch in batches(gone):
        losses = protocol.rebalance(batch, 0.0, labels)
        assert all(bool(value.isfinite()) for value in losses.values())


@pytest.mark.parametrize("views", [VIEWS, with_gaps(VIEWS)], ids=["complete", "gaps"])
def test_inference_gives_unit_features_and_probabilities(views):
    inferred = infer_all(method(), source(views))
    assert inferred.embedding.shape == (90, 2 * TINY.feature)
    torch.testing.assert_close(inferred.log_proba.exp().sum(1), torch.ones(90))
    norms = inferred.embedding.unflatten(1, (2, -1)).norm(dim=2)
    torch.testing.assert_close(norms, torch.ones(90, 2))


def test_perceiving_sets_a_prior_that_no_cluster_is_absent_from():
    protocol = method()
    protocol.perceive(source(VIEWS), seeded())
    assert float(protocol.prior.sum()) == pytest.approx(1)
    assert bool((protocol.prior > 0).all())
    norms = protocol.network.classifier.prototypes.norm(dim=1)
    torch.testing.assert_close(norms, torch.ones(K))


def test_a_uniform_prior_leaves_the_prototypes_alone():
    protocol = method(TINY_PAPER)
    before = protocol.network.classifier.prototypes.clone()
    protocol.perceive(source(VIEWS), seeded())
    torch.testing.assert_close(protocol.prior, torch.full((K,), 1 / K))
    assert torch.equal(protocol.network.classifier.prototypes, before)


@pytest.mark.parametrize("mass", [0.1, 0.5, 1.0])
def test_labels_carry_the_mass_asked_for(mass: float):
    labels = perceived(method(), mass=mass)
    assert float(labels.soft.sum(1).mean()) == pytest.approx(mass, abs=1e-5)
    assert float(labels.soft.sum(1).max()) <= 1 + 1e-5
    assert float(labels.log_frequency.exp().sum()) == pytest.approx(1, abs=0.05)


def test_labelling_leaves_the_network_in_training():
    protocol = method()
    perceived(protocol)
    assert protocol.training


def test_the_mass_grows_in_the_first_round_and_stays_in_the_next():
    first, second = method(label_scope="batch", rounds=2).stages()[2:4]
    assert first.prepare is not None
    assert second.prepare is not None
    masses = [first.prepare(source(VIEWS), seeded(), p) for p in (0.0, 0.5, 1.0)]
    assert TINY.mass_start <= masses[0] < masses[1] < masses[2] == pytest.approx(TINY.mass_end)
    assert second.prepare(source(VIEWS), seeded(), 0.0) == TINY.mass_end


@pytest.mark.parametrize("changes", [{}, {"rounds": 0}, {"readout": "kmeans"}], ids=str)
def test_reading_out_makes_a_prior_and_labels(changes):
    protocol = method(**changes)
    train(protocol, protocol.stages(), source(VIEWS), seeded())
    inferred = infer_all(protocol.eval(), source(VIEWS))
    assert bool(inferred.log_proba.isfinite().all())
    assert float(protocol.class_prior().sum()) == pytest.approx(1)
    assert float(protocol.view_weights().detach().sum()) == pytest.approx(1)


def test_k_means_reads_out_the_nearest_centre():
    protocol = method(readout="kmeans")
    train(protocol, protocol.stages(), source(VIEWS), seeded())
    inferred = infer_all(protocol.eval(), source(VIEWS))
    nearest = torch.cdist(inferred.embedding, protocol.centers).argmin(1)
    assert torch.equal(inferred.log_proba.argmax(1), nearest)
