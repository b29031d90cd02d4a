"""The number of clusters: rare groups count, one cloud is one group, and the answer says how sure it is."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import Floats

from protocol_mvc.partition import n_clusters
from protocol_mvc.partition.cloud import normal_cloud
from protocol_mvc.partition.count_range import (
    Count,
    count_doubt,
    count_range,
    overlapping_groups,
    raise_to_rank,
)
from protocol_mvc.partition.evidence import evidence
from protocol_mvc.partition.n_clusters import (
    MORE_THAN_CLOUD,
    ClusterCountSuggestion,
    Split,
    count_at,
    count_clusters,
    evidence_over_cloud,
    pruned_evidence,
    weakest_first,
)
from protocol_mvc.partition.rank import RankCount

SIZES = (160, 80, 50, 30, 15)


def groups(sizes: tuple[int, ...] = SIZES, *, distance: float = 7.0, seed: int = 0):
    """Two views of normal groups, and the group of each sample."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    views: list[Floats] = []
    for _ in range(2):
        centers = rng.normal(size=(len(sizes), 12))
        centers *= distance / np.linalg.norm(centers, axis=1, keepdims=True)
        views.append(centers[truth] + rng.normal(size=(len(truth), 12)))
    return views, truth


def cloud(kind: str, n: int, width: int, seed: int) -> list[Floats]:
    """Two views of one group: independent, or linear images of the same cloud."""
    rng = np.random.default_rng(seed)
    if kind == "independent":
        return [rng.normal(size=(n, width)) for _ in range(2)]
    z = rng.normal(size=(n, width))
    if kind == "heavy tails":
        z /= np.sqrt(rng.chisquare(4, size=(n, 1)) / 4)
    return [z @ rng.normal(size=(width, 15)) for _ in range(2)]


def count(views: list[Floats], **options: Any) -> ClusterCountSuggestion:
    """The suggestion where nothing but the data is known: they stand for the learned features as well."""
    return count_clusters(views, views, **options)


@pytest.fixture(scope="module")
def found() -> ClusterCountSuggestion:
    return count(groups()[0])


def test_groups_of_15_and_30_beside_160_are_found():
    for seed in range(2):
        answer = count(groups(seed=seed)[0], seed=seed)
        assert answer.n_clusters == len(SIZES)
        assert answer.path[len(SIZES) - 1].sizes == SIZES


@pytest.mark.parametrize("kind", ["independent", "linear", "heavy tails"])
@pytest.mark.parametrize("width", [3, 15])
def test_one_cloud_is_one_group(kind: str, width: int):
    answer = count(cloud(kind, 250, width, 0))
    assert (answer.n_clusters, answer.low, answer.certain) == (1, 1, 1)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_doubling_the_large_groups_changes_nothing(found: ClusterCountSuggestion, noise: float):
    views, truth = groups()
    large, rng = truth < 3, np.random.default_rng(0)
    doubled = [np.vstack([x, x[large] + noise * rng.normal(size=x[large].shape)]) for x in views]
    assert abs(count(doubled).n_clusters - found.n_clusters) <= 1


def test_order_of_samples_and_views_and_their_units_do_not_matter(found: ClusterCountSuggestion):
    views, truth = groups()
    order = np.random.default_rng(0).permutation(len(truth))
    other = count([100 * views[1][order], 0.01 * views[0][order]])
    assert other[:4] == found[:4]


def test_same_seed_same_answer(found: ClusterCountSuggestion):
    assert count(groups()[0]) == found


def test_a_split_of_one_view_is_worth_less_than_one_of_both():
    views, _ = groups((100, 100), distance=4.0)
    other = np.random.default_rng(5).normal(size=views[1].shape)
    both, one = (count(v).path[1].evidence for v in (views, [views[0], other]))
    assert one < both


def test_groups_that_nothing_connects_are_beyond_doubt():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [100, 80, 60])
    views = [1e4 * rng.normal(size=(3, 4))[truth] + rng.normal(size=(240, 4)) for _ in range(2)]
    answer = count(views)
    assert (answer.n_clusters, answer.low, answer.high, answer.certain) == (3, 3, 3, 3)
    assert "3 groups; all are beyond doubt" in answer.message


