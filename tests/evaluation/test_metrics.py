from itertools import permutations

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import assume, given
from hypothesis import strategies as st

from protocol_mvc.evaluation import metrics

pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40).map(
    lambda rows: tuple(np.array(column) for column in zip(*rows, strict=True))
)
seeds = st.integers(0, 2**16)

# Class 0 has 6 items, class 1 has 3, class 2 has 1; clusters are named 7, 8, 9.
TRUTH = [0, 0, 0, 0, 0, 0, 1, 1, 1, 2]
LABELS = [9, 9, 9, 9, 8, 8, 8, 8, 9, 7]
# These depend on which of several equally good matchings is taken, so a mere change of rounding moves them.
TIED = {"head", "medium", "tail", "macro_f1"}
ADJUSTED = {"ari", "ami", "balanced_ari"}


def renamed(values, seed):
    """The same grouping under other, shuffled names."""
    return np.random.default_rng(seed).permutation(1000)[values]


def expand(table):
    """A pair (truth, labels) with the given contingency table."""
    rows, columns = np.indices(np.shape(table))
    counts = np.ravel(table)
    return np.repeat(rows.ravel(), counts), np.repeat(columns.ravel(), counts)


def test_example_by_hand():
    # Table: columns 7, 8, 9 -> rows (0, 2, 4), (0, 2, 1), (1, 0, 0); best matching 0-9, 1-8, 2-7.
    assert metrics.contingency(TRUTH, LABELS).tolist() == [[0, 2, 4], [0, 2, 1], [1, 0, 0]]
    got = metrics.all_scores(TRUTH, LABELS)
    assert got["acc"] == pytest.approx(7 / 10)
    assert got["pur"] == pytest.approx((1 + 2 + 4) / 10)
    assert (got["head"], got["medium"], got["tail"]) == pytest.approx((4 / 6, 2 / 3, 1))
    assert got["recall"] == pytest.approx((4 / 6 + 2 / 3 + 1) / 3)
    assert got["macro_f1"] == pytest.approx((8 / 11 + 4 / 7 + 1) / 3)
    # Pairs of one class and cluster 1 + 6 + 1, of one class 15 + 3, of one cluster 6 + 10; 45 in all.
    chance = 18 * 16 / 45
    assert got["ari"] == pytest.approx((8 - chance) / ((18 + 16) / 2 - chance))
    # p = rows (0, 1/9, 2/9), (0, 2/9, 1/9), (1/3, 0, 0): S = (1 + 4 + 4 + 1 + 9) / 81, A = B = 1/3.
    assert got["balanced_ari"] == pytest.approx((19 / 81 - 1 / 9) / (1 / 3 - 1 / 9))


def test_scores_has_all_the_short_names():
    names = "acc nmi pur ari ami balanced_ari recall head medium tail macro_f1"
    assert list(metrics.all_scores(TRUTH, LABELS)) == names.split()


@given(pairs)
def test_bounds(pair):
    for name, value in metrics.all_scores(*pair).items():
        assert (-1 if name in ADJUSTED else 0) - 1e-12 <= value <= 1 + 1e-12, name


@given(pairs, seeds)
def test_perfect_labels_score_one(pair, seed):
    truth, _ = pair
    for name, value in metrics.all_scores(truth, renamed(truth, seed)).items():
        assert value == pytest.approx(1), name


@given(pairs, seeds)
def test_names_of_clusters_do_not_matter(pair, seed):
    truth, labels = pair
    assert metrics.all_scores(truth, renamed(labels, seed)) == pytest.approx(
        metrics.all_scores(truth, labels)
    )


@given(pairs, seeds)
def test_names_of_classes_do_not_matter_but_in_ties(pair, seed):
    truth, labels = pair
    left, right = metrics.all_scores(truth, labels), metrics.all_scores(renamed(truth, seed), labels)
    for name in left.keys() - TIED:
        assert left[name] == pytest.approx(right[name]), name


@given(pairs, seeds)
def test_order_of_items_does_not_matter(pair, seed):
    order = np.random.default_rng(seed).permutation(len(pair[0]))
    shuffled = metrics.all_scores(*(side[order] for side in pair))
    assert shuffled == pytest.approx(metrics.all_scores(*pair))


