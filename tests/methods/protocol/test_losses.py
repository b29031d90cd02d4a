"""Predictions of several views are mixed as probabilities, and no loss sees a view that is not there."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import seeded
from torch import Tensor
from torch.nn import functional

from protocol_mvc.data.batches import Batch
from protocol_mvc.losses.clustering import soft_cross_entropy
from protocol_mvc.losses.contrastive import (
    class_contrast,
    class_sensitive_contrast,
    feature_contrast,
    neighbor_contrast,
)
from protocol_mvc.methods.base import log_mean, reconstruction, sum_of
from protocol_mvc.methods.protocol import losses
from protocol_mvc.methods.protocol.config import DEFAULT, AttentionStructure
from protocol_mvc.methods.protocol.losses import Outputs
from protocol_mvc.nn.network import ConsensusOutputs, ViewOutputs
from protocol_mvc.transport import PotLabels

N, V, K = 7, 3, 4
SOME = torch.tensor([[True, True, True], [True, False, False], [False, True, True]] * 2 + [[True] * 3])
PRESENT = [None, SOME]
IDS = ["complete", "gaps"]
EQUAL = torch.full((V,), 1 / V)
LOSSES = DEFAULT.losses
seeds = st.integers(0, 1000)
present_or_not = pytest.mark.parametrize("present", PRESENT, ids=IDS)


def example(present: Tensor | None = None, seed: int = 0) -> tuple[Batch, ViewOutputs, ConsensusOutputs]:
    """A batch of random views, and what a network might say of it."""
    generator = seeded(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    each = lambda width: [draw(N, width) for _ in range(V)]
    unit = functional.normalize
    batch = Batch(each(5), torch.arange(N), present)
    codes = ViewOutputs(each(6), [unit(h) for h in each(3)], each(K))
    return (
        batch,
        codes,
        ConsensusOutputs(draw(N, N).softmax(1), each(6), unit(draw(N, 3)), draw(N, K), draw(N, 6)),
    )


def labels(seed: int = 0) -> PotLabels:
    """Soft labels that leave some samples for later."""
    generator = seeded(seed)
    soft = torch.rand(N, K, generator=generator, dtype=torch.float64) / K
    return PotLabels(soft, soft.argmax(1), torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64).log())


def here(present: Tensor | None) -> Tensor:
    return torch.ones(N, V, dtype=torch.bool) if present is None else present


def spoiled(views: list[Tensor], present: Tensor) -> list[Tensor]:
    """The same, with other numbers where a view is absent."""
    return [torch.where(own[:, None], x, x + 100) for x, own in zip(views, present.T, strict=True)]


def test_the_mean_and_the_mixed_prediction_by_hand():
    codes = ViewOutputs([], [], [torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.1, 0.9]]).log()])
    fused = ConsensusOutputs(
        torch.ones(1, 1), [], torch.ones(1, 1), torch.tensor([[0.8, 0.2]]).log(), torch.ones(1, 1)
    )
    both = Batch([], torch.zeros(1, dtype=torch.int64), None)
    first = both._replace(present=torch.tensor([[True, False]]))
    torch.testing.assert_close(log_mean(codes.logits, both.present).exp(), torch.tensor([[0.3, 0.7]]))
    torch.testing.assert_close(log_mean(codes.logits, first.present).exp(), torch.tensor([[0.5, 0.5]]))
    torch.testing.assert_close(
        losses.log_mixed(0.4, Outputs(both, codes, fused)).exp(), torch.tensor([[0.5, 0.5]])
    )
    torch.testing.assert_close(
        losses.log_mixed(0.5, Outputs(first, codes, fused)).exp(), torch.tensor([[0.65, 0.35]])
    )


@present_or_not
@given(seed=seeds, mix=st.floats(0, 1))
def test_mixed_predictions_are_those_of_the_double_loop(present, seed: int, mix: float):
    batch, codes, fused = example(present, seed)
    mixed = losses.log_mixed(mix, Outputs(batch, codes, fused)).exp()
    torch.testing.assert_close(mixed.sum(1), torch.ones_like(mixed[:, 0]))
    for i in range(N):
        own = [codes.logits[v][i].softmax(0) for v in range(V) if here(present)[i, v]]
        expected = mix * fused.logits[i].softmax(0) + (1 - mix) * sum(own) / len(own)
        torch.testing.assert_close(mixed[i], expected)


@present_or_not
def test_the_ends_of_the_mixture_are_its_parts(present):
    batch, codes, fused = example(present)
    mean, consensus = log_mean(codes.logits, batch.present), fused.logits.log_softmax(1)
    torch.testing.assert_close(losses.log_mixed(0.0, Outputs(batch, codes, fused)), mean)
    torch.testing.assert_close(losses.log_mixed(1.0, Outputs(batch, codes, fused)), consensus)


@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_certain_predictions_keep_finite_logs(scale: float):
    batch, codes, fused = example(SOME)
    codes = codes._replace(logits=[scale * x for x in codes.logits])
    assert bool(losses.log_mixed(0.5, Outputs(batch, codes, fused)).isfinite().all())


def test_absent_views_get_no_gradient_and_break_none():
    batch, codes, fused = example(SOME)
    for x in codes.logits:
        x.requires_grad_()
    losses.log_mixed(0.5, Outputs(batch, codes, fused))[:, 0].sum().backward()
    for x, own in zip(codes.logits, SOME.T, strict=True):
        assert x.grad is not None
        assert bool((x.grad[own] != 0).all())
        assert not x.grad[~own].any()


@present_or_not
def test_reconstruction_is_the_sum_over_the_views_of_the_mean_over_their_samples(present):
    batch, _, _ = example(present)
    x_hat = example(seed=1)[0].views
    expected = 0.0
    for v in range(V):
        rows = [i for i in range(N) if here(present)[i, v]]
        errors = [float((batch.views[v][i] - x_hat[v][i]).square().mean()) for i in rows]
        expected += sum(errors) / len(errors)
    (value,) = reconstruction(batch, x_hat).values()
    assert float(value) == pytest.approx(expected)


def test_reconstruction_by_hand():
    batch = Batch(
        [torch.zeros(2, 2), torch.zeros(2, 1)], torch.arange(2), torch.tensor([[True, True], [True, False]])
    )
    x_hat = [torch.tensor([[1.0, 1.0], [1.0, 3.0]]), torch.tensor([[2.0], [50.0]])]
    assert float(reconstruction(batch, x_hat)["reconstruction"]) == (1 + 1 + 1 + 9) / 4 + 4


def test_a_view_that_no_sample_has_adds_nothing():
    gone = SOME.clone()
    gone[:, 1] = False
    batch, codes, fused = example(gone)
    x_hat = example(seed=1)[0].views
    two = batch._replace(views=batch.views[::2], present=gone[:, ::2])
    assert torch.equal(
        reconstruction(batch, x_hat)["reconstruction"],
        reconstruction(two, x_hat[::2])["reconstruction"],
    )
    without = losses.contrastive_losses(LOSSES, EQUAL, Outputs(batch, codes, fused), labels())
    assert all(bool(value.isfinite()) for value in without.values())


def test_what_an_absent_view_holds_changes_no_loss():
    batch, codes, fused = example(SOME)
    x_hat, t = example(seed=1)[0].views, labels()
    other = batch._replace(views=spoiled(batch.views, SOME))
    moved = ViewOutputs(*(spoiled(part, SOME) for part in codes))
    first = losses.contrastive_losses(LOSSES, EQUAL, Outputs(batch, codes, fused), t) | reconstruction(
        batch, x_hat
    )
    second = losses.contrastive_losses(LOSSES, EQUAL, Outputs(other, moved, fused), t) | reconstruction(
        other, x_hat
    )
    assert first == second
    for how in ("per_head", "mixture"):
        c = LOSSES.model_copy(update={"pseudo_label_loss": how})
        assert losses.pseudo_label_loss(c, 0.5, Outputs(batch, codes, fused), t) == losses.pseudo_label_loss(
            c, 0.5, Outputs(other, moved, fused), t
        )


@present_or_not
def test_equal_weights_leave_the_sum_of_the_contrasts(present):
    batch, codes, fused = example(present)
    feature, classes = [], []
    for v in range(V):
        own = here(present)[:, v]
        g = fused.g[own][:, own]
        feature.append(
            feature_contrast(codes.h[v][own], fused.u[own], g, temperature=LOSSES.temperature_feature)
        )
        p, q = codes.logits[v][own].softmax(1), fused.logits[own].softmax(1)
        classes.append(class_contrast(p, q, temperature=LOSSES.temperature_class))
    found = losses.contrastive_losses(LOSSES, EQUAL, Outputs(batch, codes, fused))
    torch.testing.assert_close(found["feature"], torch.stack(feature).sum())
    torch.testing.assert_close(found["class"], torch.stack(classes).sum())


@present_or_not
@given(raw=st.lists(st.floats(0.01, 1), min_size=V, max_size=V))
def test_views_count_by_their_weights_whose_mean_is_one(present, raw: list[float]):
    batch, codes, fused = example(present)
    weights = torch.tensor(raw, dtype=torch.float64)
    weights = weights / weights.sum()
    alone = [
        losses.contrastive_losses(LOSSES, own, Outputs(batch, codes, fused))
        for own in torch.eye(V, dtype=torch.float64)
    ]
    for name, value in losses.contrastive_losses(LOSSES, weights, Outputs(batch, codes, fused)).items():
        expected = sum(w * float(part[name]) for w, part in zip(weights.tolist(), alone, strict=True))
        assert float(value) == pytest.approx(expected)


def test_the_losses_do_not_choose_the_weights():
    batch, codes, fused = example()
    codes.h[0].requires_grad_()
    weights = EQUAL.clone().requires_grad_()
    losses.contrastive_losses(LOSSES, weights, Outputs(batch, codes, fused))["feature"].backward()
    assert weights.grad is None
    assert codes.h[0].grad is not None


def test_labels_shift_the_positives_and_supervise_the_classes():
    batch, codes, fused = example()
    c, t = LOSSES.model_copy(update={"logit_adjustment": 0.7, "class_loss_weight": 0.3}), labels()
    only_first = torch.tensor([1.0, 0.0, 0.0]) / V  # times V
    found = losses.contrastive_losses(c, only_first, Outputs(batch, codes, fused), t)
    shift = 0.7 * t.log_frequency[t.hard]
    feature = feature_contrast(
        codes.h[0], fused.u, fused.g, temperature=c.temperature_feature, logit_adjustment=shift
    )
    classes = class_sensitive_contrast(
        codes.logits[0].softmax(1), t.hard, t.soft, t.log_frequency, temperature=c.temperature_class
    )
    torch.testing.assert_close(found["feature"], feature)
    torch.testing.assert_close(found["class"], 0.3 * classes)


def test_the_structure_term_is_added_with_its_weight():
    batch, codes, fused = example()
    plain = losses.contrastive_losses(LOSSES, EQUAL, Outputs(batch, codes, fused))
    c = LOSSES.model_copy(update={"structure_weight": 2.0})
    added = losses.contrastive_losses(c, EQUAL, Outputs(batch, codes, fused))["feature"] - plain["feature"]
    expected = sum((z - s).square().mean() for z, s in zip(codes.z, fused.s, strict=True))
    torch.testing.assert_close(added, 2 * expected)


@present_or_not
def test_every_prediction_learns_the_labels_or_their_mixture_does(present):
    batch, codes, fused = example(present)
    c, t = LOSSES.model_copy(update={"pseudo_label_logit_adjustment": 0.0}), labels()
    expected = soft_cross_entropy(fused.logits.log_softmax(1), t.soft)
    for v in range(V):
        own = here(present)[:, v]
        expected = expected + soft_cross_entropy(codes.logits[v][own].log_softmax(1), t.soft[own]) / V
    torch.testing.assert_close(losses.pseudo_label_loss(c, 0.5, Outputs(batch, codes, fused), t), expected)
    mixed = losses.pseudo_label_loss(
        c.model_copy(update={"pseudo_label_loss": "mixture"}), 0.5, Outputs(batch, codes, fused), t
    )
    torch.testing.assert_close(
        mixed, soft_cross_entropy(losses.log_mixed(0.5, Outputs(batch, codes, fused)), t.soft)
    )


@pytest.mark.parametrize("how", ["per_head", "mixture"])
def test_the_logits_that_learn_are_shifted_by_the_frequencies(how: str):
    batch, codes, fused = example()
    c, t = (
        LOSSES.model_copy(update={"pseudo_label_loss": how, "pseudo_label_logit_adjustment": 0.5}),
        labels(),
    )
    moved = codes._replace(logits=[x + 0.5 * t.log_frequency for x in codes.logits])
    other = fused._replace(logits=fused.logits + 0.5 * t.log_frequency)
    plain = c.model_copy(update={"pseudo_label_logit_adjustment": 0.0})
    torch.testing.assert_close(
        losses.pseudo_label_loss(c, 0.5, Outputs(batch, codes, fused), t),
        losses.pseudo_label_loss(plain, 0.5, Outputs(batch, moved, other), t),
    )
    even = t._replace(log_frequency=torch.full((K,), -math.log(K), dtype=torch.float64))
    torch.testing.assert_close(
        losses.pseudo_label_loss(c, 0.5, Outputs(batch, codes, fused), even),
        losses.pseudo_label_loss(plain, 0.5, Outputs(batch, codes, fused), even),
    )


def with_neighbors(present: Tensor | None = None, other_present: Tensor | None = None) -> Outputs:
    """Outputs for samples and for a neighbour of each, which may have other views."""
    return Outputs(*example(present), Outputs(*example(other_present, seed=1)))


@pytest.mark.parametrize("other_present", PRESENT, ids=IDS)
@present_or_not
@pytest.mark.parametrize("labelled", [False, True])
def test_neighbours_are_positives_in_both_directions(present, other_present, labelled: bool):
    out, t = with_neighbors(present, other_present), labels() if labelled else None
    c, expected = LOSSES.model_copy(update={"logit_adjustment": 0.7}), 0.0
    assert out.neighbors is not None
    shift = torch.zeros(N, dtype=torch.float64) if t is None else 0.7 * t.log_frequency[t.hard]
    for mine, other in ((out, out.neighbors), (out.neighbors, out)):
        for v in range(V):
            rows = here(mine.batch.present)[:, v].nonzero()[:, 0]
            h, tau = mine.codes.h[v][rows], c.temperature_feature
            term = neighbor_contrast(h, other.fused.u, rows, temperature=tau, logit_adjustment=shift[rows])
            expected += float(term) / V
    assert float(losses.contrastive_losses(c, EQUAL, out, t)["feature"]) == pytest.approx(expected)


def test_with_neighbours_clusters_are_contrasted_only_if_there_are_labels():
    out, t = with_neighbors(), labels()
    assert losses.contrastive_losses(LOSSES, EQUAL, out).keys() == {"feature"}
    found = losses.contrastive_losses(LOSSES, EQUAL, out, t)["class"]
    each = [
        class_sensitive_contrast(
            x.softmax(1), t.hard, t.soft, t.log_frequency, temperature=LOSSES.temperature_class
        )
        for x in out.codes.logits
    ]
    torch.testing.assert_close(found, LOSSES.class_loss_weight * torch.stack(each).mean())


def test_what_absent_views_of_samples_or_neighbours_hold_changes_no_loss():
    out = with_neighbors(SOME, SOME.flip(0))
    assert out.neighbors is not None
    moved = [
        x._replace(codes=ViewOutputs(*(spoiled(part, here(x.batch.present)) for part in x.codes)))
        for x in (out, out.neighbors)
    ]
    other = moved[0]._replace(neighbors=moved[1])
    first, second = (losses.contrastive_losses(LOSSES, EQUAL, x, labels()) for x in (out, other))
    assert first == second


def test_terms_are_summed():
    assert float(sum_of(torch.tensor(float(x)) for x in range(4))) == 6


def test_probability_of_the_same_label_ignores_the_mass_of_a_row():
    t = torch.tensor([[0.5, 0.5], [0.1, 0.0], [0.0, 0.2], [0.0, 0.0]])
    expected = torch.tensor([[0.5, 0.5, 0.5, 0], [0.5, 1, 0, 0], [0.5, 0, 1, 0], [0, 0, 0, 0]])
    torch.testing.assert_close(losses.same_label_probability(t), expected)


def test_labels_can_guide_the_feature_contrast_of_stage_3():
    batch, codes, fused = example()
    out, t, guided = Outputs(batch, codes, fused), labels(), AttentionStructure(guidance="labels")
    given = out._replace(fused=fused._replace(g=losses.same_label_probability(t.soft)))
    loss = partial(losses.contrastive_losses, LOSSES, EQUAL)
    assert loss(out, t, guided) == loss(given, t)
    assert loss(out, None, guided) == loss(out)


def test_softer_predictions_are_aligned_in_stage_2():
    batch, codes, fused = example()
    half = AttentionStructure(alignment_sharpness=0.5)
    soft = codes._replace(logits=[0.5 * x for x in codes.logits])
    scaled = Outputs(batch, soft, fused._replace(logits=0.5 * fused.logits))
    found = losses.contrastive_losses(LOSSES, EQUAL, Outputs(batch, codes, fused), None, half)["class"]
    torch.testing.assert_close(found, losses.contrastive_losses(LOSSES, EQUAL, scaled)["class"])
