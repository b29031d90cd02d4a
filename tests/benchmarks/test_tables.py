"""Tables show the latest records with the present configs, beside the numbers of the paper."""

from typing import Any

import pytest
from benchmarks import paper, tables
from benchmarks.methods import config_of
from benchmarks.sections import METHOD_SECTIONS, SECTIONS
from benchmarks.studies import DEFAULT_CHANGES, GRIDS
from benchmarks.tables import NOT_REPORTED, NOT_RUN, Table
from tests.benchmarks.recorded import record

from protocol_mvc.estimators.clusterers import ESTIMATORS

WEIGHT, MASS = "pseudo_labels.consensus_weight", "pseudo_labels.min_mass"
OTHER = config_of("protocol", {WEIGHT: 0.123})


def column(table: Table, name: str) -> dict[str, str]:
    """Return a column by the method or variant of its row."""
    key = "variant" if "variant" in table.cells else "method"
    return dict(zip(table.cells[key], table.cells[name], strict=True))


def rows(table: Table) -> list[tuple[str, ...]]:
    return list(table.cells.itertuples(index=False, name=None))


def test_one_value_has_no_standard_deviation():
    assert tables.mean_std([0.25]) == "0.250"
    assert tables.mean_std([0.2, 0.4]) == "0.300±0.100"
    assert tables.mean_std([1, 3], 0) == "2±1"
    assert tables.mean_std([float("nan")]) == NOT_RUN


def test_a_ratio_is_short_and_none_is_a_dash():
    assert [tables.ratio_text(ratio) for ratio in (0.1, 1.0, None, float("nan"))] == ["0.1", "1", "-", "-"]


def test_a_summary_has_a_row_for_each_data_set_ratio_and_method():
    found = [record("kmeans", 0.2), record(), record("kmeans", 0.4, seed=1), record(imbalance_ratio=None)]
    assert list(tables.summary(found, {"ACC": "scores.acc"}).itertuples(index=False, name=None)) == [
        ("digits", "0.1", "kmeans", "0.300±0.100", "2"),
        ("digits", "0.1", "protocol", "0.500", "1"),
        ("digits", "-", "protocol", "0.500", "1"),
    ]


def test_the_preset_of_the_paper_is_in_its_row():
    scores = enumerate((0.9, 0.94))
    found = [record("protocol-paper", value, dataset="hdigit", seed=seed) for seed, value in scores]
    others = [record("sem", 0.7, dataset="hdigit", cpu_seconds=2.0), record(dataset="hdigit")]
    table = tables.main([*found, *others]).tables[0]
    assert table.title == "hdigit, R = 0.1"
    assert list(column(table, "ACC")) == [*paper.main("hdigit", 0.1), "protocol"]
    assert column(table, "paper ACC")["PROTOCOL"] == "0.892"
    assert column(table, "ACC")["PROTOCOL"] == "0.920±0.020"
    assert column(table, "seeds")["PROTOCOL"] == "2"
    assert column(table, "Δ ACC")["PROTOCOL"] == "+0.028"
    assert column(table, "Δ ACC")["SEM"] == "-0.125"
    assert column(table, "CPU s")["SEM"] == "2"
    assert column(table, "ACC")["CSOT"] == NOT_RUN
    assert column(table, "paper ACC")["protocol"] == column(table, "Δ ACC")["protocol"] == NOT_REPORTED


def test_a_method_of_the_paper_is_found_by_its_letters():
    table = tables.main([record("ardmvc-am", 0.7, dataset="hdigit")]).tables[0]
    assert column(table, "ACC")["AR-DMVC-AM"] == "0.700"
    assert len(table.cells) == 10


def test_a_data_set_of_the_paper_has_all_its_ratios():
    titles = [table.title for table in tables.main([record(dataset="hdigit")]).tables]
    assert titles == [f"hdigit, R = {ratio:g}" for ratio in paper.ratios()]


