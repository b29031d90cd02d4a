"""Tables show today's records beside the paper's numbers, and say what they leave out."""

from typing import Any

from benchmarks import paper, tables
from benchmarks.methods import config_of
from benchmarks.tables import NONE, UNKNOWN, Table
from tests.benchmarks.recorded import record

OTHER = config_of("protocol", {"mix": 0.123})


def column(table: Table, name: str) -> dict[str, str]:
    """A column by the method of its row."""
    first = table.header.index("variant" if "variant" in table.header else "method")
    return {row[first]: row[table.header.index(name)] for row in table.rows}


def every_row_fits(section: tables.Section) -> bool:
    return all(len(row) == len(table.header) for table in section.tables for row in table.rows)


def test_our_method_stands_in_the_row_of_the_papers():
    rows = [record(dataset="hdigit", seed=seed, value=value) for seed, value in enumerate((0.9, 0.94))]
    section = tables.main([*rows, record("kmeans", 0.6, dataset="hdigit")])
    table = section.tables[0]
    assert table.title == "hdigit, R = 0.1"
    assert list(column(table, "ACC")) == [*paper.main("hdigit", 0.1), "kmeans"]
    assert column(table, "paper ACC")["PROTOCOL"] == "0.892"
    assert column(table, "ACC")["PROTOCOL"] == "0.920±0.020"
    assert column(table, "seeds")["PROTOCOL"] == "2"
    assert column(table, "Δ ACC")["PROTOCOL"] == "+0.028"
    assert column(table, "Δ ACC")["kmeans"] == "-0.292"
    assert column(table, "seconds")["kmeans"] == "2.0"
    assert column(table, "ACC")["SEM"] == NONE
    assert column(table, "paper ACC")["kmeans"] == UNKNOWN
    assert every_row_fits(section)


def test_a_method_of_the_paper_is_found_by_its_letters():
    table = tables.main([record("ar-dmvc-am", 0.7, dataset="hdigit")]).tables[0]
    assert column(table, "ACC")["AR-DMVC-AM"] == "0.700"
    assert len(table.rows) == 10


def test_a_data_set_of_the_paper_has_all_its_ratios():
    titles = [table.title for table in tables.main([record(dataset="hdigit")]).tables]
    assert titles == [f"hdigit, R = {ratio:g}" for ratio in paper.ratios()]


def test_other_data_have_nothing_from_the_paper():
    section = tables.main([record("kmeans"), record(), record(ratio=None)])
    assert [table.title for table in section.tables] == ["digits, R = 0.1", "digits, as it is"]
    first = section.tables[0]
    assert list(column(first, "ACC")) == ["kmeans", "protocol"]
    for name in ("paper ACC", "paper NMI", "paper PUR", "Δ ACC"):
        assert set(column(first, name).values()) == {UNKNOWN}


def test_the_papers_data_come_first():
    section = tables.main([record(), record(dataset="hdigit"), record(dataset="bdgp")])
    sets = [table.title.split(",")[0] for table in section.tables]
    assert list(dict.fromkeys(sets)) == ["hdigit", "bdgp", "digits"]


def test_only_a_rebuilt_set_has_the_footnote():
    for dataset, there in (("fashion", True), ("hdigit", False)):
        notes = tables.main([record(dataset=dataset)]).notes
        assert (paper.GUIDE["fashion"] in notes) is there


def test_the_last_record_of_todays_config_counts():
    rows = [
        record(value=0.1),
        record(value=0.2, commit="def5678"),
        record(value=0.9, config=OTHER),
        record(value=0.8, study="sensitivity"),
        {"study": "agreement", "mass": 0.5},
    ]
    assert [row["scores"]["acc"] for row in tables.newest(rows)] == [0.2]
    section = tables.main(rows)
    assert column(section.tables[0], "ACC") == {"protocol": "0.200"}
    assert any(note.startswith("Left out: 1 recorded runs") for note in section.notes)
    assert "Commits of the runs: def5678." in section.notes


def test_nothing_is_said_of_nothing_left_out():
    assert tables.left_out([record(), record("kmeans", config={})]) == []


def test_no_records_no_tables():
    for make in (tables.main, tables.ablation, tables.tails, tables.speed):
        assert make([]).tables == []


def test_the_ablation_stands_beside_the_papers():
    rows = [record(name, 0.8, dataset="hdigit") for name in ("base+pot+clr", "base", "base+pot")]
    section = tables.ablation([*rows, record("base"), record()])
    (table,) = section.tables
    assert [row[:3] for row in table.rows] == [
        ("hdigit", "0.1", "base"),
        ("hdigit", "0.1", "base+pot"),
        ("hdigit", "0.1", "base+pot+clr"),
        ("digits", "0.1", "base"),
    ]
    assert [row[3] for row in table.rows] == ["0.722", "0.876", "0.892", UNKNOWN]
    assert every_row_fits(section)
    assert tables.main(rows).tables == []


def test_tails_show_each_group_of_classes():
    scores = {"head": 0.9, "medium": 0.6, "tail": 0.3, "recall": 0.6}
    section = tables.tails([record(scores=scores)])
    assert section.tables[0].rows == [("digits", "0.1", "protocol", "0.900", "0.600", "0.300", "0.600", "1")]


def test_speed_shows_stages_where_they_are_known():
    staged: dict[str, Any] = {"stages": {"align": 1.0, "read": 3.0}, "n_iter": 9}
    rows = [record(**staged), record(seed=1, **staged), record(seed=2), record("kmeans")]
    section = tables.speed(rows)
    table = section.tables[0]
    assert column(table, "seconds by stage") == {"protocol": "align 1.0, read 3.0", "kmeans": NONE}
    assert column(table, "epochs") == {"protocol": "9", "kmeans": NONE}
    assert column(table, "seconds") == {"protocol": "2.0±0.0", "kmeans": "2.0"}
    assert every_row_fits(section)


def test_records_are_grouped_by_data_ratio_and_method():
    groups = tables.group_records([record("kmeans"), record(), record("kmeans", seed=1)])
    assert {key: len(group) for key, group in groups.items()} == {
        ("digits", 0.1, "kmeans"): 2,
        ("digits", 0.1, "protocol"): 1,
    }


def test_one_value_has_no_standard_deviation():
    assert tables.format_mean_std([0.25]) == "0.250"
    assert tables.format_mean_std([0.2, 0.4]) == "0.300±0.100"
    assert tables.format_mean_std([1, 3], 0) == "2±1"


def test_a_ratio_is_short_and_none_is_a_dash():
    assert [tables.ratio_text(ratio) for ratio in (0.1, 1.0, None)] == ["0.1", "1", "-"]
