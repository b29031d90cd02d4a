"""The HTML report of data whose names are chosen to break out of it."""

from copy import copy
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.examples import blobs, tiny
from tests.fuzz.law import outcome
from tests.io.temporary import folder

from protocol_mvc import PROTOCOL
from protocol_mvc.report import write_report

VIEWS, LABELS_TRUE = blobs((12, 6, 4))
PARTS = [
    "<script>alert(1)</script>",
    "</script>",
    "<!--",
    "-->",
    "<img src=x onerror=alert(1)>",
    '" onload="x',
    "'",
    "&",
]
PARTS += [
    "</title>",
    "</style>",
    "]]>",
    "\u2028",
    "\0",
    "\ud800",
    "{{7*7}}",
    "{% raw %}",
    "javascript:x",
    "<svg/onload=x>",
]
PARTS += ["\u202e", "`", "\\u003c", "a"]
names = st.lists(st.sampled_from(PARTS) | st.text(min_size=1, max_size=3), min_size=1, max_size=3).map(
    "".join
)
cases = st.fixed_dictionaries(
    {
        "views": st.lists(names, min_size=2, max_size=2, unique=True),
        "id": names,
        "label": names,
        "source": names,
        "command": names,
    }
)


class Shape(HTMLParser):
    """The elements of a page and the names of their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, ...]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, *(name for name, _ in attrs)))

    def handle_comment(self, data: str) -> None:
        self.found.append(("comment",))


@cache
def _fitted() -> PROTOCOL:
    return tiny().fit(VIEWS)


def shape(case: dict[str, Any]) -> list[tuple[str, ...]]:
    """The shape of the page about data of these names."""
    model = copy(_fitted())
    model.view_names_in_ = tuple(case["views"])
    model._columns = dict.fromkeys(case["views"])
    model.sample_ids_ = np.array([f"{i}{case['id']}" for i in range(len(LABELS_TRUE))], dtype=object)
    X = dict(zip(case["views"], VIEWS, strict=True))
    labels_true = [f"{y}{case['label']}" for y in LABELS_TRUE]
    with folder() as place:
        given = {"labels_true": labels_true, "source": case["source"], "command": case["command"]}
        path, refused = outcome(
            lambda: write_report(model, X, place / "r.html", sample_ids=model.sample_ids_, **given)
        )
        assert refused is None, refused
        return Shape(path.read_text("utf-8")).found


@cache
def plain_shape() -> list[tuple[str, ...]]:
    """The shape of the page about data of plain names."""
    return shape({"views": ["a", "b"], "id": "s", "label": "t", "source": "data", "command": "fit"})


def check(case: dict[str, Any]) -> None:
    """Names change the words of the page and nothing else."""
    assert shape(case) == plain_shape()