def test_other_data_have_nothing_from_the_paper():
    section = tables.main([record("kmeans"), record(), record(imbalance_ratio=None)])
    assert [table.title for table in section.tables] == ["digits, R = 0.1", "digits, as it is"]
    first = section.tables[0]
    assert list(column(first, "ACC")) == ["kmeans", "protocol"]
    for name in ("paper ACC", "paper NMI", "paper PUR", "Δ ACC"):
        assert set(column(first, name).values()) == {NOT_REPORTED}


def test_the_data_sets_of_the_paper_come_first():
    section = tables.main([record(), record(dataset="hdigit"), record(dataset="bdgp")])
    sets = [table.title.split(",")[0] for table in section.tables]
    assert list(dict.fromkeys(sets)) == ["hdigit", "bdgp", "digits"]


@pytest.mark.parametrize(("dataset", "there"), [("fashion", True), ("hdigit", False)])
def test_only_a_rebuilt_data_set_has_its_note(dataset: str, there: bool):
    assert (paper.NOTES["fashion"] in tables.main([record(dataset=dataset)]).notes) is there


def test_the_last_record_with_the_present_config_counts():
    found = [
        record(value=0.1),
        record(value=0.2),
        record(value=0.9, config=OTHER),
        record(value=0.8, study="sensitivity"),
        record("a-method-of-old", 0.8),
        {"study": "agreement", "mass": 0.5},
    ]
    assert [row["scores"]["acc"] for row in tables.latest(found)] == [0.2]
    assert column(tables.main(found).tables[0], "ACC") == {"protocol": "0.200"}


@pytest.mark.parametrize("name", [*SECTIONS, *METHOD_SECTIONS])
def test_without_records_there_are_no_tables(name: str):
    assert (SECTIONS | METHOD_SECTIONS)[name]([]).tables == []


def test_the_ablation_is_beside_the_papers():
    found = [record(name, 0.8, dataset="hdigit") for name in ("base+pot+clr", "base", "base+pot")]
    (table,) = tables.ablation([*found, record("base"), record()]).tables
    assert [row[:4] for row in rows(table)] == [
        ("hdigit", "0.1", "base", "0.722"),
        ("hdigit", "0.1", "base+pot", "0.876"),
        ("hdigit", "0.1", "base+pot+clr", "0.892"),
        ("digits", "0.1", "base", NOT_REPORTED),
    ]
    assert tables.main(found).tables == []


def test_recalls_are_shown_by_class_size():
    scores = {"head": 0.9, "medium": 0.6, "tail": 0.3, "recall": 0.6}
    (table,) = SECTIONS["recall-by-size"]([record(scores=scores)]).tables
    assert rows(table) == [("digits", "0.1", "protocol", "0.900", "0.600", "0.300", "0.600", "1")]


def test_speed_shows_epochs_and_cpu_seconds_where_they_are_known():
    staged: dict[str, Any] = {"n_iter": 9, "cpu_seconds": 4.0}
    found = [record(**staged), record(seed=1, **staged), record(seed=2), record("kmeans")]
    (table,) = tables.speed(found).tables
    assert column(table, "epochs") == {"protocol": "9", "kmeans": NOT_RUN}
    assert column(table, "CPU seconds") == {"protocol": "4±0", "kmeans": NOT_RUN}


def test_a_method_is_beside_the_paper_with_all_its_presets():
    found = [
        record("ardmvc", 0.4, dataset="hdigit"),
        record("ardmvc-am", 0.5, dataset="hdigit"),
        record("ardmvc-am", 0.7, dataset="hdigit", seed=1),
        record("mflvc", 0.9, dataset="hdigit"),
    ]
    (table,) = METHOD_SECTIONS["method-ardmvc"](found).tables
    assert column(table, "ACC") == {"ardmvc": "0.400", "ardmvc-am": "0.600±0.100"}
    assert column(table, "seeds") == {"ardmvc": "1", "ardmvc-am": "2"}
    reported = paper.main("hdigit", 0.1)
    assert column(table, "paper ACC") == {
        "ardmvc": f"{reported['AR-DMVC'][0]:.3f}",
        "ardmvc-am": f"{reported['AR-DMVC-AM'][0]:.3f}",
    }


