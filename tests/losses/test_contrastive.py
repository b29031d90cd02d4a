"""Contrast of a view with the consensus: of samples with attention and logit adjustment, and of clusters."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.losses.known import QA, QB, A, B, S
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional

from protocol_mvc.losses.contrastive import (
    class_contrast,
    feature_contrast,
    neighbor_contrast,
    paired_contrast,
)

seeds = st.integers(0, 2**32)
temperatures = st.sampled_from([0.1, 0.5, 1.0])


def features(seed, n=4, d=3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Unit rows of a view and of the consensus, attention between samples, shifts."""
    generator = torch.Generator().manual_seed(seed)
    h, u = functional.normalize(torch.randn(2, n, d, dtype=torch.float64, generator=generator), dim=2)
    g = torch.randn(n, n, dtype=torch.float64, generator=generator).softmax(1)
    return h, u, g, torch.randn(n, dtype=torch.float64, generator=generator)


def predictions(seed, n=5, k=3) -> tuple[Tensor, Tensor]:
    p_view, p = torch.randn(
        2, n, k, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    ).softmax(2)
    return p_view, p


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def reference(rows, partners, temperature, g=None, shift=None):
    """Eqs. 19-20 and 28, entry by entry."""
    n, f = len(rows), [*rows, *partners]
    total = 0.0
    for i in range(2 * n):
        other = (i + n) % (2 * n)
        positive = cosine(f[i], f[other]) / temperature + (shift[i % n] if shift else 0.0)
        negatives = 0.0
        for j in range(2 * n):
            if j not in (i, other):
                guidance = 1 - g[i % n][j % n] ** 2 if g else 1.0
                negatives += math.exp(guidance * cosine(f[i], f[j]) / temperature)
        total -= positive - math.log(math.exp(positive) + negatives)
    return total / (2 * n)


@given(seeds, st.integers(1, 5), temperatures)
def test_feature_contrast_equals_the_double_loop(seed, n, temperature):
    h, u, g, shift = features(seed, n)
    expected = reference(h.tolist(), u.tolist(), temperature, g.tolist(), shift.tolist())
    loss = feature_contrast(h, u, g, temperature=temperature, logit_adjustment=shift)
    assert loss.item() == pytest.approx(expected, abs=1e-12)


@given(seeds, st.integers(1, 5), st.integers(1, 4), temperatures)
def test_class_contrast_equals_the_double_loop(seed, n, k, temperature):
    p_view, p = predictions(seed, n, k)
    expected = reference(p_view.T.tolist(), p.T.tolist(), temperature)
    assert class_contrast(p_view, p, temperature=temperature).item() == pytest.approx(expected, abs=1e-12)


def test_feature_contrast_by_hand():
    eye = torch.eye(2)  # the positive has logit 1, the two negatives 0
    plain = feature_contrast(eye, eye, torch.zeros(2, 2), temperature=1.0)
    assert plain.item() == pytest.approx(math.log(1 + 2 / math.e))
    shift = torch.full((2,), math.log(2))
    shifted = feature_contrast(eye, eye, torch.zeros(2, 2), temperature=1.0, logit_adjustment=shift)
    assert shifted.item() == pytest.approx(math.log(1 + 1 / math.e))


def test_guidance_by_hand():
    alike = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    blind = feature_contrast(alike, alike, torch.zeros(2, 2), temperature=1.0)
    assert blind.item() == pytest.approx(math.log(3))
    guided = feature_contrast(alike, alike, torch.ones(2, 2), temperature=1.0)
    assert guided.item() == pytest.approx(math.log(1 + 2 / math.e))


def test_class_contrast_by_hand():
    assert class_contrast(torch.eye(2), torch.eye(2), temperature=1.0).item() == pytest.approx(
        math.log(1 + 2 / math.e)
    )


def test_gradient_of_feature_contrast():
    h, u, g, shift = features(0)
    inputs = tuple(x.requires_grad_() for x in (h, u, g, shift))
    assert gradcheck(
        lambda h, u, g, shift: feature_contrast(h, u, g, temperature=0.5, logit_adjustment=shift), inputs
    )


def test_gradient_of_class_contrast():
    p_view, p = predictions(0)
    inputs = (p_view.clone().requires_grad_(), p.clone().requires_grad_())
    assert gradcheck(lambda p_view, p: class_contrast(p_view, p, temperature=1.0), inputs)


@given(seeds)
def test_no_adjustment_gives_the_plain_loss(seed):
    h, u, g, shift = features(seed)
    plain = feature_contrast(h, u, g, temperature=0.5)
    torch.testing.assert_close(feature_contrast(h, u, g, temperature=0.5, logit_adjustment=0 * shift), plain)


