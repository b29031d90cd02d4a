"""Made-up records and changes that make fits quick, shared by the tests of the benchmark."""

from typing import Any

from benchmarks.methods import NETWORKS, config_of
from benchmarks.records import Record
from tests import examples
from tests.methods.small import FIELDS

from protocol_mvc.estimators.clusterers import PROTOCOL

QUICK = {name.replace("__", "."): value for name, value in examples.QUICK.items()}
QUICK_PAPER = {name.replace("__", "."): value for name, value in examples.QUICK_PAPER.items()}
SCORES = ("acc", "nmi", "pur", "recall", "head", "medium", "tail")


def quick(method: str) -> dict[str, Any]:
    """Return changes of a config that make a fit of the method take a fraction of a second."""
    if method not in NETWORKS:
        return {}
    if NETWORKS[method].estimator is PROTOCOL:
        return QUICK_PAPER if NETWORKS[method].preset in ("paper", "released") else QUICK
    return {name: value for name, value in FIELDS.items() if name in config_of(method)}


def record(method: str = "protocol", value: float = 0.5, **parts: Any) -> Record:
    """Return a record with the present config in which every score has one value."""
    usual = {
        "method": method,
        "dataset": "digits",
        "imbalance_ratio": 0.1,
        "seed": 0,
        "config": config_of(method),
        "commit": "abc1234",
        "machine": "x",
        "threads": 2,
        "n_samples": 100,
        "seconds": 2.0,
        "scores": dict.fromkeys(SCORES, value),
    }
    return usual | parts
