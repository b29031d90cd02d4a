"""A view that knows a cluster is told from one that does not."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.examples import Floats, Labels, blobs

from protocol_mvc import as_views
from protocol_mvc.data.scaling import fit_scalers
from protocol_mvc.report import evidence
from protocol_mvc.report.evidence import per_view_cluster_auc

VIEWS, TRUTH = blobs((30, 12, 5))


def measure(arrays, labels: Labels, k: int) -> Floats:
    views = as_views(arrays)
    return per_view_cluster_auc(views, fit_scalers(views, "none"), np.arange(len(labels)), labels, k)


def by_hand(x: Floats, labels: Labels, cluster: int) -> float:
    """The share of pairs, with the centre made anew for every member."""
    member, wins = labels == cluster, []
    for i in np.flatnonzero(member):
        own = member.copy()
        own[i] = False
        mine = np.linalg.norm(x[i] - x[own].mean(0))
        theirs = np.linalg.norm(x[~member] - x[member].mean(0), axis=1)
        wins.append(np.mean(mine < theirs))
    return float(np.mean(wins))


def test_it_is_the_chance_that_a_member_is_nearer(monkeypatch):
    monkeypatch.setattr(evidence, "CELLS", 40)  # several blocks
    found = measure(VIEWS, TRUTH, 3)
    for v, x in enumerate(VIEWS):
        np.testing.assert_allclose(found[v], [by_hand(x.astype(np.float32), TRUTH, c) for c in range(3)])


def test_a_clear_view_is_perfect_and_a_constant_one_knows_nothing():
    clear = np.eye(3)[TRUTH] * 100 + VIEWS[0][:, :3]
    found = measure([clear, np.ones((47, 2))], TRUTH, 3)
    np.testing.assert_array_equal(found, [[1, 1, 1], [0.5, 0.5, 0.5]])


def test_noise_is_chance_even_for_a_tiny_cluster():
    rng = np.random.default_rng(0)
    found = [measure([rng.normal(size=(60, 50))], np.repeat([0, 1], [57, 3]), 2)[0, 1] for _ in range(30)]
    assert np.mean(found) < 0.6


def test_clusters_without_company_or_rivals_are_not_measured():
    found = measure([VIEWS[0][:4]], np.array([0, 0, 0, 1]), 3)[0]
    assert np.isfinite(found).tolist() == [True, False, False]
    assert np.isnan(measure([VIEWS[0][:4]], np.zeros(4, dtype=np.int64), 2)).all()


def test_rows_without_the_view_do_not_count():
    gaps = VIEWS[0].copy()
    gaps[:10] = np.nan
    found = measure([gaps, VIEWS[1]], TRUTH, 3)
    np.testing.assert_allclose(found[0], measure([VIEWS[0][10:]], TRUTH[10:], 3)[0])


def test_a_view_that_nobody_has_says_nothing():
    views = as_views({"a": VIEWS[0]}).select(("a", "b"), (5, 2))
    scalings = fit_scalers(views, "none")
    assert np.isnan(per_view_cluster_auc(views, scalings, np.arange(47), TRUTH, 3)[1]).all()


def test_sparse_views_are_measured_as_dense_ones_in_any_order():
    order = np.random.default_rng(0).permutation(47)
    found = measure([csr_array(VIEWS[0][order])], TRUTH[order], 3)
    assert found[0] == pytest.approx(measure(VIEWS, TRUTH, 3)[0])
