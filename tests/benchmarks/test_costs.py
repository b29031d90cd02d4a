"""The table of costs relates everything to the fit."""

import pytest
from benchmarks import costs
from benchmarks.methods import config_of
from benchmarks.runs import Unit


def test_ratios_and_how_many_are_small_enough():
    record = {"study": costs.STUDY, "dataset": "digits", "imbalance_ratio": 0.1, "n_samples": 1000}
    record |= {"cpu_seconds": 2.0, "seconds": 2.0, "expected_seconds": 2.6}
    record |= {"auto": {"cpu_seconds": 3.0}, "stability": {"cpu_seconds": 3.2, "mean_agreement": 0.9}}
    (table,) = costs.section([record]).tables
    row, last = table.cells.to_dict("records")
    assert (row["auto"], row["stability"], row["estimate"]) == ("1.50", "1.60", "1.30")
    assert (last["auto"], last["stability"], last["estimate"]) == ("1 of 1", "0 of 1", "0 of 1")
    assert costs.section([]).tables == []


def test_a_record_has_all_times():
    short = {"structure.n_rounds": 1, "schedule.n_epochs_align": 1, "schedule.min_steps_per_epoch": 1}
    found = costs.measure(Unit("protocol", "digits", 0.05, 0), config_of("protocol", short))
    assert min(found["expected_seconds"], found["auto"]["cpu_seconds"], found["stability"]["seconds"]) > 0


def test_the_span_is_from_the_first_start_to_the_last_end():
    assert costs._span([(1.0, 3.0), (0.5, 2.0)]) == pytest.approx(2.5)
