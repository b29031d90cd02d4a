"""Sections of tables as text or Markdown, and the generated parts of pages."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from benchmarks.tables import Section, Table
from protocol_mvc.cli import output

NO_RECORDS = "No records yet."
# Columns that are aligned to the left.
TEXT_COLUMNS = {"method", "data", "variant", "change", "stage", "half", "best"}
BEGIN = "<!-- begin generated:"
BLOCK = re.compile(rf"({BEGIN} ([\w-]+) -->\n).*?(<!-- end generated -->)", re.DOTALL)


class Format(StrEnum):
    """Format of a report."""

    text = "text"
    markdown = "markdown"


def render(sections: Sequence[Section], format: Format) -> str:
    """Return the sections in a format."""
    return text(sections) if format is Format.text else markdown(sections)


def text(sections: Sequence[Section], width: int = 130) -> str:
    """Return the sections as text for a terminal."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        for section in sections:
            console.print(Text(section.title, style="bold"))
            console.print(Group(*map(rich_table, section.tables)) if section.tables else Text(NO_RECORDS))
            for note in section.notes:
                console.print(Text(note))
            console.print()
    return capture.get()


def rich_table(table: Table) -> Any:
    """Return a table for a terminal; its cells are not read as markup."""
    return output.table(table.title, list(map(str, table.cells)), table.cells.itertuples(index=False))


def markdown(sections: Sequence[Section]) -> str:
    """Return the sections in Markdown, under headings of the second level."""
    return "\n".join(f"## {_escape(section.title)}\n\n{body(section)}" for section in sections)


def body(section: Section) -> str:
    """Return the tables and notes of a section in Markdown; a single table has no heading."""
    titles = len(section.tables) > 1
    parts = [_markdown_table(table, titles) for table in section.tables] or [f"{NO_RECORDS}\n"]
    return "\n".join([*parts, *(f"{_escape(note)}\n" for note in section.notes)])


def _markdown_table(table: Table, title: bool) -> str:
    rule = ["---" if name in TEXT_COLUMNS else "---:" for name in table.cells]
    rows = [list(table.cells), *table.cells.itertuples(index=False)]
    header, *cells = ([_escape(str(cell)) for cell in row] for row in rows)
    lines = "".join(f"| {' | '.join(line)} |\n" for line in (header, rule, *cells))
    return f"### {_escape(table.title)}\n\n{lines}" if title else lines


def _escape(value: str) -> str:
    """Return one line of text that Markdown shows as it is."""
    line = re.sub(r"([\\`*_\[\]|])", r"\\\1", " ".join(value.split()))
    return line.replace("&", "&amp;").replace("<", "&lt;")


def fill(page: str, sections: Mapping[str, Section]) -> str:
    """Return a page with new text between its markers.

    Raises:
        ValueError: If a marker names no section, or has no end.
    """
    blocks = BLOCK.findall(page)
    if len(blocks) != page.count(BEGIN):  # or a block would swallow the next one
        raise ValueError(f"a marker '{BEGIN} NAME -->' has no '<!-- end generated -->': add the missing line")
    unknown = [name for _, name, _ in blocks if name not in sections]
    if unknown:
        raise ValueError(f"no generated part is named {unknown[0]!r}: choose among {', '.join(sections)}")
    return BLOCK.sub(lambda match: f"{match[1]}\n{body(sections[match[2]])}\n{match[3]}", page)
