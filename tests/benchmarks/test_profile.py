"""The profile counts every second of a fit once."""

import itertools

import pytest
from benchmarks import profile
from benchmarks.methods import config_of
from benchmarks.runs import Unit


def test_the_time_of_an_inner_phase_is_not_counted_in_the_outer_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("time.process_time", itertools.count(step=1.0).__next__)
    watch = profile.Stopwatch()  # every look at the clock takes one second
    with watch.phase("outer"):
        with watch.phase("inner"):
            pass
        with watch.phase("inner"):
            pass
    assert watch.seconds == {profile.REST: 1, "outer": 3, "inner": 2}


def test_a_fit_has_all_phases():
    short = {"structure.n_rounds": 1, "schedule.n_epochs_align": 1, "schedule.min_steps_per_epoch": 1}
    unit = Unit("protocol", "digits", 0.05, 0)
    found = profile.profile_fit(unit, config_of("protocol", short))["phases"]
    assert list(found) == profile.NAMES
    assert min(found["preparation"], found["align"], found["partition"], found["inference"]) > 0
