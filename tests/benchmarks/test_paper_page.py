"""The page on the paper shows its numbers beside ours, and says what was not run."""

import pytest
from benchmarks import paper, paper_page
from benchmarks.sections import PAPER_SECTIONS
from tests.benchmarks.recorded import record

HDIGIT = [record("protocol-paper", 0.75, dataset="hdigit", seed=seed) for seed in range(3)]


def cells(table, key: str, column: str) -> dict[str, str]:
    return dict(zip(table.cells[key], table.cells[column], strict=True))


def test_a_main_table_has_the_methods_of_the_paper_and_our_presets():
    others = [record(dataset="hdigit"), record("sem", 0.25, dataset="caltech_5v_rc")]
    (table,) = paper_page.main_table([*HDIGIT, *others], 0.1).tables
    assert list(table.cells["method"]) == [*paper.main("hdigit", 0.1), *paper_page.EXTRA_ROWS.values()]
    assert cells(table, "method", "Hdigit, paper")["PROTOCOL"] == "0.892 / 0.914"
    ours = cells(table, "method", "Hdigit, ours")
    assert ours["PROTOCOL"] == "0.750 / 0.750"
    assert ours["PROTOCOL, preset default"] == "0.500 / 0.500 (1)"
    assert ours["SEM"] == paper_page.NOT_RUN
    assert cells(table, "method", "Caltech-5V, ours, stand-in")["SEM"] == "0.250 / 0.250 (1)"
    assert "NUS-WIDE, ours" not in table.cells


def test_the_ablation_has_both_presets():
    found = [*HDIGIT, record("paper-base", 0.25, dataset="hdigit"), record("base+pot", 0.5, dataset="hdigit")]
    (table,) = paper_page.ablation(found).tables
    first = table.cells[(table.cells["data"] == "Hdigit") & (table.cells["R"] == "0.1")]
    assert list(first["paper"]) == ["0.722 / 0.856", "0.876 / 0.902", "0.892 / 0.914"]
    assert list(first["ours, preset paper"]) == ["0.250 / 0.250 (1)", paper_page.NOT_RUN, "0.750 / 0.750"]
    assert list(first["ours, preset default"])[1] == "0.500 / 0.500 (1)"
    assert len(table.cells) == 18


def test_stages_are_compared_in_the_same_seed():
    found = [*HDIGIT, record("paper-base", 0.25, dataset="hdigit", seed=1)]
    (table,) = paper_page.stages(found).tables
    assert table.cells[["seed", "NMI after stage 2", "NMI after stage 3"]].to_numpy().tolist() == [
        ["1", "0.250", "0.750"]
    ]


@pytest.mark.parametrize("name", PAPER_SECTIONS)
def test_every_section_can_be_empty(name: str):
    for table in PAPER_SECTIONS[name]([]).tables:
        assert set(table.cells.iloc[:, -1]) <= {
            paper_page.NOT_RUN,
            "",
            *table.cells.filter(like="paper").stack(),
        }
