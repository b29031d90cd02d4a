"""Measured runs: every combination once, resumable, each record complete."""

import json
import subprocess
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.examples import blobs, tiny

from protocol_mvc import bench
from protocol_mvc.data import as_views
from protocol_mvc.metrics import accuracy

VIEWS, TRUTH = blobs()


@pytest.fixture(autouse=True)
def _forget_the_commit():
    bench.commit.cache_clear()


@pytest.fixture
def calls(monkeypatch):
    """Two cheap methods in place of the real ones; the list tells which ran."""
    ran: list[tuple[str, int]] = []

    def cheap(name: str):
        def run(views, n_clusters, seed, truth):
            ran.append((name, seed))
            return np.arange(len(views)) % n_clusters

        return run

    monkeypatch.setattr(bench, "METHODS", {"cheap": cheap("cheap"), "other": cheap("other")})
    monkeypatch.setattr(bench, "load", lambda name, ratio, seed: (as_views(VIEWS), TRUTH))
    return ran


def wanted(seeds=(0, 1)):
    return list(bench.units(["cheap", "other"], ["digits"], [0.1, None], seeds))


def test_units_are_all_combinations_with_seeds_slowest():
    units = wanted()
    assert len(set(units)) == 2 * 1 * 2 * 2
    assert [unit.seed for unit in units] == sorted(unit.seed for unit in units)
    assert units[0] == ("cheap", "digits", 0.1, 0)


def test_units_may_be_made_from_iterators():
    units = bench.units(iter("ab"), iter("xy"), iter([None]), iter([0, 1]))
    assert len(list(units)) == 8


def test_a_record_tells_everything_about_a_run(calls, tmp_path):
    (record,) = bench.run_missing(wanted()[:1], tmp_path / "runs.jsonl")
    assert {"command", "commit", "seed", "data", "machine", "seconds", "scores", "samples"} <= record.keys()
    assert [record[field] for field in bench.Unit._fields] == ["cheap", "digits", 0.1, 0]
    assert record["samples"] == 90
    assert len(record["data"]) == 64
    assert record["scores"]["acc"] == round(accuracy(TRUTH, np.arange(90) % 3), 4)
    assert json.loads(json.dumps(record)) == record


def test_a_second_run_computes_nothing(calls, tmp_path):
    path = tmp_path / "deep" / "runs.jsonl"
    first = list(bench.run_missing(wanted(), path))
    assert len(calls) == len(first) == 8
    assert list(bench.run_missing(wanted(), path)) == first == bench.read(path)
    assert len(calls) == 8


def test_a_run_that_was_cut_off_continues(calls, tmp_path):
    path = tmp_path / "runs.jsonl"
    some = bench.run_missing(wanted(), path)
    early = [next(some) for _ in range(3)]
    assert bench.read(path) == early  # written as they end, not at the end
    rest = list(bench.run_missing(wanted(), path))
    assert rest[:3] == early
    assert len(calls) == len(rest) == len(bench.read(path)) == 8


def test_no_file_has_no_records(tmp_path):
    assert bench.read(tmp_path / "nothing.jsonl") == []


def test_the_same_unit_gives_the_same_scores(calls):
    first, second = (bench.run_unit(wanted()[0]) for _ in range(2))
    assert first["scores"] == second["scores"]
    assert first["data"] == second["data"]


@pytest.mark.parametrize("name", ["kmeans", "kmeans-best-view"])
def test_the_baselines_cluster(name: str):
    labels = bench.METHODS[name](as_views(VIEWS), 3, 0, TRUTH)
    assert labels.shape == (90,)
    assert set(labels) == {0, 1, 2}


def test_the_best_view_is_at_least_as_good_as_each():
    views = as_views(VIEWS)
    best = accuracy(TRUTH, bench.cluster_best_view(views, 3, 0, TRUTH))
    for v in range(2):
        assert best >= accuracy(TRUTH, bench.cluster_concatenated(as_views([VIEWS[v]]), 3, 0))


def test_protocol_does_not_see_the_truth(monkeypatch):
    monkeypatch.setattr(bench, "PROTOCOL", Small)
    first, second = (
        bench.METHODS["base+pot"](as_views(VIEWS), 3, 0, truth) for truth in (TRUTH, TRUTH[::-1])
    )
    np.testing.assert_array_equal(first, second)


class Small:
    """The estimator, noting the fields it is asked for and fitting with tiny ones."""

    asked: ClassVar[dict[str, Any]] = {}

    def __init__(self, n_clusters: int, random_state: int) -> None:
        self.model = tiny(n_clusters, random_state=random_state)

    def set_params(self, **params):
        type(self).asked = params
        return self.model


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("base", "rounds", 0),
        ("base+pot", "rebalance", False),
        ("base+pot+clr", "rebalance", True),
        ("protocol-paper", "readout", "kmeans"),
    ],
)
def test_methods_differ_in_their_config(monkeypatch, name: str, field: str, value):
    monkeypatch.setattr(bench, "PROTOCOL", Small)
    bench.METHODS[name](as_views(VIEWS), 3, 0, TRUTH)
    assert Small.asked[f"config__{field}"] == value


def test_the_ablation_is_a_chain_of_single_changes():
    full = bench.ABLATION["base+pot+clr"]
    changed = {name: {f for f in full if fields[f] != full[f]} for name, fields in bench.ABLATION.items()}
    assert changed == {"base": {"rounds"}, "base+pot": {"rebalance"}, "base+pot+clr": set()}
    assert bench.ABLATION.keys() <= bench.METHODS.keys()


def test_the_commit_is_short_and_marked_when_changed(monkeypatch):
    answers = {"status": " M file", "rev-parse": "abc1234"}
    monkeypatch.setattr(bench, "_git", lambda *words: answers[words[0]])
    assert bench.commit() == "abc1234+"
    answers["status"] = ""
    assert bench.commit() == "abc1234+", "what was loaded at the start is what runs"
    bench.commit.cache_clear()
    assert bench.commit() == "abc1234"


@pytest.mark.parametrize("error", [OSError("no git"), subprocess.CalledProcessError(128, "git")])
def test_no_repository_no_commit(monkeypatch, error):
    def fail(*words):
        raise error

    monkeypatch.setattr(bench, "_git", fail)
    assert bench.commit() == "unknown"


def test_a_record_of_another_config_does_not_count(calls, tmp_path):
    path = tmp_path / "r.jsonl"
    (first,) = bench.run_missing([bench.Unit("cheap", "digits", 0.1, 0)], path)
    path.write_text(json.dumps({**first, "config": {"mix": 0.9}}) + "\n")
    list(bench.run_missing([bench.Unit("cheap", "digits", 0.1, 0)], path))
    assert len(bench.read(path)) == 2


def test_a_last_line_that_was_cut_off_is_run_again(calls, tmp_path):
    path = tmp_path / "r.jsonl"
    unit = bench.Unit("cheap", "digits", 0.1, 0)
    list(bench.run_missing([unit], path))
    path.write_text(path.read_text()[:-5])
    list(bench.run_missing([unit], path))
    assert [bench._key(record) for record in bench.read(path)] == [unit]