@given(seeds)
def test_no_attention_gives_the_unguided_loss(seed):
    h, u, g, _ = features(seed)
    unguided = reference(h.tolist(), u.tolist(), 0.5)
    assert feature_contrast(h, u, 0 * g, temperature=0.5).item() == pytest.approx(unguided, abs=1e-12)


def test_a_rarer_label_pulls_its_pair_harder():
    h, u, _, _ = features(0, n=2)
    h = h.requires_grad_()
    norms = []
    for frequency in (0.9, 0.1):
        shift = torch.full((2,), math.log(frequency), dtype=torch.float64)
        loss = feature_contrast(h, u, torch.zeros_like(u[:, :2]), temperature=0.5, logit_adjustment=shift)
        (slope,) = torch.autograd.grad(loss, h)
        norms.append(-(slope * u).sum())  # how much moving towards the partner helps
    assert norms[1] > norms[0]


@given(seeds, st.permutations(range(4)))
def test_the_order_of_samples_is_free(seed, order):
    h, u, g, shift = features(seed)
    loss = feature_contrast(h, u, g, temperature=0.5, logit_adjustment=shift)
    permuted = feature_contrast(
        h[order], u[order], g[order][:, order], temperature=0.5, logit_adjustment=shift[order]
    )
    torch.testing.assert_close(permuted, loss)


@given(seeds, st.permutations(range(5)), st.permutations(range(3)))
def test_the_order_of_samples_and_clusters_is_free(seed, rows, columns):
    p_view, p = predictions(seed)
    permuted = class_contrast(p_view[rows][:, columns], p[rows][:, columns], temperature=1.0)
    torch.testing.assert_close(permuted, class_contrast(p_view, p, temperature=1.0))


@given(seeds)
def test_view_and_consensus_may_change_places(seed):
    h, u, g, shift = features(seed)
    swapped = feature_contrast(u, h, g, temperature=0.5, logit_adjustment=shift)
    torch.testing.assert_close(swapped, feature_contrast(h, u, g, temperature=0.5, logit_adjustment=shift))
    p_view, p = predictions(seed)
    swapped = class_contrast(p, p_view, temperature=1.0)
    torch.testing.assert_close(swapped, class_contrast(p_view, p, temperature=1.0))


@given(seeds)
def test_features_may_be_rotated(seed):
    h, u, g, shift = features(seed)
    rotation = torch.linalg.qr(torch.stack([shift[:3], h[0], u[1]]))[0]
    rotated = feature_contrast(h @ rotation, u @ rotation, g, temperature=0.5, logit_adjustment=shift)
    torch.testing.assert_close(rotated, feature_contrast(h, u, g, temperature=0.5, logit_adjustment=shift))


@given(seeds)
def test_a_batch_of_one_sample_costs_nothing(seed):
    h, u, g, shift = features(seed, n=1)
    assert feature_contrast(h, u, g, temperature=0.5, logit_adjustment=shift).item() == 0


@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 3), (4, 1), (2, 2)])
def test_class_contrast_is_finite_for_few_samples_and_clusters(n, k):
    p_view, p = predictions(0, n, k)
    assert class_contrast(p_view, p, temperature=1.0).isfinite()


def test_class_contrast_is_finite_with_an_empty_cluster():
    p_view = torch.tensor([[1.0, 0.0], [1.0, 0.0]], requires_grad=True)
    loss = class_contrast(p_view, p_view.detach(), temperature=1.0)
    (slope,) = torch.autograd.grad(loss, p_view)
    assert loss.isfinite()
    assert slope.isfinite().all()


@pytest.mark.parametrize(("temperature", "expected"), [(0.5, 1.364730), (1.0, 1.437549)])
def test_the_paired_contrast_has_its_known_values(temperature: float, expected: float):
    assert paired_contrast(A, B, temperature=temperature).item() == pytest.approx(expected, abs=1e-6)


def test_the_paired_contrast_of_equal_views_by_hand():
    rows = torch.eye(4, dtype=torch.float64)
    assert paired_contrast(rows, rows, temperature=0.5).item() == pytest.approx(-2 + math.log(math.e**2 + 6))


def test_logits_of_negatives_are_scaled():
    found = paired_contrast(A, B, temperature=0.5, negative_scale=1 - S)
    assert found.item() == pytest.approx(1.135141, abs=1e-6)
    plain = paired_contrast(A, B, temperature=0.5, negative_scale=torch.ones_like(S))
    assert plain.item() == paired_contrast(A, B, temperature=0.5).item()


