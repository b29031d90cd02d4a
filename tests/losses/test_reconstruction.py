"""Reconstruction error: a mean over entries, so that wide views do not outweigh narrow ones."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from protocol_mvc.losses.reconstruction import squared_error

seeds = st.integers(0, 2**32)


def pair(seed, n=4, d=3):
    x, x_hat = torch.randn(2, n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return x, x_hat


def reference(x, x_hat):
    entries = [
        (a - b) ** 2
        for row, row_hat in zip(x.tolist(), x_hat.tolist(), strict=True)
        for a, b in zip(row, row_hat, strict=True)
    ]
    return sum(entries) / len(entries)


@given(seeds, st.integers(1, 6), st.integers(1, 5))
def test_equals_the_double_loop(seed, n, d):
    x, x_hat = pair(seed, n, d)
    assert squared_error(x, x_hat).item() == pytest.approx(reference(x, x_hat), rel=1e-12)


def test_value_by_hand():
    x, x_hat = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 0.0], [3.0, 1.0]])
    assert squared_error(x, x_hat).item() == (0 + 4 + 0 + 9) / 4


def test_gradient():
    x, x_hat = pair(0)
    assert gradcheck(squared_error, (x, x_hat.requires_grad_()))


def test_zero_for_a_perfect_reconstruction():
    x, _ = pair(0)
    assert squared_error(x, x.clone()).item() == 0


@given(seeds, st.permutations(range(4)))
def test_the_order_of_samples_is_free(seed, order):
    x, x_hat = pair(seed)
    torch.testing.assert_close(squared_error(x[order], x_hat[order]), squared_error(x, x_hat))


def test_repeated_columns_change_nothing():
    x, x_hat = pair(1)
    torch.testing.assert_close(squared_error(x.repeat(1, 5), x_hat.repeat(1, 5)), squared_error(x, x_hat))
