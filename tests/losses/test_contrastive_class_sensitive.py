"""Class-sensitive contrast: a supervised contrast in which rare clusters are harder to satisfy."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional

from protocol_mvc.losses.contrastive import class_sensitive_contrast

seeds = st.integers(0, 2**32)
weights = st.sampled_from([(0.8, 0.2), (1.0, 0.0), (0.0, 1.0), (0.3, 0.9)])


def problem(seed, n=5, k=3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Predictions, labels, prototype logits, log frequencies."""
    generator = torch.Generator().manual_seed(seed)
    p, q = torch.randn(2, n, k, dtype=torch.float64, generator=generator)
    label = torch.randint(k, (n,), generator=generator)
    log_frequency = torch.randn(k, dtype=torch.float64, generator=generator).log_softmax(0)
    return p.softmax(1), label, q, log_frequency


def reference(p, label, q, log_frequency, temperature, sample_weight=0.8, prototype_weight=0.2):
    """Eqs. 21-24, candidate by candidate; a sample without positives costs nothing."""
    n, k = p.shape
    loss = 0.0
    for i in range(n):
        candidates = []  # (exp of the logit, weight as a positive)
        for c in range(k):
            logit = q[i, c].item() + log_frequency[c].item()
            candidates.append((math.exp(logit), prototype_weight if c == label[i] else 0.0))
        for j in range(n):
            if j != i:
                logit = sum(p[i, c].item() * p[j, c].item() for c in range(k)) / temperature
                candidates.append((math.exp(logit), sample_weight if label[i] == label[j] else 0.0))
        total, mass = sum(e for e, _ in candidates), sum(w for _, w in candidates)
        if mass:
            loss -= sum(w * math.log(e / total) for e, w in candidates) / mass
    return loss / n


@given(seeds, st.integers(1, 6), st.integers(1, 4), st.sampled_from([0.2, 1.0]), weights)
def test_equals_the_double_loop(seed, n, k, temperature, weight):
    arguments = problem(seed, n, k)
    loss = class_sensitive_contrast(
        *arguments,
        temperature=temperature,
        positive_sample_weight=weight[0],
        positive_prototype_weight=weight[1],
    )
    assert loss.item() == pytest.approx(reference(*arguments, temperature, *weight), abs=1e-12)


def test_values_by_hand():
    eye, zeros, labels = torch.eye(2), torch.zeros(2, 2), torch.tensor([0, 1])
    plain = class_sensitive_contrast(eye, labels, zeros, torch.zeros(2), temperature=1.0)
    assert plain.item() == pytest.approx(math.log(3))  # two prototypes and a sample, all with logit 0
    frequent = torch.tensor([math.log(2), 0.0])  # 2 / (2 + 1 + 1) for the first sample, 1 / 4 for the other
    adjusted = class_sensitive_contrast(eye, labels, zeros, frequent, temperature=1.0)
    assert adjusted.item() == pytest.approx((math.log(2) + math.log(4)) / 2)
    shared = class_sensitive_contrast(
        eye, torch.tensor([0, 0]), math.log(2) * eye, torch.zeros(2), temperature=1.0
    )
    first = 0.2 * math.log(2) + 0.8 * math.log(4)  # candidates weigh 2, 1 and 1
    assert shared.item() == pytest.approx((first + math.log(4)) / 2)


def test_gradient():
    p, label, q, log_frequency = problem(0)
    inputs = (p.clone().requires_grad_(), q.requires_grad_(), log_frequency.requires_grad_())
    assert gradcheck(lambda p, q, f: class_sensitive_contrast(p, label, q, f, temperature=0.5), inputs)


@given(seeds)
def test_for_one_sample_it_is_the_logit_adjusted_cross_entropy(seed):
    p, label, q, log_frequency = problem(seed, n=1)
    expected = functional.cross_entropy(q + log_frequency, label)
    loss = class_sensitive_contrast(p, label, q, log_frequency, temperature=1.0)
    torch.testing.assert_close(loss, expected)


