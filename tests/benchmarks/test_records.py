"""Records are appended, survive an interruption, and hold their provenance."""

import json
import re
import subprocess

import pytest
from benchmarks import records


@pytest.fixture(autouse=True)
def _no_cached_commit():
    records.commit.cache_clear()
    yield
    records.commit.cache_clear()


def test_no_file_has_no_records(tmp_path):
    assert records.read(tmp_path / "nothing.jsonl") == []


def test_records_are_read_in_the_order_of_appending(tmp_path):
    path = tmp_path / "deep" / "r.jsonl"
    for number in range(3):
        records.append({"number": number}, path)
    assert [record["number"] for record in records.read(path)] == [0, 1, 2]


def test_a_last_line_that_was_cut_off_is_replaced(tmp_path):
    path = tmp_path / "r.jsonl"
    records.append({"number": 0}, path)
    path.write_text(path.read_text() + '{"numb')
    assert records.read(path) == [{"number": 0}]
    records.append({"number": 1}, path)
    assert records.read(path) == [{"number": 0}, {"number": 1}]


def test_records_of_several_files_are_sorted_by_time(tmp_path):
    for name, rows in {"a": [{"ended": "2026-02"}, {"n": 1}], "b": [{"ended": "2026-01"}, {"n": 2}]}.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    paths = [tmp_path / "b", tmp_path / "a", tmp_path / "a"]
    assert records.read_all(paths) == [{"n": 1}, {"n": 2}, {"ended": "2026-01"}, {"ended": "2026-02"}]


def test_times_sort_as_text():
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", records.now())


def test_a_stored_value_is_what_json_returns():
    assert records.as_stored({"dims": (5, 5), "lr": 0.5}) == {"dims": [5, 5], "lr": 0.5}


def test_wall_and_cpu_seconds_are_measured():
    with records.timed() as times:
        sum(range(10**6))
    assert times.keys() == {"seconds", "cpu_seconds"}
    assert all(value >= 0 for value in times.values())


@pytest.mark.parametrize(
    ("script", "program"),
    [("/x/benchmarks/__main__.py", "python -m benchmarks"), ("/x/scale.py", "scale.py")],
)
def test_provenance_holds_command_commit_machine_threads_and_versions(monkeypatch, script, program):
    monkeypatch.setattr("sys.argv", [script, "run", "--seeds", "0 1"])
    found = records.provenance()
    assert found["command"] == f"{program} run --seeds '0 1'"
    assert found["threads"] >= 1
    assert {"python", "torch"} <= found["versions"].keys()
    assert {"commit", "machine"} <= found.keys()


def test_the_commit_is_marked_if_files_were_changed(monkeypatch):
    answers = {"status": " M file", "rev-parse": "abc1234"}
    monkeypatch.setattr(records, "_git", lambda *words: answers[words[0]])
    assert records.commit() == "abc1234+"
    answers["status"] = ""
    assert records.commit() == "abc1234+", "the sources that run are those of the start"
    records.commit.cache_clear()
    assert records.commit() == "abc1234"


@pytest.mark.parametrize("error", [OSError("no git"), subprocess.CalledProcessError(128, "git")])
def test_without_a_repository_the_commit_is_unknown(monkeypatch, error):
    def fail(*words):
        raise error

    monkeypatch.setattr(records, "_git", fail)
    assert records.commit() == "unknown"
