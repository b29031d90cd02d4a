"""The map and the loss curves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import blobs

from protocol_mvc.report.charts import (
    CURVE_HEIGHT,
    CURVE_WIDTH,
    MAP_SIZE,
    MAX_CATEGORIES,
    MAX_EPOCHS,
    MAX_VIEW_SETS,
    color_codes,
    loss_names,
    map_positions,
    name_view_sets,
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


@given(st.lists(st.integers(0, 40), min_size=1, max_size=90))
def test_categories_are_limited_and_the_most_frequent_come_first(values):
    codes, key = color_codes(np.array([f"kind {value}" for value in values]))
    names, counts = zip(*key["categories"], strict=True)
    assert len(names) == min(len(set(values)), MAX_CATEGORIES + 1)
    assert np.bincount(codes).tolist() == list(counts)
    assert sorted(counts[:MAX_CATEGORIES], reverse=True) == list(counts[:MAX_CATEGORIES])
    for code, value in zip(codes, values, strict=True):
        assert code == MAX_CATEGORIES or names[code] == f"kind {value}"


def test_numbers_are_a_ramp_from_their_minimum_to_their_maximum():
    codes, key = color_codes(np.array([*np.linspace(-2.0, 6.0, 21), np.nan]))
    assert (key["low"], key["high"], key["n_missing"]) == (-2.0, 6.0, 1)
    assert codes.tolist() == [*range(0, 1001, 50), -1]


def test_few_distinct_numbers_are_categories():
    codes, key = color_codes(np.array([2.0, 0.5, 2.0, np.nan]))
    assert dict(key["categories"]) == {"2": 2, "0.5": 1, "missing": 1}
    assert codes[0] == codes[2] == 0


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
