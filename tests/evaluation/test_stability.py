"""Stability: overlap of clusters with refits, agreement on samples, and messages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import blobs, tiny

from protocol_mvc import stability
from protocol_mvc.evaluation.stability import resampling_overlap
from protocol_mvc.exceptions import UnreliableClusterWarning

LABELS = np.array([0, 0, 0, 0, 1, 1, 2, 2])


@given(st.permutations(range(3)))
def test_the_same_clusters_by_other_names_overlap_fully(names):
    overlap, agreed = resampling_overlap(LABELS, [np.array(names)[LABELS]], 3)
    np.testing.assert_array_equal(overlap, 1)
    np.testing.assert_array_equal(agreed, 1)


def test_overlap_and_agreement_by_hand():
    other = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    overlap, agreed = resampling_overlap(LABELS, [LABELS, other], 3)
    np.testing.assert_allclose(overlap, [(1 + 3 / 4) / 2, (1 + 2 / 3) / 2, 1])
    np.testing.assert_allclose(agreed, [1, 1, 1, 0.5, 1, 1, 1, 1])


@given(st.lists(st.integers(0, 2), min_size=8, max_size=8), st.integers(0, 99))
def test_values_are_fractions_and_do_not_depend_on_the_order_of_the_samples(other, seed):
    order, found = np.random.default_rng(seed).permutation(8), np.array(other)
    overlap, agreed = resampling_overlap(LABELS, [found], 3)
    assert np.all((overlap >= 0) & (overlap <= 1))
    assert set(agreed) <= {0.0, 1.0}
    np.testing.assert_allclose(agreed.sum(), resampling_overlap(LABELS[order], [found[order]], 3)[1].sum())


def test_an_empty_cluster_overlaps_with_nothing():
    overlap, _ = resampling_overlap(np.array([0, 0, 1, 1]), [np.array([0, 0, 1, 1])], 3)
    np.testing.assert_array_equal(overlap, [1, 1, 0])


def test_separated_groups_are_stable_and_the_same_call_repeats():
    views, _ = blobs((40, 30, 20), noise=0.05)
    model = (
        tiny()
        .set_params(config__schedule__n_epochs_align=5, config__schedule__n_epochs_rebalance=10)
        .fit(views)
    )
    found = stability(model, views, n_resamples=2)
    assert found.cluster_jaccard.min() > 0.9
    assert found.sample_agreement.mean() > 0.95
    assert found.messages == []
    np.testing.assert_array_equal(
        found.sample_agreement, stability(model, views, n_resamples=2).sample_agreement
    )


def test_clusters_of_noise_are_unstable():
    views = [np.random.default_rng(v).normal(size=(60, 5)) for v in range(2)]
    model = tiny(6).fit(views)
    with pytest.warns(UnreliableClusterWarning, match="n_clusters"):
        found = stability(model, views, n_resamples=3)
    assert found.messages


def test_other_data_and_numbers_out_of_range_are_refused():
    views, _ = blobs()
    model = tiny().fit(views)
    with pytest.raises(ValueError, match=r"90 .* 10"):
        stability(model, [view[:10] for view in views])
    with pytest.raises(ValueError, match="n_resamples"):
        stability(model, views, n_resamples=0)
    with pytest.raises(ValueError, match="subsample"):
        stability(model, views, subsample=1.5)
