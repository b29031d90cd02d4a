"""The choice of a partition: which candidate wins, and what its agreement says."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from tests.examples import Floats, Labels, blobs

from protocol_mvc.partition.config import PartitionOptions
from protocol_mvc.partition.graphs import ViewSpace, impute
from protocol_mvc.partition.selection import (
    cluster_agreement,
    find_partition,
    pair_agreement,
    select_partition,
    view_agreement,
)

seeds = st.integers(0, 1000)
Measure = Callable[[Sequence[Floats], Labels], float]
QUICK = PartitionOptions(
    over_clustering=(1.5,), groups_per_cluster_learned=(4.0,), groups_per_cluster_data=(3.0,)
)


def separated(sizes: list[int], n_views: int = 2, seed: int = 0) -> tuple[list[Floats], Labels]:
    """Views of far groups, and the group of each sample."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    width = len(sizes) + 1
    return [20 * np.eye(width)[truth] + rng.normal(size=(len(truth), width)) for _ in range(n_views)], truth


def best_jaccard(a: Labels, b: Labels) -> float:
    """Mean over the clusters of a of the largest Jaccard index of a cluster of b."""
    best = []
    for c in set(a):
        mine = set(np.flatnonzero(a == c))
        others = [set(np.flatnonzero(b == d)) for d in set(b)]
        best.append(max(len(mine & other) / len(mine | other) for other in others))
    return sum(best) / len(best)


@settings(max_examples=6)
@given(st.lists(st.integers(16, 80), min_size=2, max_size=5), st.integers(2, 3), st.integers(0, 5))
def test_separated_unequal_groups_are_found_in_any_order(sizes: list[int], n_views: int, seed: int):
    views, truth = separated(sizes, n_views, seed)
    order = np.random.default_rng(seed).permutation(len(truth))
    found = find_partition(views, views, len(sizes), seed, QUICK)
    assert set(found.labels) == set(range(len(sizes)))
    assert adjusted_rand_score(truth, found.labels) == 1
    turned = [x[order] for x in views]
    assert (
        adjusted_rand_score(truth[order], find_partition(turned, turned, len(sizes), seed, QUICK).labels) == 1
    )


@pytest.mark.parametrize(
    "sizes", [[8, 8], [36, 12], [18, 8, 9], [120, 40, 20], [60, 50, 40, 30, 20]], ids=str
)
def test_separated_unequal_groups_of_a_single_view_are_found(sizes: list[int]):
    views, truth = separated(sizes, 1)
    found = find_partition(views, views, len(sizes), 0, QUICK)
    assert adjusted_rand_score(truth, found.labels) == 1


def test_default_options_find_the_groups_and_agree_on_them():
    views, truth = separated([100, 30, 8])
    found = find_partition(views, views, 3, 0)
    assert adjusted_rand_score(truth, found.labels) == 1
    assert found.agreement.shape == truth.shape
    assert found.agreement.mean() > 0.9


def test_agreement_falls_with_noise():
    agreements = []
    for noise in (0.5, 6):
        views, _ = blobs((60, 40, 20), noise=noise)
        agreement = find_partition(views, views, 3, 0, QUICK).agreement
        assert ((agreement >= 0) & (agreement <= 1)).all()
        agreements.append(agreement.mean())
    assert agreements[0] > agreements[1]


def test_the_same_seed_gives_the_same_partition():
    views, _ = blobs((40, 20, 10), noise=3)
    first, second = (find_partition(views, views, 3, 7, QUICK) for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.agreement, second.agreement)


def test_imputed_views_give_the_groups():
    views, truth = separated([60, 30, 12])
    lost = np.random.default_rng(0).integers(4, size=len(truth))  # 0 or 1: that view is absent
    mask = np.stack([lost != 0, lost != 1], axis=1)
    filled = impute([np.where(mask[:, [v]], x, 0) for v, x in enumerate(views)], mask)
    assert adjusted_rand_score(truth, find_partition(filled, filled, 3, 0, QUICK).labels) == 1


@pytest.mark.parametrize(
    ("n", "k"), [(2, 2), (3, 2), (4, 3), (7, 7), (8, 2), (16, 15), (40, 10), (60, 60), (60, 55)]
)
@pytest.mark.parametrize("n_views", [1, 2])
def test_small_data_and_many_clusters_give_k_labels_quickly(n: int, k: int, n_views: int):
    views = [np.random.default_rng(v).normal(size=(n, 4)) for v in range(n_views)]
    started = time.perf_counter()
    found = find_partition(views, views, k, 0)
    assert time.perf_counter() - started < 20
    assert set(found.labels) == set(range(k))
    assert found.labels.dtype == np.int64
    assert found.agreement.shape == (n,)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("n", "k"), [(2, 2), (5, 4), (40, 3), (40, 30)])
