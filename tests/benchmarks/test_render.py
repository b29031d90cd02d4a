"""Tables in two formats; cells are never read as markup."""

import pandas as pd
import pytest
from benchmarks import render
from benchmarks.tables import Section, Table

HOSTILE = '<script>alert("x")</script> [red]a|b[/red] & <!-- end generated -->'
ROWS = pd.DataFrame([("kmeans", "0.500"), (HOSTILE, "0.600")], columns=["method", "ACC"])
TABLE = Table("Scores", ROWS)
FULL = Section("Main", [TABLE, Table("More", ROWS[:1])], ["A note."])
SINGLE = Section("Main", [TABLE], ["A note."])
EMPTY = Section("Empty", [], [])
PAGE = "# Title\n\n<!-- begin generated: main -->\nold\n<!-- end generated -->\n\nprose\n"


@pytest.mark.parametrize("format", render.Format)
def test_every_format_has_all_cells_titles_and_notes(format):
    shown = render.render([FULL, EMPTY], format)
    for part in ("Main", "Scores", "More", "method", "ACC", "kmeans", "0.500", "0.600", "A note.", "Empty"):
        assert part in shown
    assert render.NO_RECORDS in shown


def test_text_shows_markup_as_it_is():
    assert HOSTILE in render.text([FULL], width=300)


def test_markdown_keeps_a_row_in_its_columns():
    lines = [line for line in render.body(SINGLE).splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert {line.replace("\\|", "").count("|") for line in lines} == {3}
    assert "<" not in render.body(SINGLE)


def test_only_the_text_between_markers_changes():
    filled = render.fill(PAGE, {"main": FULL})
    assert filled.startswith("# Title\n\n<!-- begin generated: main -->\n")
    assert filled.endswith("<!-- end generated -->\n\nprose\n")
    assert "old" not in filled
    assert "| kmeans | 0.500 |" in filled
    assert render.fill(filled, {"main": FULL}) == filled, "filling again changes nothing"


def test_a_page_without_markers_stays_as_it_is():
    assert render.fill("prose\n", {"main": FULL}) == "prose\n"


def test_a_marker_of_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match=r"'main'.* other"):
        render.fill(PAGE, {"other": FULL})


@pytest.mark.parametrize(
    "page", [PAGE.replace("<!-- end generated -->", ""), "<!-- begin generated: main -->\n" + PAGE]
)
def test_a_marker_without_an_end_is_refused(page: str):
    with pytest.raises(ValueError, match="end generated"):
        render.fill(page, {"main": FULL})