def test_anchors_count_by_their_weight():
    confidence = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    found = paired_contrast(A, B, temperature=0.5, anchor_weight=1 - confidence)
    assert found.item() == pytest.approx(0.873741, abs=1e-6)


@pytest.mark.parametrize(
    ("temperature", "own", "expected"),
    [(1.0, False, 1.282764), (0.5, False, 0.997224), (1.0, True, 0.833226)],
)
def test_the_contrast_of_clusters_has_its_known_values(temperature: float, own: bool, expected: float):
    found = class_contrast(QA, QB, temperature=temperature, own_negatives=own)
    assert found.item() == pytest.approx(expected, abs=1e-6)
    turned = class_contrast(QB, QA, temperature=temperature, own_negatives=own)
    assert turned.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_temperature_sharpens_the_contrast_with_own_negatives(temperature: float):
    eye = torch.eye(3, dtype=torch.float64)  # the positive has logit 1 / temperature, the two negatives 0
    found = class_contrast(eye, eye, temperature=temperature, own_negatives=True)
    assert found.item() == pytest.approx(math.log(1 + 2 * math.exp(-1 / temperature)))


@pytest.mark.parametrize("own", [False, True])
def test_gradient_of_the_contrast_of_clusters(own: bool):
    p, q = (x.clone().requires_grad_() for x in (QA, QB))
    assert gradcheck(lambda a, b: class_contrast(a, b, temperature=0.5, own_negatives=own), (p, q))


class TestNeighborContrast:
    @given(seeds, st.integers(1, 5), st.integers(0, 3), temperatures, st.booleans())
    def test_equals_the_double_loop(self, seed, n, more, temperature, adjusted):
        h, u, _, shift = features(seed, n + more)
        h, shift = h[:n], shift[:n]  # some samples lack the view
        positive = torch.randperm(n + more, generator=torch.Generator().manual_seed(seed))[:n]
        expected = 0.0
        for i, own in enumerate(positive.tolist()):
            logits = [sum(a * b for a, b in zip(h[i].tolist(), x, strict=True)) / temperature for x in u.tolist()]
            logits[own] += shift[i].item() if adjusted else 0.0
            expected += math.log(sum(map(math.exp, logits))) - logits[own]
        eta = shift if adjusted else None
        loss = neighbor_contrast(h, u, positive, temperature=temperature, logit_adjustment=eta)
        assert loss.item() == pytest.approx(expected / n, abs=1e-12)

    def test_by_hand(self):
        eye, own = torch.eye(2), torch.arange(2)  # the positive has logit 1, the negative 0
        plain = neighbor_contrast(eye, eye, own, temperature=1.0)
        assert plain.item() == pytest.approx(math.log(1 + 1 / math.e))
        crossed = neighbor_contrast(eye, eye, own.flip(0), temperature=0.5)
        assert crossed.item() == pytest.approx(math.log(1 + math.e**2))
        shift = torch.full((2,), math.log(2))
        shifted = neighbor_contrast(eye, eye, own, temperature=1.0, logit_adjustment=shift)
        assert shifted.item() == pytest.approx(math.log(1 + 1 / (2 * math.e)))

    @pytest.mark.parametrize("adjusted", [False, True])
    def test_gradients(self, adjusted):
        h, u, _, shift = (x.requires_grad_() for x in features(0))
        own, eta = torch.tensor([2, 0, 3, 1]), shift if adjusted else None
        loss = lambda h, u: neighbor_contrast(h, u, own, temperature=0.5, logit_adjustment=eta)
        assert gradcheck(loss, (h, u))

    def test_samples_of_rare_clusters_learn_more(self):
        h, u, _, _ = features(0)
        own, eta = torch.arange(4), torch.tensor([0.0, -3.0, 0.0, 0.0], dtype=torch.float64)
        terms = [
            neighbor_contrast(h[[i]], u, own[[i]], temperature=0.5, logit_adjustment=shift)
            for i in range(4)
            for shift in (None, eta[[i]])
        ]
        changed = [not torch.equal(a, b) for a, b in zip(terms[::2], terms[1::2], strict=True)]
        assert changed == [False, True, False, False]
        assert terms[3] > terms[2]  # a rare cluster has the smaller logit, so it learns more

    @given(seeds, st.permutations(range(4)))
    def test_order_of_samples_does_not_matter(self, seed, order):
        h, u, _, _ = features(seed)
        positive = torch.arange(4)
        loss = neighbor_contrast(h, u, positive, temperature=0.5)
        torch.testing.assert_close(neighbor_contrast(h[order], u, positive[order], temperature=0.5), loss)
        moved = neighbor_contrast(h, u[order], torch.tensor(order).argsort(), temperature=0.5)
        torch.testing.assert_close(moved, loss)
