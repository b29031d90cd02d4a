"""Cross-entropy of soft labels, and divergence of cluster sizes from uniform."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.losses.known import QA, QB
from torch.autograd import gradcheck
from torch.nn import functional

from protocol_mvc.data.sampling import class_counts
from protocol_mvc.losses.clustering import kl_to_uniform, soft_cross_entropy

seeds = st.integers(0, 2**32)


def predictions_and_labels(seed, n=4, k=3):
    logits = torch.randn(2, n, k, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return logits[0].log_softmax(1), logits[1].softmax(1)


def reference(log_p, label):
    n, k = log_p.shape
    return -sum(label[i, j].item() * log_p[i, j].item() for i in range(n) for j in range(k)) / n


@given(seeds, st.integers(1, 6), st.integers(1, 5))
def test_equals_the_double_loop(seed, n, k):
    log_p, label = predictions_and_labels(seed, n, k)
    assert soft_cross_entropy(log_p, label).item() == pytest.approx(reference(log_p, label), abs=1e-12)


def test_value_by_hand():
    log_p = torch.tensor([[0.5, 0.5], [0.25, 0.75]]).log()
    label = torch.tensor([[1.0, 0.0], [0.5, 0.0]])  # half of the second sample is left for later
    assert soft_cross_entropy(log_p, label).item() == pytest.approx((math.log(2) + math.log(4) / 2) / 2)


def test_gradient():
    log_p, label = predictions_and_labels(0)
    assert gradcheck(soft_cross_entropy, (log_p.requires_grad_(), label))


@given(seeds)
def test_hard_labels_give_the_supervised_loss(seed):
    log_p, soft = predictions_and_labels(seed)
    hard = soft.argmax(1)
    one_hot = functional.one_hot(hard, 3).to(log_p)
    torch.testing.assert_close(soft_cross_entropy(log_p, one_hot), functional.nll_loss(log_p, hard))


@given(seeds)
def test_several_heads_have_a_loss_each(seed):
    log_p, label = predictions_and_labels(seed)
    other = predictions_and_labels(seed + 1)[0]
    expected = torch.stack([soft_cross_entropy(x, label) for x in (log_p, other)])
    torch.testing.assert_close(soft_cross_entropy(torch.stack([log_p, other]), label), expected)


@given(seeds)
def test_no_prediction_beats_the_label_itself(seed):
    log_p, label = predictions_and_labels(seed)
    assert soft_cross_entropy(log_p, label) >= soft_cross_entropy(label.log(), label)


@given(seeds, st.floats(0, 1))
def test_labels_count_by_their_mass(seed, mass):
    log_p, label = predictions_and_labels(seed)
    torch.testing.assert_close(
        soft_cross_entropy(log_p, mass * label), mass * soft_cross_entropy(log_p, label)
    )


@given(seeds, st.permutations(range(4)), st.permutations(range(3)))
def test_the_order_of_samples_and_clusters_is_free(seed, rows, columns):
    log_p, label = predictions_and_labels(seed)
    permuted = soft_cross_entropy(log_p[rows][:, columns], label[rows][:, columns])
    torch.testing.assert_close(permuted, soft_cross_entropy(log_p, label))


def test_no_mass_no_loss():
    log_p, label = predictions_and_labels(0)
    assert soft_cross_entropy(log_p, torch.zeros_like(label)).item() == 0


def test_divergence_from_uniform_has_its_known_value():
    assert (kl_to_uniform(QA) + kl_to_uniform(QB)).item() == pytest.approx(0.039520, abs=1e-6)


@pytest.mark.parametrize(
    ("n_max", "k", "expected"),
    [(1000, 10, (0.232, 0.024, 0.0006)), (200, 7, (0.250, 0.026, 0.0006)), (500, 5, (0.273, 0.029, 0.0007))],
)
def test_classes_whose_sizes_decay_are_unequal(n_max: int, k: int, expected: tuple[float, ...]):
    sizes = [torch.from_numpy(class_counts(n_max, k, ratio)).double() for ratio in (0.1, 0.5, 0.9)]
    found = [kl_to_uniform((size / size.sum())[None]).item() for size in sizes]
    assert found == pytest.approx(expected, abs=5e-4)


def test_divergence_from_uniform_is_zero_to_log_k():
    assert kl_to_uniform(torch.eye(4)).item() == pytest.approx(0, abs=1e-6)
    one = torch.eye(4)[[0, 0]].requires_grad_()
    kl_to_uniform(one).backward()
    assert kl_to_uniform(one).item() == pytest.approx(math.log(4))
    assert one.grad is not None
    assert one.grad.isfinite().all()


def test_gradient_of_divergence_from_uniform():
    assert gradcheck(kl_to_uniform, QA.clone().requires_grad_())
