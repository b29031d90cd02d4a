"""Scores of files are those of the library, and do not depend on the order of rows."""

import numpy as np
from tests.cli.running import document, error_line, run

from protocol_mvc.evaluation.metrics import all_scores

LABELS_TRUE = ["rare", "common", "common", "other", "common", "rare"]
LABELS_PRED = [2, 0, 0, 1, 1, 2]


def write(path, values, ids=None):
    lines = (
        ["label", *map(str, values)]
        if ids is None
        else ["id,label", *(f"{i},{v}" for i, v in zip(ids, values, strict=True))]
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def test_all_metrics_and_the_recall_of_every_class(tmp_path):
    labels, truth = write(tmp_path / "l.csv", LABELS_PRED), write(tmp_path / "t.csv", LABELS_TRUE)
    found = document(run("evaluate", labels, truth, "--json"))
    assert found["scores"] == all_scores(LABELS_TRUE, LABELS_PRED)
    assert found["classes"] == [
        {"class": "common", "n_samples": 3, "cluster": 0, "recall": 2 / 3, "outcome": "split"},
        {"class": "rare", "n_samples": 2, "cluster": 2, "recall": 1.0, "outcome": "found"},
        {"class": "other", "n_samples": 1, "cluster": 1, "recall": 1.0, "outcome": "found"},
    ]
    shown = run("evaluate", labels, truth).stdout
    for part in (*found["scores"], "recall", "common", "0.6667"):
        assert part in shown


def test_a_class_without_a_cluster_is_shown(tmp_path):
    labels, truth = write(tmp_path / "l.csv", [0, 0, 1]), write(tmp_path / "t.csv", ["a", "b", "c"])
    assert "none" in run("evaluate", labels, truth).stdout


def test_the_order_does_not_matter_where_there_are_ids(tmp_path):
    truth = write(tmp_path / "t.csv", LABELS_TRUE, "abcdef")
    there = document(run("evaluate", write(tmp_path / "l.csv", LABELS_PRED, "abcdef"), truth, "--json"))
    back = document(run("evaluate", write(tmp_path / "l.csv", LABELS_PRED[::-1], "fedcba"), truth, "--json"))
    assert there == back


def test_labels_of_a_run_are_compared_with_an_array(fitted, tmp_path):
    labels = [
        int(line.split(",")[1]) for line in (fitted / "run" / "labels.csv").read_text().splitlines()[1:]
    ]
    np.save(tmp_path / "t.npy", labels)
    found = document(run("evaluate", fitted / "run" / "labels.csv", tmp_path / "t.npy", "--json"))
    assert found["scores"]["acc"] == 1


def test_files_of_different_samples_are_refused(tmp_path):
    labels = write(tmp_path / "l.csv", LABELS_PRED, "abcdef")
    assert "'f'" in error_line(run("evaluate", labels, write(tmp_path / "t.csv", LABELS_TRUE, "abcdeg")), 3)
    assert "id" in error_line(run("evaluate", labels, write(tmp_path / "t.csv", LABELS_TRUE[1:])), 3)
    assert "no.csv" in error_line(run("evaluate", labels, tmp_path / "no.csv"), 3)
