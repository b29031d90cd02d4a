"""What views of different items share tells the groups, whatever an embedding has learned by heart."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from tests.examples import Floats, Labels, blobs

from protocol_mvc.partition.codebook import (
    DEFAULT,
    _best_merge,
    _cooccurrence,
    codewords,
    information_bottleneck,
    latent_class_candidates,
    latent_classes,
    log_likelihood,
    refine_by_split_and_merge,
    select_partition,
)

SIZES = (400, 120, 60, 30)
STYLES = 3  # looks of every group


def looks(
    sizes: tuple[int, ...] = SIZES, n_views: int = 2, *, noise: float = 0.05, seed: int = 0
) -> tuple[list[Floats], Labels, Labels]:
    """Views of groups that come in unlike styles, drawn anew for each view; their looks; the groups."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    shown = STYLES * truth[:, None] + rng.integers(STYLES, size=(len(truth), n_views))
    width = STYLES * len(sizes)
    views = [np.eye(width)[word] + noise * rng.normal(size=(len(truth), width)) for word in shown.T]
    return views, shown, truth


def everywhere(views: list[Floats]):
    """The mask of samples that lack no view."""
    return np.ones((len(views[0]), len(views)), dtype=bool)


def absent(shown: Labels, seed: int) -> Labels:
    """The words with a third of them gone, at most one in each sample."""
    rng = np.random.default_rng(seed)
    lost = rng.integers(3 * shown.shape[1], size=len(shown))
    return np.where(lost[:, None] == np.arange(shown.shape[1]), -1, shown)


