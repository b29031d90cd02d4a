"""Messages are one line of printable characters, whatever the value."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.rubbish import anything

from protocol_mvc.utils.text import sanitize, short_repr


@given(st.text() | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"])), st.integers(1, 50))
def test_texts_become_one_printable_line(text: str, most: int):
    line = sanitize(text, most)
    assert line.isprintable()
    assert len(line) <= most + 3
    line.encode()


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=800))
def test_plain_texts_stay(text: str):
    assert sanitize(text) == text


@given(anything)
def test_every_value_is_brief(value):
    assert short_repr(value).isprintable()
    assert len(short_repr(value)) <= 63


def test_examples():
    assert short_repr(np.eye(2)) == "array([[1., 0.], [0., 1.]])"
    assert sanitize("a\x1b[31m\n  b\u2028c\ud800") == "a\\x1b[31m b c\\ud800"
    assert sanitize("x" * 900) == "x" * 800 + "..."
