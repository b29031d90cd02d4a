"""The three terms of deep divergence-based clustering, beside loops and examples by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional

from protocol_mvc.losses.clustering import cauchy_schwarz, ddc, gaussian_kernel

seeds = st.integers(0, 2**32)


def problem(seed: int = 0, n: int = 6, k: int = 3, d: int = 4) -> tuple[Tensor, Tensor]:
    """Features and soft assignments."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(n, d, dtype=torch.float64, generator=generator)
    return hidden, torch.randn(n, k, dtype=torch.float64, generator=generator).softmax(1)


def one_hot(labels: list[int], k: int) -> Tensor:
    return functional.one_hot(torch.tensor(labels), k).double()


def reference_kernel(h, width=0.15):
    n = len(h)
    d = [[sum((a - b) ** 2 for a, b in zip(h[i], h[j], strict=True)) for j in range(n)] for i in range(n)]
    median = sorted(x for row in d for x in row)[(n * n - 1) // 2]
    return [[math.exp(-x / (2 * max(width * median, 1e-9))) for x in row] for row in d]


def reference_cs(b, kernel):
    n, k = len(b), len(b[0])
    size = lambda p, q: sum(b[i][p] * kernel[i][j] * b[j][q] for i in range(n) for j in range(n))
    pairs = [(p, q) for q in range(k) for p in range(q)]
    terms = [max(size(p, q), 1e-9) / math.sqrt(max(size(p, p) * size(q, q), 1e-18)) for p, q in pairs]
    return sum(terms) / len(terms)


@given(seeds, st.integers(3, 6), st.integers(2, 4))  # of 2 samples the median distance is 0
def test_the_terms_equal_the_loops(seed: int, n: int, k: int):
    hidden, proba = problem(seed, n, k)
    kernel, a = reference_kernel(hidden.tolist()), proba.tolist()
    corner = lambda row, j: sum((x - (i == j)) ** 2 for i, x in enumerate(row))
    corners = [[math.exp(-corner(row, j)) for j in range(k)] for row in a]
    pairs = [(i, j) for j in range(n) for i in range(j)]
    dots = [sum(x * y for x, y in zip(a[i], a[j], strict=True)) for i, j in pairs]
    found = ddc(hidden, proba)
    assert found["ddc1"].item() == pytest.approx(reference_cs(a, kernel), abs=1e-9)
    assert found["ddc2"].item() == pytest.approx(sum(dots) / len(dots), abs=1e-12)
    assert found["ddc3"].item() == pytest.approx(reference_cs(corners, kernel), abs=1e-9)


def test_clusters_that_do_not_touch_have_the_least_similarity():
    member = one_hot([0, 0, 0, 1, 1, 2], 3)
    kernel = member @ member.T  # ones within a cluster, zeros between
    sizes = [9.0, 4.0, 1.0]
    floors = [1e-9 / math.sqrt(a * b) for i, a in enumerate(sizes) for b in sizes[:i]]
    assert cauchy_schwarz(member, kernel).item() == pytest.approx(np.mean(floors), rel=1e-12)


def test_an_empty_cluster_has_finite_gradients():
    member = one_hot([0, 0, 1], 3).requires_grad_()
    loss = cauchy_schwarz(member, torch.eye(3, dtype=torch.float64))
    (slope,) = torch.autograd.grad(loss, member)
    assert loss.item() == pytest.approx((1 + 1 + 1e-9 / math.sqrt(2)) / 3)
    assert slope.isfinite().all()


@pytest.mark.parametrize("sizes", [(3, 3), (5, 1), (2, 2, 2), (4, 1, 1), (6, 0)])
def test_orthogonality_of_hard_labels_is_least_for_clusters_of_one_size(sizes: tuple[int, ...]):
    n = sum(sizes)
    proba = one_hot([k for k, size in enumerate(sizes) for _ in range(size)], len(sizes))
    assert ddc(proba, proba)["ddc2"].item() == pytest.approx(sum(s * (s - 1) for s in sizes) / (n * (n - 1)))


def test_a_batch_of_one_sample_is_finite():
    found = ddc(torch.ones(1, 4), torch.tensor([[0.3, 0.7]]))
    assert found["ddc2"].item() == pytest.approx(0, abs=1e-7)
    assert all(value.isfinite() for value in found.values())


def test_the_width_is_a_share_of_the_lower_median_and_has_no_gradient():
    x = torch.tensor(
        [[0.0], [1.0]], dtype=torch.float64
    )  # squared distances 0, 0, 1, 1: the lower median is 0
    assert gaussian_kernel(x).tolist() == [[1, 0], [0, 1]]
    x = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64, requires_grad=True)  # 0 0 0 1 1 4 4 9 9
    kernel = gaussian_kernel(x)
    assert kernel[0, 1].item() == pytest.approx(math.exp(-1 / 0.3))
    (slope,) = torch.autograd.grad(kernel[0, 2], x)
    value = math.exp(-9 / 0.3)
    assert slope[:, 0].tolist() == pytest.approx([value * 6 / 0.3, 0, -value * 6 / 0.3])


def test_equal_features_have_finite_gradients():
    x = torch.ones(5, 3, requires_grad=True)
    kernel = gaussian_kernel(x)
    (slope,) = torch.autograd.grad(kernel.sum(), x)
    assert (kernel == 1).all()
    assert slope.isfinite().all()


@given(seeds)
def test_no_samples_are_more_alike_than_equal_ones(seed: int):
    """Far from the origin rounding makes some squared distances negative."""
    x = 1000 + torch.randn(20, 3, generator=torch.Generator().manual_seed(seed))
    assert (gaussian_kernel(x) <= 1).all()


def test_similarity_to_the_corners_by_hand():
    p = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    m = torch.tensor([[1.0, math.exp(-2)], [math.exp(-0.5)] * 2])
    torch.testing.assert_close(ddc(p, p)["ddc3"], cauchy_schwarz(m, gaussian_kernel(p)))


def test_gradients():
    hidden, proba = problem()
    inputs = (hidden[:, :2].clone().requires_grad_(), proba.clone().requires_grad_())
    kernel = gaussian_kernel(inputs[0].detach())
    assert gradcheck(lambda p: cauchy_schwarz(p, kernel), inputs[1:])
    assert gradcheck(lambda p: ddc(hidden, p)["ddc2"], inputs[1:])
    assert gradcheck(lambda p: ddc(hidden, p)["ddc3"], inputs[1:])
    assert gradcheck(lambda k: cauchy_schwarz(proba, k), (kernel.requires_grad_(),))


@given(seeds, st.permutations(range(6)), st.permutations(range(3)))
def test_the_order_of_samples_and_clusters_is_free(seed: int, rows, columns):
    hidden, proba = problem(seed)
    plain, permuted = ddc(hidden, proba), ddc(hidden[rows], proba[rows][:, columns])
    for name, value in plain.items():
        torch.testing.assert_close(permuted[name], value)
