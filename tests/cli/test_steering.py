"""The verbs `rename`, `merge`, `split`, `compare-runs` and `fit --like` do what the methods do."""

import csv
import json
from html import escape
from pathlib import Path

import numpy as np
import pytest
from tests.cli.running import LABELS_TRUE, QUICK, document, error_line, run, save

from protocol_mvc import load_model
from protocol_mvc.io import read_views


@pytest.fixture
def old(fitted: Path) -> Path:
    return fitted / "run"


def labels(folder: Path) -> list[dict[str, str]]:
    with (folder / "labels.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def check_run(folder: Path, expected) -> None:
    """The run has the model, its labels with names, a record, and a report with the names."""
    model, rows = load_model(folder / "model"), labels(folder)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    assert [int(row["label"]) for row in rows] == model.labels_.tolist()
    assert model.cluster_names_ == expected.cluster_names_
    record = json.loads((folder / "run.json").read_text())
    assert [c["size"] for c in record["clusters"]] == model.cluster_sizes_.tolist()
    result = run("report", folder)
    assert result.exit_code == 0, result.output
    page = (folder / "report.html").read_text()
    assert all(escape(name) in page for name in model.cluster_names_)


def test_names_are_in_labels_predictions_and_report(old, fitted, tmp_path):
    result = run("rename", old, "0=common kind", "2=<rare>", "-o", tmp_path / "named")
    assert result.exit_code == 0, result.output
    model = load_model(old / "model").rename_clusters({0: "common kind"})
    check_run(tmp_path / "named", load_model(tmp_path / "named" / "model"))
    assert {row["name"] for row in labels(tmp_path / "named") if row["label"] == "0"} == {"common kind"}
    predicted = run("predict", tmp_path / "named", fitted / "views.npz").stdout.splitlines()
    assert predicted[0].startswith("id,label,name,confidence")
    assert model.cluster_names_[0] == "common kind"
    page = (tmp_path / "named" / "report.html").read_text()
    assert "&lt;rare&gt;" in page
    assert "<rare>" not in page


def test_merge_and_split(old, fitted, tmp_path):
    X = read_views(fitted / "views.npz").views
    assert run("merge", old, 0, 2, "-o", tmp_path / "merged").exit_code == 0
    merged = load_model(old / "model").merge_clusters([0, 2])
    check_run(tmp_path / "merged", merged)
    found = document(run("split", tmp_path / "merged", 0, "-o", tmp_path / "parts", "--json"))
    check_run(tmp_path / "parts", merged.split_cluster(0, X))
    assert sum(found["cluster_sizes"]) == len(LABELS_TRUE)


def test_two_runs_are_compared(old, tmp_path):
    run("merge", old, 0, 2, "-o", tmp_path / "merged")
    result = run("compare-runs", old, tmp_path / "merged", "--figure", tmp_path / "flow.svg")
    assert result.exit_code == 0, result.output
    assert "Clusters 0 and 2 were merged into 0." in result.stdout
    assert "<svg" in (tmp_path / "flow.svg").read_text()
    found = document(run("compare-runs", old, tmp_path / "merged", "--json"))
    sizes = load_model(old / "model").cluster_sizes_
    assert found["n_moved"] == sizes[2]
    assert np.sum(found["counts"]) == sizes.sum()


def test_a_fit_like_an_older_run_keeps_its_names(old, tmp_path):
    assert run("rename", old, "1=middle", "-o", tmp_path / "named").exit_code == 0
    data = save(tmp_path / "fewer.npz", rows=slice(3, None))
    given = ("fit", data, "-k", 3, "-o", tmp_path / "new", *QUICK, "--seed", 1)
    found = document(run(*given, "--like", tmp_path / "named", "--json"))
    model = load_model(tmp_path / "new" / "model")
    assert model.cluster_names_[1] == "middle"
    assert np.mean(model.labels_ == load_model(old / "model").labels_[3:]) > 0.9
    assert found["changes"] == ["All clusters were found again."]


def test_wrong_words_are_refused(old, tmp_path):
    assert "CLUSTER=NAME" in error_line(run("rename", old, "0", "-o", tmp_path / "x"), 2)
    assert "no cluster" in error_line(run("merge", old, 0, "seven", "-o", tmp_path / "x"), 3)
    assert "already holds" in error_line(run("split", old, 0, "-o", old), 2)
    assert not (tmp_path / "x").exists()
