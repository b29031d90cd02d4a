"""Measured runs: every combination once, resumable, each record complete."""

import json

import numpy as np
import pytest
from benchmarks import methods, records, runs
from tests.benchmarks.recorded import QUICK, record
from tests.examples import blobs, tiny

from protocol_mvc.data import as_views
from protocol_mvc.evaluation.metrics import clustering_accuracy, group_recall

VIEWS, TRUTH = blobs()


class Cheap:
    """An estimator that costs nothing."""

    def fit(self, views):
        self.labels_ = np.arange(len(views)) % 3
        return self


@pytest.fixture
def calls(monkeypatch):
    """Two cheap methods in place of the real ones; the list tells which ran."""
    ran: list[tuple[str, int]] = []

    def cheap(name: str):
        def make(n_clusters, seed, fields):
            ran.append((name, seed))
            return Cheap()

        return make

    monkeypatch.setattr(methods, "METHODS", {name: cheap(name) for name in ("cheap", "other", "protocol")})
    monkeypatch.setattr(
        runs, "load_dataset", lambda name, imbalance_ratio, random_state: (as_views(VIEWS), TRUTH)
    )
    return ran


def wanted(seeds=(0, 1)):
    return list(runs.units(["cheap", "other"], ["digits"], [0.1, None], seeds))


def test_units_are_all_combinations_with_seeds_slowest():
    units = wanted()
    assert len(set(units)) == 2 * 1 * 2 * 2
    assert [unit.seed for unit in units] == sorted(unit.seed for unit in units)
    assert units[0] == ("cheap", "digits", 0.1, 0)


def test_units_may_be_made_from_iterators():
    units = runs.units(iter("ab"), iter("xy"), iter([None]), iter([0, 1]))
    assert len(list(units)) == 8


def test_a_record_tells_everything_about_a_run(calls, tmp_path):
    (found,) = runs.run_missing(wanted()[:1], tmp_path / "runs.jsonl")
    expected = {
        "command",
        "commit",
        "ended",
        "seed",
        "data",
        "machine",
        "seconds",
        "scores",
        "samples",
        "config",
    }
    assert expected <= found.keys()
    assert "study" not in found
    assert runs.key(found) == ("cheap", "digits", 0.1, 0)
    assert found["samples"] == sum(found["class_sizes"]) == 90
    assert len(found["data"]) == 64
    assert found["scores"]["acc"] == round(clustering_accuracy(TRUTH, np.arange(90) % 3), 4)
    assert json.loads(json.dumps(found)) == found


def test_a_second_run_computes_nothing(calls, tmp_path):
    path = tmp_path / "deep" / "runs.jsonl"
    first = list(runs.run_missing(wanted(), path))
    assert len(calls) == len(first) == 8
    assert list(runs.run_missing(wanted(), path)) == first == records.read(path)
    assert len(calls) == 8


def test_a_run_that_was_cut_off_continues(calls, tmp_path):
    path = tmp_path / "runs.jsonl"
    some = runs.run_missing(wanted(), path)
    early = [next(some) for _ in range(3)]
    assert records.read(path) == early  # written as they end, not at the end
    rest = list(runs.run_missing(wanted(), path))
    assert rest[:3] == early
    assert len(calls) == len(rest) == len(records.read(path)) == 8


def test_a_last_line_that_was_cut_off_is_run_again(calls, tmp_path):
    path = tmp_path / "r.jsonl"
    list(runs.run_missing(wanted()[:1], path))
    path.write_text(path.read_text()[:-5])
    list(runs.run_missing(wanted()[:1], path))
    assert [runs.key(found) for found in records.read(path)] == wanted()[:1]


def test_each_config_and_study_has_records_of_its_own(calls, tmp_path):
    path, unit = tmp_path / "r.jsonl", [runs.Unit("protocol", "digits", 0.1, 0)]
    asked = [({}, None), ({"mix": 0.25}, None), ({"mix": 0.75}, None), ({}, "study")]
    for _ in range(2):
        found = [next(runs.run_missing(unit, path, changes, study=study)) for changes, study in asked]
    assert len(calls) == len(records.read(path)) == 4
    assert [each["config"]["mix"] for each in found[1:3]] == [0.25, 0.75]
    assert [each.get("study") for each in found] == [None, None, None, "study"]


