"""Spectral contrast of paired rows."""

import pytest
import torch
from tests.losses.known import A, B
from torch.autograd import gradcheck

from protocol_mvc.losses.contrastive import spectral_contrast


@pytest.mark.parametrize(("factor", "expected"), [(1, -1.113067), (3, -0.417600)])
def test_the_sum_has_its_known_values(factor: int, expected: float):
    found = spectral_contrast(factor * A, factor * B)
    assert found.shape == (3,)
    assert found.sum().item() == pytest.approx(expected, abs=1e-6)


def test_the_term_of_a_sample_is_that_of_the_double_loop():
    for i, term in enumerate(spectral_contrast(A, B).tolist()):
        others = sum(float(A[i] @ B[j]) ** 2 for j in range(3) if j != i)
        assert term == pytest.approx(-2 / 3 * float(A[i] @ B[i]) + others / 6)


def test_a_batch_of_one_sample_has_no_negatives():
    assert spectral_contrast(A[:1], B[:1]).tolist() == pytest.approx([-1.6])


def test_gradient():
    a, b = ((2.5 * x).requires_grad_() for x in (A, B))  # some rows are shortened, some are not
    assert gradcheck(lambda a, b: spectral_contrast(a, b).sum(), (a, b * 0.3))


def test_rows_of_zeros_have_finite_gradients():
    a = torch.zeros(2, 3, requires_grad=True)
    spectral_contrast(a, torch.ones(2, 3)).sum().backward()
    assert a.grad is not None
    assert a.grad.isfinite().all()
