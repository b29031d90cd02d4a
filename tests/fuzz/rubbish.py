"""Values that nobody would give on purpose."""

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import torch
from hypothesis import strategies as st

HUGE = 10**400  # more than any float
NUMBERS: list[Any] = [
    0,
    1,
    -1,
    2,
    3,
    7,
    2**31,
    2**63,
    -(2**63),
    HUGE,
    -HUGE,
    0.5,
    -0.0,
    1e-320,
    1e308,
    -1e308,
]
NUMBERS += [float("nan"), float("inf"), float("-inf"), 1 + 2j, True, Decimal("0.1"), Fraction(1, 3)]
NUMBERS += [np.int8(-5), np.uint64(2**64 - 1), np.float16(3), np.float64("nan"), np.bool_(True)]
TEXTS = ["", " ", "auto", "default", "0", "1e5", "nan", "\0", "\n", "é", "\u2028", "😀", "\ud800", "x" * 200]
TEXTS += ["../../etc/passwd", "</script><script>alert(1)</script>", "{{7*7}}", "%s%n", "__import__('os')"]


class Hostile:
    """An object that answers to nothing but its name, which has two lines."""

    def __repr__(self) -> str:
        return "two\nlines"


def _endless() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


OBJECTS: list[Any] = [
    None,
    ...,
    b"bytes",
    Hostile(),
    Hostile,
    len,
    object(),
    range(3),
    range(10**15),
    slice(None),
]
OBJECTS += [
    set(),
    {1},
    frozenset({2}),
    datetime.date(2020, 1, 1),
    np.array(3),
    np.array([]),
    np.eye(2),
    np.dtype(int),
]
OBJECTS += [
    pd.Series([1, 2]),
    pd.DataFrame({"a": [1]}),
    pd.NA,
    pd.NaT,
    torch.tensor(1),
    torch.eye(2),
    _endless(),
]

numbers = st.sampled_from(NUMBERS) | st.integers() | st.floats()
texts = st.sampled_from(TEXTS) | st.text(max_size=8)
plain = numbers | texts | st.sampled_from(OBJECTS)
anything = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(texts | st.integers(-2, 5), inner, max_size=3),
    ),
    max_leaves=4,
)
