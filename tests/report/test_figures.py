"""The figure can be drawn for any fit."""

import pytest
from matplotlib.figure import Figure
from tests.examples import blobs, tiny

from protocol_mvc.report.charts import can_draw, draw_fit, mark_stages

VIEWS, LABELS_TRUE = blobs()


@pytest.mark.parametrize("n", [5, 90])
def test_a_fit_can_be_drawn(tmp_path, n: int):
    model = tiny(2).fit([x[:n] for x in VIEWS])
    draw_fit(model, LABELS_TRUE[:n], tmp_path / "fit.png")
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")


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
    model = tiny().set_params(config__losses__pseudo_label_weight=0.0).fit(VIEWS)
    draw_fit(model, LABELS_TRUE, tmp_path / "fit.png")
    assert (tmp_path / "fit.png").stat().st_size > 0


def test_drawing_needs_matplotlib(monkeypatch):
    assert can_draw()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not can_draw()
