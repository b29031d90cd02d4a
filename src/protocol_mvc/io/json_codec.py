"""Values as JSON and back; what JSON lacks (tuples, slices, infinity) becomes an object with its kind."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

OBJECTS = "object"  # the name of ids that are not numbers or times
_MAKERS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "dict": dict,
    "float": float,
    "slice": lambda parts: slice(*parts),
    "range": lambda parts: range(*parts),
}


def encode(value: Any) -> Any:
    """The value as JSON has it; arrays, indexes and sets become lists, numbers of numpy those of Python.

    Raises:
        TypeError: If there is no such form.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, slice | range):
        return {type(value).__name__: [encode(part) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, Mapping):
        return {"dict": [[encode(key), encode(content)] for key, content in value.items()]}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        parts = [encode(part) for part in value]
        return {"tuple": parts} if isinstance(value, tuple) else parts
    raise TypeError(f"{value!r} has no form as JSON")


def decode(value: Any) -> Any:
    """What `encode` was given.

    Raises:
        ValueError: If `encode` gives nothing of this form.
        TypeError: If the parts make no value, as a list makes no key.
    """
    if isinstance(value, list):
        return [decode(part) for part in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or not value.keys() <= _MAKERS.keys():
        raise ValueError(f"an object with the keys {list(value)} stands for no value")
    ((kind, content),) = value.items()
    return _MAKERS[kind](decode(content))


def pack_ids(ids: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """The ids of samples as an array of numbers, and the name of what they were.

    Ids that are neither numbers, times, texts nor tuples of these become texts.
    """
    if ids.dtype.kind in "biuf" and ids.dtype.itemsize <= 8:
        return ids.dtype.name, ids.astype(ids.dtype.name)  # in the byte order of this machine
    if ids.dtype.kind in "mM":
        return ids.dtype.name, ids.astype(np.int64)
    text = json.dumps([_encoded_id(value) for value in ids.tolist()])
    return OBJECTS, np.frombuffer(text.encode(), np.uint8)


def packed_dtype(name: str) -> str:
    """The dtype of the array that `pack_ids` makes of ids of this name.

    Raises:
        ValueError: If it makes none of that name.
    """
    if name == OBJECTS:
        return "uint8"
    if np.dtype(name).kind not in "biufmM":
        raise ValueError(f"no ids are {name!r}")
    return "int64" if np.dtype(name).kind in "mM" else name


def unpack_ids(name: str, packed: NDArray[Any]) -> NDArray[Any]:
    """What `pack_ids` was given; texts come back in an array of objects.

    Raises:
        ValueError: If the array holds no ids of that name.
    """
    if name != OBJECTS:
        return packed.view(np.dtype(name))
    values = decode(json.loads(packed.tobytes()))
    return np.fromiter(values, dtype=np.object_, count=len(values))


def _encoded_id(value: Any) -> Any:
    try:
        return encode(value)
    except TypeError:
        return str(value)
