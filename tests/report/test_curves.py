"""Curves and stages say what the records say."""

import pytest

from protocol_mvc.report.curves import HEIGHT, MOST_EPOCHS, WIDTH, beginnings, curves, stages, terms

HISTORY = [
    {"stage": "first", "epoch": 0, "seconds": 1.0, "a": 4.0},
    {"stage": "first", "epoch": 1, "seconds": 1.0, "a": 2.0},
    {"stage": "second", "epoch": 0, "seconds": 0.5, "b": 7.0},
    {"stage": "third", "epoch": 0, "seconds": 0.5, "a": 1.0, "b": 7.0},
]


def test_stages_are_summed_up():
    assert terms(HISTORY) == ["a", "b"]
    assert [tuple(stage) for stage in stages(HISTORY)] == [
        ("first", 2, 2.0, {"a": (4.0, 2.0)}),
        ("second", 1, 0.5, {"b": (7.0, 7.0)}),
        ("third", 1, 0.5, {"a": (1.0, 1.0), "b": (7.0, 7.0)}),
    ]


def test_a_line_for_every_run_of_epochs_with_the_loss():
    a, b = curves(HISTORY)
    assert (a.low, a.high, len(a.lines)) == (1.0, 4.0, 2)
    assert len(b.lines) == 1
    heights = [float(point.split(",")[1]) for line in a.lines for point in line.split()]
    assert heights == pytest.approx([0, HEIGHT * 2 / 3, HEIGHT * 2 / 3, HEIGHT, HEIGHT], abs=0.1)
    assert {float(point.split(",")[1]) for point in b.lines[0].split()} == {HEIGHT / 2}


def test_stages_begin_where_their_first_point_is():
    a, b = curves(HISTORY)
    first = [float(line.split(",")[0]) for line in (a.lines[0], b.lines[0], a.lines[1])]
    assert beginnings(HISTORY) == first
    assert all(0 < x < WIDTH for x in first)


def test_long_trainings_are_thinned_and_no_training_is_nothing():
    (curve,) = curves([{"stage": "s", "epoch": i, "seconds": 0.0, "a": float(i)} for i in range(5000)])
    assert len(curve.lines[0].split()) <= MOST_EPOCHS + 1
    assert [*curves([]), *stages([]), *beginnings([])] == []
