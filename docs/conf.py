"""Sphinx configuration of the documentation, which `make docs` builds."""

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

default_role = "py:obj"  # `name` in a docstring is a link to that name
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # show defaults as they are written
autodoc_typehints = "none"  # docstrings give types and shapes
napoleon_attr_annotations = False


def prepare_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Insert the README into the index, and replace links to files outside of this folder by their text."""
    if page == "index":
        source[0] = (HERE.parent / "README.md").read_text().replace("](docs/", "](") + source[0]
    keep_or_unlink = partial(_keep_or_unlink, (HERE / page).parent)
    source[0] = re.sub(r"(?<!!)\[([^\]]+)\]\(([^)#]+)[^)]*\)", keep_or_unlink, source[0])


def _keep_or_unlink(folder: Path, link: re.Match[str]) -> str:
    target = (folder / link[2]).resolve()
    is_page = target.is_file() and target.is_relative_to(HERE)
    return link[0] if "://" in link[2] or is_page else link[1]


def prepare_docstring(app: Sphinx, kind: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Mark quoted text that is not a Python name, such as `.npz`, as code instead of as a link."""
    lines[:] = re.sub(r"``.+?``|(:[\w:]+:)?`([^`]+)`", _quoted, "\n".join(lines)).splitlines()
    if lines and lines[0].startswith("Alias for field number"):  # of a named tuple
        lines[:] = []


def _quoted(text: re.Match[str]) -> str:
    role, content = text.groups()
    return text[0] if role or not content or re.fullmatch(r"\w[\w.]*", content) else f"``{content}``"


def setup(app: Sphinx) -> None:
    """Connect the two functions to Sphinx."""
    app.connect("source-read", prepare_page)
    app.connect("autodoc-process-docstring", prepare_docstring)