class TestWords:
    def test_look_alikes_share_a_word_in_each_view(self):
        views, shown, _ = looks()
        found = codewords(views, everywhere(views), 12, 0)
        assert found.shape == shown.shape
        assert found.dtype == np.int64
        for v in range(2):
            assert adjusted_rand_score(shown[:, v], found[:, v]) > 0.8
            assert set(found[:, v]) == set(range(12))

    def test_an_absent_view_shows_no_word_and_is_not_looked_at(self):
        views, _, _ = looks()
        mask = absent(np.zeros((len(views[0]), 2), dtype=np.int64), 0) >= 0
        emptied = [np.where(here[:, None], x, np.nan) for x, here in zip(views, mask.T, strict=True)]
        found = codewords(emptied, mask, 12, 0)
        np.testing.assert_array_equal(found >= 0, mask)

    @pytest.mark.parametrize("n", [1, 2, 2 * DEFAULT.codebook.min_samples_per_codeword - 1])
    def test_few_samples_show_none(self, n: int):
        views = [np.random.default_rng(0).normal(size=(n, 3))]
        assert (codewords(views, everywhere(views), 12, 0) == -1).all()

    @given(st.integers(2 * DEFAULT.codebook.min_samples_per_codeword, 60), st.integers(2, 40))
    @settings(max_examples=20)
    def test_there_are_as_many_as_asked_for_or_as_samples_allow(self, n: int, count: int):
        views = [np.random.default_rng(n).normal(size=(n, 3))]
        found = codewords(views, everywhere(views), count, 0)
        assert set(found[:, 0]) == set(range(min(count, n // DEFAULT.codebook.min_samples_per_codeword)))

    def test_a_constant_view_shows_one_word(self):
        views = [np.full((50, 3), 0.1)]
        assert set(codewords(views, everywhere(views), 5, 0)[:, 0]) == {0}


def slow_likelihood(shown: Labels, labels: Labels, k: int) -> float:
    """The formula, one sample and cluster at a time."""
    total = 0.0
    for sample in shown:
        each = []
        for cluster in range(k):
            size = (labels == cluster).sum() + DEFAULT.codebook.smoothing
            p = size / (len(labels) + k * DEFAULT.codebook.smoothing)
            for v, word in enumerate(sample):
                if word >= 0:
                    n_words = shown[:, v].max() + 1
                    members = (labels == cluster) & (shown[:, v] >= 0)
                    same = members & (shown[:, v] == word)
                    p *= (same.sum() + DEFAULT.codebook.smoothing) / (
                        members.sum() + n_words * DEFAULT.codebook.smoothing
                    )
            each.append(p)
        total += math.log(sum(each))
    return total / len(shown)


class TestLikelihood:
    @settings(max_examples=20)
    @given(st.integers(0, 500), st.integers(1, 3), st.integers(1, 4))
    def test_is_that_of_the_formula(self, seed: int, n_views: int, k: int):
        rng = np.random.default_rng(seed)
        shown, labels = rng.integers(-1, 4, size=(12, n_views)), rng.integers(k, size=12)
        assert log_likelihood(shown, labels, k) == pytest.approx(slow_likelihood(shown, labels, k))

    @settings(max_examples=20)
    @given(st.integers(0, 500))
    def test_names_of_words_and_clusters_and_the_order_do_not_matter(self, seed: int):
        rng = np.random.default_rng(seed)
        _, shown, truth = looks((20, 10, 5), seed=seed)
        value, order = log_likelihood(shown, truth, 3), rng.permutation(35)
        renamed = rng.permutation(3 * STYLES)[shown]
        assert log_likelihood(shown[order], truth[order], 3) == pytest.approx(value)
        assert log_likelihood(shown[:, ::-1], truth, 3) == pytest.approx(value)
        assert log_likelihood(shown, rng.permutation(3)[truth], 3) == pytest.approx(value)
        if (renamed.max(0) == shown.max(0)).all():  # unseen words at the end are not counted
            assert log_likelihood(renamed, truth, 3) == pytest.approx(value)

    @settings(max_examples=30)
    @given(st.integers(0, 500), st.integers(2, 3), st.booleans())
    def test_joining_small_groups_and_cutting_the_large_one_is_worse_than_the_truth(
        self, seed: int, n_views: int, gaps: bool
    ):
        _, shown, truth = looks(n_views=n_views, seed=seed)
        by_style = np.where((truth == 0) & (shown[:, 0] == 0), 3, np.where(truth == 3, 2, truth))
        by_chance = np.where(
            (truth == 0) & (np.arange(len(truth)) % 2 == 0), 3, np.where(truth == 3, 2, truth)
        )
        known = absent(shown, seed) if gaps else shown
        value = log_likelihood(known, truth, 4)
        assert value > log_likelihood(known, by_style, 4)
        assert value > log_likelihood(known, by_chance, 4)

    def test_without_words_there_is_nothing_to_explain(self):
        nothing = np.full((10, 2), -1)
        assert log_likelihood(nothing, np.arange(10) % 3, 3) == pytest.approx(0)


class TestJoinByInformation:
    @settings(max_examples=20)
    @given(st.integers(0, 500), st.integers(2, 5))
    def test_words_of_a_group_are_joined_however_unlike_they_look(self, seed: int, k: int):
        sizes = tuple(np.geomspace(300, 60, k).astype(int))
        _, shown, _ = looks(sizes, seed=seed)
        found = information_bottleneck(_cooccurrence(shown, 0), k)
        assert adjusted_rand_score(np.arange(STYLES * k) // STYLES, found) == 1

    def test_the_pair_that_loses_least_goes_first(self):
        table = np.array([[9.0, 1.0], [8.0, 2.0], [0.0, 5.0]])
        np.testing.assert_array_equal(information_bottleneck(table, 2), [0, 0, 1])
        np.testing.assert_array_equal(information_bottleneck(table, 1), [0, 0, 0])
        np.testing.assert_array_equal(information_bottleneck(table, 3), [0, 1, 2])
        np.testing.assert_array_equal(information_bottleneck(table, 5), [0, 1, 2])

    @settings(max_examples=20)
    @given(st.integers(0, 500), st.integers(1, 6))
    def test_every_join_is_the_cheapest_there_is(self, seed: int, k: int):
        table = np.random.default_rng(seed).integers(1, 30, size=(7, 5)).astype(float)
        groups = [[i] for i in range(7)]

        def kept(members: list[int]) -> float:
            row = table[members].sum(0)
            return float((row * np.log(row / row.sum())).sum())

        while len(groups) > k:
            pairs = [(a, b) for a in range(len(groups)) for b in range(a)]
            a, b = min(
                pairs,
                key=lambda p: kept(groups[p[0]]) + kept(groups[p[1]]) - kept(groups[p[0]] + groups[p[1]]),
            )
            groups[b] += groups.pop(a)
        expected = np.empty(7, dtype=int)
        for number, members in enumerate(groups):
            expected[members] = number
        assert adjusted_rand_score(expected, information_bottleneck(table, k)) == 1


class TestLatentClasses:
    @pytest.mark.parametrize("seed", range(3))
    def test_a_start_with_errors_ends_in_the_truth(self, seed: int):
        _, shown, truth = looks(n_views=3, seed=seed)
        wrong = np.random.default_rng(seed).random(len(truth)) < 0.2
        start = np.eye(4)[np.where(wrong, 0, truth)]
        np.testing.assert_array_equal(latent_classes(shown, start), truth)

    def test_a_sample_without_words_joins_the_largest(self):
        _, shown, truth = looks()
        shown = np.vstack([shown, [[-1, -1]]])
        start = np.vstack([np.eye(4)[truth], np.full((1, 4), 0.25)])
        assert latent_classes(shown, start)[-1] == 0


def misplaced(truth: Labels, seed: int) -> Labels:
    """The largest group cut by chance, the two smallest joined."""
    half = np.random.default_rng(seed).random(len(truth)) < 0.5
    return np.where((truth == 0) & half, 3, np.minimum(truth, 2))


class TestMended:
    @pytest.mark.parametrize("n_views", [2, 3])
    @pytest.mark.parametrize("seed", range(3))
    def test_a_small_group_is_taken_out_of_a_large_one(self, n_views: int, seed: int):
        _, shown, truth = looks(n_views=n_views, seed=seed)
        rng = np.random.default_rng(seed)
        features = [np.eye(4)[truth] + 0.1 * rng.normal(size=(len(truth), 4)) for _ in range(n_views)]
        rows = rng.permutation(len(truth))
        found = refine_by_split_and_merge(misplaced(truth, seed), features, shown[rows], rows, 4, 0)
        assert adjusted_rand_score(truth, found) == 1
        assert set(found) == set(range(4))

    @settings(max_examples=10)
    @given(st.integers(0, 200), st.integers(2, 5))
    def test_it_never_makes_the_words_less_likely(self, seed: int, k: int):
        views, shown, truth = looks((60, 30, 15), seed=seed)
        labels = np.random.default_rng(seed).integers(k, size=len(truth))
        rows = np.arange(len(truth))
        found = refine_by_split_and_merge(labels, views, shown, rows, k, 0)
        assert log_likelihood(shown, found, k) >= log_likelihood(shown, labels, k) - 0.01  # another smoothing
        assert set(found) <= set(range(k))

    def test_the_truth_stays(self):
        views, shown, truth = looks()
        np.testing.assert_array_equal(
            refine_by_split_and_merge(truth, views, shown, np.arange(len(truth)), 4, 0), truth
        )

    @settings(max_examples=20)
    @given(st.integers(0, 200), st.booleans())
    def test_the_best_join_is_the_likeliest_of_all_pairs(self, seed: int, gaps: bool):
        _, shown, truth = looks(seed=seed)
        shown = absent(shown, seed) if gaps else shown
        value, i, j = _best_merge(shown, misplaced(truth, seed), 4)
        assert (i, j) == (3, 0)
        joined = np.where(misplaced(truth, seed) == 3, 0, misplaced(truth, seed))
        assert value == pytest.approx(log_likelihood(shown, joined, 3), abs=2e-3)

    def test_clusters_too_small_to_cut_are_left_alone(self):
        labels = np.arange(12) % 3
        features = [np.random.default_rng(0).normal(size=(12, 2))]
        shown = np.zeros((12, 1), dtype=np.int64)
        np.testing.assert_array_equal(
            refine_by_split_and_merge(labels, features, shown, np.arange(12), 3, 0), labels
        )


class TestPerceive:
    @pytest.mark.parametrize("n_views", [2, 3])
    @pytest.mark.parametrize("gaps", [False, True])
    def test_rare_groups_of_unlike_styles_are_found(self, n_views: int, gaps: bool):
        views, shown, truth = looks(n_views=n_views)
        mask = absent(shown, 0) >= 0 if gaps else everywhere(views)
        filled = [np.where(here[:, None], x, 0.0) for x, here in zip(views, mask.T, strict=True)]
        found = select_partition(filled, filled, mask, np.arange(len(truth)), 4, 0)
        assert adjusted_rand_score(truth, found) > (0.9 if gaps else 0.99)

    def test_data_overrule_what_features_have_learned_by_heart(self):
        views, _, truth = looks()
        half = np.arange(len(truth)) % 2  # of the largest group; the two smallest are hardly apart
        heart = np.where(truth == 0, half, np.minimum(truth, 2) + 1)
        rng = np.random.default_rng(0)
        features = [
            np.eye(8)[heart] + 0.25 * np.eye(8)[4 + truth] + 0.02 * rng.normal(size=(len(truth), 8))
            for _ in views
        ]
        rows = rng.permutation(len(truth))
        found = select_partition(features, [x[rows] for x in views], everywhere(views), rows, 4, 0)
        assert adjusted_rand_score(truth, found) > 0.99

    @pytest.mark.parametrize("n", [2, 5, 9, 11])
    def test_small_data_get_labels_below_k(self, n: int):
        views = [np.random.default_rng(v).normal(size=(n, 3)) for v in range(2)]
        found = select_partition(views, views, everywhere(views), np.arange(n), 2, 0)
        assert found.shape == (n,)
        assert set(found) <= {0, 1}

    def test_the_same_seed_gives_the_same_labels(self):
        views, _, truth = looks(noise=0.5)
        given_ = (views, views, everywhere(views), np.arange(len(truth)), 4, 3)
        np.testing.assert_array_equal(select_partition(*given_), select_partition(*given_))


def test_every_size_of_words_gives_an_explanation_for_every_view():
    views, _, truth = looks(n_views=3)
    found = list(latent_class_candidates(views, everywhere(views), 4, 0))
    assert len(found) == 9
    assert max(adjusted_rand_score(truth, labels) for labels in found) == 1


def test_the_data_speak_for_groups_of_which_nothing_was_learned():
    (a, b), truth = blobs((60, 20, 10), (6, 5), noise=0.5)
    rng = np.random.default_rng(0)
    rows, mask = rng.permutation(len(truth)), np.ones((len(truth), 2), dtype=np.bool_)
    noise = [rng.normal(size=(len(truth), 4)) for _ in range(2)]
    every = (noise, [a[rows], b[rows]], mask, rows, 3, 0)
    assert adjusted_rand_score(truth, select_partition(*every)) > 0.95
    assert (
        adjusted_rand_score(truth, select_partition(*every, use_raw_views=False)) < 0.8
    )  # mends what it can by the data
    assert (
        adjusted_rand_score(truth, select_partition(*every, use_raw_views=False, current_labels=truth)) == 1
    )


@pytest.mark.parametrize("seed", range(3))
def test_what_is_known_wrongly_does_no_harm(seed: int):
    views, _, truth = looks(seed=seed)
    every = (views, views, everywhere(views), np.arange(len(truth)), 4, 0)
    wrong = np.random.default_rng(seed).integers(0, 4, len(truth))
    assert adjusted_rand_score(truth, select_partition(*every, current_labels=wrong)) > 0.95
    as_good = truth.copy()
    as_good[0] = (truth[0] + 1) % 4  # one sample is chance
    np.testing.assert_array_equal(select_partition(*every, current_labels=as_good), as_good)


@pytest.mark.parametrize("seed", range(3))
def test_a_group_that_the_features_have_mixed_with_another_is_told_apart_by_the_data(seed: int):
    data, truth = blobs((90, 60, 40, 30), (6, 5), noise=0.5, seed=seed)
    rng = np.random.default_rng(seed)
    rows, mask = rng.permutation(len(truth)), np.ones((len(truth), 2), dtype=np.bool_)
    mixed = np.eye(3)[np.minimum(truth, 2)]
    features = [mixed + 0.1 * rng.normal(size=mixed.shape) for _ in range(2)]
    found = select_partition(features, [x[rows] for x in data], mask, rows, 4, 0, use_raw_views=False)
    assert adjusted_rand_score(truth, found) > 0.95
