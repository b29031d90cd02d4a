"""The benchmark of the number of clusters: references that count, and the table of the answers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import cli, n_clusters
from benchmarks.methods import AUTO
from benchmarks.n_clusters import CLUSTERERS, METHODS, STUDY, section
from benchmarks.records import read
from benchmarks.tables import NOT_RUN
from tests.benchmarks.recorded import record
from tests.examples import blobs
from typer.testing import CliRunner

from protocol_mvc import as_views


@pytest.mark.filterwarnings("ignore:Graph is not fully connected")
@pytest.mark.parametrize("method", ["hdbscan", "leiden", "eigengap", "finch"])
def test_references_count_groups_that_are_far_apart(method: str):
    pytest.importorskip("igraph")
    views, truth = blobs((60, 50, 40), dims=(4, 3), noise=0.05)
    labels = CLUSTERERS[method]([np.asarray(x) for x in views], 0)
    assert len(set(zip(labels, truth, strict=True))) == len(set(labels)) == len(set(truth))


def answer(method: str, found: int, seed: int = 0, **more: Any):
    fields: dict[str, Any] = {"n_found": found, "n_classes": 5, "cpu_seconds": 2.0, "seed": seed}
    return record(method, study=STUDY, **(fields | more))


def test_the_table_has_mean_counts_and_shares_of_good_answers():
    found = [answer(AUTO, 5, low=4, high=6), answer(AUTO, 8, 1, low=7, high=9), answer(AUTO, 1, 100)]
    found += [answer("leiden", 6), answer("leiden", 2, 1)]
    found += [record("protocol", 0.9, study="quality", cpu_seconds=1.0)]
    (table,) = section(found).tables
    row, _, _, near, acc, _, _, cpu = table.cells.to_dict("records")
    assert (row["K"], row[AUTO], row["leiden"], row["bgmm"]) == ("5", "6.5", "4.0", NOT_RUN)
    assert row["range"] == "5.5 to 7.5"
    assert (near[AUTO], near["leiden"], near["range"]) == ("0.50", "0.50", "within 0.50, width 0.40")
    assert (acc[AUTO], acc["range"], cpu[AUTO]) == ("0.500", "0.900 with K", "2.0")


def test_no_records_no_table():
    assert not section([]).tables


def test_references_alone_have_a_table():
    (table,) = section([answer("leiden", 6)]).tables
    assert table.cells["leiden"][0] == "6.0"
    assert table.cells["range"][0] == NOT_RUN


def test_the_command_records_the_suggestion_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    views, truth = blobs((60, 50, 40))
    monkeypatch.setattr(n_clusters, "load_dataset", lambda *_, **__: (as_views(views), truth))
    path = tmp_path / "records.jsonl"
    words = ["n-clusters", "--datasets", "digits", "--seeds", "0", "--methods", AUTO, "--records", str(path)]
    for _ in range(2):
        assert CliRunner().invoke(cli.app, words).exit_code == 0
    (row,) = read(path)
    assert (row["n_found"], row["n_classes"]) == (3, 3)
    assert row["low"] <= 3 <= row["high"]
    assert row["method"] in METHODS
