"""Contrast between all views, with all samples or with negatives drawn from other clusters."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import seeded
from torch import Tensor
from torch.nn import functional

from protocol_mvc.losses.contrastive import draw_negatives, mutual_contrast, selective_contrast

seeds = st.integers(0, 2**32)
CLUSTER = torch.tensor([0, 1, 0, 2, 1])


def views(seed: int = 0, n_views: int = 2, n: int = 5) -> list[Tensor]:
    return list(torch.randn(n_views, n, 3, dtype=torch.float64, generator=seeded(seed)))


def contrast(z: list[Tensor], cluster: Tensor = CLUSTER, seed: int = 0, ratio: float = 0.25) -> Tensor:
    return selective_contrast(z, cluster, temperature=0.1, ratio=ratio, generator=seeded(seed))


@given(seeds, st.integers(2, 4), st.sampled_from([0.01, 0.25, 0.5, 2.0]))
def test_negatives_are_of_other_clusters_and_as_many_as_asked_for(seed: int, n_views: int, ratio: float):
    cluster = CLUSTER.repeat(n_views)
    drawn = draw_negatives(cluster, ratio, seeded(seed))
    assert drawn.shape == (len(cluster), max(math.floor(ratio * n_views * 5), 1))
    assert (cluster[drawn] != cluster[:, None]).all()


def test_negatives_come_from_every_view_and_every_other_cluster():
    drawn = draw_negatives(CLUSTER.repeat(2), 50.0, seeded())
    assert set(drawn[0].tolist()) == {i for i in range(10) if CLUSTER[i % 5] != 0}


@given(seeds, st.integers(2, 3))
def test_the_contrast_equals_the_loop(seed: int, n_views: int):
    z = views(seed, n_views)
    rows = [row / row.norm() for x in z for row in x]
    drawn = draw_negatives(CLUSTER.repeat(n_views), 0.25, seeded(seed)).tolist()
    similarity = lambda i, j: float(rows[i] @ rows[j]) / 0.1
    terms = []
    for u in range(n_views):
        for v in set(range(n_views)) - {u}:
            for i in range(5):
                anchor, positive = u * 5 + i, similarity(u * 5 + i, v * 5 + i)
                others = sum(math.exp(similarity(anchor, j)) for j in drawn[anchor])
                terms.append(math.log(math.exp(positive) + others) - positive)
    assert contrast(z, seed=seed).item() == pytest.approx(sum(terms) / len(terms))


@pytest.mark.parametrize("n_views", [1, 2])
def test_without_a_second_view_or_cluster_there_is_nothing_to_contrast(n_views: int):
    z = [x.requires_grad_() for x in views(n_views=n_views)]
    loss = contrast(z, CLUSTER if n_views == 1 else CLUSTER * 0)
    assert loss.item() == 0
    loss.backward()  # as any other loss


def test_two_clusters_are_enough_for_a_contrast():
    assert contrast(views(), CLUSTER % 2).item() > 0.01


def test_views_that_agree_and_clusters_that_are_apart_cost_little():
    z = functional.one_hot(CLUSTER).double()
    assert contrast([z, z]).item() < 1e-3 < contrast([z, z.roll(1, 0)]).item()


def test_the_generator_decides_the_draws_alone():
    z = views()
    assert contrast(z, seed=1) == contrast(z, seed=1) != contrast(z, seed=2)


@given(seeds, st.integers(2, 3))
def test_mutual_contrast_equals_the_loop(seed: int, n_views: int):
    """Cross-entropies over n candidates of the other view and n - 1 of the own one, both ways."""
    z = [functional.normalize(x) for x in views(seed, n_views)]
    total = 0.0
    for u in range(n_views):
        for v in set(range(n_views)) - {u}:
            for i in range(5):
                cross = [math.exp(float(z[u][i] @ z[v][j]) / 0.1) for j in range(5)]
                own = [math.exp(float(z[u][i] @ z[u][j]) / 0.1) for j in range(5) if j != i]
                total -= math.log(cross[i] / (sum(cross) + sum(own))) / 5
    expected = 2 / (n_views * (n_views - 1)) * total
    assert mutual_contrast(z, temperature=0.1).item() == pytest.approx(expected)


def test_a_single_view_costs_nothing():
    loss = mutual_contrast([x.requires_grad_() for x in views(n_views=1)], temperature=0.1)
    assert loss.item() == 0
    loss.backward()
