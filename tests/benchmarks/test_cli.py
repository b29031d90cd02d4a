"""The commands of the benchmark run once, record, print and draw; the page in docs follows the records."""

import json
import re
from pathlib import Path

import pytest
from benchmarks import cli, methods, render, runs, studies
from benchmarks.method_tables import METHOD_SECTIONS
from benchmarks.records import read, read_all
from benchmarks.study_tables import SECTIONS
from tests.benchmarks.recorded import QUICK, record
from tests.examples import blobs
from typer.testing import CliRunner

from protocol_mvc.data import as_views
from protocol_mvc.estimators.clusterers import ESTIMATORS

ROOT = Path(__file__).parents[2]
SETTINGS = [word for name, value in QUICK.items() for word in ("--set", f"{name}={json.dumps(value)}")]
VIEWS, TRUTH = blobs((30, 15, 10))


def run(*words: str):
    return CliRunner().invoke(cli.app, list(words), env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Small data in place of the real ones, and a folder of one's own."""

    def load(name, *, imbalance_ratio, random_state):
        return as_views(VIEWS), TRUTH

    monkeypatch.setattr(runs, "load_dataset", load)
    monkeypatch.setattr(studies, "load_dataset", load)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fits(monkeypatch):
    """The list tells which methods were made."""
    made: list[str] = []

    def counted(name, make):
        def call(*args):
            made.append(name)
            return make(*args)

        return call

    real = dict(methods.METHODS)
    monkeypatch.setattr(methods, "METHODS", {name: counted(name, make) for name, make in real.items()})
    return made


def cells(table: str) -> list[str]:
    return [cell.strip() for line in table.splitlines() for cell in re.split(r"│|\s{2,}", line)]


def test_runs_are_recorded_tabulated_and_not_repeated(folder, fits):
    words = ("--methods", "kmeans,protocol", "--ratios", "0.1,none", "--seeds", "0", *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    found = read(folder / "benchmarks" / "results" / "runs.jsonl")
    assert [(r["method"], r["ratio"]) for r in found] == [
        ("kmeans", 0.1),
        ("protocol", 0.1),
        ("kmeans", None),
        ("protocol", None),
    ]
    assert found[1]["config"]["latent"] == QUICK["latent"]
    assert {"kmeans", "protocol"} <= set(cells(result.stdout))
    assert "seed 0" in result.stderr
    assert "seed 0" not in result.stdout
    assert run(*words).stdout == result.stdout
    assert len(fits) == 4


def test_an_attack_is_a_study_of_its_own(folder, fits):
    words = ("--methods", "protocol", "--seeds", "0", "--attack", "0.5", *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    (found,) = read(folder / "benchmarks" / "results" / "runs.jsonl")
    assert (found["study"], found["epsilon"]) == ("attack 0.5", 0.5)
    assert {"attacked ACC", "protocol"} <= set(cells(result.stdout))
    assert run(*words).stdout == result.stdout
    assert len(fits) == 1
    assert "Under attack" in run("report").stdout
    refused = run("--methods", "kmeans", "--attack", "0.5")
    assert refused.exit_code == 2
    assert "features to attack" in refused.output


def test_missing_views_are_studies_of_their_own(folder, fits):
    words = ("--methods", "kmeans,protocol", "--seeds", "0", "--missing", "0.1,0.3", *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    found = read(folder / "benchmarks" / "results" / "runs.jsonl")
    assert [row["study"] for row in found] == ["missing 0.1", "missing 0.1", "missing 0.3", "missing 0.3"]
    assert len({row["data"] for row in found}) == 2
    assert "30% of the views are missing" in result.stdout
    assert run(*words).stdout == result.stdout
    assert len(fits) == 4
    assert "10% of the views missing" in run("report").stdout
    refused = run("--methods", "mflvc", "--missing", "0.1")
    assert refused.exit_code == 2
    assert "samples that lack views" in refused.output


def test_another_config_is_another_run(folder, fits):
    words = ("--methods", "kmeans,protocol", "--seeds", "0", *SETTINGS)
    run(*words)
    run(*words, "--set", "mix=0.25")
    assert fits == ["kmeans", "protocol", "protocol"]
    assert len(read(folder / "benchmarks" / "results" / "runs.jsonl")) == 3


def test_the_ablation_runs_its_three_methods(fits):
    result = run("ablation", "--datasets", "digits", "--seeds", "3", *SETTINGS)
    assert result.exit_code == 0
    assert fits == list(methods.ABLATION)
    assert set(methods.ABLATION) <= set(cells(result.stdout))


def test_balanced_records_both_scores(folder, fits):
    words = ("balanced", "--methods", "kmeans", "--ratios", "0.5", "--seeds", "0")
    result = run(*words)
    assert result.exit_code == 0
    (found,) = read(folder / "benchmarks" / "results" / "balanced.jsonl")
    assert found["study"] == "balanced"
    assert found["train_scores"]["acc"] <= 1
    assert f"{found['scores']['acc']:.3f}" in cells(result.stdout)
    assert run(*words).stdout == result.stdout
    assert fits == ["kmeans"]


@pytest.mark.parametrize("study", ["convergence", "tsne"])
def test_studies_of_one_training_draw_from_their_record(folder, monkeypatch, study: str):
    monkeypatch.setattr(studies, "MOST_POINTS", 20)
    seeds = ("--seed", "0") if study == "tsne" else ("--seeds", "0")
    words = (study, *seeds, *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    picture = folder / "benchmarks" / "figures" / f"{study}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    picture.unlink()
    monkeypatch.delattr(studies, "watch")  # the second time nothing is trained
    assert run(*words).stdout == result.stdout
    assert picture.exists()
    assert len(read(folder / "benchmarks" / "results" / f"{study}.jsonl")) == 1


def test_sensitivity_runs_every_cell_once(folder, monkeypatch, fits):
    grid = {"mix": (methods.DEFAULT["mix"],), "mass_start": (0.25, 0.75)}
    monkeypatch.setitem(studies.GRIDS, "labels", grid)
    words = ("sensitivity", "--grids", "labels", *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    count = len(list(studies.grid("labels")))
    found = read(folder / "benchmarks" / "results" / "sensitivity.jsonl")
    assert len(found) == len(fits) == count
    assert {r["config"]["mass_start"] for r in found} >= {0.25, 0.75}
    assert run(*words).stdout == result.stdout
    assert len(fits) == count
    assert (folder / "benchmarks" / "figures" / "sensitivity.png").exists()


def test_choices_are_undone_one_at_a_time(folder, monkeypatch, fits):
    for name in list(studies.CHOICES)[2:]:
        monkeypatch.delitem(studies.CHOICES, name)
    words = ("choices", "--seeds", "0", *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    found = read(folder / "benchmarks" / "results" / "choices.jsonl")
    assert [r["config"]["logit_shift"] for r in found] == [1.0, -1.0]
    assert set(studies.CHOICES) <= set(cells(result.stdout))
    assert run(*words).stdout == result.stdout
    assert len(fits) == 2


def test_calibration_records_confidence(folder, fits):
    words = ("calibration", "--seeds", "0", *SETTINGS)
    result = run(*words)
    assert result.exit_code == 0
    (found,) = read(folder / "benchmarks" / "results" / "calibration.jsonl")
    assert f"{found['calibration']['confidence']:.3f}" in cells(result.stdout)
    assert run(*words).stdout == result.stdout


@pytest.fixture
def results(folder):
    """A file of records."""
    path: Path = folder / "some.jsonl"
    rows = [
        record(dataset="hdigit", value=0.95),
        record("kmeans", 0.6),
        record("base"),
        {"study": "agreement"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_tails_come_from_records(results):
    result = run("tails", "--records", str(results))
    assert result.exit_code == 0
    assert {"head", "medium", "tail", "kmeans", "protocol"} <= set(cells(result.stdout))


@pytest.mark.parametrize(
    ("form", "sign"), [("text", "─"), ("markdown", "| --- |"), ("html", "<!doctype html>")]
)
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
    assert render.NOTHING in page.read_text(encoding="utf-8")
    page.write_text("<!-- begin generated: method-protocol -->\n<!-- end generated -->")
    assert run("report", "--records", str(results), "--update", str(page)).exit_code == 0
    assert "| hdigit | 0.1 | protocol | 0.892 |" in page.read_text(encoding="utf-8")


@pytest.mark.skipif(not (ROOT / "benchmarks" / "results").is_dir(), reason="the records are not here")
def test_the_page_in_docs_is_what_the_records_give():
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    found = read_all((ROOT / "benchmarks" / "results").glob("*.jsonl"))
    sections = {name: make(found) for name, make in SECTIONS.items()}
    assert page.count(render.BEGIN) == len(sections)
    assert render.fill(page, sections) == page, "run: protocol-mvc bench report --update docs/benchmarks.md"


@pytest.mark.skipif(not (ROOT / "benchmarks" / "results").is_dir(), reason="the records are not here")
@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - {"protocol"}))
def test_the_page_of_a_method_is_what_the_records_give(name: str):
    page = (ROOT / "docs" / "methods" / f"{name}.md").read_text(encoding="utf-8")
    found = read_all((ROOT / "benchmarks" / "results").glob("*.jsonl"))
    sections = {f"method-{name}": METHOD_SECTIONS[f"method-{name}"](found)}
    assert page.count(render.BEGIN) == 1
    assert render.fill(page, sections) == page, "run: make bench-report"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--methods", "kmeans,magic"], "unknown method 'magic'"),
        (["--datasets", "secrets"], "unknown data set 'secrets'"),
        (["--seeds", "0,one"], "seeds are numbers"),
        (["--ratios", "half"], "ratios are numbers"),
        (["--set", "mix"], "field=value"),
        (["--colour"], "No such option"),
        (["run"], "No such command"),
        (["--seeds", "1", "report"], "put the options after 'report'"),
        (["report", "--records", "nowhere.jsonl"], "there is no file nowhere.jsonl"),
        (["report", "--format", "pdf"], "pdf"),
        (["convergence", "--ratio", "0.1,0.5"], "takes one ratio"),
        (["sensitivity", "--grids", "weights"], "unknown grid 'weights'"),
    ],
)
def test_unknown_words_are_usage_errors(folder, fits, words: list[str], says: str):
    result = run(*words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stdout == ""
    assert fits == []
    assert list(folder.iterdir()) == []