def test_there_is_a_section_for_every_estimator():
    assert METHOD_SECTIONS.keys() == {f"method-{name}" for name in ESTIMATORS}
    (table,) = METHOD_SECTIONS["method-sem"]([record("sem")]).tables
    assert column(table, "paper ACC") == {"sem": NOT_REPORTED}


def test_every_missing_rate_has_its_table():
    found = [
        record(study="missing-views", missing_rate=0.3),
        record("dsimvc", study="missing-views", missing_rate=0.1),
        record("dsimvc", study="missing-views", missing_rate=0.3),
        record(),
    ]
    first, second = SECTIONS["missing-views"](found).tables
    assert "10%" in first.title
    assert column(first, "ACC") == {"dsimvc": "0.500"}
    assert "30%" in second.title
    assert column(second, "ACC") == {"protocol": "0.500", "dsimvc": "0.500"}


def test_train_and_test_scores_are_side_by_side():
    scores = {"acc": 0.6, "nmi": 0.5, "tail": 0.4}
    parts: dict[str, Any] = {"scores": scores, "train_scores": {"acc": 0.9, "nmi": 0.8}}
    (table,) = SECTIONS["balanced-test"]([record(study="balanced-test", **parts), record()]).tables
    assert rows(table) == [("digits", "0.1", "protocol", "0.900", "0.800", "0.600", "0.500", "0.400", "1")]


def test_attacks_of_one_size_share_a_table():
    hits = [{"acc": acc, "nmi": 0.1} for acc in (0.2, 0.2, 0.4)]
    found = [
        record(study="attack", eps=0.1, attacked_scores=hits[0]),
        record(study="attack", eps=0.2, attacked_scores=hits[1]),
        record(study="attack", eps=0.1, attacked_scores=hits[2], seed=1),
        record(),
    ]
    first, second = SECTIONS["attacks"](found).tables
    assert (first.title, second.title) == ("eps = 0.1", "eps = 0.2")
    assert column(first, "attacked ACC") == {"protocol": "0.300±0.100"}
    assert column(second, "attacked ACC") == {"protocol": "0.200"}


def test_confidence_is_beside_the_accuracy():
    found = {"mean_confidence": 0.9, "ece": 0.1, "auroc": 0.75}
    (table,) = SECTIONS["calibration"]([record(value=0.8, study="calibration", calibration=found)]).tables
    assert rows(table) == [("digits", "0.1", "protocol", "0.800", "0.900", "0.100", "0.750", "1")]


@pytest.mark.parametrize(
    ("values", "epoch"), [([0.5], 1), ([0.1, 0.5, 0.5], 2), ([0.5, 0.1, 0.5], 3), ([0.1, 0.505, 0.5, 0.5], 2)]
)
def test_a_curve_has_converged_when_it_stays_near_its_end(values, epoch: int):
    assert tables.converged_epoch(values) == epoch


def curve(stages: list[str], scores: list[float]):
    return [{"stage": s, "loss": 1.0, "acc": a, "nmi": a} for s, a in zip(stages, scores, strict=True)]


def test_convergence_shows_the_end_of_every_stage():
    own = curve(["align", "align", "rebalance"], [0.1, 0.4, 0.7])
    (table,) = SECTIONS["convergence"]([record(study="convergence", curve=own), record()]).tables
    assert [row[3:] for row in rows(table)] == [
        ("align", "2", "1.000", "0.400", "0.400", "", "1"),
        ("rebalance", "3", "1.000", "0.700", "0.700", "3", "1"),
    ]


def test_convergence_counts_the_epochs_between_the_points_of_a_curve():
    own = curve(["align", "align", "rebalance"], [0.1, 0.4, 0.7])
    own = [point | {"epoch": number} for point, number in zip(own, (5, 8, 10), strict=True)]
    (table,) = SECTIONS["convergence"]([record(study="convergence", curve=own)]).tables
    assert table.cells[["until epoch", "converged"]].to_numpy().tolist() == [["8", ""], ["10", "10"]]


