"""The commands of the benchmark run once, record, print and draw; the pages in docs follow the records."""

import json
import re
from pathlib import Path

import pytest
from benchmarks import cli, methods, render, runs, studies
from benchmarks.methods import get_field
from benchmarks.records import read, read_all
from benchmarks.sections import METHOD_SECTIONS, PAPER_SECTIONS, SECTIONS
from tests import examples
from tests.benchmarks.recorded import QUICK, record
from tests.examples import blobs
from typer.testing import CliRunner

from protocol_mvc.data import as_views
from protocol_mvc.estimators.clusterers import ESTIMATORS, PROTOCOL
from protocol_mvc.utils.config import update_config

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
SETTINGS = [word for name, value in QUICK.items() for word in ("--set", f"{name}={json.dumps(value)}")]
VIEWS, LABELS = blobs((30, 15, 10))
WEIGHT, MASS = "pseudo_labels.consensus_weight", "pseudo_labels.min_mass"

needs_records = pytest.mark.skipif(not RESULTS.is_dir(), reason="the records are not in this copy")


def run(*words: str):
    return CliRunner().invoke(cli.app, words, env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Small data in place of the real data, and an empty folder."""

    def load(name, *, imbalance_ratio, random_state):
        return as_views(VIEWS), LABELS

    monkeypatch.setattr(runs, "load_dataset", load)
    monkeypatch.setattr(studies, "load_dataset", load)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fits(monkeypatch):
    """The list holds the methods that were fitted."""
    made: list[str] = []
    real = methods.make_estimator

    def counted(method, *args):
        made.append(method)
        return real(method, *args)

    monkeypatch.setattr(methods, "make_estimator", counted)
    return made


def cells(table: str) -> list[str]:
    return [cell.strip() for line in table.splitlines() for cell in re.split(r"│|\s{2,}", line)]


def test_runs_are_recorded_and_not_repeated(folder, fits):
    words = ("run", "--methods", "kmeans,protocol", "--ratios", "0.1,none", "--seeds", "0", *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    found = read(folder / "benchmarks" / "results" / "runs.jsonl")
    expected = [("kmeans", 0.1), ("protocol", 0.1), ("kmeans", None), ("protocol", None)]
    assert [(r["method"], r["imbalance_ratio"]) for r in found] == expected
    assert found[1]["config"] == methods.config_of("protocol", QUICK)
    assert {"kmeans", "protocol"} <= set(cells(result.stdout))
    assert "seed 0" in result.stderr
    assert "seed 0" not in result.stdout
    assert run(*words).stdout == result.stdout
    assert len(fits) == 4


def test_an_attack_is_a_study(folder, fits):
    words = ("run", "--methods", "protocol", "--seeds", "0", "--attack", "0.5", *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    (found,) = read(folder / "benchmarks" / "results" / "runs.jsonl")
    assert (found["study"], found["eps"]) == ("attack", 0.5)
    assert {"attacked ACC", "protocol"} <= set(cells(result.stdout))
    assert run(*words).stdout == result.stdout
    assert len(fits) == 1
    refused = run("run", "--methods", "kmeans", "--attack", "0.5")
    assert refused.exit_code == 2
    assert "'kmeans'" in refused.output


def test_every_missing_rate_is_recorded(folder, fits):
    words = ("run", "--methods", "kmeans,protocol", "--seeds", "0", "--missing-rate", "0.1,0.3", *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    found = read(folder / "benchmarks" / "results" / "runs.jsonl")
    assert [(row["study"], row["missing_rate"]) for row in found] == [
        ("missing-views", rate) for rate in (0.1, 0.1, 0.3, 0.3)
    ]
    assert len({row["data_hash"] for row in found}) == 2
    assert "30%" in result.stdout
    assert run(*words).stdout == result.stdout
    assert len(fits) == 4
    refused = run("run", "--methods", "mflvc", "--missing-rate", "0.1")
    assert refused.exit_code == 2
    assert "'mflvc'" in refused.output


def test_another_config_is_another_run(folder, fits):
    words = ("run", "--methods", "kmeans,protocol", "--seeds", "0", *SETTINGS)
    run(*words)
    run(*words, "--set", f"{WEIGHT}=0.25")
    assert fits == ["kmeans", "protocol", "protocol"]
    assert len(read(folder / "benchmarks" / "results" / "runs.jsonl")) == 3


def test_quality_is_recorded_once_and_shown(folder, monkeypatch, fits):
    small = update_config(PROTOCOL._presets["default"], examples.QUICK)
    monkeypatch.setitem(methods.NETWORKS, "protocol", methods.Network(PROTOCOL, "small", {}))
    monkeypatch.setitem(PROTOCOL._presets, "small", small)
    words = (
        "quality",
        "--datasets",
        "bdgp,bbcsport",
        "--seeds",
        "0",
        "--methods",
        "ward,protocol",
        *SETTINGS,
    )
    result = run(*words)
    assert result.exit_code == 0
    found = read(folder / "benchmarks" / "results" / "quality.jsonl")
    assert [(r["study"], r["dataset"], r["imbalance_ratio"]) for r in found[::2]] == [
        ("quality", "bdgp", 0.1),
        ("quality", "bbcsport", None),
    ]
    assert {"threads", "cpu_seconds"} <= found[0].keys()
    assert {"acc", "nmi", "tail", "recall"} <= found[0]["scores"].keys()
    assert {"mean_confidence", "ece"} <= found[1]["calibration"].keys()
    assert "| bbcsport | development | - |" in result.stdout
    assert run(*words).stdout == run("quality", "--table").stdout == result.stdout
    assert len(fits) == 4


def test_the_ablation_runs_its_three_variants(fits):
    result = run("ablation", "--datasets", "digits", "--seeds", "3", *SETTINGS)
    assert result.exit_code == 0
    assert fits == list(methods.ABLATION)
    assert set(methods.ABLATION) <= set(cells(result.stdout))


def test_the_balanced_test_records_both_scores(folder, fits):
    words = ("balanced-test", "--methods", "kmeans", "--ratios", "0.5", "--seeds", "0")
    result = run(*words)
    assert result.exit_code == 0
    (found,) = read(folder / "benchmarks" / "results" / "balanced-test.jsonl")
    assert found["study"] == "balanced-test"
    assert found["train_scores"]["acc"] <= 1
    assert f"{found['scores']['acc']:.3f}" in cells(result.stdout)
    assert run(*words).stdout == result.stdout
    assert fits == ["kmeans"]


@pytest.mark.parametrize("study", ["convergence", "tsne"])
def test_studies_of_one_training_draw_from_their_record(folder, monkeypatch, fits, study: str):
    monkeypatch.setattr(studies, "MAX_POINTS", 20)
    words = (study, "--seed" if study == "tsne" else "--seeds", "0", *SETTINGS, "--figure", "f/f.png")
    result = run(*words)
    assert result.exit_code == 0
    figure = folder / "f" / "f.png"
    assert figure.read_bytes().startswith(b"\x89PNG")
    figure.unlink()
    assert run(*words).stdout == result.stdout
    assert figure.exists()
    assert fits == ["protocol"]  # the second time nothing is trained
    assert len(read(folder / "benchmarks" / "results" / f"{study}.jsonl")) == 1


def test_sensitivity_runs_every_cell_once(folder, monkeypatch, fits):
    monkeypatch.setitem(studies.GRIDS, "pseudo-labels", {WEIGHT: (0.5,), MASS: (0.25, 0.75)})
    words = ("sensitivity", "--grids", "pseudo-labels", *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    count = len(list(studies.grid("pseudo-labels")))
    found = read(folder / "benchmarks" / "results" / "sensitivity.jsonl")
    assert len(found) == len(fits) == count
    assert {get_field(r["config"], MASS) for r in found} >= {0.25, 0.75}
    assert run(*words).stdout == result.stdout
    assert len(fits) == count
    assert (folder / "benchmarks" / "figures" / "sensitivity.png").exists()


def test_defaults_are_changed_one_at_a_time(folder, monkeypatch, fits):
    for name in list(studies.DEFAULT_CHANGES)[2:]:
        monkeypatch.delitem(studies.DEFAULT_CHANGES, name)
    words = ("ablate-defaults", "--seeds", "0", *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    found = read(folder / "benchmarks" / "results" / "defaults.jsonl")
    assert [get_field(r["config"], "losses.logit_adjustment") for r in found] == [1.0, -1.0]
    assert [r["change"] for r in found] == list(studies.DEFAULT_CHANGES)
    assert set(studies.DEFAULT_CHANGES) <= set(cells(result.stdout))
    assert run(*words).stdout == result.stdout
    assert len(fits) == 2


def test_calibration_is_recorded(folder, fits):
    words = ("calibration", "--seeds", "0", *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    (found,) = read(folder / "benchmarks" / "results" / "calibration.jsonl")
    assert f"{found['calibration']['mean_confidence']:.3f}" in cells(result.stdout)
    assert run(*words).stdout == result.stdout


@pytest.fixture
def results(folder):
    """A file of records."""
    path: Path = folder / "some.jsonl"
    rows = [
        record("protocol-paper", 0.95, dataset="hdigit"),
        record(),
        record("kmeans", 0.6),
        record("base"),
        {"study": "agreement"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_recalls_by_class_size_come_from_records(results):
    result = run("recall-by-size", "--records", str(results))
    assert result.exit_code == 0
    assert {"head", "medium", "tail", "kmeans", "protocol"} <= set(cells(result.stdout))


@pytest.mark.parametrize(("form", "sign"), [("text", "─"), ("markdown", "| --- |")])
def test_the_report_goes_to_the_terminal_or_to_a_file(folder, results, form: str, sign: str):
    words = ("report", "--records", str(results), "--format", form)
    shown = run(*words)
    assert shown.exit_code == 0
    assert run(*words, "-o", "r.out").stdout == ""
    assert (folder / "r.out").read_text(encoding="utf-8") == shown.stdout
    for part in (sign, "hdigit, R = 0.1", "0.892", "0.950", "+0.058", "DSIMVC"):
        assert part in shown.stdout


def test_the_report_fills_a_page(folder, results):
    page = folder / "page.md"
    page.write_text(
        "\n".join(f"<!-- begin generated: {name} -->\n<!-- end generated -->" for name in SECTIONS)
    )
    assert run("report", "--records", str(results), "--update", str(page)).exit_code == 0
    assert "| PROTOCOL | 0.892 |" in page.read_text(encoding="utf-8")
    assert render.NO_RECORDS in page.read_text(encoding="utf-8")
    page.write_text("<!-- begin generated: method-protocol -->\n<!-- end generated -->")
    assert run("report", "--records", str(results), "--update", str(page)).exit_code == 0
    assert "| hdigit | 0.1 | protocol-paper | 0.892 |" in page.read_text(encoding="utf-8")


@needs_records
def test_the_pages_in_docs_are_what_the_records_give():
    names = ("benchmarks", "paper", "reliability")
    pages = [(ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in names]
    found = read_all(RESULTS.glob("*.jsonl"))
    sections = {name: make(found) for name, make in (SECTIONS | PAPER_SECTIONS).items()}
    assert sum(page.count(render.BEGIN) for page in pages) == len(sections)
    for page in pages:
        assert render.fill(page, sections) == page, "run: make bench-report"


@needs_records
@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - {"protocol"}))
def test_the_page_of_a_method_is_what_the_records_give(name: str):
    page = (ROOT / "docs" / "methods" / f"{name}.md").read_text(encoding="utf-8")
    found = read_all(RESULTS.glob("*.jsonl"))
    sections = {f"method-{name}": METHOD_SECTIONS[f"method-{name}"](found)}
    assert page.count(render.BEGIN) == 1
    assert render.fill(page, sections) == page, "run: make bench-report"


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        (["run", "--methods", "kmeans,magic"], "'magic'"),
        (["run", "--datasets", "secrets"], "'secrets'"),
        (["run", "--seeds", "0,one"], "'one'"),
        (["quality", "--datasets", "development,bdgp"], "'development'"),
        (["quality", "--methods", "magic"], "'magic'"),
        (["run", "--ratios", "half"], "'half'"),
        (["run", "--set", "readout"], "'readout'"),
        (["run", "--colour"], "--colour"),
        (["fly"], "fly"),
        (["report", "--records", "nowhere.jsonl"], "nowhere.jsonl"),
        (["report", "--format", "pdf"], "pdf"),
        (["convergence", "--ratio", "0.1,0.5"], "0.1,0.5"),
        (["sensitivity", "--grids", "weights"], "'weights'"),
    ],
)
def test_unknown_words_are_usage_errors(folder, fits, words: list[str], culprit: str):
    result = run(*words)
    assert result.exit_code == 2
    assert culprit in result.stderr
    assert result.stdout == ""
    assert fits == []
    assert list(folder.iterdir()) == []
