"""Sections of tables as text, Markdown or one HTML page, and the generated parts of a page of the docs."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from html import escape

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text

from benchmarks.tables import Section, Table

NOTHING = "No records yet."
WORDS = {"method", "data", "variant", "stage", "machine", "seconds by stage"}  # columns aligned to the left
BEGIN = "<!-- begin generated:"
BLOCK = re.compile(rf"({BEGIN} ([\w-]+) -->\n).*?(<!-- end generated -->)", re.DOTALL)
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --page: #ffffff; --line: #d0d7de; --quiet: #57606a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --page: #0d1117; --line: #30363d; --quiet: #8d96a0; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
       max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0 1.5rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
         white-space: nowrap; }
th.word, td.word { text-align: left; }
p.note { color: var(--quiet); margin: .2rem 0; }
"""


class Format(StrEnum):
    """How a report is written."""

    text = "text"
    markdown = "markdown"
    html = "html"


def written(sections: Sequence[Section], format: Format) -> str:
    """The sections in a format."""
    return {Format.text: text, Format.markdown: markdown, Format.html: html}[format](sections)


def text(sections: Sequence[Section], width: int = 130) -> str:
    """Tables for a terminal."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        for section in sections:
            console.print(Text(section.title, style="bold"))
            console.print(Group(*map(rich_table, section.tables)) if section.tables else Text(NOTHING))
            for note in section.notes:
                console.print(Text(note))
            console.print()
    return capture.get()


def rich_table(table: Table) -> RichTable:
    """One table for a terminal; cells are text, never markup."""
    shown = RichTable(title=Text(table.title), box=SIMPLE_HEAD, title_justify="left")
    for name in table.header:
        shown.add_column(Text(name), justify="left" if name in WORDS else "right")
    for row in table.rows:
        shown.add_row(*map(Text, row))
    return shown


def markdown(sections: Sequence[Section]) -> str:
    """Sections under headings of the second level."""
    return "\n".join(f"## {_cell(section.title)}\n\n{body(section)}" for section in sections)


def body(section: Section) -> str:
    """The tables and notes of a section in Markdown."""
    parts = [_markdown_table(table) for table in section.tables] or [f"{NOTHING}\n"]
    return "\n".join([*parts, *(f"{_cell(note)}\n" for note in section.notes)])


def _markdown_table(table: Table) -> str:
    rule = ["---" if name in WORDS else "---:" for name in table.header]
    lines = [[_cell(cell) for cell in table.header], rule, *([_cell(c) for c in row] for row in table.rows)]
    return f"### {_cell(table.title)}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    line = re.sub(r"([\\`*_\[\]|])", r"\\\1", " ".join(value.split()))
    return line.replace("&", "&amp;").replace("<", "&lt;")


def html(sections: Sequence[Section]) -> str:
    """One page that needs nothing else, light or dark as the reader's system is."""
    parts = "\n".join(_html_section(section) for section in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scaling=1">\n'
        f"<title>protocol_mvc benchmark</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>protocol_mvc benchmark</h1>\n{parts}\n</body>\n</html>\n"
    )


def _html_section(section: Section) -> str:
    shown = "\n".join(map(_html_table, section.tables)) or f"<p>{NOTHING}</p>"
    notes = "\n".join(f'<p class="note">{escape(note)}</p>' for note in section.notes)
    return f"<section>\n<h2>{escape(section.title)}</h2>\n{shown}\n{notes}\n</section>"


def _html_table(table: Table) -> str:
    kinds = [' class="word"' if name in WORDS else "" for name in table.header]
    head = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(table.header, kinds, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(f"<td{k}>{escape(c)}</td>" for c, k in zip(row, kinds, strict=True)) + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="wide"><table>\n<caption>{escape(table.title)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def fill(page: str, sections: Mapping[str, Section]) -> str:
    """The page with what stands between its markers made anew.

    Raises:
        ValueError: If a marker names no section, or has no end.
    """
    blocks = BLOCK.findall(page)
    if len(blocks) != page.count(BEGIN):  # without an end of its own, a block would swallow the next one
        raise ValueError(
            f"a marker '{BEGIN} NAME -->' has no '<!-- end generated -->' of its own: add the missing line"
        )
    unknown = [name for _, name, _ in blocks if name not in sections]
    if unknown:
        raise ValueError(f"no generated part is named {unknown[0]!r}: choose among {', '.join(sections)}")
    return BLOCK.sub(lambda match: f"{match[1]}\n{body(sections[match[2]])}\n{match[3]}", page)