def test_of_several_records_of_a_unit_the_last_is_used(calls, tmp_path):
    path, unit = tmp_path / "r.jsonl", runs.Unit("cheap", "digits", 0.1, 0)
    for number in (1, 2):
        records.append({**unit._asdict(), "config": {}, "number": number}, path)
    assert next(runs.run_missing([unit], path))["number"] == 2


def test_records_that_do_not_tell_their_config_count_only_where_there_is_none():
    old = {"dataset": "digits", "ratio": 0.1, "seed": 0}
    assert runs.is_current({**old, "method": "kmeans"})
    assert not runs.is_current({**old, "method": "protocol"})
    assert runs.is_current(record())
    assert not runs.is_current(record(config=methods.config_of("protocol", {"mix": 0.123})))


def test_other_measurements_are_no_runs():
    assert runs.is_run(record())
    assert not runs.is_run({"study": "agreement", "mass": 0.5})


@pytest.mark.parametrize("sizes", [(60, 20, 10), (9, 8, 7, 6), (8, 3), (5, 5, 5, 5, 5, 9, 9)])
def test_recalls_of_classes_are_those_of_head_medium_and_tail(sizes):
    _, truth = blobs(sizes)
    labels = np.random.default_rng(0).integers(3, size=len(truth))
    found = runs.class_recalls(truth, labels)
    assert found["class_sizes"] == sorted(sizes, reverse=True)
    assert runs.thirds(found["recalls"]) == pytest.approx(group_recall(truth, labels)._asdict(), abs=1e-3)


def test_recalls_may_be_ordered_by_the_sizes_of_other_data():
    truth, labels = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0])
    assert runs.class_recalls(truth, labels)["recalls"] == [1.0, 0.5]
    other = runs.class_recalls(truth, labels, sizes_of=np.array([0, 1, 1, 1]))
    assert other == {"class_sizes": [3, 1], "recalls": [0.5, 1.0]}


def test_the_effort_is_that_of_the_history():
    model = tiny().fit(VIEWS)
    found = runs.effort(model)
    assert found["n_iter"] == model.n_iter_
    assert list(found["stages"]) == list(dict.fromkeys(row["stage"] for row in model.history_))
    total = sum(row["seconds"] for row in model.history_)
    assert sum(found["stages"].values()) == pytest.approx(total, abs=0.05)
    assert runs.effort(Cheap()) == {}


def test_a_real_run_records_its_stages(monkeypatch, tmp_path):
    monkeypatch.setattr(
        runs, "load_dataset", lambda name, imbalance_ratio, random_state: (as_views(VIEWS), TRUTH)
    )
    unit = runs.Unit("protocol", "digits", 0.1, 0)
    (found,) = runs.run_missing([unit], tmp_path / "r.jsonl", QUICK)
    assert found["config"] == methods.config_of("protocol", QUICK)
    assert found["n_iter"] == QUICK["reconstruct_length"] + QUICK["align_length"] + QUICK["rebalance_length"]
    assert len(found["stages"]) == 3


def test_records_of_few_samples_from_before_a_field_was_there_count_as_having_todays():
    config = methods.config_of("protocol")
    before = {name: value for name, value in config.items() if name not in runs.ADDED}
    record = {"method": "protocol", "config": before, "samples": 4096}
    assert before != config
    assert runs.config_in(record) == config
    assert runs.config_in(record | {"samples": 4097}) == before | {"most_rows": config["most_rows"]}
    assert runs.config_in(record | {"samples": 20_001}) == before
    assert runs.config_in(record | {"config": config | {"most_rows": 5}})["most_rows"] == 5


@pytest.mark.parametrize(("method", "was"), [("protocol", False), ("protocol-paper", True), ("kmeans", True)])
def test_records_from_before_a_narrow_attention_are_of_a_wide_one(method, was):
    config = methods.config_of(method)
    record = {"method": method, "config": {name: config[name] for name in config.keys() - {"attention"}}}
    assert runs.is_current(record | {"samples": 10}) == was
