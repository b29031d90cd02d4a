"""The cosine classifier depends on directions only; assignment to centroids on distances."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional

from protocol_mvc.nn.layers import (
    EMPTY_CENTER,
    CosineClassifier,
    cluster_means,
    log_assignment,
    normalize_rows,
)
from protocol_mvc.nn.seeded import build

seeds = st.integers(0, 2**32)


def make(width=4, n_clusters=3, scale=10.0, seed=0) -> CosineClassifier:
    return build(
        lambda: CosineClassifier(width, n_clusters, scale), torch.Generator().manual_seed(seed)
    ).double()


def inputs(seed, n=5) -> Tensor:
    return torch.randn(n, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_value_by_hand():
    head = make(width=2, n_clusters=2)
    with torch.no_grad():
        head.prototypes.copy_(torch.tensor([[2.0, 0.0], [0.0, 0.5]]))
    torch.testing.assert_close(head(torch.tensor([[3.0, 4.0]]).double()), torch.tensor([[6.0, 8.0]]).double())


@given(seeds, st.floats(0.1, 100))
def test_logits_are_bounded_by_the_scale(seed, scale):
    assert (make(scale=scale)(inputs(seed)).abs() <= scale * (1 + 1e-12)).all()


@given(seeds, st.floats(1e-3, 1e3))
def test_the_length_of_inputs_and_prototypes_is_free(seed, factor):
    head, x = make(), inputs(seed)
    logits = head(x)
    torch.testing.assert_close(head(factor * x), logits)
    with torch.no_grad():
        head.prototypes.mul_(factor)
    torch.testing.assert_close(head(x), logits)


@given(seeds)
def test_rows_of_unit_norm_need_no_division(seed):
    head, x = make(seed=seed), functional.normalize(inputs(seed))
    torch.testing.assert_close(head.unit_logits(x), head(x))


@given(seeds)
def test_a_prototype_is_its_own_cluster(seed):
    head = make(seed=seed)
    logits = head(head.prototypes.detach())
    torch.testing.assert_close(logits.diagonal(), torch.full_like(logits[0], 10.0))
    assert logits.argmax(1).tolist() == [0, 1, 2]


def test_a_zero_input_is_undecided():
    assert (make()(torch.zeros(1, 4, dtype=torch.float64)) == 0).all()


def test_prototypes_follow_the_seed():
    assert torch.equal(make(seed=3).prototypes, make(seed=3).prototypes)
    assert not torch.equal(make(seed=3).prototypes, make(seed=4).prototypes)


def test_prototype_directions_are_uniform():
    directions = torch.nn.functional.normalize(make(n_clusters=20_000).prototypes)
    assert directions.mean(0).norm().item() == pytest.approx(0, abs=0.03)
    torch.testing.assert_close(directions.T.cov(), torch.eye(4, dtype=torch.float64) / 4, rtol=0, atol=0.01)


def test_centroids_are_means_and_that_of_an_empty_cluster_is_far_away():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [7.0, 7.0]])
    centers = cluster_means(x, torch.tensor([0, 0, 2]), 3)
    assert centers.tolist() == [[2, 3], [EMPTY_CENTER, EMPTY_CENTER], [7, 7]]


@given(seeds, st.floats(0.1, 10))
def test_the_nearest_centroid_has_the_highest_probability(seed, scale):
    x, centers = inputs(seed), inputs(seed + 1, n=3)
    distance = torch.cdist(x, centers)
    found = log_assignment(x, centers, scale)
    assert found.argmax(1).tolist() == distance.argmin(1).tolist()
    torch.testing.assert_close(found, (-scale * distance.square() / 2).log_softmax(1))


@given(seeds, st.sampled_from([1e-20, 1e-3, 1.0, 1e3]))
def test_normalized_rows_are_those_of_torch(seed, scale):
    x = scale * inputs(seed)
    torch.testing.assert_close(normalize_rows(x), functional.normalize(x))


def test_the_gradient_of_normalized_rows_is_that_of_finite_differences():
    assert gradcheck(normalize_rows, inputs(0).requires_grad_())


def test_a_row_of_zeros_stays_zero_and_has_the_gradient_of_torch():
    x = torch.zeros(1, 3, requires_grad=True)
    found, expected = (torch.autograd.grad(f(x).sum(), x)[0] for f in (normalize_rows, functional.normalize))
    assert torch.equal(found, expected)
    assert (normalize_rows(x) == 0).all()