class TestAnswer:
    def test_numbers_are_in_order(self, found: ClusterCountSuggestion):
        assert 1 <= found.certain <= found.n_clusters
        assert found.low <= found.n_clusters <= found.high
        assert str(found.n_clusters) in found.message

    @pytest.mark.parametrize(("low", "high", "expected"), [(1, 3, 3), (7, 9, 7), (2, 10, 5)])
    def test_bounds_hold(self, low: int, high: int, expected: int):
        answer = count(groups()[0], min_clusters=low, max_clusters=high)
        assert answer.n_clusters == expected
        assert low <= answer.low <= answer.n_clusters <= answer.high <= high
        assert len(answer.path) == high

    def test_path_splits_one_group_at_a_time_with_ever_less_evidence(self, found: ClusterCountSuggestion):
        for before, level in zip(found.path, found.path[1:], strict=False):
            assert level.n_clusters == len(level.sizes) == before.n_clusters + 1
            assert sum(level.sizes) == sum(SIZES)
            assert level.evidence <= before.evidence
            assert level.split is not None
            split = found.tree[level.split]
            assert split.n_left + split.n_right in before.sizes

    def test_tree_joins_every_group_once(self, found: ClusterCountSuggestion):
        m = len(found.tree) + 1
        parts = [part for split in found.tree for part in (split.left, split.right)]
        assert sorted(parts) == list(range(2 * m - 2))
        assert found.tree[-1].n_left + found.tree[-1].n_right == sum(SIZES)
        assert all(max(split.left, split.right) < m + i for i, split in enumerate(found.tree))

    @pytest.mark.parametrize("n", [1, 2, 9, 10, 30])
    def test_few_samples_give_an_answer(self, n: int):
        x = np.random.default_rng(0).normal(size=(n, 4))
        answer = count([x, x])
        assert answer.path[0].sizes == (n,)
        assert 1 <= answer.n_clusters <= n

    @pytest.mark.filterwarnings("error")
    def test_equal_samples_are_one_group(self):
        assert count([np.zeros((100, 3)), np.ones((100, 2))]).n_clusters == 1

    def test_one_view_is_enough(self):
        assert count(groups((200, 100, 40))[0][:1]).n_clusters == 3


class TestEvidence:
    @given(st.floats(-1, 1), st.floats(0, 3), st.floats(-5, 5))
    def test_lies_between_0_and_1_and_grows_with_every_part(self, margin: float, depth: float, apart: float):
        value = evidence(margin, depth, apart)
        assert 0 <= value <= 1
        for more in (evidence(margin + 0.1, depth, apart), evidence(margin, depth + 0.1, apart)):
            assert more >= value
        assert evidence(margin, depth, apart + 0.1) >= value


@st.composite
def trees(draw: st.DrawFn) -> list[Split]:
    """Splits of a random tree, those of parts before that of the group."""
    values = draw(st.lists(st.floats(0, 1), min_size=1, max_size=12))
    m, groups, tree = len(values) + 1, list(range(len(values) + 1)), []
    for i, value in enumerate(values):
        left, right = (groups.pop(draw(st.integers(0, len(groups) - 1))) for _ in range(2))
        tree.append(Split(left, right, 1, 1, value, 0, 0, 0))
        groups.append(m + i)
    return tree


def best_sum(tree: list[Split], theta: float) -> float:
    """The largest sum of evidence - theta over the splits of a subtree with the same root."""
    m, best = len(tree) + 1, [0.0] * (len(tree) + 1)
    for split in tree:
        best.append(max(0.0, split.evidence - theta + best[split.left] + best[split.right]))
    return best[m + len(tree) - 1]


class TestPruning:
    @settings(max_examples=200)
    @given(trees(), st.floats(0, 1))
    def test_keeps_the_subtree_with_the_largest_sum(self, tree: list[Split], theta: float):
        kept = pruned_evidence(tree) > theta
        total = sum(split.evidence - theta for split, keep in zip(tree, kept, strict=True) if keep)
        assert total == pytest.approx(best_sum(tree, theta), abs=1e-9)

    @given(trees())
    def test_no_split_has_more_than_that_of_its_group(self, tree: list[Split]):
        m, ordered = len(tree) + 1, weakest_first(tree)
        assert (np.diff([split.evidence for split in ordered]) >= 0).all()
        for i, split in enumerate(ordered):
            assert max(split.left, split.right) < m + i
        parts = [part for split in ordered for part in (split.left, split.right)]
        assert sorted(parts) == list(range(2 * m - 2))

    @given(trees(), st.floats(0, 1), st.floats(0, 1))
    def test_more_evidence_is_asked_fewer_groups_are_left(self, tree: list[Split], a: float, b: float):
        low, high = sorted((a, b))
        ordered = weakest_first(tree)
        assert 1 <= count_at(ordered, high) <= count_at(ordered, low) <= len(tree) + 1

    def test_a_strong_split_pays_for_a_weak_one_above_it(self):
        pair = Split(0, 1, 5, 5, 0.9, 0, 0, 0)
        tree = [pair, Split(2, 3, 10, 5, 0.5, 0, 0, 0)]
        assert pruned_evidence(tree) == pytest.approx([0.7, 0.7])


