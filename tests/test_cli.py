"""The command: results on stdout, messages on stderr, exit code 2 for what it does not know."""

import functools
import re
import subprocess
import sys

import pytest
from tests.examples import blobs, tiny
from typer.testing import CliRunner

from protocol_mvc import cli
from protocol_mvc.data import as_views

VIEWS, TRUTH = blobs()


def run(*words: str):
    return CliRunner().invoke(cli.app, list(words), env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.fixture
def small(monkeypatch):
    """Small data and a small method."""
    monkeypatch.setattr(cli, "load", lambda name, *, ratio, seed: (as_views(VIEWS), TRUTH))
    monkeypatch.setattr(cli, "PROTOCOL", functools.partial(tiny))


def test_demo_prints_tables_and_draws_a_picture(small, tmp_path):
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


def test_demo_without_matplotlib_says_how_to_get_the_picture(small, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run("demo", "--picture", str(tmp_path / "demo.png"))
    assert result.exit_code == 0
    assert "protocol-mvc[viz]" in result.stderr
    assert not (tmp_path / "demo.png").exists()


@pytest.mark.parametrize("ratio", ["0", "1.5", "-1", "x"])
def test_demo_refuses_an_impossible_ratio(ratio: str):
    assert run("demo", "--ratio", ratio).exit_code == 2


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
    monkeypatch.setattr("sys.argv", ["protocol-mvc", "bench", "--datasets", "hdigit", "--records", "r.jsonl"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 3
    assert "PROTOCOL_DATA" in capsys.readouterr().err
