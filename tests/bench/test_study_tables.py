"""The tables of the studies say what their records say."""

from typing import Any

import pytest
from tests.bench.recorded import record

from protocol_mvc.bench import study_tables
from protocol_mvc.bench.methods import config_of
from protocol_mvc.bench.studies import GRIDS


def curve(*scores: float):
    stages = ["align"] * (len(scores) - 1) + ["rebalance"]
    return [{"stage": s, "loss": 1.0, "acc": a, "nmi": a} for s, a in zip(stages, scores, strict=True)]


def cell(acc: float, seed: int = 0, **fields: float):
    return record(value=acc, seed=seed, study="sensitivity", config=config_of("protocol", fields))


def test_train_and_test_stand_side_by_side():
    scores = {"acc": 0.6, "nmi": 0.5, "tail": 0.4}
    parts: dict[str, Any] = {"study": "balanced", "scores": scores, "train_scores": {"acc": 0.9, "nmi": 0.8}}
    section = study_tables.balanced([record(**parts), record()])
    (row,) = section.tables[0].rows
    assert row == ("digits", "0.1", "protocol", "0.900", "0.800", "0.600", "0.500", "0.400", "1")


@pytest.mark.parametrize(
    ("values", "epoch"), [([0.5], 1), ([0.1, 0.5, 0.5], 2), ([0.5, 0.1, 0.5], 3), ([0.1, 0.505, 0.5, 0.5], 2)]
)
def test_a_curve_has_settled_when_it_stays_near_its_end(values, epoch: int):
    assert study_tables.settled(values) == epoch


def test_convergence_shows_the_end_of_every_stage():
    section = study_tables.convergence([record(study="convergence", curve=curve(0.1, 0.4, 0.7)), record()])
    assert [row[3:] for row in section.tables[0].rows] == [
        ("align", "2", "1.000", "0.400", "0.400", "", "1"),
        ("rebalance", "3", "1.000", "0.700", "0.700", "3", "1"),
    ]


def test_a_grid_has_the_first_field_down_and_the_second_across():
    down, across = GRIDS["labels"]
    rows = [
        cell(0.5, mix=0.25, mass_start=0.5),
        cell(0.7, seed=1, mix=0.25, mass_start=0.5),
        cell(0.9, mix=0.75, mass_start=1.0),
        cell(0.1, mix=0.25, mass_start=0.5, epsilon=0.7),  # another config
        record(),
    ]
    section = study_tables.sensitivity(rows)
    (table,) = section.tables
    assert table.header == (f"{down} \\ {across}", "0.5", "1")
    assert table.rows == [("0.25", "0.600±0.100", "-"), ("0.75", "-", "0.900")]
    assert table.title == "digits, R = 0.1, protocol"


def test_the_last_record_of_a_cell_counts():
    rows = [cell(0.5, mix=0.25, mass_start=0.5), cell(0.6, mix=0.25, mass_start=0.5)]
    (table,) = study_tables.sensitivity(rows).tables
    assert table.rows == [("0.25", "0.600")]


def test_the_default_is_a_cell_of_every_grid():
    assert len(study_tables.sensitivity([cell(0.5)]).tables) == len(GRIDS)


def test_separation_has_a_row_for_every_map():
    table = study_tables.separation_table(record(separation={"views": 0.25, "align": 0.5}))
    assert table.rows == [("views", "0.250"), ("align", "0.500")]


def test_no_records_no_tables():
    for make in (study_tables.balanced, study_tables.convergence, study_tables.sensitivity):
        assert make([]).tables == []