def test_stages_may_be_shorter_or_left_out_with_other_seeds():
    stages = (["align", *["rebalance 1"] * 3, *["rebalance 2"] * 2], ["align", "rebalance 1"])
    curves = list(map(curve, stages, ([0.1, 0.2, 0.3, 0.4, 0.7, 0.8], [0.3, 0.6])))
    for order in (curves, curves[::-1]):
        found = [record(study="convergence", seed=i, curve=own) for i, own in enumerate(order)]
        (table,) = SECTIONS["convergence"](found).tables
        assert table.cells[["stage", "until epoch", "ACC"]].to_numpy().tolist() == [
            ["align", "1±0", "0.200±0.100"],
            ["rebalance 1", "3±1", "0.500±0.100"],
            ["rebalance 2", "4±2", "0.700±0.100"],
        ]


def cell(acc: float, seed: int = 0, **fields: float):
    changes = {WEIGHT: fields.get("weight", 0.25), MASS: fields.get("mass", 0.5)}
    other = {"pseudo_labels.epsilon": fields["epsilon"]} if "epsilon" in fields else {}
    return record(value=acc, seed=seed, study="sensitivity", config=config_of("protocol", changes | other))


def test_a_grid_has_the_first_field_down_and_the_second_across():
    found = [cell(0.5), cell(0.7, seed=1), cell(0.9, weight=0.75, mass=1.0), cell(0.1, epsilon=0.7), record()]
    (table,) = SECTIONS["sensitivity"](found).tables
    assert list(table.cells) == [f"{WEIGHT} \\ {MASS}", "0.5", "1"]
    assert rows(table) == [("0.25", "0.600±0.100", "-"), ("0.75", "-", "0.900")]
    assert table.title == "digits, R = 0.1, protocol"


def test_the_last_record_of_a_cell_counts():
    (table,) = SECTIONS["sensitivity"]([cell(0.5), cell(0.6)]).tables
    assert rows(table) == [("0.25", "0.600")]


def test_the_default_is_a_cell_of_every_grid():
    assert len(SECTIONS["sensitivity"]([record(study="sensitivity")]).tables) == len(GRIDS)


def test_the_silhouette_has_a_row_for_every_method():
    table = tables.silhouette_table([record("sem", silhouette=0.25), record(silhouette=0.5)])
    assert [row[2:4] for row in rows(table)] == [("sem", "0.250"), ("protocol", "0.500")]


def changed(acc: float, seed: int, name: str):
    config = config_of("protocol", DEFAULT_CHANGES[name])
    return record(value=acc, seed=seed, study="ablate-defaults", change=name, config=config)


def test_a_change_is_compared_with_the_default_in_the_same_seeds():
    found = [
        changed(0.5, 0, "default"),
        changed(0.9, 1, "default"),
        changed(0.8, 1, "no warm-up"),
        changed(0.1, 0, "one round of alignment") | {"config": OTHER},
        record(),
    ]
    (table,) = SECTIONS["ablate-defaults"](found).tables
    assert table.title == "digits, R = 0.1"
    assert [row[:3] for row in rows(table)] == [
        ("default", "0.700±0.200", "+0.000"),
        ("no warm-up", "0.800", "-0.100"),
    ]


def test_a_change_without_a_default_has_no_difference():
    (table,) = SECTIONS["ablate-defaults"]([changed(0.8, 1, "no warm-up")]).tables
    assert [row[:3] for row in rows(table)] == [("no warm-up", "0.800", "-")]


def test_every_change_gives_another_valid_config():
    configs = [config_of("protocol", changes) for changes in DEFAULT_CHANGES.values()]
    assert all(one != other for i, one in enumerate(configs) for other in configs[:i])
    assert configs[0] == config_of("protocol")
