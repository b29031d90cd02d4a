"""Algorithm 1: its stages, what each trains, and what results must not depend on."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from tests.examples import QUICK_PAPER, TINY, TINY_PAPER, blobs, seeded, source, with_gaps
from torch import Tensor

from protocol_mvc.data.batches import Batch
from protocol_mvc.methods.base import infer_all
from protocol_mvc.methods.protocol.algorithm import Context, Protocol
from protocol_mvc.methods.protocol.config import DEFAULT, PAPER, RELEASED, ProtocolConfig
from protocol_mvc.methods.protocol.pseudo_labels import InitializedPseudoLabels, complete_views
from protocol_mvc.nn import network
from protocol_mvc.nn.seeded import build
from protocol_mvc.partition.graphs import join_views, nearest_neighbors
from protocol_mvc.training.loop import train
from protocol_mvc.transport import PotLabels
from protocol_mvc.utils.config import update_config

VIEWS, TRUTH = blobs()
GAPS = with_gaps(VIEWS)
DIMS = [5, 4]
K = 3
NO_DROPOUT: dict[str, Any] = {"structure__dropout": 0.0}  # one batch has one loss
TINY_RELEASED = update_config(RELEASED, QUICK_PAPER)
PAPER_PARTS = {"autoencoders", "project", "project_consensus", "attention", "consensus", "classifier"}
both_configs = pytest.mark.parametrize("config", [TINY, TINY_PAPER], ids=["default", "paper"])
complete_or_not = pytest.mark.parametrize("views", [VIEWS, GAPS], ids=["complete", "gaps"])


def method(config: ProtocolConfig = TINY, dims: list[int] = DIMS, **changes: Any) -> Protocol:
    return build(lambda: Protocol(update_config(config, changes), dims, K), seeded())


def batches(views=VIEWS) -> list[Batch]:
    return list(source(views).shuffled(seeded()))


def context_of(protocol: Protocol, stage: str, views=VIEWS, progress: float = 1.0) -> Any:
    """The context of an epoch of a stage; its steps draw the same neighbours every time they are made."""
    data = source(views)
    found = next(x for x in protocol.stages() if x.name == stage)
    start = found.on_start(data, seeded()) if found.on_start else None
    return found.on_epoch_start(data, seeded(), progress, start) if found.on_epoch_start else None


def fresh(context: Context | None) -> Any:
    """The context with the generator of neighbours at its start."""
    return context and context._replace(generator=seeded())


def losses_of(protocol: Protocol, stage: str, batch: Batch | None = None, views=VIEWS) -> dict[str, Tensor]:
    """The losses of the first batch in the last epoch of a stage."""
    step = protocol.align if stage.startswith("align") else protocol.rebalance
    return step(batch or batches(views)[0], 1.0, fresh(context_of(protocol, stage, views)))


def trained_parts(protocol: Protocol, losses: dict[str, Tensor]) -> set[str]:
    """The parts of the network that get a gradient."""
    protocol.zero_grad()
    torch.stack(list(losses.values())).sum().backward()
    moved = [name for name, p in protocol.network.named_parameters() if p.grad is not None and p.grad.any()]
    return {name.split(".")[0] for name in moved}


def fitted(views=VIEWS, config: ProtocolConfig = TINY, **changes: Any) -> Protocol:
    protocol = method(config, **changes)
    train(protocol, protocol.stages(), source(views), seeded())
    return protocol.eval()


class TestStages:
    def test_of_the_paper(self):
        names = [stage.name for stage in method(PAPER).stages()]
        assert names == ["reconstruct", "align", "rebalance", "read out"]
        assert [stage.n_epochs for stage in method(PAPER).stages()] == [200, 50, 50, 0]
        assert {stage.sampling.max_samples for stage in method(PAPER).stages()} == {None}

    def test_of_the_default(self):
        stages = method(DEFAULT).stages()
        assert [stage.name for stage in stages] == ["align 1", "align 2", "align 3", "rebalance", "read out"]
        assert [stage.n_epochs for stage in stages] == [4, 4, 4, 4, 0]

    @pytest.mark.parametrize(("n_views", "expected"), [(1, 4), (2, 4), (3, 3), (4, 2), (7, 2)])
    def test_more_views_are_aligned_in_fewer_epochs(self, n_views: int, expected: int):
        first, *_ = method(DEFAULT, dims=[3] * n_views).stages()
        assert first.n_epochs == expected

    @pytest.mark.parametrize("n_rounds", [1, 2, 5])
    def test_alignment_has_rounds_whose_rates_decay_by_a_cosine(self, n_rounds: int):
        rounds = method(structure__n_rounds=n_rounds, schedule__lr_align=0.25).stages()[:-2]
        expected = [0.125 * (1 + math.cos(math.pi * (i + 0.5) / n_rounds)) for i in range(n_rounds)]
        assert [stage.optimizer.lr for stage in rounds] == pytest.approx(expected)
        assert [stage.optimizer.reset for stage in rounds] == ["stage", *["never"] * (n_rounds - 1)]

    def test_take_lengths_rates_and_bounds_from_the_config(self):
        changes = {"n_epochs_rebalance": 7, "lr_rebalance": 0.25, "max_steps_per_epoch": 9, "max_samples": 80}
        named: dict[str, Any] = {f"schedule__{name}": value for name, value in changes.items()}
        *aligned, rebalance, _ = method(**named).stages()
        assert (rebalance.n_epochs, rebalance.optimizer.lr) == (7, 0.25)
        for stage in (*aligned, rebalance):
            assert (stage.sampling.max_steps, stage.sampling.max_samples) == (9, 80)

    def test_subsample_must_hold_all_clusters(self):
        with pytest.raises(ValueError, match=r"max_samples .*n_clusters \(3\), got 2"):
            method(schedule__max_samples=K - 1)

    @both_configs
    def test_history_names_the_stages_in_order(self, config):
        protocol = method(config)
        history = train(protocol, protocol.stages(), source(VIEWS), seeded())
        names = list(dict.fromkeys(epoch.stage for epoch in history))
        assert names == [stage.name for stage in protocol.stages() if stage.n_epochs]


class TestDefaultTraining:
    def test_alignment_trains_the_encoders_alone(self):
        protocol = method()
        for stage in ("align 1", "align 2"):
            losses = losses_of(protocol, stage)
            assert losses.keys() == {"feature"}
            assert trained_parts(protocol, losses) == {"encoders"}

    def test_alignment_trains_every_encoder(self):
        protocol = method()
        losses_of(protocol, "align 1")["feature"].backward()
        assert all(
            p.grad is not None and p.grad.any()
            for p in protocol.network.get_submodule("encoders").parameters()
        )

    def test_rebalancing_trains_everything(self):
        protocol = method()
        losses = losses_of(protocol, "rebalance")
        assert losses.keys() == {"label", "feature", "class"}
        assert trained_parts(protocol, losses) == {"encoders", "classifier"}
        for term in ("label", "class"):
            again = losses_of(protocol, "rebalance")
            assert "classifier" in trained_parts(protocol, {term: again[term]})

    def test_classifier_keeps_its_start_until_the_partition_sets_it(self):
        protocol = method()
        before = protocol.network.classifier.prototypes.detach().clone()
        train(protocol, protocol.stages()[:-2], source(VIEWS), seeded())
        assert torch.equal(protocol.network.classifier.prototypes, before)

    @complete_or_not
    def test_first_neighbours_are_those_of_the_data(self, views):
        protocol, data = method(structure__n_neighbors=4), source(views)
        prepared = complete_views(data)
        expected = [nearest_neighbors(x, 4) for x in (*prepared, join_views(prepared))]
        found = protocol.find_neighbors_in_data(data, seeded())
        np.testing.assert_array_equal(found.numpy(), np.hstack(expected))

    @complete_or_not
    def test_later_neighbours_are_those_of_the_learned_features(self, views):
        protocol, data = method(structure__n_neighbors=4), source(views)
        h = infer_all(protocol, data).embedding.numpy()
        found = protocol.find_neighbors(data, seeded())
        np.testing.assert_array_equal(found[:, :4].numpy(), nearest_neighbors(h, 4))
        assert set(found.flatten().tolist()) <= set(range(90))
        with torch.no_grad():
            for p in protocol.network.get_submodule("encoders").parameters():
                p.add_(torch.randn(p.shape, generator=seeded(1)))
        assert not torch.equal(protocol.find_neighbors(data, seeded()), found)

    def test_rounds_use_data_first_and_features_then(self):
        protocol = method()
        first, second, *_ = protocol.stages()
        assert first.on_start == protocol.find_neighbors_in_data
        assert second.on_start == protocol.find_neighbors

    def test_partners_are_neighbours_of_their_sample(self):
        protocol, data = method(structure__n_neighbors=3), source(VIEWS)
        neighbors = protocol.find_neighbors_in_data(data, seeded())
        context = protocol.use_neighbors(data, seeded(), 0.0, neighbors)
        rows, seen = torch.tensor([7, 3, 88, 3]), [set[int]() for _ in range(4)]
        for _ in range(60):
            drawn = context.draw_neighbors(rows)
            assert drawn is not None
            assert torch.equal(drawn.views[0], data.take(drawn.rows).views[0])
            for known, row in zip(seen, drawn.rows.tolist(), strict=True):
                known.add(row)
        for row, known in zip(rows.tolist(), seen, strict=True):
            assert known == set(neighbors[row].tolist())  # all of them, and no others

    def test_neighbours_of_stage_3_are_those_of_the_learned_features(self):
        protocol, data = method(), source(VIEWS)
        context = context_of(protocol, "rebalance")
        assert torch.equal(context.neighbors, protocol.find_neighbors(data, seeded()))

    def test_partition_is_learned_first_and_a_transport_then(self):
        protocol, data = method(), source(VIEWS)
        start = protocol.start_rebalancing(data, seeded())
        assert start.shape == (90, 1 + 2 * 10)
        first, last = (protocol.label_samples(data, seeded(), p, start).labels for p in (0.0, 1.0))
        assert isinstance(first, PotLabels)
        assert torch.equal(first.hard, start[:, 0])
        assert set(first.soft.unique().tolist()) == {0, 1}
        assert len(last.soft.unique()) > 2

    def test_pseudo_labels_that_break_the_partition_are_undone(self, monkeypatch):
        """With random labels after the warm-up, the final labels are those of the partition."""
        changes: dict[str, Any] = {"schedule__n_epochs_rebalance": 6, "schedule__lr_rebalance": 0.01}
        one_hot = InitializedPseudoLabels._one_hot
        random = torch.randint(K, (len(TRUTH),), generator=seeded())
        monkeypatch.setattr(
            InitializedPseudoLabels, "transport_labels", lambda self, *args: one_hot(self, random)
        )
        labels = infer_all(fitted(**changes), source(VIEWS)).log_proba.argmax(1).numpy()
        assert adjusted_rand_score(TRUTH, labels) > 0.95
        epochs = iter(range(9))
        monkeypatch.setattr(Protocol, "lost_modularity", lambda *args: -next(epochs))  # the last is the best
        labels = infer_all(fitted(**changes), source(VIEWS)).log_proba.argmax(1).numpy()
        assert adjusted_rand_score(TRUTH, labels) < 0.8

    def test_monitor_is_one_minus_the_modularity(self):
        protocol, data = method(), source(VIEWS)
        start = protocol.start_rebalancing(data, seeded())
        labels = infer_all(protocol, data).log_proba.argmax(1).numpy()
        graph = np.zeros((len(TRUTH), len(TRUTH)))
        for i, row in enumerate(start[:, 1:].numpy()):
            np.add.at(graph, (np.full(len(row), i), row), 1)
            np.add.at(graph, (row, np.full(len(row), i)), 1)
        degree = graph.sum(1)
        expected = ((graph - np.outer(degree, degree) / degree.sum()) * (labels[:, None] == labels)).sum()
        assert protocol.lost_modularity(data, seeded(), start) == pytest.approx(1 - expected / degree.sum())

    def test_labels_are_taken_by_row(self):
        protocol, batch = method(), batches()[0]
        context = context_of(protocol, "rebalance")
        t = context.labels
        other = t._replace(soft=t.soft.roll(1, 0), hard=t.hard.roll(1, 0))
        mine, moved = (
            protocol.rebalance(batch, 1.0, fresh(context._replace(labels=x)))["label"] for x in (t, other)
        )
        assert not torch.equal(mine, moved)

    def test_training_separates_the_groups(self):
        features = [infer_all(p, source(VIEWS)).embedding for p in (method().eval(), fitted())]
        same = torch.from_numpy(TRUTH[:, None] == TRUTH)
        near, far = ([float((x @ x.T)[where].mean()) for x in features] for where in (same, ~same))
        assert near[1] - far[1] > near[0] - far[0]


class TestPaperTraining:
    def test_each_stage_trains_its_part(self):
        protocol = method(TINY_PAPER)
        losses = protocol.reconstruct(batches()[0], 0.0, None)
        assert losses.keys() == {"reconstruction"}
        assert trained_parts(protocol, losses) == {"autoencoders"}
        losses = losses_of(protocol, "align")
        assert losses.keys() == {"feature", "class", "reconstruction"}
        assert trained_parts(protocol, losses) == PAPER_PARTS
        losses = losses_of(protocol, "rebalance")
        assert losses.keys() == {"label", "feature", "class", "reconstruction"}
        assert trained_parts(protocol, losses) == PAPER_PARTS

    def test_low_precision_changes_the_training_little_and_inference_not_at_all(self, monkeypatch):
        monkeypatch.setattr(network, "has_native_bfloat16", lambda device: True)
        exact, mixed = (
            method(TINY_PAPER, **NO_DROPOUT, structure__precision=p) for p in ("float32", "bfloat16")
        )
        for name in ("align", "rebalance"):
            pairs = list(zip(losses_of(exact, name).values(), losses_of(mixed, name).values(), strict=True))
            for mine, theirs in pairs:
                assert mine.dtype == theirs.dtype == torch.float32
                torch.testing.assert_close(mine, theirs, rtol=0.05, atol=0.05)
            assert any(not torch.equal(mine, theirs) for mine, theirs in pairs)
        features = [infer_all(x, source(VIEWS)).embedding for x in (exact, mixed)]
        assert torch.equal(*features)

    def test_without_native_bfloat16_the_training_is_in_float32(self, monkeypatch):
        monkeypatch.setattr(network, "has_native_bfloat16", lambda device: False)
        exact, mixed = (
            method(TINY_PAPER, **NO_DROPOUT, structure__precision=p) for p in ("float32", "bfloat16")
        )
        for name in ("align", "rebalance"):
            for mine, theirs in zip(
                losses_of(exact, name).values(), losses_of(mixed, name).values(), strict=True
            ):
                assert torch.equal(mine, theirs)

    def test_released_preset_has_two_heads_and_no_gradient_of_the_label_loss(self):
        protocol = method(TINY_RELEASED)
        heads = {"view_head", "consensus_head"}
        assert trained_parts(protocol, losses_of(protocol, "align")) == PAPER_PARTS - {"classifier"} | heads
        losses = losses_of(protocol, "rebalance")
        assert float(losses["label"].detach()) == 0
        assert "consensus_head" not in trained_parts(protocol, losses)  # POT labels carry no gradient
        assert bool(infer_all(fitted(config=TINY_RELEASED), source(VIEWS)).log_proba.isfinite().all())

    def test_structure_weight_has_an_effect(self):
        values = [
            losses_of(method(TINY_PAPER, **NO_DROPOUT, losses__structure_weight=w), "align")["feature"]
            for w in (0.0, 1.0)
        ]
        assert values[0] < values[1]

    def test_attention_can_start_from_a_partition(self):
        structure = {
            "kind": "attention",
            "latent_dim": 8,
            "dim_feedforward": 8,
            "classifier_input": "projection",
        }
        config = ProtocolConfig.model_validate(TINY.model_dump() | {"structure": structure})
        protocol = fitted(config=config)
        assert [stage.name for stage in protocol.stages()] == ["align", "rebalance", "read out"]
        assert bool(infer_all(protocol, source(VIEWS)).log_proba.isfinite().all())


@both_configs
@complete_or_not
def test_losses_are_finite(config, views):
    protocol = method(config)
    for stage in protocol.stages()[:-1]:
        context = context_of(protocol, stage.name, views)
        for batch in batches(views):
            assert stage.step is not None
            losses = stage.step(batch, 1.0, context)
            assert all(value.ndim == 0 and bool(value.isfinite()) for value in losses.values())


@both_configs
class TestAblations:
    def changed(self, config: ProtocolConfig, **changes: Any) -> Protocol:
        return method(config, **(NO_DROPOUT if config is TINY_PAPER else {}), **changes)

    def test_without_rebalancing_the_contrastive_losses_are_those_of_stage_2(self, config):
        plain: dict[str, Any] = {"structure__guidance": "attention"} if config is TINY_PAPER else {}
        protocol = self.changed(config, **plain, losses__rebalanced=False)
        context = context_of(protocol, "rebalance")
        rebalance = protocol.rebalance(batches()[0], 1.0, fresh(context))
        again = protocol.align(batches()[0], 1.0, fresh(context))
        for term, value in again.items():
            assert torch.equal(value, rebalance[term])
        assert set(rebalance) - set(again) == {"label"}

    def test_pseudo_labels_guide_the_feature_contrast_without_rebalancing_too(self, config):
        if config is not TINY_PAPER:
            pytest.skip("neighbours guide the contrast of the default preset")
        guided = self.changed(config, losses__rebalanced=False)
        rebalanced = self.changed(config, losses__logit_adjustment=0.0)
        context, batch = context_of(guided, "rebalance"), batches()[0]
        mine, plain = guided.rebalance(batch, 1.0, fresh(context)), guided.align(batch, 1.0, fresh(context))
        other = rebalanced.rebalance(batch, 1.0, context_of(rebalanced, "rebalance"))
        torch.testing.assert_close(mine["feature"], other["feature"], rtol=1e-6, atol=0)
        assert torch.equal(mine["class"], plain["class"])
        assert mine["feature"] < plain["feature"]  # members of a class do not repel each other

    def test_without_logit_adjustment_the_feature_loss_is_that_of_stage_2(self, config):
        plain: dict[str, Any] = {"structure__guidance": "attention"} if config is TINY_PAPER else {}
        protocol = self.changed(config, **plain, losses__logit_adjustment=0.0)
        context = context_of(protocol, "rebalance")
        rebalance = protocol.rebalance(batches()[0], 1.0, fresh(context))
        again = protocol.align(batches()[0], 1.0, fresh(context))
        torch.testing.assert_close(again["feature"], rebalance["feature"], rtol=1e-6, atol=0)

    @pytest.mark.parametrize(
        ("field", "term"), [("pseudo_label_weight", "label"), ("class_loss_weight", "class")]
    )
    def test_weights_multiply_their_term(self, config, field: str, term: str):
        values = []
        for weight in (0.0, 1.0, 2.0):
            protocol = self.changed(config, **{f"losses__{field}": weight})
            values.append(float(losses_of(protocol, "rebalance")[term].detach()))
        assert values[0] == 0
        assert values[2] == pytest.approx(2 * values[1])

    @pytest.mark.parametrize(
        "change",
        [
            {"pseudo_label_logit_adjustment": 0.5},
            {"logit_adjustment": -1.0},
            {"temperature_feature": 1.0},
            {"temperature_class": 0.5},
            {"positive_sample_weight": 0.1},
        ],
        ids=str,
    )
    def test_each_option_of_the_losses_has_an_effect(self, config, change):
        totals = []
        for options in (dict[str, Any](), change):
            changes = {f"losses__{name}": value for name, value in options.items()}
            protocol = self.changed(config, **changes)
            totals.append(float(sum(losses_of(protocol, "rebalance").values()).detach()))  # type: ignore[union-attr]
        assert totals[0] != totals[1]

    def test_both_ways_to_learn_the_labels_differ(self, config):
        values = [
            losses_of(self.changed(config, losses__pseudo_label_loss=how), "rebalance")["label"]
            for how in ("per_head", "mixture")
        ]
        assert not torch.equal(*values)

    def test_no_stage_3_leaves_a_read_out(self, config):
        protocol = fitted(config=config, schedule__n_epochs_rebalance=0)
        assert bool(infer_all(protocol, source(VIEWS)).log_proba.isfinite().all())


@both_configs
def test_values_of_absent_views_change_nothing(config):
    protocol = method(config, **(NO_DROPOUT if config is TINY_PAPER else {}))
    contexts = {stage.name: context_of(protocol, stage.name, GAPS) for stage in protocol.stages()[:-1]}
    for batch in batches(GAPS):
        assert batch.present is not None
        noise = seeded(1)
        other = batch._replace(
            views=[
                torch.where(here[:, None], x, 100 * torch.randn(x.shape, generator=noise))
                for x, here in zip(batch.views, batch.present.T, strict=True)
            ]
        )
        for stage in protocol.stages()[:-1]:
            assert stage.step is not None
            mine, theirs = (stage.step(x, 1.0, fresh(contexts[stage.name])) for x in (batch, other))
            assert all(torch.equal(mine[name], theirs[name]) for name in mine)
        first, second = protocol.infer(batch), protocol.infer(other)
        assert torch.equal(first.embedding, second.embedding)
        assert torch.equal(first.log_proba, second.log_proba)


@both_configs
def test_batch_without_a_view_has_finite_losses(config):
    gone = [VIEWS[0], np.where(np.arange(90)[:, None] < 89, np.nan, VIEWS[1])]
    protocol = method(config)
    context = context_of(protocol, "rebalance", gone)
    for batch in batches(gone):
        losses = protocol.rebalance(batch, 1.0, context)
        assert all(bool(value.isfinite()) for value in losses.values())


@both_configs
@complete_or_not
def test_inference_gives_unit_projections_and_probabilities(config, views):
    inferred = infer_all(fitted(views, config), source(views))
    assert inferred.embedding.shape == (90, 2 * TINY.network.projection_dim)
    torch.testing.assert_close(inferred.log_proba.exp().sum(1), torch.ones(90))
    if config is TINY:
        norms = inferred.embedding.unflatten(1, (2, -1)).norm(dim=2)
        torch.testing.assert_close(norms, torch.ones(90, 2))


@pytest.mark.parametrize("changes", [{}, {"schedule__n_epochs_rebalance": 0}, {"readout": "kmeans"}], ids=str)
def test_read_out_gives_a_prior_and_labels(changes):
    protocol = fitted(**changes)
    assert bool(infer_all(protocol, source(VIEWS)).log_proba.isfinite().all())
    assert float(protocol.class_prior().sum()) == pytest.approx(1)
    assert float(protocol.view_weights().detach().sum()) == pytest.approx(1)


@both_configs
def test_kmeans_read_out_takes_the_nearest_centre(config):
    protocol = fitted(config=config, readout="kmeans")
    inferred = infer_all(protocol, source(VIEWS))
    nearest = torch.cdist(inferred.embedding, protocol.centers).argmin(1)
    assert torch.equal(inferred.log_proba.argmax(1), nearest)


def test_temperature_calibrates_the_confidence_and_keeps_the_labels():
    views, _ = blobs(noise=4)  # the candidates do not all agree
    protocol = fitted(views)
    expected = float(protocol.expected_accuracy)
    assert 0.4 < expected < 1
    proba = infer_all(protocol, source(views)).log_proba.exp()
    assert float(proba.amax(1).mean()) == pytest.approx(expected, abs=0.01)
    protocol.log_temperature.fill_(0.0)
    plain = infer_all(protocol, source(views)).log_proba
    assert torch.equal(plain.argmax(1), proba.argmax(1))


def test_large_data_are_subsampled_for_training_but_all_are_labelled():
    protocol, seen = method(schedule__max_samples=50), set[int]()
    data = source(VIEWS)
    stage = protocol.stages()[0]
    step = protocol.align

    def look(batch: Batch, progress: float, context: Any) -> dict[str, Tensor]:
        seen.add(len(context.source))
        return step(batch, progress, context)

    train(protocol, [stage._replace(step=look), *protocol.stages()[1:]], data, seeded())
    assert seen == {50}
    assert infer_all(protocol.eval(), data).log_proba.shape == (90, K)
