"""Values survive JSON, and what is no value of ours is refused."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol_mvc.io.json_codec import decode, encode, pack_ids, packed_dtype, unpack_ids

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
PARTS = st.none() | st.integers()
HASHABLE = SCALARS | st.tuples(SCALARS, SCALARS)
COLUMNS = st.builds(slice, PARTS, PARTS, PARTS) | st.builds(range, st.integers(0, 99), st.integers(0, 99))
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | COLUMNS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(HASHABLE, inner, max_size=4),
    max_leaves=10,
)


def types(value: Any) -> Any:
    """The kinds of all parts: (0, 2) and [0, 2] mean different columns, but 0 == 0.0 == False."""
    if isinstance(value, list | tuple):
        return type(value), [types(part) for part in value]
    return type(value), [types(part) for part in value.values()] if isinstance(value, dict) else None


@given(VALUES)
def test_values_come_back_as_they_were(value):
    back = decode(json.loads(json.dumps(encode(value), allow_nan=False)))
    assert back == value
    assert types(back) == types(value)


def test_not_a_number_comes_back():
    assert math.isnan(decode(encode(float("nan"))))


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.array([2, 1]), [2, 1]),
        (pd.Index(["a", "b"]), ["a", "b"]),
        ({7}, [7]),
        (np.str_("x"), "x"),
        ({"a": np.arange(2)}, {"a": [0, 1]}),
    ],
    ids=str,
)
def test_what_is_like_a_plain_value_becomes_one(value, becomes):
    assert decode(encode(value)) == becomes


@pytest.mark.parametrize(
    "value", [object(), b"bytes", 1j, len, [object()]], ids=["object", "bytes", "complex", "function", "list"]
)
def test_other_things_have_no_form(value):
    with pytest.raises(TypeError, match="no form as JSON"):
        encode(value)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"eval": "1"},
        {"tuple": [], "dict": []},
        {"slice": [1, 2, 3, 4]},
        {"range": ["a"]},
        {"dict": [[[], 1]]},
        {"dict": 5},
        {"float": "x"},
        {"tuple": None},
        [{"tuple": {"list": []}}],
    ],
    ids=str,
)
def test_what_stands_for_no_value_is_refused(value):
    with pytest.raises((ValueError, TypeError)):
        decode(value)


IDS = [
    np.arange(3),
    np.array([1, 2**64 - 1], dtype=np.uint64),
    np.array([True, False]),
    np.array([0.1, np.nan, -np.inf]),
    np.array([1, 2], dtype=">i8"),
    np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]"),
    np.array([1, 2], dtype="timedelta64[D]"),
    np.array(["x", "größer, 'quoted'\n", ""]),
    np.array(["x", 3, None, 2.5, ("a", 1)], dtype=object),
    pd.MultiIndex.from_product([["a", "b"], [1, 2]]).to_numpy(),
    pd.Index(["p", "q"]).to_numpy(),
    np.array([], dtype=object),
]


@pytest.mark.parametrize("ids", IDS, ids=lambda ids: str(ids.dtype))
def test_ids_come_back(ids):
    name, packed = pack_ids(ids)
    assert packed.dtype == packed_dtype(name)
    back = unpack_ids(name, packed.copy())
    np.testing.assert_array_equal(back, ids)
    assert back.dtype.kind == ("O" if ids.dtype.kind == "U" else ids.dtype.kind)


@given(st.lists(HASHABLE))
def test_ids_of_all_kinds_come_back(values):
    ids = np.fromiter(values, dtype=object, count=len(values))
    assert unpack_ids(*pack_ids(ids)).tolist() == values


def test_other_ids_become_texts():
    times = pd.date_range("2020-01-01", periods=2, tz="UTC")
    assert unpack_ids(*pack_ids(times.to_numpy())).tolist() == [str(time) for time in times]


@pytest.mark.parametrize("name", ["complex128", "V8", "U5", "int65", ""])
def test_ids_of_other_kinds_are_refused(name: str):
    with pytest.raises((ValueError, TypeError)):
        packed_dtype(name)


@pytest.mark.parametrize("text", ["", "5", "[1", "{}", '[{"x": 1}]', "\xff", "[" * 100_000])
def test_texts_that_hold_no_ids_are_refused(text: str):
    with pytest.raises((ValueError, TypeError, RecursionError)):
        unpack_ids("object", np.frombuffer(text.encode("latin-1"), np.uint8))
