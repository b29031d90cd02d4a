"""Markers are found by ranks, in sparse and dense views alike; views are measured by the AUC of centres."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csc_array, csr_array
from sklearn.metrics import roc_auc_score
from tests.examples import Floats, Labels, blobs

from protocol_mvc import as_views
from protocol_mvc.data import features as features_module
from protocol_mvc.data.features import ScaledFeatures
from protocol_mvc.data.matching import match_views
from protocol_mvc.data.scaling import KINDS, fit_scaler, fit_scalers, scaled_rows
from protocol_mvc.evaluation import markers
from protocol_mvc.evaluation.markers import (
    against_nearest,
    find_markers,
    group_sums,
    least_auc,
    nearest_clusters,
    one_against_rest,
    per_view_cluster_auc,
)

VIEWS, LABELS_TRUE = blobs((30, 12, 5))
RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(RNG.gamma(0.5, 1.0, size=(60, 12))).astype(np.float64)
GROUPS = np.repeat([0, 1, 2], [30, 20, 10])


def columns_of(features: ScaledFeatures, columns: Any = slice(None)) -> Floats:
    x: Any = features.take(columns)
    return np.asarray(x.toarray() if hasattr(x, "toarray") else x)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_scaled_columns_are_those_of_the_scaled_rows(kind, make, monkeypatch):
    monkeypatch.setattr(features_module, "MAX_BLOCK_VALUES", 200)  # several blocks
    views = as_views([make(COUNTS)])
    scaler = fit_scaler(views, 0, kind)
    features = ScaledFeatures(views, 0, scaler)
    found = np.hstack([columns_of(features, columns) for columns in features.blocks()])
    np.testing.assert_allclose(found, scaled_rows(views, 0, slice(None), scaler), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(columns_of(features, np.array([5, 2])), found[:, [5, 2]])


@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_a_sparse_view_stays_sparse_and_rows_without_the_view_are_left_out(make):
    gaps = COUNTS.copy()
    gaps[:7] = np.nan if make is np.asarray else 0
    views = as_views({"a": make(gaps), "b": COUNTS})
    features = ScaledFeatures(views, 0, fit_scaler(views, 0, "tfidf"))
    assert hasattr(features.take(slice(3)), "toarray") == (make is csr_array)
    assert len(features.rows) == views.mask[:, 0].sum() == features.take(slice(3)).shape[0]


@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.4, 0.9, 1.0]),
    st.booleans(),
)
def test_auc_and_effect_are_those_of_the_definition(seed, zeros, negative):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3 if negative else 1, 4, size=(25, 4)) * (rng.random((25, 4)) >= zeros)
    x, labels = x.astype(np.float64), rng.integers(0, 3, size=25)
    labels[:3] = range(3)
    sizes = np.bincount(labels, minlength=4)
    sparse = csc_array(x)
    sparse.eliminate_zeros()
    for given_x in (x, sparse):
        auc, effect = one_against_rest(group_sums(given_x, labels, 4), sizes)
        for c in range(3):
            expected = [roc_auc_score(labels == c, column) for column in x.T]
            np.testing.assert_allclose(auc[c], expected, atol=1e-12)
            own, rest = x[labels == c], x[labels != c]
            within = own.var(0) * len(own) + rest.var(0) * len(rest)
            spread = np.sqrt(within / 23)
            wide = spread > 1e-6
            difference = (own.mean(0) - rest.mean(0))[wide]
            np.testing.assert_allclose(effect[c, wide], difference / spread[wide], atol=1e-9)
        assert np.isnan(auc[3]).all()
        assert np.isnan(effect[3]).all()


def test_auc_against_one_other_cluster_is_that_of_the_definition():
    own, near = GROUPS == 2, GROUPS == 1
    both = own | near
    expected = [roc_auc_score(own[both], column[both]) for column in COUNTS.T]
    np.testing.assert_allclose(against_nearest(COUNTS, own, near), expected)
    assert np.isnan(against_nearest(COUNTS, own, np.zeros(60, dtype=np.bool_))).all()


def test_noise_has_no_markers_however_small_the_cluster():
    found = [noise_markers(seed) for seed in range(10)]
    assert sum(found) <= 1


def noise_markers(seed: int) -> int:
    rng = np.random.default_rng(seed)
    views = as_views([rng.normal(size=(300, 100)), rng.normal(size=(300, 40))])
    labels = np.repeat([0, 1, 2], [200, 90, 10])
    return len(find_markers(views, fit_scalers(views, "none"), labels, [1, 0, 1], 10)[0].cluster)


def test_the_bound_is_stricter_for_small_clusters_and_many_features():
    bound = least_auc(np.array([500, 50, 5]), 100)
    assert bound[0] < bound[1] < bound[2]
    assert np.all(least_auc(np.array([500, 50, 5]), 10_000) >= bound)


@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_planted_markers_have_their_direction_share_and_place(make):
    x = COUNTS.copy()
    x[GROUPS == 2, 3] += 9
    x[GROUPS == 1, 7] = 0
    x[GROUPS != 1, 7] += 4
    views = as_views([make(x), make(COUNTS)])
    found, rankings = find_markers(views, fit_scalers(views, "none"), GROUPS, [1, 2, 1], 5)
    assert rankings["view_0"].feature[2, 0] == "3"
    assert np.all(np.diff(rankings["view_1"].auc, axis=1) <= 0)
    assert set(found.view) == {"view_0"}
    best = {c: int(np.flatnonzero(found.cluster == c)[0]) for c in (1, 2)}
    assert [found.feature[best[c]] for c in (1, 2)] == ["7", "3"]
    assert [found.direction[best[c]] for c in (1, 2)] == ["down", "up"]
    assert found.auc[best[1]] < 0.1
    assert found.effect[best[1]] < 0 < found.effect[best[2]]
    np.testing.assert_array_equal(found.share[[best[1], best[2]]], 1)


def test_the_nearest_cluster_by_hand():
    x = np.array([[0.0], [1.0], [1.2], [9.0]])
    assert nearest_clusters(x, np.array([0, 1, 2, 4]), 5) == [1, 2, 1, None, 2]
    assert nearest_clusters(x, np.array([1, 1, 1, 1]), 2) == [None, None]


def measure(arrays, labels: Labels, k: int) -> Floats:
    views = as_views(arrays)
    return per_view_cluster_auc(views, labels, k, fit_scalers(views, "none"), np.arange(len(labels)))


def auc_by_pairs(x: Floats, labels: Labels, cluster: int) -> float:
    """The fraction of pairs, with the center computed again for every member."""
    member, wins = labels == cluster, []
    for i in np.flatnonzero(member):
        own = member.copy()
        own[i] = False
        mine = np.linalg.norm(x[i] - x[own].mean(0))
        theirs = np.linalg.norm(x[~member] - x[member].mean(0), axis=1)
        wins.append(np.mean(mine < theirs))
    return float(np.mean(wins))


def test_auc_is_the_probability_that_a_member_is_nearer(monkeypatch):
    monkeypatch.setattr(markers, "MAX_DENSE_VALUES", 40)  # several batches
    found = measure(VIEWS, LABELS_TRUE, 3)
    for v, x in enumerate(VIEWS):
        expected = [auc_by_pairs(x.astype(np.float32), LABELS_TRUE, c) for c in range(3)]
        np.testing.assert_allclose(found[v], expected)


def test_auc_of_a_perfect_and_of_a_constant_view():
    perfect = np.eye(3)[LABELS_TRUE] * 100 + VIEWS[0][:, :3]
    found = measure([perfect, np.ones((47, 2))], LABELS_TRUE, 3)
    np.testing.assert_array_equal(found, [[1, 1, 1], [0.5, 0.5, 0.5]])


def test_auc_of_noise_is_chance_even_for_a_tiny_cluster():
    rng = np.random.default_rng(0)
    found = [measure([rng.normal(size=(60, 50))], np.repeat([0, 1], [57, 3]), 2)[0, 1] for _ in range(30)]
    assert np.mean(found) < 0.6


def test_auc_needs_two_samples_in_the_cluster_and_one_outside():
    found = measure([VIEWS[0][:4]], np.array([0, 0, 0, 1]), 3)[0]
    assert np.isfinite(found).tolist() == [True, False, False]
    assert np.isnan(measure([VIEWS[0][:4]], np.zeros(4, dtype=np.int64), 2)).all()


def test_samples_without_the_view_do_not_count():
    incomplete = VIEWS[0].copy()
    incomplete[:10] = np.nan
    found = measure([incomplete, VIEWS[1]], LABELS_TRUE, 3)
    np.testing.assert_allclose(found[0], measure([VIEWS[0][10:]], LABELS_TRUE[10:], 3)[0])


def test_a_view_without_samples_has_no_auc():
    views = match_views(as_views({"a": VIEWS[0]}), ("a", "b"), (5, 2), {})
    scalers = fit_scalers(views, "none")
    assert np.isnan(per_view_cluster_auc(views, LABELS_TRUE, 3, scalers, np.arange(47))[1]).all()


def test_auc_of_sparse_views_in_any_order_is_that_of_dense_ones():
    order = np.random.default_rng(0).permutation(47)
    found = measure([csr_array(VIEWS[0][order])], LABELS_TRUE[order], 3)
    assert found[0] == pytest.approx(measure(VIEWS, LABELS_TRUE, 3)[0])
