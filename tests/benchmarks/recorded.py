"""Small data, quick methods and made-up records, shared by the tests of the benchmark."""

from typing import Any

from benchmarks.methods import CONFIGS, config_of
from benchmarks.records import Record
from benchmarks.tables import COLUMNS
from tests.methods.small import FIELDS

SCORES = (*COLUMNS, "head", "medium")


def quick(method: str) -> dict[str, Any]:
    """The changes that make a method take a moment, of the fields that it has."""
    return {name: value for name, value in FIELDS.items() if name in CONFIGS.get(method, ())}


def record(method: str = "protocol", value: float = 0.5, **parts: Any) -> Record:
    """A record of today's config in which every score has one value."""
    usual = {
        "method": method,
        "dataset": "digits",
        "ratio": 0.1,
        "seed": 0,
        "config": config_of(method),
        "commit": "abc1234",
        "machine": "x",
        "samples": 100,
        "seconds": 2.0,
        "scores": dict.fromkeys(SCORES, value),
    }
    return usual | parts
