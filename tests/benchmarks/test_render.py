"""One content, three forms; whatever a cell says, it stays text."""

from html.parser import HTMLParser

import pytest
from benchmarks import render
from benchmarks.tables import Section, Table

HOSTILE = '<script>alert("x")</script> [red]a|b[/red] & <!-- end generated -->'
TABLE = Table("Scores", ("method", "ACC"), [("kmeans", "0.500"), (HOSTILE, "0.600")])
FULL = Section("Main", [TABLE], ["A note."])
EMPTY = Section("Empty", [], [])


class Reader(HTMLParser):
    """Collects tags and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("form", [render.text, render.markdown, render.html])
def test_every_form_has_all_cells_titles_and_notes(form):
    shown = form([FULL, EMPTY])
    for part in ("Main", "Scores", "method", "ACC", "kmeans", "0.500", "0.600", "A note.", "Empty"):
        assert part in shown
    assert render.NOTHING in shown


def test_text_shows_markup_as_it_is():
    assert HOSTILE in render.text([FULL], width=300)


def test_html_escapes_everything_and_needs_nothing_else():
    page = render.html([FULL])
    reader = Reader()
    reader.feed(page)
    assert HOSTILE in reader.words
    assert not {"script", "link", "img"} & set(reader.tags)
    assert "http" not in page
    assert "prefers-color-scheme: dark" in page
    assert reader.tags.count("tr") == 3


def test_markdown_keeps_a_row_in_its_columns():
    lines = [line for line in render.body(FULL).splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert {line.replace("\\|", "").count("|") for line in lines} == {3}
    assert "<" not in render.body(FULL)


PAGE = "# Title\n\n<!-- begin generated: main -->\nold\n<!-- end generated -->\n\nprose\n"


def test_only_what_is_between_markers_changes():
    filled = render.fill(PAGE, {"main": FULL})
    assert filled.startswith("# Title\n\n<!-- begin generated: main -->\n")
    assert filled.endswith("<!-- end generated -->\n\nprose\n")
    assert "old" not in filled
    assert "| kmeans | 0.500 |" in filled


def test_filling_again_changes_nothing():
    filled = render.fill(PAGE, {"main": FULL})
    assert render.fill(filled, {"main": FULL}) == filled


def test_a_page_without_markers_stays_as_it_is():
    assert render.fill("prose\n", {"main": FULL}) == "prose\n"


def test_a_marker_of_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match=r"'main'.* choose among other"):
        render.fill(PAGE, {"other": FULL})


@pytest.mark.parametrize(
    "page", [PAGE.replace("<!-- end generated -->", ""), "<!-- begin generated: main -->\n" + PAGE]
)
def test_a_marker_without_an_end_is_refused(page: str):
    with pytest.raises(ValueError, match="add the missing line"):
        render.fill(page, {"main": FULL})


def test_the_format_names_the_form():
    assert render.written([FULL, EMPTY], render.Format.html) == render.html([FULL, EMPTY])
    assert render.written([FULL, EMPTY], render.Format.markdown) == render.markdown([FULL, EMPTY])
    assert render.written([FULL, EMPTY], render.Format.text) == render.text([FULL, EMPTY])
