"""Tables say what the records say; the picture is drawn for any fit."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console
from tests.examples import TINY, blobs, tiny

from protocol_mvc.report.figures import (
    COLUMNS,
    can_draw,
    draw_fit,
    mark_stages,
    score_table,
    size_table,
    tsne_embedding,
)

VIEWS, TRUTH = blobs()


def text(table) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_scores_have_a_row_for_each_method():
    scores = {
        "a": dict.fromkeys(COLUMNS, 0.25) | {"seconds": 2.0},
        "b": dict.fromkeys(COLUMNS, 0.5) | {"seconds": 1},
    }
    lines = [line.split() for line in text(score_table(scores, "Scores")).splitlines()]
    assert ["a", *["0.250"] * len(COLUMNS), "2.0"] in lines
    assert ["b", *["0.500"] * len(COLUMNS), "1.0"] in lines


def test_sizes_are_shown_from_the_largest():
    table = size_table(iter([1.6, 88.4]), iter([3, 87]), iter([5, 85]))
    rows = [line for line in text(table).splitlines() if line.startswith("│")]
    numbers = [[int(word) for word in row.split() if word.isdigit()] for row in rows]
    assert numbers == [[88, 2], [87, 3], [85, 5]]


@pytest.mark.parametrize("n", [5, 90])
def test_a_fit_can_be_drawn(tmp_path, n: int):
    model = tiny(2).fit([x[:n] for x in VIEWS])
    draw_fit(model, TRUTH[:n], tmp_path / "fit.png")
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("n", [4, 90])
def test_a_map_has_a_place_for_every_sample_and_the_seed_decides(n: int):
    place = tsne_embedding(VIEWS[0][:n], seed=0)
    assert place.shape == (n, 2)
    np.testing.assert_array_equal(place, tsne_embedding(VIEWS[0][:n], seed=0))


@pytest.mark.parametrize("first", [0, 1])
def test_stages_are_marked_where_they_begin(first: int):
    axes = Figure().subplots()
    mark_stages(axes, ["a", "a", "b", "a"], first)
    assert [(text.get_text().strip(), text.get_position()[0] - first) for text in axes.texts] == [
        ("a", 0),
        ("b", 2),
        ("a", 3),
    ]
    assert len(axes.lines) == 3


def test_a_loss_that_is_always_zero_can_be_drawn(tmp_path):
    model = tiny(config=TINY.model_copy(update={"label_weight": 0.0})).fit(VIEWS)
    draw_fit(model, TRUTH, tmp_path / "fit.png")
    assert (tmp_path / "fit.png").stat().st_size > 0


def test_drawing_needs_matplotlib(monkeypatch):
    assert can_draw()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not can_draw()
