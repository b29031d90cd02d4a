"""The site: the pages of this folder and the API, from its docstrings; `make docs` builds it."""

import re
from functools import partial
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from protocol_mvc import __version__

HERE = Path(__file__).parent

project = "protocol_mvc"
version = release = __version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "myst_parser"]
html_theme = "furo"
html_title = f"{project} {version}"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

default_role = "py:obj"  # `name` in a docstring links to what has that name
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # as they are written, not as they print
autodoc_typehints = "none"  # the words say it shorter than the types of arrays
napoleon_attr_annotations = False


def whole_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Put the README in front of the index, and leave of links out of this folder nothing but their text."""
    if page == "index":
        source[0] = (HERE.parent / "README.md").read_text().replace("](docs/", "](") + source[0]
    inside = partial(_inside, (HERE / page).parent)
    source[0] = re.sub(r"(?<!!)\[([^\]]+)\]\(([^)#]+)[^)]*\)", inside, source[0])


def _inside(folder: Path, link: re.Match[str]) -> str:
    return link[0] if "://" in link[2] or (folder / link[2]).is_file() else link[1]


def docstring(app: Sphinx, kind: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Make code of what is quoted and no name, such as `.npz`, whose dot a link would lose."""
    lines[:] = re.sub(r"``.+?``|(:[\w:]+:)?`([^`]+)`", _quoted, "\n".join(lines)).splitlines()
    if lines and lines[0].startswith("Alias for field number"):  # Python's own words for a named tuple
        lines[:] = []


def _quoted(text: re.Match[str]) -> str:
    role, content = text.groups()
    return text[0] if role or not content or re.fullmatch(r"\w[\w.]*", content) else f"``{content}``"


def setup(app: Sphinx) -> None:
    """Tell Sphinx of both."""
    app.connect("source-read", whole_page)
    app.connect("autodoc-process-docstring", docstring)
