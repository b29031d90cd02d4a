"""The stored records have the configs and the keys of today; `trials` holds those of older variants."""

import json
from pathlib import Path

import pytest
from benchmarks import n_clusters
from benchmarks.methods import METHODS, NETWORKS
from benchmarks.records import as_stored, read
from benchmarks.runs import is_run
from benchmarks.sections import SECTIONS

from protocol_mvc.utils.config import make_config

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
FILES = sorted(RESULTS.glob("*.jsonl"))

pytestmark = pytest.mark.skipif(not FILES, reason="the records are not in this copy")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_config_is_valid_and_complete(path: Path):
    for record in read(path):
        if "method" not in record:
            continue
        assert is_run(record)
        assert record["method"] in {*METHODS, *n_clusters.METHODS}
        if record["method"] in NETWORKS:
            kind = type(NETWORKS[record["method"]].estimator._presets["default"])
            assert as_stored(make_config(kind, record["config"]).model_dump()) == record["config"]
        else:
            assert record["config"] == {}


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.jsonl")), ids=lambda path: path.name)
def test_every_line_is_a_record(path: Path):
    lines = path.read_text().splitlines()
    assert len(lines) == len(read(path)) > 0
    assert all(isinstance(json.loads(line), dict) for line in lines)


def test_every_record_of_a_run_has_its_provenance():
    for record in (record for path in FILES for record in read(path) if is_run(record)):
        assert {"commit", "machine", "threads", "versions", "data_hash", "n_samples"} <= record.keys()


@pytest.mark.parametrize("name", ["main", "attacks", "missing-views", "speed"])
def test_the_records_fill_the_tables(name: str):
    found = [record for path in FILES for record in read(path)]
    assert SECTIONS[name](found).tables
