"""Measured runs: every unit once, resumable, each record complete."""

import json
from typing import Any

import numpy as np
import pytest
from benchmarks import methods, records, runs
from benchmarks.methods import get_field
from tests.benchmarks.recorded import QUICK, record
from tests.examples import blobs, tiny

from protocol_mvc.data import as_views
from protocol_mvc.evaluation.metrics import clustering_accuracy, group_recall

VIEWS, LABELS = blobs()


class Cheap:
    """An estimator that costs nothing."""

    def fit(self, views):
        self.labels_ = np.arange(len(views)) % 3
        return self


@pytest.fixture(autouse=True)
def _small_data(monkeypatch):
    load = lambda name, imbalance_ratio, random_state: (as_views(VIEWS), LABELS)
    monkeypatch.setattr(runs, "load_dataset", load)


@pytest.fixture
def fits(monkeypatch):
    """Cheap methods in place of the real ones; the list holds the methods that were fitted."""
    fitted: list[str] = []

    def make(method, n_clusters, seed, config):
        fitted.append(method)
        return Cheap()

    monkeypatch.setattr(methods, "make_estimator", make)
    return fitted


def wanted(seeds=(0, 1)):
    return list(runs.units(["cheap", "other"], ["digits"], [0.1, None], seeds))


def test_units_are_all_combinations_with_seeds_slowest():
    units = wanted()
    assert len(set(units)) == 2 * 1 * 2 * 2
    assert [unit.seed for unit in units] == sorted(unit.seed for unit in units)
    assert units[0] == ("cheap", "digits", 0.1, 0)
    assert len(list(runs.units(iter("ab"), iter("xy"), iter([None]), iter([0, 1])))) == 8


def test_a_record_is_complete(fits, tmp_path):
    (found,) = runs.run_missing(wanted()[:1], tmp_path / "runs.jsonl")
    expected = {"command", "commit", "ended", "machine", "threads", "versions", "config", "data_hash"}
    assert expected | {"n_samples", "seconds", "cpu_seconds", "scores", "class_recalls"} <= found.keys()
    assert "study" not in found
    assert runs.unit_of(found) == ("cheap", "digits", 0.1, 0)
    assert found["n_samples"] == sum(found["class_sizes"]) == 90
    assert len(found["data_hash"]) == 64
    assert found["scores"]["acc"] == round(clustering_accuracy(LABELS, np.arange(90) % 3), 4)
    assert json.loads(json.dumps(found)) == found


def test_a_second_run_computes_nothing(fits, tmp_path):
    path = tmp_path / "deep" / "runs.jsonl"
    first = list(runs.run_missing(wanted(), path))
    assert len(fits) == len(first) == 8
    assert list(runs.run_missing(wanted(), path)) == first == records.read(path)
    assert len(fits) == 8


def test_an_interrupted_benchmark_continues(fits, tmp_path):
    path = tmp_path / "runs.jsonl"
    some = runs.run_missing(wanted(), path)
    early = [next(some) for _ in range(3)]
    assert records.read(path) == early  # each is written when it ends
    rest = list(runs.run_missing(wanted(), path))
    assert rest[:3] == early
    assert len(fits) == len(rest) == len(records.read(path)) == 8


def test_a_last_line_that_was_cut_off_is_run_again(fits, tmp_path):
    path = tmp_path / "r.jsonl"
    list(runs.run_missing(wanted()[:1], path))
    path.write_text(path.read_text()[:-5])
    list(runs.run_missing(wanted()[:1], path))
    assert [runs.unit_of(found) for found in records.read(path)] == wanted()[:1]


def test_each_config_study_and_option_has_records_of_its_own(fits, tmp_path):
    path, unit = tmp_path / "r.jsonl", [runs.Unit("protocol", "digits", 0.1, 0)]
    weight = "pseudo_labels.consensus_weight"
    asked: list[tuple[dict[str, float], str | None, dict[str, Any]]]
    asked = [({}, None, {}), ({weight: 0.25}, None, {}), ({weight: 0.75}, None, {})]
    asked += [({}, "missing-views", {"missing_rate": rate}) for rate in (0.1, 0.3)]
    for _ in range(2):
        found = [next(runs.run_missing(unit, path, c, study=study, **o)) for c, study, o in asked]
    assert len(fits) == len(records.read(path)) == len(asked)
    assert [get_field(each["config"], weight) for each in found[1:3]] == [0.25, 0.75]
    assert [each.get("study") for each in found] == [None] * 3 + ["missing-views"] * 2
    assert [each.get("missing_rate") for each in found[3:]] == [0.1, 0.3]
    assert found[3]["data_hash"] != found[4]["data_hash"]


def test_the_last_of_several_records_of_a_unit_is_used(fits, tmp_path):
    path, unit = tmp_path / "r.jsonl", runs.Unit("cheap", "digits", 0.1, 0)
    for number in (1, 2):
        records.append({**unit._asdict(), "config": {}, "number": number}, path)
    assert next(runs.run_missing([unit], path))["number"] == 2


def test_other_measurements_are_no_runs():
    assert runs.is_run(record())
    assert not runs.is_run({"study": "agreement", "mass": 0.5})


@pytest.mark.parametrize("sizes", [(60, 20, 10), (9, 8, 7, 6), (8, 3), (5, 5, 5, 5, 5, 9, 9)])
def test_recalls_of_classes_give_those_of_head_medium_and_tail(sizes):
    _, labels = blobs(sizes)
    predicted = np.random.default_rng(0).integers(3, size=len(labels))
    found = runs.class_recalls(labels, predicted)
    assert found["class_sizes"] == sorted(sizes, reverse=True)
    expected = group_recall(labels, predicted)._asdict()
    assert runs.group_recalls(found["class_recalls"]) == pytest.approx(expected, abs=1e-3)


def test_recalls_can_be_sorted_by_the_class_sizes_of_other_data():
    labels, predicted = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0])
    assert runs.class_recalls(labels, predicted)["class_recalls"] == [1.0, 0.5]
    other = runs.class_recalls(labels, predicted, sizes_of=np.array([0, 1, 1, 1]))
    assert other == {"class_sizes": [3, 1], "class_recalls": [0.5, 1.0]}


def test_epochs_and_stages_are_those_of_the_history():
    model = tiny().fit(VIEWS)
    found = runs.epochs_and_stages(model)
    assert found["n_iter"] == model.n_iter_
    assert list(found["stage_seconds"]) == list(dict.fromkeys(row["stage"] for row in model.history_))
    total = sum(row["seconds"] for row in model.history_)
    assert sum(found["stage_seconds"].values()) == pytest.approx(total, abs=0.05)
    assert runs.epochs_and_stages(Cheap()) == {}


def test_a_real_run_records_config_and_stages(tmp_path):
    unit = runs.Unit("protocol", "digits", 0.1, 0)
    (found,) = runs.run_missing([unit], tmp_path / "r.jsonl", QUICK)
    assert found["config"] == methods.config_of("protocol", QUICK)
    assert found["n_iter"] > 0
    assert any(stage.startswith("rebalance") for stage in found["stage_seconds"])