@pytest.mark.parametrize("constant", [(True, True), (True, False)], ids=["all", "one"])
def test_constant_views_give_labels_below_k(n: int, k: int, constant: tuple[bool, bool]):
    views = [np.zeros((n, 3)) if c else np.random.default_rng(0).normal(size=(n, 3)) for c in constant]
    found = find_partition(views, views, k, 0)
    assert found.labels.shape == (n,)
    assert 0 <= found.labels.min() <= found.labels.max() < k
    assert np.isfinite(found.agreement).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("distinct", "k"), [(5, 3), (3, 3), (2, 3), (5, 12)])
def test_repeated_rows_give_labels_below_k(distinct: int, k: int):
    x = 10 * np.eye(6)[np.repeat(np.arange(distinct), 9)]
    labels = find_partition([x, x], [x, x], k, 0).labels
    assert 0 <= labels.min() <= labels.max() < k
    if distinct == k:
        assert adjusted_rand_score(np.repeat(np.arange(distinct), 9), labels) == 1


def agreement(measure: Measure, space: ViewSpace, labels: Labels) -> float:
    return measure(space.votes(labels), labels)


@pytest.mark.parametrize("measure", [view_agreement, pair_agreement])
class TestAgreementOfViews:
    @settings(max_examples=15)
    @given(seeds, st.integers(2, 4), st.integers(2, 3))
    def test_at_most_1_for_any_orders(self, measure: Measure, seed: int, k: int, n_views: int):
        rng = np.random.default_rng(seed)
        views = [rng.normal(size=(40, 3)) for _ in range(n_views)]
        labels = rng.permutation(np.arange(40) % k)
        value = agreement(measure, ViewSpace(views, 5), labels)
        assert -1 <= value <= 1
        order = rng.permutation(40)
        assert agreement(measure, ViewSpace(views[::-1], 5), labels) == pytest.approx(value)
        assert agreement(measure, ViewSpace([x[order] for x in views], 5), labels[order]) == pytest.approx(
            value
        )

    @settings(max_examples=15)
    @given(st.permutations(range(3)), seeds)
    def test_names_of_separated_clusters_do_not_matter(self, measure: Measure, names: list[int], seed: int):
        views, truth = separated([20, 12, 8], seed=seed)
        assert agreement(measure, ViewSpace(views, 5), np.array(names)[truth]) == 1

    def test_one_giant_cluster_counts_nothing(self, measure: Measure):
        views = [np.random.default_rng(v).normal(size=(60, 3)) for v in range(2)]
        labels = (np.arange(60) >= 57).astype(np.int64)
        assert agreement(measure, ViewSpace(views, 5), labels) < 0.5

    def test_identical_separated_views_agree_fully(self, measure: Measure):
        (x,), truth = separated([30, 10, 7], 1)
        assert agreement(measure, ViewSpace([x, x], 5), truth) == 1

    def test_groups_that_only_one_view_shows_are_not_confirmed(self, measure: Measure):
        (x,), truth = separated([30, 30], 1)
        noise = np.random.default_rng(0).normal(size=x.shape)
        both, one = (agreement(measure, ViewSpace(views, 5), truth) for views in ([x, x], [x, noise]))
        assert one < 0.6 < both

    def test_the_truth_beats_other_partitions(self, measure: Measure):
        views, truth = separated([40, 20, 10])
        space, rng = ViewSpace(views, 5), np.random.default_rng(0)
        assert agreement(measure, space, truth) > agreement(measure, space, rng.permutation(truth))


