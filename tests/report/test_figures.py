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
    format_mean_std,
    group_records,
    mark_stages,
    ratio_text,
    score_table,
    size_table,
    tsne_embedding,
)

VIEWS, TRUTH = blobs()


def record(method: str = "m", seed: int = 0, value: float = 0.5, ratio: float | None = 0.1):
    scores = dict.fromkeys(COLUMNS, value) | {"ari": 0.9}
    return {"dataset": "d", "ratio": ratio, "method": method, "seed": seed, "seconds": 2.0, "scores": scores}


def text(table) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_no_records_no_rows():
    assert score_table([], "nothing").row_count == 0


def test_the_table_shows_a_spread_only_where_there_is_one():
    shown = text(score_table([record(value=0.25), record("b", 0, 0.2), record("b", 1, 0.4)], "Scores"))
    lines = {line.split()[2]: line for line in shown.splitlines() if "0." in line}
    assert "0.250" in lines["m"]
    assert "±" not in lines["m"]
    assert "0.300±0.100" in lines["b"]


def test_the_table_marks_data_as_they_are():
    assert " - " in text(score_table([record(ratio=None)], "Scores"))


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


def test_records_are_grouped_by_data_ratio_and_method():
    groups = group_records([record("a"), record("b"), record("a", seed=1)])
    assert {key: len(group) for key, group in groups.items()} == {("d", 0.1, "a"): 2, ("d", 0.1, "b"): 1}


def test_one_value_has_no_spread():
    assert format_mean_std([0.25]) == "0.250"
    assert format_mean_std([0.2, 0.4]) == "0.300±0.100"
    assert format_mean_std([1, 3], 0) == "2±1"


def test_a_ratio_is_short_and_none_is_a_dash():
    assert [ratio_text(ratio) for ratio in (0.1, 1.0, None)] == ["0.1", "1", "-"]


def test_drawing_needs_matplotlib(monkeypatch):
    assert can_draw()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not can_draw()
