"""Algorithm 1: its stages, what each trains, and what results must not depend on."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.examples import TINY, TINY_PAPER, blobs, paired_blobs, seeded, source, with_gaps
from torch.nn import functional

from protocol_mvc.data.batches import BLOCK, Batch, Source
from protocol_mvc.data.scaling import fit_scalers
from protocol_mvc.data.views import as_views
from protocol_mvc.methods.base import infer_all
from protocol_mvc.methods.protocol import algorithm
from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.methods.protocol.config import PAPER, ProtocolConfig
from protocol_mvc.nn.seeded import build
from protocol_mvc.partition.view_matching import group_information
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import SKIP, Signal, Step
from protocol_mvc.transport import PotLabels
from protocol_mvc.utils.config import update_config

VIEWS, _ = blobs()
PAIRED, _ = paired_blobs()
DIMS = [5, 4]
K = 3
NO_DROPOUT: dict[str, Any] = {"network__dropout": 0.0}  # one batch has one loss
ALL_PARTS = {"autoencoders", "project", "project_consensus", "attention", "consensus", "classifier"}


def method(config: ProtocolConfig = TINY, dims: list[int] = DIMS, **changes: Any) -> Protocol:
    return build(lambda: Protocol(update_config(config, changes), dims, K), seeded())


def batches(views=VIEWS) -> list[Batch]:
    return list(source(views).shuffled(seeded()))


def labels_of(protocol: Protocol, views=VIEWS) -> Any:
    """The context of the last epoch of stage 3."""
    start = protocol.pseudo_labels.start(source(views), seeded())
    assert not isinstance(start, Signal)
    return protocol.pseudo_labels.on_epoch_start(source(views), seeded(), 1.0, start, 0)


def trained_parts(protocol: Protocol, losses) -> set[str]:
    """The parts of the network that get a gradient."""
    protocol.zero_grad()
    torch.stack(list(losses.values())).sum().backward()
    moved = [name for name, p in protocol.network.named_parameters() if p.grad is not None and p.grad.any()]
    return {name.split(".")[0] for name in moved}


def run_stages(protocol: Protocol, views) -> list[str]:
    """The names of the stages that had epochs."""
    history = train(protocol, protocol.stages(), source(views), seeded())
    return list(dict.fromkeys(epoch.stage for epoch in history))


def test_stages_of_the_paper():
    names = [stage.name for stage in method(PAPER).stages()]
    assert names == ["reconstruct", "align", "rebalance", "read out"]
    assert [stage.n_epochs for stage in method(PAPER).stages()] == [200, 100, 100, 0]


@pytest.mark.parametrize("n_rounds", [0, 1, 2])
def test_stage_3_is_repeated(n_rounds: int):
    names = [stage.name for stage in method(schedule__n_rounds=n_rounds).stages()]
    assert sum(name.startswith("rebalance") for name in names) == n_rounds


def test_stages_take_lengths_rates_and_bounds_from_the_config():
    changes = {"n_epochs_align": 7, "lr_align": 0.25, "max_steps_per_epoch_rebalance": 9, "max_samples": 80}
    named: dict[str, Any] = {f"schedule__{name}": value for name, value in changes.items()}
    stages = {stage.name: stage for stage in method(**named).stages()}
    assert (stages["align"].n_epochs, stages["align"].optimizer.lr) == (7, 0.25)
    assert stages["rebalance"].sampling.max_steps == 9
    trained = [stage for stage in stages.values() if stage.n_epochs]
    assert {stage.sampling.max_samples for stage in trained} == {80}


def test_subsample_must_hold_all_clusters():
    with pytest.raises(ValueError, match=r"max_samples .*n_clusters \(3\), got 2"):
        method(schedule__max_samples=K - 1)


def test_each_stage_trains_its_part():
    protocol = method()
    losses = protocol.reconstruct(batches()[0], 0.0, None)
    assert losses.keys() == {"reconstruction"}
    assert trained_parts(protocol, losses) == {"autoencoders"}
    losses = protocol.align(batches()[0], 0.0, None)
    assert losses.keys() == {"feature", "class", "reconstruction"}
    assert trained_parts(protocol, losses) == ALL_PARTS
    losses = protocol.rebalance(batches()[0], 0.0, labels_of(protocol))
    assert losses.keys() == {"label", "feature", "class", "reconstruction"}
    assert trained_parts(protocol, losses) == ALL_PARTS
    label = protocol.rebalance(batches()[0], 0.0, labels_of(protocol))["label"]
    assert "classifier" in trained_parts(protocol, {"label": label})


@pytest.mark.parametrize("config", [TINY, TINY_PAPER], ids=["default", "paper"])
@pytest.mark.parametrize("views", [VIEWS, with_gaps(VIEWS)], ids=["complete", "gaps"])
def test_losses_are_finite(config, views):
    protocol = method(config)
    labels = labels_of(protocol, views)
    for batch in batches(views):
        for losses in (
            protocol.reconstruct(batch, 0.0, None),
            protocol.align(batch, 0.0, None),
            protocol.rebalance(batch, 0.0, labels),
        ):
            assert all(value.ndim == 0 and bool(value.isfinite()) for value in losses.values())


def test_without_rebalancing_the_contrastive_losses_are_those_of_stage_2():
    protocol = method(**NO_DROPOUT, losses__rebalanced=False)
    batch, labels = batches()[0], labels_of(protocol)
    align, rebalance = protocol.align(batch, 0.0, None), protocol.rebalance(batch, 0.0, labels)
    for term in ("feature", "class", "reconstruction"):
        assert torch.equal(align[term], rebalance[term])


def test_without_logit_adjustment_the_feature_loss_is_that_of_stage_2():
    protocol = method(**NO_DROPOUT, losses__logit_adjustment=0.0)
    batch, labels = batches()[0], labels_of(protocol)
    align, rebalance = protocol.align(batch, 0.0, None), protocol.rebalance(batch, 0.0, labels)
    assert torch.equal(align["feature"], rebalance["feature"])
    assert not torch.equal(align["class"], rebalance["class"])


@pytest.mark.parametrize(
    ("field", "term"), [("pseudo_label_weight", "label"), ("class_loss_weight", "class")]
)
def test_weights_multiply_their_term(field: str, term: str):
    values = []
    for weight in (0.0, 1.0, 2.0):
        changes: dict[str, Any] = NO_DROPOUT | {f"losses__{field}": weight}
        protocol = method(**changes)
        values.append(float(protocol.rebalance(batches()[0], 0.0, labels_of(protocol))[term].detach()))
    assert values[0] == 0
    assert values[2] == pytest.approx(2 * values[1])


@pytest.mark.parametrize(
    "change",
    [
        {"structure_weight": 1.0},
        {"pseudo_label_loss": "mixture"},
        {"pseudo_label_logit_adjustment": 0.0},
        {"temperature_feature": 1.0},
        {"temperature_class": 0.5},
        {"positive_sample_weight": 0.1},
    ],
    ids=str,
)
def test_each_option_of_the_losses_has_an_effect(change):
    totals = []
    for options in (dict[str, Any](), change):
        protocol = method(**NO_DROPOUT, **{f"losses__{name}": value for name, value in options.items()})
        losses = protocol.rebalance(batches()[0], 0.0, labels_of(protocol))
        totals.append(float(torch.stack(list(losses.values())).sum().detach()))
    assert totals[0] != totals[1]


def test_values_of_absent_views_change_nothing():
    protocol, gaps = method(**NO_DROPOUT), with_gaps(VIEWS)
    steps: list[tuple[Step, Any]] = [
        (protocol.reconstruct, None),
        (protocol.align, None),
        (protocol.rebalance, labels_of(protocol, gaps)),
    ]
    for batch in batches(gaps):
        assert batch.present is not None
        noise = seeded(1)
        other = batch._replace(
            views=[
                torch.where(here[:, None], x, 100 * torch.randn(x.shape, generator=noise))
                for x, here in zip(batch.views, batch.present.T, strict=True)
            ]
        )
        for step, context in steps:
            mine, theirs = step(batch, 0.0, context), step(other, 0.0, context)
            assert all(torch.equal(mine[name], theirs[name]) for name in mine)
        first, second = protocol.infer(batch), protocol.infer(other)
        assert torch.equal(first.embedding, second.embedding)
        assert torch.equal(first.log_proba, second.log_proba)


def test_batch_without_a_view_has_finite_losses():
    gone = [VIEWS[0], np.where(np.arange(90)[:, None] < 89, np.nan, VIEWS[1])]
    protocol = method(**NO_DROPOUT)
    labels = labels_of(protocol, gone)
    for batch in batches(gone):
        losses = protocol.rebalance(batch, 0.0, labels)
        assert all(bool(value.isfinite()) for value in losses.values())


@pytest.mark.parametrize("views", [VIEWS, with_gaps(VIEWS)], ids=["complete", "gaps"])
def test_inference_gives_unit_projections_and_probabilities(views):
    inferred = infer_all(method(), source(views))
    assert inferred.embedding.shape == (90, 2 * TINY.network.projection_dim)
    torch.testing.assert_close(inferred.log_proba.exp().sum(1), torch.ones(90))
    norms = inferred.embedding.unflatten(1, (2, -1)).norm(dim=2)
    torch.testing.assert_close(norms, torch.ones(90, 2))


@pytest.mark.parametrize("changes", [{}, {"schedule__n_rounds": 0}, {"readout": "kmeans"}], ids=str)
def test_read_out_gives_a_prior_and_labels(changes):
    protocol = method(**changes)
    train(protocol, protocol.stages(), source(VIEWS), seeded())
    inferred = infer_all(protocol.eval(), source(VIEWS))
    assert bool(inferred.log_proba.isfinite().all())
    assert float(protocol.class_prior().sum()) == pytest.approx(1)
    assert float(protocol.view_weights().detach().sum()) == pytest.approx(1)


def test_kmeans_read_out_takes_the_nearest_centre():
    protocol = method(readout="kmeans")
    train(protocol, protocol.stages(), source(VIEWS), seeded())
    inferred = infer_all(protocol.eval(), source(VIEWS))
    nearest = torch.cdist(inferred.embedding, protocol.centers).argmin(1)
    assert torch.equal(inferred.log_proba.argmax(1), nearest)


def test_rebalance_learns_pseudo_labels_by_row():
    protocol = method(**NO_DROPOUT)
    labels = labels_of(protocol)
    assert isinstance(labels, PotLabels)
    batch = batches()[0]
    shuffled = labels._replace(soft=labels.soft.roll(1, 0), hard=labels.hard.roll(1, 0))
    mine, other = (protocol.rebalance(batch, 0.0, t)["label"] for t in (labels, shuffled))
    assert not torch.equal(mine, other)


class TestPairedViews:
    """Views that show the same items are not aligned, and their contrastive losses are weighted down."""

    @pytest.mark.parametrize(("views", "paired"), [(VIEWS, False), (PAIRED, True)], ids=["groups", "items"])
    def test_paired_views_skip_the_alignment(self, views, paired):
        protocol = method()
        first = ["reconstruct paired"] if paired else ["reconstruct", "align"]
        assert run_stages(protocol, views) == [*first, "rebalance"]
        assert bool(protocol.paired) is paired

    def test_all_views_are_aligned_without_the_option(self):
        assert run_stages(method(paired_views=None), PAIRED) == ["reconstruct", "align", "rebalance"]

    def test_single_view_is_not_aligned(self):
        assert run_stages(method(dims=[5]), VIEWS[:1]) == ["reconstruct paired", "rebalance"]

    def test_pairs_are_found_where_views_are_missing(self):
        assert method().match_views(source(with_gaps(PAIRED)), seeded()) is SKIP
        assert method().match_views(source(with_gaps(VIEWS)), seeded()) is None

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("value", [1e16, -1e38])
    def test_values_that_would_overflow_are_not_compared(self, value: float):
        views = as_views([np.where(np.arange(len(view)) == 3, value, view.T).T for view in PAIRED])
        data = Source(views, fit_scalers(views, "none"), batch_size=32, device=torch.device("cpu"))
        assert method().match_views(data, seeded()) is None

    @pytest.mark.parametrize("k", [2, 30])
    def test_bound_depends_on_the_number_of_clusters(self, monkeypatch, k: int):
        monkeypatch.setattr(algorithm, "shared_information", lambda *args: 3.0)
        protocol = build(lambda: Protocol(TINY, DIMS, k), seeded())
        assert (protocol.match_views(source(VIEWS), seeded()) is SKIP) == (group_information(k) < 3)

    @pytest.mark.parametrize("weight", [0.0, 0.1, 1.0])
    def test_contrastive_losses_of_stage_3_are_weighted(self, weight: float):
        protocol = method(**NO_DROPOUT, paired_views__contrast_weight=weight)
        batch, labels = batches()[0], labels_of(protocol)
        apart = protocol.rebalance(batch, 0.0, labels)
        protocol.paired.fill_(True)
        same = protocol.rebalance(batch, 0.0, labels)
        for name, value in apart.items():
            torch.testing.assert_close(same[name], value * (weight if name in ("feature", "class") else 1))


class TestLatentCodes:
    def test_codes_are_centred_unit_rows_with_zeros_for_absent_views(self):
        protocol, views = method(), with_gaps(VIEWS)
        data = source(views)
        codes = protocol.latent_codes(data).unflatten(1, (2, TINY.network.latent_dim))
        (batch,) = Source(data.views, fit_scalers(data.views), batch_size=90, device=data.device).shuffled(
            seeded()
        )
        for v, x in enumerate(views):
            present = torch.from_numpy(~np.isnan(x[:, 0]))
            z = torch.empty(90, TINY.network.latent_dim)
            z[batch.rows] = protocol.network.encode(batch.views).z[v].detach()
            expected = functional.normalize(z[present] - z[present].mean(0))
            torch.testing.assert_close(codes[present, v], expected, rtol=1e-4, atol=1e-5)
            assert not codes[~present, v].any()

    def test_codes_do_not_depend_on_the_number_of_blocks(self):
        protocol, times = method(), -(-BLOCK // 90) + 1
        many = protocol.latent_codes(source([np.tile(x, (times, 1)) for x in VIEWS]))
        once = protocol.latent_codes(source(VIEWS))
        torch.testing.assert_close(many, once.repeat(times, 1), rtol=1e-3, atol=1e-4)