@given(pairs, st.integers(2, 4))
def test_repeating_all_items_changes_only_the_finite_sample_corrections(pair, copies):
    left, right = metrics.all_scores(*pair), metrics.all_scores(*(np.repeat(side, copies) for side in pair))
    for name in left.keys() - {"ari", "ami"} - TIED:
        assert left[name] == pytest.approx(right[name]), name


@given(pairs, st.integers(2, 5))
def test_balanced_ari_ignores_the_size_of_a_class(pair, copies):
    truth, labels = pair
    repeats = np.where(truth == truth[0], copies, 1)
    repeated = metrics.balanced_ari(np.repeat(truth, repeats), np.repeat(labels, repeats))
    assert repeated == pytest.approx(metrics.balanced_ari(truth, labels))


@given(st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=2, max_size=4))
def test_balanced_ari_is_the_limit_of_ari_for_equal_classes(rows):
    assume(all(sum(row) for row in rows))
    common = np.lcm.reduce([sum(row) for row in rows])
    table = np.array([np.array(row) * (common // sum(row)) for row in rows])
    copies = 1 + 5_000 // common  # classes of at least 5 000 items
    pair = expand(table * copies)
    assert metrics.balanced_ari(*pair) == pytest.approx(metrics.ari(*pair), abs=1e-3)


@given(pairs)
def test_agreement_with_scikit_learn(pair):
    assert metrics.nmi(*pair) == pytest.approx(sk.normalized_mutual_info_score(*pair))
    assert metrics.ami(*pair) == pytest.approx(sk.adjusted_mutual_info_score(*pair))
    assert metrics.ari(*pair) == pytest.approx(sk.adjusted_rand_score(*pair))


@given(pairs)
def test_matched_metrics_agree_with_scikit_learn_after_renaming(pair):
    truth, labels = metrics._codes(*pair)
    clusters = metrics.match_clusters(metrics.contingency(truth, labels))
    named = np.full(labels.max() + 1, -1)
    named[clusters[clusters >= 0]] = np.flatnonzero(clusters >= 0)
    predicted, classes = named[labels], np.unique(truth)
    assert metrics.clustering_accuracy(truth, labels) == pytest.approx(sk.accuracy_score(truth, predicted))
    options = {"labels": classes, "average": "macro", "zero_division": 0}
    assert metrics.mean_recall(truth, labels) == pytest.approx(sk.recall_score(truth, predicted, **options))
    assert metrics.macro_f1(truth, labels) == pytest.approx(sk.f1_score(truth, predicted, **options))


@given(pairs)
def test_accuracy_and_recall_agree_with_brute_force(pair):
    table = metrics.contingency(*pair)
    side = max(table.shape)
    square = np.zeros((side, side), dtype=int)
    square[: table.shape[0], : table.shape[1]] = table
    sizes = np.maximum(square.sum(axis=1), 1)
    hits = [square[np.arange(side), list(columns)] for columns in permutations(range(side))]
    best = max(hit.sum() for hit in hits)
    recall = max((hit / sizes).sum() for hit in hits if hit.sum() == best)
    assert metrics.clustering_accuracy(*pair) == pytest.approx(best / table.sum())
    assert metrics.mean_recall(*pair) == pytest.approx(recall / len(table))


@given(pairs)
def test_match_is_one_to_one_and_as_large_as_possible(pair):
    table = metrics.contingency(*pair)
    clusters = metrics.match_clusters(table)
    used = clusters[clusters >= 0]
    assert len(set(used.tolist())) == len(used) == min(table.shape)


@pytest.mark.parametrize(("classes", "head"), [(3, 1), (4, 2), (5, 2), (9, 3), (10, 4)])
def test_head_takes_the_remainder_of_the_thirds(classes, head):
    # Class i has 2 (classes - i) items, of which the head classes alone lose half, each to its own cluster.
    truth = np.repeat(np.arange(classes), 2 * np.arange(classes, 0, -1))
    labels = np.where((truth < head) & (np.arange(len(truth)) % 2 == 1), 100 + truth, truth)
    assert metrics.group_recall(truth, labels) == pytest.approx((0.5, 1, 1))


def test_groups_of_fewer_than_three_classes():
    assert metrics.group_recall([0, 0], [0, 0]) == (1, 1, 1)
    head, medium, tail = metrics.group_recall([0, 0, 0, 1, 1], [0, 0, 0, 1, 0])
    assert (head, medium, tail) == pytest.approx((1, 0.75, 0.5))


@pytest.mark.parametrize(
    ("recalls", "means"),
    [([0.5], (0.5, 0.5, 0.5)), ([1, 0], (1, 0.5, 0)), ([1, 0.5, 0.4, 0.2], (0.75, 0.4, 0.2))],
    ids=str,
)
def test_means_of_recalls_in_order(recalls, means):
    assert metrics.group_means(recalls) == pytest.approx(means)


def test_matched_counts_by_hand():
    hits, sizes, found = metrics.matched_counts([0, 0, 0, 1, 1, 2], [0, 0, 0, 1, 1, 1])
    assert (hits.tolist(), sizes.tolist(), found.tolist()) == ([3, 2, 0], [3, 2, 1], [3, 3, 0])


def test_with_more_classes_than_clusters_a_class_has_no_match():
    truth, labels = [0, 0, 0, 1, 1, 2], [0, 0, 0, 1, 1, 1]
    assert metrics.match_clusters(metrics.contingency(truth, labels)).tolist() == [0, 1, -1]
    assert metrics.group_recall(truth, labels) == (1, 1, 0)
    assert metrics.macro_f1(truth, labels) == pytest.approx((1 + 4 / 5 + 0) / 3)


def test_merging_a_small_class_costs_little_accuracy_but_much_recall():
    got = metrics.all_scores([0] * 98 + [1] * 2, [0] * 100)
    assert (got["acc"], got["recall"], got["tail"], got["balanced_ari"]) == pytest.approx((0.98, 0.5, 0, 0))


def test_labels_may_have_any_sortable_type():
    assert metrics.all_scores(list("aab"), [0.5, 0.5, -1.0]) == metrics.all_scores([0, 0, 1], [1, 1, 0])


@pytest.mark.parametrize(
    ("truth", "labels"), [([0, 1], [0]), ([], []), ([[0, 1]], [[0, 1]]), (0, 0), ([0, 1], [[0], [1]])]
)
def test_labels_of_other_shapes_are_refused(truth, labels):
    with pytest.raises(ValueError, match="labels_true and labels_pred"):
        metrics.all_scores(truth, labels)


def test_correct_samples_are_in_the_matched_clusters():
    truth, labels = ["a", "a", "a", "b", "b"], [7, 7, 5, 5, 5]
    np.testing.assert_array_equal(metrics.is_correct(truth, labels), [True, True, False, True, True])


@given(pairs)
def test_correct_samples_make_the_accuracy(pair):
    assert metrics.is_correct(*pair).mean() == pytest.approx(metrics.clustering_accuracy(*pair))


def test_calibration_by_hand():
    truth, labels = [0, 0, 0, 1], [3, 3, 4, 4]  # the third is wrong
    found = metrics.calibration(truth, labels, [0.95, 0.92, 0.35, 0.5])
    assert found.mean_confidence == pytest.approx(0.68)
    assert found.ece == pytest.approx((abs(0.95 + 0.92 - 2) + 0.35 + 0.5) / 4)
    assert found.auroc == 1


@given(pairs)
def test_ece_of_constant_confidence(pair):
    truth, labels = pair
    accuracy, n = metrics.clustering_accuracy(truth, labels), len(truth)
    assert metrics.calibration(truth, labels, np.full(n, accuracy)).ece == pytest.approx(0, abs=1e-9)
    assert metrics.calibration(truth, labels, np.ones(n)).ece == pytest.approx(1 - accuracy)


def test_auroc_is_nan_without_wrong_labels():
    assert np.isnan(metrics.calibration([0, 1], [1, 0], [0.5, 0.6]).auroc)
