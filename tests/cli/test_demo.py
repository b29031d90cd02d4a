"""The demo compares PROTOCOL with references and draws a figure."""

import functools
import re

import pytest
from tests.cli.running import document, run
from tests.examples import blobs, tiny

from protocol_mvc.cli import fit
from protocol_mvc.data import as_views

VIEWS, LABELS_TRUE = blobs()


@pytest.fixture
def small(monkeypatch):
    """Small data and a small model."""
    monkeypatch.setattr(fit, "load_digits_views", lambda **options: (as_views(VIEWS), LABELS_TRUE))
    monkeypatch.setattr(fit, "PROTOCOL", functools.partial(tiny))


def test_the_demo_prints_tables_and_draws_a_figure(small, tmp_path):
    figure = tmp_path / "demo.png"
    result = run("demo", "--figure", figure)
    assert result.exit_code == 0, result.output
    cells = {cell.strip() for line in result.stdout.splitlines() for cell in re.split(r"\s{2,}", line)}
    assert {"PROTOCOL", "kmeans", "ward"} <= cells
    assert {"60", "20", "10"} <= cells
    assert str(figure) in result.stderr
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_demo_as_a_document(small, tmp_path):
    result = run("demo", "--figure", tmp_path / "demo.png", "--json", "--quiet")
    found = document(result)
    assert [entry["method"] for entry in found["runs"]][-1] == "PROTOCOL"
    assert sum(found["cluster_sizes"]) == sum(found["class_sizes"]) == 90
    assert result.stderr == ""


def test_the_demo_runs_without_matplotlib(small, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run("demo", "--figure", tmp_path / "demo.png")
    assert result.exit_code == 0
    assert "protocol-mvc[viz]" in result.stderr
    assert not (tmp_path / "demo.png").exists()


@pytest.mark.parametrize("ratio", ["0", "1.5", "-1", "x"])
def test_an_impossible_ratio_is_a_usage_error(ratio: str):
    assert run("demo", "--ratio", ratio).exit_code == 2


def test_a_figure_needs_an_existing_folder(tmp_path):
    result = run("demo", "--figure", tmp_path / "nowhere" / "demo.png")
    assert result.exit_code == 2
    assert str(tmp_path / "nowhere") in result.stderr
