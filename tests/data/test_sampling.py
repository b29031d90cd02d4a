"""Class sizes of subsets decay as in the paper; views are masked at random, but never all of a sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import blobs, with_gaps

from protocol_mvc.data import as_views, class_counts, imbalanced_subset, mask_views
from protocol_mvc.data.sampling import min_rows_per_class, stratified_rows

ratios = st.floats(0.01, 1)
VIEWS = as_views(blobs(dims=(3, 2, 4))[0])
GAPS = as_views(with_gaps(blobs(dims=(3, 2, 4))[0]))


@pytest.mark.parametrize(
    ("n_max", "k", "totals"),
    [
        pytest.param(1000, 10, (4085, 7245, 9491), id="Hdigit"),
        pytest.param(500, 10, (2044, 3623, 4746), id="MNIST-USPS"),
        pytest.param(5000, 10, (20434, 36226, 47461), id="Cifar10"),
        pytest.param(200, 7, (584, 1016, 1329), id="Caltech"),
        pytest.param(500, 5, (1078, 1821, 2373), id="BDGP"),
        pytest.param(1000, 5, (2156, 3643, 4747), id="NUS-WIDE"),
    ],
)
def test_totals_of_the_data_sets_in_the_paper(n_max: int, k: int, totals: tuple[int, ...]):
    for ratio, total in zip((0.1, 0.5, 0.9), totals, strict=True):
        assert class_counts(n_max, k, ratio).sum() == total
        assert len(imbalanced_subset(np.repeat(np.arange(k), n_max), ratio)) == total


@given(st.integers(1, 500), st.integers(2, 20), ratios)
def test_counts_fall_from_the_largest_to_its_ratio(n_max, n_classes, ratio):
    counts = class_counts(n_max, n_classes, ratio)
    assert counts[0] == n_max
    assert counts[-1] == max(round(n_max * ratio), 1)
    assert (np.diff(counts) <= 0).all()


def test_one_class():
    assert class_counts(7, 1, 0.1).tolist() == [7]
    assert sorted(imbalanced_subset(["a"] * 3, 0.5)) == [0, 1, 2]


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=80), ratios, st.integers(0, 99))
def test_subsets_hold_distinct_samples_of_every_class(labels, ratio, seed):
    y = np.array(labels)
    rows = imbalanced_subset(y, ratio, seed)
    classes, have = np.unique(y, return_counts=True)
    wanted = class_counts(len(y) / len(classes), len(classes), ratio)
    assert len(set(rows.tolist())) == len(rows)
    assert np.unique(y[rows], return_counts=True)[1].tolist() == np.minimum(wanted, have).tolist()
    np.testing.assert_array_equal(rows, imbalanced_subset(y, ratio, seed))


def test_the_order_is_shuffled_and_depends_on_the_seed():
    y = np.repeat([0, 1], 50)
    rows = imbalanced_subset(y, 1.0, 0)
    assert (np.diff(y[rows]) < 0).any()
    assert rows.tolist() != imbalanced_subset(y, 1.0, 1).tolist()


@pytest.mark.parametrize("ratio", [0, -0.1, 1.1, float("nan")])
def test_ratios_outside_the_unit_interval_are_refused(ratio):
    with pytest.raises(ValueError, match="ratio"):
        class_counts(10, 2, ratio)


def test_no_class_is_refused():
    with pytest.raises(ValueError, match="classes"):
        imbalanced_subset([], 0.5)


@given(st.floats(0, 1), st.integers(0, 99))
def test_every_sample_keeps_a_view_that_it_had(share: float, seed: int):
    for views in (VIEWS, GAPS):
        hidden = mask_views(views, share, seed)
        assert hidden.mask.any(1).all()
        assert not (hidden.mask & ~views.mask).any()


def test_the_share_is_about_what_was_asked_for():
    assert 1 - mask_views(VIEWS, 0.3).mask.mean() == pytest.approx(0.3, abs=0.06)
    assert mask_views(VIEWS, 0.0).is_complete
    assert mask_views(VIEWS, 1.0).mask.sum(1).tolist() == [1] * 90


def test_the_seed_decides_and_values_stay():
    a, b, c = (mask_views(VIEWS, 0.3, seed) for seed in (0, 0, 1))
    assert np.array_equal(a.mask, b.mask)
    assert not np.array_equal(a.mask, c.mask)
    assert a.arrays is VIEWS.arrays
    assert a.to_dense(0)[~a.mask[:, 0]].sum() == 0


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_other_shares_are_refused(share: float):
    with pytest.raises(ValueError, match="from 0 to 1"):
        mask_views(VIEWS, share)


@given(st.lists(st.integers(0, 400), min_size=2, max_size=30), st.integers(60, 500))
def test_small_classes_stay_whole_and_the_rows_are_at_most_the_limit(sizes, max_rows):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    rows = stratified_rows(labels, max_rows)
    kept = np.bincount(labels[rows], minlength=len(sizes))
    assert np.all(np.diff(rows) > 0)
    if len(labels) <= max_rows:
        assert len(rows) == len(labels)
    else:
        assert len(rows) <= max_rows
        assert np.all(kept >= np.minimum(sizes, min_rows_per_class(len(sizes), max_rows)))
        np.testing.assert_array_equal(rows, stratified_rows(labels, max_rows))


def test_a_stratified_subset_is_nearly_full_and_keeps_the_order_of_sizes():
    labels = np.repeat(np.arange(4), [5000, 3000, 60, 7])
    rows = stratified_rows(labels, 1000)
    kept = np.bincount(labels[rows])
    assert len(rows) >= 997
    assert kept[3] == 7
    assert np.all(np.diff(kept) < 0)
