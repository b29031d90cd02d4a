"""The command: results on stdout, messages on stderr, exit code 2 for what it does not know."""

import functools
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from tests.examples import blobs, tiny
from typer.testing import CliRunner

from protocol_mvc import bench, cli
from protocol_mvc.data import as_views

VIEWS, TRUTH = blobs()


def run(*words: str):
    return CliRunner().invoke(cli.app, list(words), env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.fixture
def cheap(monkeypatch):
    """Small data, and a method that costs nothing, under the names of the ablation too."""
    calls: list[int] = []

    def method(views, n_clusters, seed, truth):
        calls.append(seed)
        return np.arange(len(views)) % n_clusters

    def load(name, *, ratio, seed):
        return as_views(VIEWS), TRUTH

    monkeypatch.setattr(bench, "METHODS", dict.fromkeys(["cheap", *bench.ABLATION], method))
    monkeypatch.setattr(bench, "load", load)
    monkeypatch.setattr(cli, "load", load)
    monkeypatch.setattr(cli, "PROTOCOL", functools.partial(tiny))
    return calls


def test_demo_prints_tables_and_draws_a_picture(cheap, tmp_path):
    picture = tmp_path / "demo.png"
    result = run("demo", "--picture", str(picture))
    assert result.exit_code == 0
    assert {"PROTOCOL", "K-means, all views", "K-means, best view"} <= set(cells(result.stdout))
    assert {"perceived", "labelled", "true"} <= set(cells(result.stdout))
    assert "90 digits" in result.stderr
    assert "Picture" in result.stderr
    assert "Picture" not in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def cells(table: str) -> list[str]:
    return [cell.strip() for line in table.splitlines() for cell in re.split(r"│|\s{2,}", line)]


def test_demo_without_matplotlib_says_how_to_get_the_picture(cheap, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run("demo", "--picture", str(tmp_path / "demo.png"))
    assert result.exit_code == 0
    assert "protocol-mvc[viz]" in result.stderr
    assert not (tmp_path / "demo.png").exists()


@pytest.mark.parametrize("ratio", ["0", "1.5", "-1", "x"])
def test_demo_refuses_an_impossible_ratio(ratio: str):
    assert run("demo", "--ratio", ratio).exit_code == 2


def test_bench_run_records_and_tabulates(cheap, tmp_path):
    path = tmp_path / "runs.jsonl"
    words = (
        "bench",
        "run",
        "--methods",
        "cheap",
        "--ratios",
        "0.1,none",
        "--seeds",
        "0,1",
        "--records",
        str(path),
    )
    result = run(*words)
    assert result.exit_code == 0
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(record["ratio"], record["seed"]) for record in records] == [
        (0.1, 0),
        (None, 0),
        (0.1, 1),
        (None, 1),
    ]
    assert "cheap" in cells(result.stdout)
    assert "seed 1" in result.stderr
    assert "seed 1" not in result.stdout
    assert run(*words).stdout == result.stdout
    assert len(cheap) == 4


def test_bench_ablation_runs_its_three_methods(cheap, tmp_path):
    result = run(
        "bench", "ablation", "--dataset", "digits", "--seeds", "3", "--records", str(tmp_path / "a.jsonl")
    )
    assert result.exit_code == 0
    assert set(bench.ABLATION) <= set(cells(result.stdout))
    assert cheap == [3, 3, 3]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--methods", "cheap,magic"], "unknown method 'magic'"),
        (["--methods", "cheap", "--datasets", "secrets"], "unknown data set 'secrets'"),
        (["--methods", "cheap", "--seeds", "0,one"], "seeds are numbers"),
        (["--methods", "cheap", "--ratios", "half"], "ratios are numbers"),
        (["--colour"], "No such option"),
    ],
)
def test_unknown_words_are_usage_errors(cheap, tmp_path, words: list[str], says: str):
    path = tmp_path / "runs.jsonl"
    result = run("bench", "run", *words, "--records", str(path))
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stdout == ""
    assert cheap == []
    assert not path.exists()


def test_without_words_the_command_explains_itself():
    result = run()
    assert "demo" in result.stdout + result.stderr
    assert "bench" in result.stdout + result.stderr


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "protocol_mvc", "--help"], capture_output=True, text=True, check=True
    )
    assert "demo" in done.stdout
    assert done.stderr == ""


def test_a_missing_data_set_is_one_sentence_and_exit_code_3(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PROTOCOL_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "sys.argv", ["protocol-mvc", "bench", "run", "--datasets", "hdigit", "--records", "r.jsonl"]
    )
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 3
    assert "PROTOCOL_DATA" in capsys.readouterr().err
