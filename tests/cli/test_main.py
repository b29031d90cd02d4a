"""The command: results on stdout, messages on stderr, help that teaches, and telling exit codes."""

import functools
import json
import re
import subprocess
import sys

import pytest
from tests.cli.running import document, run
from tests.examples import blobs, tiny

from protocol_mvc import __version__
from protocol_mvc.cli import main
from protocol_mvc.data import as_views

VIEWS, TRUTH = blobs()
VERBS = ("info", "fit", "predict", "embed", "report", "evaluate", "convert", "demo")
SETS = ("datasets list", "datasets path", "datasets get")


@pytest.fixture
def small(monkeypatch):
    """Small data and a small method."""
    monkeypatch.setattr(
        main, "load_dataset", lambda name, *, imbalance_ratio, random_state: (as_views(VIEWS), TRUTH)
    )
    monkeypatch.setattr(main, "PROTOCOL", functools.partial(tiny))


def test_demo_prints_tables_and_draws_a_picture(small, tmp_path):
    picture = tmp_path / "demo.png"
    result = run("demo", "--picture", picture)
    assert result.exit_code == 0
    assert {"PROTOCOL", "K-means, all views", "K-means, best view"} <= set(cells(result.stdout))
    assert {"estimated prior", "clusters", "ground truth"} <= set(cells(result.stdout))
    assert "90 digits" in result.stderr
    assert "Picture" in result.stderr
    assert "Picture" not in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def cells(table: str) -> list[str]:
    return [cell.strip() for line in table.splitlines() for cell in re.split(r"│|\s{2,}", line)]


def test_demo_as_a_document(small, tmp_path):
    result = run("demo", "--picture", tmp_path / "demo.png", "--json", "--quiet")
    found = document(result)
    assert [entry["method"] for entry in found["runs"]][-1] == "PROTOCOL"
    assert sum(found["cluster_sizes"]) == sum(found["class_sizes"]) == 90
    assert result.stderr == ""


def test_demo_without_matplotlib_says_how_to_get_the_picture(small, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run("demo", "--picture", tmp_path / "demo.png")
    assert result.exit_code == 0
    assert "protocol-mvc[viz]" in result.stderr
    assert not (tmp_path / "demo.png").exists()


@pytest.mark.parametrize("ratio", ["0", "1.5", "-1", "x"])
def test_demo_refuses_an_impossible_ratio(ratio: str):
    assert run("demo", "--ratio", ratio).exit_code == 2


def test_demo_refuses_a_picture_in_no_folder(tmp_path):
    result = run("demo", "--picture", tmp_path / "nowhere" / "demo.png")
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr


def test_without_words_the_command_explains_itself():
    result = run()
    for verb in (*VERBS, "datasets"):
        assert verb in result.stdout + result.stderr


@pytest.mark.parametrize("verb", [*VERBS, *SETS])
def test_the_help_of_every_verb_has_a_purpose_and_examples(verb: str):
    result = run(*verb.split(), "--help")
    assert result.exit_code == 0
    assert f"$ protocol-mvc {verb}" in result.stdout
    assert "--json" in result.stdout


def test_the_version_is_told():
    assert run("--version").stdout == f"{__version__}\n"


@pytest.mark.parametrize("words", [["--json"], ["fly", "--json"], ["fit", "--json"], ["bench", "--json"]])
def test_wrong_words_with_json_are_a_document(words: list[str]):
    result = run(*words)
    assert result.exit_code == 2
    assert document(result)["error"]["code"] == 2


def call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "protocol_mvc", *words], capture_output=True, text=True, check=False
    )


def test_the_module_is_the_command():
    done = call("--help")
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert done.stderr == ""


def test_a_missing_file_is_one_document_and_exit_code_3(tmp_path):
    done = call("info", str(tmp_path / "no.npz"), "--json")
    assert done.returncode == 3
    assert "no.npz" in json.loads(done.stdout)["error"]["message"]
    assert done.stderr == ""


def test_a_missing_data_set_is_one_sentence_and_exit_code_3(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PROTOCOL_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["protocol-mvc", "info", "@hdigit"])
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert stop.value.code == 3
    assert "PROTOCOL_DATA" in capsys.readouterr().err