class TestPairAgreement:
    def test_halves_of_a_homogeneous_group_score_low(self):
        """Two views divide a group in different ways; Cohen's kappa over all clusters hardly sees it."""
        rng = np.random.default_rng(0)
        views, truth = [], np.repeat([0, 1, 2], [80, 20, 20])
        for _ in range(2):
            x = rng.normal(size=(120, 4))
            x[truth > 0, 0] += 40
            x[truth > 1, 1] += 9
            views.append(x)
        merged = np.where(truth == 0, (views[0][:, 0] > 0).astype(np.int64), 2)  # halves one, joins two
        space = ViewSpace(views, 10)
        votes, other = space.votes(truth), space.votes(merged)
        assert pair_agreement(votes, truth) > 0.9 > 0.5 > pair_agreement(other, merged)

    @settings(max_examples=20)
    @given(seeds, st.integers(2, 4), st.integers(1, 3))
    def test_equals_the_loops(self, seed: int, k: int, n_views: int):
        rng = np.random.default_rng(seed)
        labels = rng.permutation(np.arange(30) % k)
        votes = [rng.integers(0, 5, size=(30, k)).astype(float) for _ in range(n_views)]
        whole = np.sum(votes, axis=0)
        others = [whole - own for own in votes] if n_views > 1 else [np.eye(k)[labels]]
        sizes = np.bincount(labels)

        def decide(counts: Floats, rows: Labels, a: int, b: int) -> Floats:
            found: Floats = np.sign(counts[rows, a] / sizes[a] - counts[rows, b] / sizes[b])
            return found

        def correlation(a: int, b: int, v: int) -> float:
            rows = np.flatnonzero((labels == a) | (labels == b))
            decisions = np.stack([decide(x[v], rows, a, b) for x in (votes, others)])
            (pp, pq), (_, qq) = np.cov(decisions, aweights=1 / sizes[labels[rows]], ddof=0)
            return float(pq / np.sqrt(max(pp * qq, 1e-12)))

        pairs = [
            [np.mean([correlation(a, b, v) for v in range(n_views)]) for b in range(k) if b != a]
            for a in range(k)
        ]
        expected = np.average(np.min(pairs, axis=1), weights=sizes)
        assert pair_agreement(votes, labels) == pytest.approx(expected)


class TestClusterAgreement:
    @settings(max_examples=20)
    @given(seeds, st.integers(1, 5), st.integers(1, 4))
    def test_equals_the_double_loop(self, seed: int, count: int, k: int):
        rng = np.random.default_rng(seed)
        partitions = [rng.permutation(np.arange(20) % k) for _ in range(count)]
        expected = [[best_jaccard(a, b) for b in partitions] for a in partitions]
        np.testing.assert_allclose(cluster_agreement(partitions), expected)

    def test_small_clusters_count_like_large_ones(self):
        """Many wrong members of a large cluster cost less than the loss of a rare one."""
        usual = np.repeat([0, 1, 2], [500, 490, 10])
        rare_kept, rare_lost = usual.copy(), np.repeat([0, 1, 2], [500, 240, 260])
        rare_kept[:100] = 1
        agreement = cluster_agreement([usual, rare_kept, rare_lost])[:, 0]
        assert agreement[0] == 1 > agreement[1] > agreement[2]

    def test_losing_a_rare_cluster_costs_one_kth(self):
        usual = np.repeat([0, 1, 2], [500, 490, 10])
        lost = np.where(np.arange(1000) == 0, 2, np.minimum(usual, 1))  # an outlier takes the third label
        assert cluster_agreement([usual, lost])[0, 1] == pytest.approx(2 / 3, abs=0.02)

    @given(seeds, st.permutations(range(3)))
    def test_names_do_not_matter(self, seed: int, names: list[int]):
        rng = np.random.default_rng(seed)
        partitions = [rng.permutation(np.arange(30) % 3) for _ in range(3)]
        renamed = [np.array(names)[partitions[0]], *partitions[1:]]
        np.testing.assert_allclose(cluster_agreement(renamed), cluster_agreement(partitions))


def test_the_candidate_that_views_and_others_confirm_is_chosen():
    views, truth = separated([40, 20, 10])
    rng, names = np.random.default_rng(0), np.array([2, 0, 1])
    candidates = [rng.permutation(truth), names[truth], rng.permutation(truth), truth]
    found = select_partition(candidates, ViewSpace(views, 5), 3)
    assert adjusted_rand_score(truth, found.labels) == 1
    assert found.agreement.min() >= 0.5  # the other good candidate agrees, whatever its names


def test_single_candidate_is_taken_with_full_agreement():
    views, truth = separated([10, 5])
    found = select_partition([truth], ViewSpace(views, 5), 2)
    assert found.labels is truth
    np.testing.assert_array_equal(found.agreement, 1)


def test_agreement_is_the_share_of_the_better_half():
    views, truth = separated([20, 10, 8])
    moved = truth.copy()
    moved[0] = (moved[0] + 1) % 3
    noise = [np.random.default_rng(seed).permutation(truth) for seed in range(2)]
    found = select_partition([truth, (moved + 1) % 3, *noise], ViewSpace(views, 5), 3)
    assert adjusted_rand_score(truth, found.labels) == 1
    assert found.agreement[0] < found.agreement[1:].mean()