class TestRange:
    """The number of groups and its range, from the evidence of the splits to 2, 3, ... groups."""

    @settings(max_examples=50)
    @given(st.lists(st.floats(0, 1), max_size=40))
    def test_holds_the_number(self, values: list[float]):
        found, least, most = count_range(np.sort(values)[::-1])
        assert 1 <= least <= found <= most <= len(values) + 1

    def test_is_narrow_after_a_cliff_and_wide_on_a_slope(self):
        cliff = np.r_[np.full(7, 0.9), np.full(30, 0.1)]
        assert count_range(cliff) == (8, 8, 8)
        found, least, most = count_range(np.linspace(0.95, 0.05, 38))
        assert least <= found / 1.5
        assert most > found

    @given(st.integers(2, 12), st.floats(0.0, 0.35), st.floats(0.0, 0.35))
    def test_flatter_evidence_has_no_less_doubt_and_no_narrower_range(self, k: int, a: float, b: float):
        """Paths with the same number of groups, and more or less evidence of the splits that are not made."""
        low, high = sorted((a, b))
        paths = [np.r_[np.full(k - 1, 0.75), np.full(k, after), np.full(30, 0.05)] for after in (low, high)]
        doubts, ranges = [count_doubt(path, k) for path in paths], [count_range(path) for path in paths]
        assert 0 <= doubts[0] <= doubts[1] <= 1
        assert [found for found, _, _ in ranges] == [k, k]
        assert ranges[1][1] <= ranges[0][1]
        assert ranges[1][2] >= ranges[0][2]

    def test_nothing_clear_is_told_from_one_cloud(self):
        overlap, cloud = (count_range(np.full(30, first)) for first in (0.3, 0.1))
        assert overlap == (1, 1, 10)
        assert cloud == (1, 1, 1)

    def test_one_weak_split_is_made_if_it_is_stronger_than_any_of_one_cloud(self):
        weak, cloud = (count_range(np.r_[first, np.full(30, 0.2)]) for first in (0.5, 0.4))
        assert weak == (2, 1, 2)
        assert cloud[0] == 1

    def test_more_is_asked_where_splits_of_one_group_look_like_more(self):
        found = [count_range(np.r_[np.full(5, 0.9), 0.6, np.full(30, usual)])[0] for usual in (0.1, 0.4)]
        assert found == [7, 6]

    @given(st.lists(st.integers(1, 20), min_size=6, max_size=6))
    def test_rank_raises_number_and_range(self, values: list[int]):
        (least, found, most), (low, k, high) = sorted(values[:3]), sorted(values[3:])
        raised = raise_to_rank(Count(found, least, most), RankCount(low, k, high))
        assert raised[0] == max(found, k)
        assert raised[1] <= raised[0] <= raised[2]
        assert raised[1] >= max(least, low)
        assert raised[2] >= max(most, high)

    @given(st.lists(st.integers(1, 60), min_size=1, max_size=3), st.integers(2, 80))
    def test_overlapping_groups_are_at_least_two_and_the_range_holds_them(
        self, n_communities: list[int], limit: int
    ):
        found, least, most = overlapping_groups(n_communities, limit)
        assert 2 <= least <= found <= most <= limit


class TestCloud:
    """Data without a clear division are compared with a cloud that has their covariance."""

    def test_the_cloud_has_the_mean_and_the_joint_covariance_of_the_views(self):
        rng = np.random.default_rng(0)
        z = rng.exponential(size=(2500, 3))
        views = [z @ rng.normal(size=(3, 4)) + 5, z @ rng.normal(size=(3, 2))]
        found = normal_cloud(views, rng)
        assert [x.shape for x in found] == [(2500, 4), (2500, 2)]
        data, normal = np.hstack(views), np.hstack(found)
        scale = data.std(axis=0)
        np.testing.assert_allclose(normal.mean(axis=0) / scale, data.mean(axis=0) / scale, atol=0.1)
        difference = (np.cov(normal.T) - np.cov(data.T)) / np.outer(scale, scale)
        assert np.abs(difference).max() < 0.15

    @pytest.mark.parametrize("kind", ["independent", "linear images", "heavy tails"])
    def test_a_cloud_is_not_told_from_its_own_clouds(self, kind: str):
        for seed in range(2):
            ratio = evidence_over_cloud(cloud(kind, 250, 5, seed), seed)
            assert ratio is not None
            assert ratio < MORE_THAN_CLOUD

    def test_groups_have_more_evidence(self):
        ratio = evidence_over_cloud(groups()[0], 0)
        assert ratio is not None
        assert ratio > 1.5 * MORE_THAN_CLOUD

    def test_few_samples_are_not_compared(self):
        assert evidence_over_cloud(groups((20, 20))[0], 0) is None

    @pytest.mark.parametrize("ratio", [1.0, 3.0])
    def test_it_decides_where_no_division_is_clear(self, ratio: float, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(n_clusters, "count_range", lambda path: Count(1, 1, 10))
        monkeypatch.setattr(n_clusters, "evidence_over_cloud", lambda views, seed: ratio)
        views = cloud("heavy tails", 200, 5, 0)
        found = count(views)
        assert found.over_cloud == ratio
        assert found.overlap == (ratio >= MORE_THAN_CLOUD)
        assert (found.n_clusters > 1, found.low) == ((True, 2) if found.overlap else (False, 1))
        assert found.n_clusters <= found.high <= len(found.path)
        assert found.message.startswith("2 to" if found.overlap else "One group, or up to 10")
        assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["over_cloud"] == ratio
        one = count(views, max_clusters=1)
        assert (one.n_clusters, one.over_cloud) == (1, None)

    def test_clear_groups_and_plain_clouds_are_not_compared(self, found: ClusterCountSuggestion):
        assert found.over_cloud is None
        assert count(cloud("independent", 250, 5, 0)).over_cloud is None
