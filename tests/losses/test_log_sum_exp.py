"""Log-sum-exp of inner products: value and gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from protocol_mvc.losses.log_sum_exp import log_sum_exp_products


def rows(seed, *shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def shifted_logits(a, b, column, shift):
    logits = a @ b.mT
    return logits + torch.nn.functional.one_hot(column, logits.shape[-1]) * shift[..., None]


@given(st.integers(0, 2**32), st.sampled_from([1e-3, 1.0, 1e3]))
def test_value_is_the_log_sum_exp_of_the_shifted_logits(seed, scale):
    a, b, shift = scale * rows(seed, 5, 3), rows(seed + 1, 4, 3), rows(seed + 2, 5)
    column = torch.randint(4, (5,), generator=torch.Generator().manual_seed(seed))
    expected = shifted_logits(a, b, column, shift).logsumexp(-1)
    torch.testing.assert_close(log_sum_exp_products(a, b, column, shift), expected)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_gradients_are_those_of_finite_differences(shape):
    a, b = rows(0, *shape, 5, 3).requires_grad_(), rows(1, *shape, 4, 3).requires_grad_()
    column, shift = torch.tensor([0, 3, 1, 1, 2]).expand(*shape, 5), rows(2, *shape, 5)
    assert gradcheck(lambda a, b: log_sum_exp_products(a, b, column, shift), (a, b))


def test_a_shift_of_minus_infinity_leaves_the_entry_out():
    a, own = rows(0, 4, 3), torch.arange(4)
    others = torch.stack([torch.cat([a[:i], a[i + 1 :]]) for i in range(4)])
    expected = (others @ a[:, :, None])[..., 0].logsumexp(1)
    found = log_sum_exp_products(a, a, own, torch.full((4,), -torch.inf).double())
    torch.testing.assert_close(found, expected)
