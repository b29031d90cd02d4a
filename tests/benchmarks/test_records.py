"""Records are appended, survive a cut, and tell where they come from."""

import json
import re
import subprocess

import pytest
from benchmarks import records


@pytest.fixture(autouse=True)
def _forget_the_commit():
    records.commit.cache_clear()
    yield
    records.commit.cache_clear()


def test_no_file_has_no_records(tmp_path):
    assert records.read(tmp_path / "nothing.jsonl") == []


def test_what_is_appended_is_read_in_order(tmp_path):
    path = tmp_path / "deep" / "r.jsonl"
    for number in range(3):
        records.append({"number": number}, path)
    assert [record["number"] for record in records.read(path)] == [0, 1, 2]


def test_a_last_line_that_was_cut_off_makes_room(tmp_path):
    path = tmp_path / "r.jsonl"
    records.append({"number": 0}, path)
    path.write_text(path.read_text() + '{"numb')
    assert records.read(path) == [{"number": 0}]
    records.append({"number": 1}, path)
    assert records.read(path) == [{"number": 0}, {"number": 1}]


def test_files_are_merged_by_the_time_they_tell(tmp_path):
    for name, rows in {"a": [{"ended": "2026-02"}, {"n": 1}], "b": [{"ended": "2026-01"}, {"n": 2}]}.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    paths = [tmp_path / "b", tmp_path / "a", tmp_path / "a"]
    assert records.read_all(paths) == [{"n": 1}, {"n": 2}, {"ended": "2026-01"}, {"ended": "2026-02"}]


def test_times_sort_as_text():
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", records.now())


def test_what_is_stored_is_what_json_gives_back():
    assert records.as_stored({"hidden": (5, 5), "mix": 0.5}) == {"hidden": [5, 5], "mix": 0.5}


def test_provenance_tells_command_commit_and_machine(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/protocol-mvc", "bench", "--seeds", "0 1"])
    found = records.provenance()
    assert found["command"] == "protocol-mvc bench --seeds '0 1'"
    assert found.keys() == {"command", "commit", "machine"}


def test_the_commit_is_short_and_marked_when_changed(monkeypatch):
    answers = {"status": " M file", "rev-parse": "abc1234"}
    monkeypatch.setattr(records, "_git", lambda *words: answers[words[0]])
    assert records.commit() == "abc1234+"
    answers["status"] = ""
    assert records.commit() == "abc1234+", "what was loaded at the start is what runs"
    records.commit.cache_clear()
    assert records.commit() == "abc1234"


@pytest.mark.parametrize("error", [OSError("no git"), subprocess.CalledProcessError(128, "git")])
def test_no_repository_no_commit(monkeypatch, error):
    def fail(*words):
        raise error

    monkeypatch.setattr(records, "_git", fail)
    assert records.commit() == "unknown"


def test_git_is_asked_about_the_whole_package(monkeypatch):
    asked: list[list[str]] = []

    def run(command, **options):
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, stdout="abc\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert records._git("status") == "abc"
    assert asked[0][2].endswith("protocol_mvc")
