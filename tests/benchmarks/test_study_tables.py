"""The tables of the studies say what their records say."""

from typing import Any

import pytest
from benchmarks import study_tables
from benchmarks.methods import config_of
from benchmarks.studies import CHOICES, GRIDS
from tests.benchmarks.recorded import record


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


def test_attacks_of_one_size_share_a_table():
    hit = {"acc": 0.2, "nmi": 0.1}
    rows = [
        record(study="attack 0.1", epsilon=0.1, attacked_scores=hit),
        record(study="attack 0.2", epsilon=0.2, attacked_scores=hit),
        record(study="attack 0.1", epsilon=0.1, attacked_scores={"acc": 0.4, "nmi": 0.1}, seed=1),
        record(),
    ]
    section = study_tables.attacks(rows)
    assert [table.title for table in section.tables] == ["Attacks of size 0.1", "Attacks of size 0.2"]
    (row,) = section.tables[0].rows
    assert row == (
        "digits",
        "0.1",
        "protocol",
        "0.500±0.000",
        "0.300±0.100",
        "0.500±0.000",
        "0.100±0.000",
        "2",
    )


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


def test_stages_may_end_sooner_with_other_seeds_or_be_left_out():
    stages = (["align", *["rebalance 1"] * 3, *["rebalance 2"] * 2], ["align", "rebalance 1"])
    found = ([0.1, 0.2, 0.3, 0.4, 0.7, 0.8], [0.3, 0.6])
    curves = [
        [{"stage": stage, "loss": 1.0, "acc": acc, "nmi": acc} for stage, acc in zip(*pair, strict=True)]
        for pair in zip(stages, found, strict=True)
    ]
    for order in (curves, curves[::-1]):
        runs = [record(study="convergence", seed=i, curve=curve) for i, curve in enumerate(order)]
        rows = study_tables.convergence(runs).tables[0].rows
        assert [(row[3], row[4], row[6]) for row in rows] == [
            ("align", "1±0", "0.200±0.100"),
            ("rebalance 1", "3±1", "0.500±0.100"),
            ("rebalance 2", "4±2", "0.700±0.100"),
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


def test_confidence_stands_beside_accuracy():
    found = {"confidence": 0.9, "error": 0.1, "ranking": 0.75}
    rows = [record(value=0.8, study="calibration", calibration=found), record()]
    (row,) = study_tables.calibration(rows).tables[0].rows
    assert row == ("digits", "0.1", "protocol", "0.800", "0.900", "0.100", "0.750", "1")


def chosen(acc: float, seed: int, **fields: float):
    return record(value=acc, seed=seed, study="choices", config=config_of("protocol", fields))


def test_a_choice_is_compared_with_the_default_in_the_same_seeds():
    rows = [
        chosen(0.5, 0),
        chosen(0.9, 1),
        chosen(0.8, 1, logit_shift=-1.0),
        chosen(0.1, 0, mix=0.123),  # no choice of the study
        record(),
    ]
    (table,) = study_tables.choices(rows).tables
    assert table.title == "digits, R = 0.1"
    assert [row[:3] for row in table.rows] == [
        ("default", "0.700±0.200", "+0.000"),
        ("logit shift of the other sign", "0.800", "-0.100"),
    ]


def test_a_choice_without_the_default_beside_it_has_no_difference():
    (table,) = study_tables.choices([chosen(0.8, 1, logit_shift=-1.0)]).tables
    assert [row[:3] for row in table.rows] == [("logit shift of the other sign", "0.800", "-")]


def test_every_choice_is_another_config_that_is_allowed():
    configs = [config_of("protocol", fields) for fields in CHOICES.values()]
    assert all(one != other for i, one in enumerate(configs) for other in configs[:i])
    assert configs[0] == config_of("protocol")


def test_no_records_no_tables():
    every = (study_tables.balanced, study_tables.convergence, study_tables.sensitivity)
    for make in (*every, study_tables.choices, study_tables.calibration):
        assert make([]).tables == []
