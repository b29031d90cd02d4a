"""Cross-entropy of inner products: value and gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.nn import functional

from protocol_mvc.losses.product_cross_entropy import product_cross_entropy


def rows(seed, *shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 2**32), st.sampled_from([0.1, 1.0, 1e3]))
def test_value_is_the_cross_entropy_of_the_shifted_logits(seed, temperature):
    a, b, shift = rows(seed, 5, 3), rows(seed + 1, 4, 3), rows(seed + 2, 5)
    target = torch.randint(4, (5,), generator=torch.Generator().manual_seed(seed))
    logits = a @ b.T / temperature + functional.one_hot(target, 4) * shift[:, None]
    expected = functional.cross_entropy(logits, target, reduction="none")
    found = product_cross_entropy(a, b, target, temperature=temperature, shift=shift)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_gradients_are_those_of_finite_differences(shape):
    a, b, shift = (rows(i, *shape, *s).requires_grad_() for i, s in enumerate([(5, 3), (4, 3), (5,)]))
    target = torch.tensor([0, 3, 1, 1, 2]).expand(*shape, 5)
    assert gradcheck(
        lambda a, b, s: product_cross_entropy(a, b, target, temperature=0.5, shift=s), (a, b, shift)
    )
    assert gradcheck(lambda a, b: product_cross_entropy(a, b, target, temperature=2.0), (a, b))


def test_no_shift_is_a_shift_of_zero():
    a, b, target = rows(0, 5, 3), rows(1, 4, 3), torch.tensor([0, 3, 1, 1, 2])
    plain = product_cross_entropy(a, b, target, temperature=1.0)
    assert torch.equal(product_cross_entropy(a, b, target, temperature=1.0, shift=0 * a[:, 0]), plain)


def test_matrices_of_a_stack_are_separate():
    a, b, shift = rows(0, 2, 5, 3), rows(1, 2, 4, 3), rows(2, 2, 5)
    target = torch.tensor([[0, 3, 1, 1, 2], [1, 1, 0, 2, 3]])
    views = zip(a, b, target, shift, strict=True)
    expected = [product_cross_entropy(x, y, t, temperature=1.0, shift=s) for x, y, t, s in views]
    found = product_cross_entropy(a, b, target, temperature=1.0, shift=shift)
    torch.testing.assert_close(found, torch.stack(expected))


def test_a_target_without_probability_has_a_finite_loss_and_the_gradient_of_the_cross_entropy():
    a = torch.tensor([[1e4, 0.0]], requires_grad=True)
    loss = product_cross_entropy(a, torch.eye(2), torch.tensor([1]), temperature=1.0).sum()
    loss.backward()
    assert loss.isfinite()
    torch.testing.assert_close(a.grad, torch.tensor([[1.0, -1.0]]))
