"""The map, the loss curves and the AUC of each view."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tests.examples import Floats, Labels, blobs
from tests.report.factories import make_facts

from protocol_mvc import as_views
from protocol_mvc.data.scaling import fit_scalers
from protocol_mvc.report import charts
from protocol_mvc.report.charts import (
    CURVE_HEIGHT,
    CURVE_WIDTH,
    MAP_SIZE,
    MAX_EPOCHS,
    MAX_VIEW_SETS,
    loss_names,
    map_positions,
    map_rows,
    min_points,
    name_view_sets,
    nearest_clusters,
    per_view_cluster_auc,
    training_data,
    tsne_embedding,
)

RNG = np.random.default_rng(0)
VIEWS, LABELS_TRUE = blobs((30, 12, 5))
HISTORY = [
    {"stage": "first", "epoch": 0, "seconds": 1.0, "a": 4.0},
    {"stage": "first", "epoch": 1, "seconds": 1.0, "a": 2.0},
    {"stage": "second", "epoch": 0, "seconds": 0.5, "b": 7.0},
    {"stage": "third", "epoch": 0, "seconds": 0.5, "a": 1.0, "b": 7.0},
]


@given(st.lists(st.integers(0, 400), min_size=2, max_size=30), st.integers(60, 500))
def test_small_clusters_stay_whole_and_the_map_has_at_most_max_points(sizes, max_points):
    labels = RNG.permutation(np.repeat(np.arange(len(sizes)), sizes))
    rows = map_rows(labels, len(sizes), max_points)
    shown = np.bincount(labels[rows], minlength=len(sizes))
    assert np.all(np.diff(rows) > 0)
    if len(labels) <= max_points:
        assert len(rows) == len(labels)
    else:
        assert len(rows) <= max_points
        assert np.all(shown >= np.minimum(sizes, min_points(len(sizes), max_points)))
        np.testing.assert_array_equal(rows, map_rows(labels, len(sizes), max_points))


def test_a_subsampled_map_is_nearly_full_and_keeps_the_order_of_sizes():
    labels = np.repeat(np.arange(4), [5000, 3000, 60, 7])
    rows = map_rows(labels, 4, 1000)
    shown = np.bincount(labels[rows])
    assert len(rows) >= 997
    assert shown[3] == 7
    assert np.all(np.diff(shown) < 0)


@pytest.mark.parametrize("shape", [(2, 5), (3, 40), (40, 1), (40, 100)])
def test_every_sample_has_a_position(shape: tuple[int, int]):
    position = map_positions(RNG.normal(size=shape).astype(np.float32))
    assert position.shape == (shape[0], 2)
    assert (position.min(), position.max()) == (0, MAP_SIZE)


def test_equal_samples_share_one_position():
    assert len(np.unique(map_positions(np.ones((5, 4), dtype=np.float32)))) == 1


@pytest.mark.parametrize("n", [4, 47])
def test_tsne_has_a_position_for_every_sample_and_depends_on_the_seed_alone(n: int):
    position = tsne_embedding(VIEWS[0][:n], seed=0)
    assert position.shape == (n, 2)
    np.testing.assert_array_equal(position, tsne_embedding(VIEWS[0][:n], seed=0))


def test_the_nearest_cluster_by_hand():
    x = np.array([[0.0], [1.0], [1.2], [9.0]])
    assert nearest_clusters(x, np.array([0, 1, 2, 4]), 5) == [1, 2, 1, None, 2]
    assert nearest_clusters(x, np.array([1, 1, 1, 1]), 2) == [None, None]


@given(st.integers(1, 6), st.integers(1, 60), st.integers(0, 9))
def test_sets_of_views_are_few_and_the_most_frequent_come_first(n_views, n, seed):
    mask = np.random.default_rng(seed).random((n, n_views)) < 0.6
    index, names = name_view_sets(mask, tuple("abcdef"[:n_views]))
    counts = np.bincount(index)
    assert len(names) == len(counts) == len(set(names)) <= MAX_VIEW_SETS + 1
    assert np.all(np.diff(counts[:MAX_VIEW_SETS]) <= 0)


def test_names_of_sets_of_views():
    mask = np.array([[1, 1, 1]] * 3 + [[1, 1, 0]] * 2 + [[0, 1, 0]], dtype=bool)
    index, names = name_view_sets(mask, ("a", "b", "c"))
    assert names == ["all views", "without c", "only b"]
    assert index.tolist() == [0, 0, 0, 1, 1, 2]


def test_stages_are_summarised():
    assert loss_names(HISTORY) == ["a", "b"]
    assert [tuple(stage.values()) for stage in training_data(HISTORY)["stages"]] == [
        ("first", 2, 2.0, {"a": (4.0, 2.0)}),
        ("second", 1, 0.5, {"b": (7.0, 7.0)}),
        ("third", 1, 0.5, {"a": (1.0, 1.0), "b": (7.0, 7.0)}),
    ]


def test_a_curve_has_a_line_for_each_run_of_epochs_with_the_loss():
    a, b = training_data(HISTORY)["curves"]
    assert (a["low"], a["high"], len(a["lines"])) == (1.0, 4.0, 2)
    assert len(b["lines"]) == 1
    heights = [float(point.split(",")[1]) for line in a["lines"] for point in line.split()]
    expected = [0, CURVE_HEIGHT * 2 / 3, CURVE_HEIGHT * 2 / 3, CURVE_HEIGHT, CURVE_HEIGHT]
    assert heights == pytest.approx(expected, abs=0.1)
    assert {float(point.split(",")[1]) for point in b["lines"][0].split()} == {CURVE_HEIGHT / 2}


def test_stages_start_at_their_first_point():
    data = training_data(HISTORY)
    a, b = data["curves"]
    first = [float(line.split(",")[0]) for line in (a["lines"][0], b["lines"][0], a["lines"][1])]
    assert data["stage_starts"] == first
    assert all(0 < x < CURVE_WIDTH for x in first)


def test_long_trainings_are_subsampled_and_no_training_has_no_curves():
    history = [{"stage": "s", "epoch": i, "seconds": 0.0, "a": float(i)} for i in range(5000)]
    (curve,) = training_data(history)["curves"]
    assert len(curve["lines"][0].split()) <= MAX_EPOCHS + 1
    empty = training_data([])
    assert [*empty["curves"], *empty["stages"], *empty["stage_starts"]] == []


def measure(arrays, labels: Labels, k: int) -> Floats:
    views = as_views(arrays)
    facts = make_facts(labels.tolist(), k, views=views)
    return per_view_cluster_auc(facts, fit_scalers(views, "none"), np.arange(len(labels)))


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
    monkeypatch.setattr(charts, "MAX_DENSE_VALUES", 40)  # several batches
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
    views = as_views({"a": VIEWS[0]}).select(("a", "b"), (5, 2))
    facts = make_facts(LABELS_TRUE.tolist(), views=views)
    assert np.isnan(per_view_cluster_auc(facts, fit_scalers(views, "none"), np.arange(47))[1]).all()


def test_auc_of_sparse_views_in_any_order_is_that_of_dense_ones():
    order = np.random.default_rng(0).permutation(47)
    found = measure([csr_array(VIEWS[0][order])], LABELS_TRUE[order], 3)
    assert found[0] == pytest.approx(measure(VIEWS, LABELS_TRUE, 3)[0])
