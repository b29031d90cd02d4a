"""CPU seconds of the start are measured in new processes."""

from benchmarks import startup
from benchmarks.records import read


def test_cpu_seconds_of_a_process_are_positive():
    assert 0 < startup.cpu_seconds(["-c", "sum(range(10**6))"]) < 60


def test_the_record_has_every_command(monkeypatch, tmp_path):
    monkeypatch.setattr(startup, "COMMANDS", {"python": ["-c", "pass"]})
    startup.startup(repeats=1, records=tmp_path / "s.jsonl")
    (found,) = read(tmp_path / "s.jsonl")
    assert found["cpu_seconds"].keys() == {"python"}
    assert {"commit", "versions", "threads", "ended"} <= found.keys()