@given(seeds)
def test_zero_adjustment_gives_the_plain_supervised_contrast(seed):
    p, label, q, log_frequency = problem(seed)
    candidates = torch.cat([q, p @ p.T - torch.diag(torch.full((5,), torch.inf))], dim=1)
    log_prob = candidates.log_softmax(1)
    alike = (label[:, None] == label).fill_diagonal_(False)
    own = log_prob[:, :3].gather(1, label[:, None]).squeeze(1)
    others = torch.stack([row[3:][mask].sum() for row, mask in zip(log_prob, alike, strict=True)])
    expected = -((0.2 * own + 0.8 * others) / (0.2 + 0.8 * alike.sum(1))).mean()
    loss = class_sensitive_contrast(p, label, q, 0 * log_frequency, temperature=1.0)
    torch.testing.assert_close(loss, expected)


@given(seeds)
def test_a_constant_adjustment_belongs_to_the_prototype_logits(seed):
    p, label, q, log_frequency = problem(seed)
    moved = class_sensitive_contrast(p, label, q + 0.7, 0 * log_frequency, temperature=1.0)
    constant = class_sensitive_contrast(p, label, q, 0 * log_frequency + 0.7, temperature=1.0)
    torch.testing.assert_close(constant, moved)


@given(seeds)
def test_only_the_ratio_of_the_weights_matters(seed):
    arguments = problem(seed)
    loss = class_sensitive_contrast(*arguments, temperature=1.0)
    scaled = class_sensitive_contrast(
        *arguments, temperature=1.0, positive_sample_weight=0.4, positive_prototype_weight=0.1
    )
    torch.testing.assert_close(scaled, loss)


@given(seeds, st.permutations(range(5)))
def test_the_order_of_samples_is_free(seed, order):
    p, label, q, log_frequency = problem(seed)
    loss = class_sensitive_contrast(p, label, q, log_frequency, temperature=0.5)
    permuted = class_sensitive_contrast(p[order], label[order], q[order], log_frequency, temperature=0.5)
    torch.testing.assert_close(permuted, loss)


@given(seeds, st.permutations(range(3)))
def test_the_names_of_clusters_are_free(seed, order):
    p, label, q, log_frequency = problem(seed)
    renamed = torch.tensor(order).argsort()[label]
    permuted = class_sensitive_contrast(
        p[:, order], renamed, q[:, order], log_frequency[order], temperature=0.5
    )
    loss = class_sensitive_contrast(p, label, q, log_frequency, temperature=0.5)
    torch.testing.assert_close(permuted, loss)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 3), (4, 1), (2, 2)])
@pytest.mark.parametrize("weight", [(0.8, 0.2), (1.0, 0.0), (0.0, 0.0)])
def test_finite_for_few_samples_and_clusters(n, k, weight):
    p, label, q, log_frequency = problem(0, n, k)
    loss = class_sensitive_contrast(
        p.requires_grad_(), label, q, log_frequency, temperature=1.0,
        positive_sample_weight=weight[0], positive_prototype_weight=weight[1],
    )  # fmt: skip
    loss.backward()
    assert loss.isfinite()
    assert p.grad is not None
    assert p.grad.isfinite().all()


def test_a_sample_without_positives_costs_nothing():
    p, _, q, log_frequency = problem(0, n=3)
    loss = class_sensitive_contrast(
        p, torch.tensor([0, 1, 2]), q, log_frequency, temperature=1.0, positive_prototype_weight=0.0
    )
    assert loss.item() == 0


@given(seeds, st.integers(1, 6), st.integers(1, 4), st.integers(1, 3))
def test_of_several_views_is_the_mean(seed, n, k, n_views):
    _, *shared = problem(seed, n, k)
    views = torch.stack([problem((seed + v + 1) % 2**32, n, k)[0] for v in range(n_views)])
    single = [class_sensitive_contrast(p, *shared, temperature=0.5) for p in views]
    together = class_sensitive_contrast(views, *shared, temperature=0.5)
    assert together.item() == pytest.approx(torch.stack(single).mean().item(), abs=1e-12)
