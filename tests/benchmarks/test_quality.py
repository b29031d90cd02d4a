"""The quality benchmark: which data sets, at which ratio, and the table of their records."""

from typing import Any

import numpy as np
import pytest
from benchmarks import quality
from benchmarks.datasets import DATASETS, available_datasets, load_dataset
from benchmarks.methods import FIVE
from benchmarks.quality import dataset_names, quality_units
from benchmarks.tables import NOT_RUN
from tests.benchmarks.recorded import record


def test_the_halves_are_all_data_sets_but_the_smoke_tests():
    both = dataset_names("all")
    assert len(both) == len(set(both)) == 21
    assert not {"synthetic3d", "nci60_4arrays", "digits"} & set(both)
    assert set(both) | {"digits"} == {*dataset_names("development"), *dataset_names("confirmation")}
    assert {entry.half for entry in DATASETS.values()} == {"development", "confirmation", ""}
    assert dataset_names("bdgp, digits") == ["bdgp", "digits"]


def test_balanced_data_sets_are_made_imbalanced():
    units = quality_units(["leiden"], ["bbcsport", "bdgp"], [0, 1])
    assert [unit.imbalance_ratio for unit in units] == [None, 0.1, None, 0.1]
    assert [unit.seed for unit in units] == [0, 0, 1, 1]


@pytest.mark.parametrize("name", sorted({*dataset_names("development")} & {*available_datasets()}))
def test_balanced_means_classes_of_about_equal_size(name: str):
    sizes = np.bincount(load_dataset(name)[1])
    assert (sizes.min() > 0.9 * sizes.max()) == DATASETS[name].balanced


def run(method: str, acc: float, tail: float = 0.5, dataset: str = "bdgp", cpu: float = 1.0, seed: int = 0):
    scores = {"acc": acc, "tail": tail}
    extra: dict[str, Any] = {"calibration": {"ece": 0.25}} if method == "protocol" else {}
    unit: dict[str, Any] = {"dataset": dataset, "seed": seed, "cpu_seconds": cpu, "study": "quality"}
    return record(method, scores=scores, **unit, **extra)


def rows(found) -> list[Any]:
    (table,) = quality.quality(found).tables
    return table.cells.to_dict("records")


def test_the_best_reference_is_that_with_the_highest_mean_accuracy():
    found = [run("protocol", 0.8, 0.75, seed=seed) for seed in (0, 1)]
    found += [run("protocol", 0.9, 0.75, seed=2), run("protocol", 0.1, seed=100)]
    found += [run("leiden", 0.5), run("gmm", 0.9, 0.25), run("gmm", 0.3, seed=1), run("ward", 0.7, 0.875)]
    row = rows(found)[0]
    assert (row["data"], row["half"], row["R"]) == ("bdgp", "development", "0.1")
    assert (row["ACC / tail"], row["Leiden"]) == ("0.833 / 0.750", "0.500 / 0.500")
    assert row["best"] == "ward 0.700 / 0.875"
    assert (row["Δ ACC Leiden"], row["Δ ACC best"], row["Δ tail best"]) == ("+0.333", "+0.133", "-0.125")
    assert (row["σ"], row["ECE"]) == ("0.047", "0.250")


def test_the_last_rows_have_means_worst_values_and_quick_fits():
    found = [run("protocol", 0.9, cpu=100), run("leiden", 0.8, cpu=1)]
    found += [run("protocol", 0.5, dataset="dermatology", cpu=18), run("leiden", 0.7, dataset="dermatology")]
    found += [run("protocol", 0.1, dataset="digits"), run("leiden", 0.9, dataset="digits")]
    *sets, mean, worst, quick, quicker, quickest = rows(found)
    assert [row["data"] for row in sets] == ["bdgp", "digits", "dermatology"]
    assert (mean["ACC / tail"], mean["Δ ACC best"]) == ("0.700 / 0.500", "-0.050")
    assert (worst["Δ ACC Leiden"], worst["ECE"]) == ("-0.200", "0.250")
    assert (quick["CPU"], quicker["CPU"], quickest["CPU"]) == ("1 of 2", "0 of 2", "0 of 2")


def test_what_was_not_run_is_a_dash():
    only_ours, only_theirs = rows([run("protocol", 0.9)])[0], rows([run("kmeans", 0.9)])[0]
    assert (only_ours["Leiden"], only_ours["best"], only_ours["Δ ACC best"]) == (NOT_RUN,) * 3
    assert (only_theirs["ACC / tail"], only_theirs["ECE"], only_theirs["CPU"]) == (NOT_RUN,) * 3
    assert only_theirs["best"] == "kmeans 0.900 / 0.500"
    assert quality.quality([]).tables == []
    assert set(FIVE) < set(quality.METHODS)
