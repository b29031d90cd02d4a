"""One command makes everything from the data to the report, and tells what it does."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest
from tests.cli.running import LABELS_TRUE, QUICK, run, save


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipeline")
    data = save(folder / "views.npz", labels=LABELS_TRUE)
    result = run("run", data, "-k", 3, "-o", folder / "run", "--n-refits", 1, *QUICK)
    assert result.exit_code == 0, result.output
    return folder, result


def test_the_run_has_report_labels_markers_and_record(finished):
    folder, _ = finished
    assert {path.name for path in (folder / "run").iterdir() if not path.name.startswith(".")} >= {
        "report.html",
        "labels.csv",
        "markers.csv",
        "model",
        "run.json",
    }
    record = json.loads((folder / "run" / "run.json").read_text())
    assert len(record["stability"]["cluster_jaccard"]) == 3
    first = record["headline"].split(". ")[0]
    assert first in (folder / "run" / "report.html").read_text()
    assert set(pd.read_csv(folder / "run" / "markers.csv")["cluster"]) <= {0, 1, 2}


def test_results_are_printed_and_every_step_is_announced(finished):
    _, result = finished
    assert "stability" in result.stdout
    assert "markers" in result.stdout
    lines = result.stderr.splitlines()
    steps = [
        next(i for i, line in enumerate(lines) if word in line) for word in ("Read", "Fit", "Refit", "rep")
    ]
    assert steps == sorted(steps)


def test_the_report_can_be_written_again_with_the_stability_of_the_run(finished):
    folder, _ = finished
    again = run("report", folder / "run", "-o", folder / "again.html")
    assert again.exit_code == 0, again.output
    assert "not measured" not in (folder / "again.html").read_text()


def test_quiet_is_quiet(tmp_path):
    result = run(
        "run", save(tmp_path / "v.npz"), "-k", 3, "-o", tmp_path / "run", "--n-refits", 0, *QUICK, "-q"
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / "run" / "report.html").exists()


def test_a_wrong_color_ends_the_command_before_the_fit(tmp_path):
    given = ("run", save(tmp_path / "v.npz"), "-o", tmp_path / "run", "--color", "donor")
    assert "donor" in run(*given).stderr
    assert not (tmp_path / "run" / "run.json").exists()


def test_an_older_run_is_kept_without_force(finished):
    folder, _ = finished
    before = (folder / "run" / "markers.csv").read_bytes()
    result = run("run", folder / "views.npz", "-k", 3, "-o", folder / "run", *QUICK)
    assert result.exit_code == 2
    assert (folder / "run" / "markers.csv").read_bytes() == before


def test_the_first_word_comes_before_torch_is_imported(tmp_path):
    save(tmp_path / "v.npz")
    code = (
        "import sys\nfrom protocol_mvc.cli.output import Console\n"
        "info = Console.info\n"
        "def told(self, message):\n    info(self, message)\n    sys.exit('torch' in sys.modules)\n"
        "Console.info = told\nfrom protocol_mvc.cli.main import app\napp()\n"
    )
    given = [sys.executable, "-c", code, "run", str(tmp_path / "v.npz"), "-o", str(tmp_path / "run")]
    found = subprocess.run(given, capture_output=True, text=True, env=os.environ)
    assert (found.returncode, found.stdout) == (0, ""), found.stderr
    assert "v.npz" in found.stderr
