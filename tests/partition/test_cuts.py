"""The evidence of the least distinct clusters, in partitions by several ways of merging."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.partition.test_n_clusters import groups

from protocol_mvc.partition.cuts import NOTHING, NUMBERS, cut_path, nested_cuts
from protocol_mvc.partition.graphs import Floats, greedy_merges, merge_groups
from protocol_mvc.partition.n_clusters import divide


def path(views: list[Floats], length: int = 30) -> Floats:
    found = divide([views, views], 0)
    assert found is not None
    graphs = [each.graph for each in found.communities]
    return cut_path(found.spaces, found.groups, graphs, found.neighbors, length)


def test_evidence_falls_off_a_cliff_after_the_number_of_groups():
    sizes = (160, 80, 50, 30, 15)
    found = path(groups(sizes)[0])
    assert found[len(sizes) - 2] > 0.5
    assert found[len(sizes) - 1] < 0.3


def test_no_number_of_clusters_divides_one_cloud():
    rng = np.random.default_rng(0)
    assert path([rng.normal(size=(300, 8)) for _ in range(2)]).max() < 0.3


@pytest.mark.parametrize("length", [1, 5, 40])
def test_evidence_is_in_descending_order_from_1_to_0(length: int):
    found = path(groups()[0], length)
    assert found.shape == (length,)
    assert (np.diff(found) <= 0).all()
    assert found.max() <= 1
    assert found.min() >= 0


def test_evidence_stays_the_same_after_the_last_number_that_is_looked_at():
    found = path(groups()[0], 60)
    last = min(int(np.argmax(found < NOTHING)) if found.min() < NOTHING else len(found), max(NUMBERS) - 2)
    assert found[last:] == pytest.approx(found[-1])


@given(st.integers(1, 10), st.integers(0, 100))
def test_cuts_have_every_number_of_clusters_and_each_is_part_of_the_one_before(m: int, seed: int):
    rng = np.random.default_rng(seed)
    alive, merges = list(range(m)), []
    while len(alive) > 1:
        a, b = rng.choice(alive, 2, replace=False).tolist()
        alive.remove(b)
        merges.append((a, b))
    cuts = nested_cuts(m, merges)
    assert sorted(cuts) == list(range(1, m + 1))
    for k in range(1, m):
        assert len(np.unique(cuts[k])) == k
        assert len(set(zip(cuts[k].tolist(), cuts[k + 1].tolist(), strict=True))) == k + 1


@settings(max_examples=30)
@given(st.integers(2, 9), st.integers(0, 100))
def test_greedy_merges_are_those_of_merge_groups(m: int, seed: int):
    weights = np.random.default_rng(seed).random((m, m))
    weights += weights.T
    cuts = nested_cuts(m, greedy_merges(weights, "smaller"))
    for k in range(1, m + 1):
        assert (cuts[k] == merge_groups(weights, k, "smaller")).all()
