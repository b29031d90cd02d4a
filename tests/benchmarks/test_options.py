"""Options become units, changes and records, or a usage error."""

import json
import os
import re

import pytest
import typer
from benchmarks import options
from benchmarks.methods import COMPARED, FIVE, INCOMPLETE
from benchmarks.options import (
    check_known,
    chosen_changes,
    chosen_units,
    draw,
    read_records,
    single_group,
    split,
)
from benchmarks.runs import Unit

PROTOCOL = [Unit("protocol", "digits", 0.1, 0)]
KMEANS = [Unit("kmeans", "digits", 0.1, 0)]


def test_lists_become_all_combinations():
    found = chosen_units("kmeans, protocol", "digits", "0.1,none", "0,7")
    assert len(found) == 8
    assert Unit("protocol", "digits", None, 7) in found


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("losses.logit_adjustment=0.25", "losses.logit_adjustment", 0.25),
        ("network.hidden_dims=[16,8]", "network.hidden_dims", [16, 8]),
        ("losses.rebalanced=false", "losses.rebalanced", False),
        ("readout=kmeans", "readout", "kmeans"),
        ("pseudo_labels.prior_strength=inf", "pseudo_labels.prior_strength", "inf"),
    ],
)
def test_values_are_json_or_words(text: str, name: str, value):
    assert chosen_changes([text], PROTOCOL) == {name: value}


def test_no_changes_suit_every_method():
    assert chosen_changes(None, KMEANS) == chosen_changes([], PROTOCOL) == {}


@pytest.mark.parametrize(
    ("text", "units", "culprit"),
    [
        ("readout", PROTOCOL, "'readout'"),
        ("losses.rebalance=1", PROTOCOL, "'rebalance'"),
        ("readout.k=1", PROTOCOL, "'readout'"),
        ("pseudo_labels.min_mass=3", PROTOCOL, "min_mass"),
        ("readout=kmeans", KMEANS, "choose among protocol"),
    ],
)
def test_impossible_changes_are_usage_errors(text: str, units, culprit: str):
    with pytest.raises(typer.BadParameter, match=re.escape(culprit)):
        chosen_changes([text], units)


def test_records_come_from_files_and_patterns(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"name": name}) + "\n")
    both = [{"name": "a"}, {"name": "b"}]
    assert read_records([str(tmp_path / "*.jsonl")]) == both
    assert read_records([str(tmp_path / "b.jsonl"), str(tmp_path / "*.jsonl")]) == both


def test_only_the_default_pattern_may_match_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_records(options.PATTERNS) == []
    with pytest.raises(typer.BadParameter, match="other"):
        read_records(["other*.jsonl"])


@pytest.mark.parametrize("installed", [True, False])
def test_a_figure_needs_matplotlib(tmp_path, monkeypatch, capsys, installed: bool):
    monkeypatch.setattr("protocol_mvc.report.charts.can_draw", lambda: installed)
    drawn: list[object] = []
    draw(tmp_path / "p.png", lambda row, path: drawn.append(path), 1)
    assert drawn == [tmp_path / "p.png"] * installed
    assert ("p.png" if installed else "protocol-mvc[viz]") in capsys.readouterr().err


def test_a_study_with_a_figure_takes_one_data_set():
    words = ("protocol", "digits", "0.1", "0,1")
    assert single_group(*words) == chosen_units(*words)
    with pytest.raises(typer.BadParameter, match="data set"):
        single_group("protocol", "digits,hdigit", "0.1", "0")


def test_words_in_lists_of_numbers_are_refused():
    assert split("1, 2", int, "seed") == [1, 2]
    with pytest.raises(typer.BadParameter, match="'two'"):
        split("1,two", int, "seed")


def test_unknown_names_are_refused_with_the_known_ones():
    check_known(["a"], ["a", "b"], "letter")
    with pytest.raises(typer.BadParameter, match=r"'c'.* a, b"):
        check_known(["a", "c"], ["a", "b"], "letter")


def test_all_are_the_methods_to_compare():
    assert [unit.method for unit in chosen_units("all", "digits", "0.1", "0")] == COMPARED
    some = [unit.method for unit in chosen_units("all", "digits", "0.1", "0", INCOMPLETE)]
    assert set(some) == {*FIVE, "protocol", "dsimvc"}
    with pytest.raises(typer.BadParameter, match="'mflvc'"):
        chosen_units("protocol,mflvc", "digits", "0.1", "0", INCOMPLETE)


def test_the_data_home_is_where_data_sets_are_searched(monkeypatch, tmp_path):
    monkeypatch.setenv("PROTOCOL_DATA", "elsewhere")
    options._set_data_home(None)
    assert os.environ["PROTOCOL_DATA"] == "elsewhere"
    options._set_data_home(tmp_path)
    assert os.environ["PROTOCOL_DATA"] == str(tmp_path)


def test_a_class_of_ones_own_is_a_method():
    (unit,) = options.chosen_units("sklearn.cluster:KMeans", "digits", "0.1", "0")
    assert unit.method == "sklearn.cluster:KMeans"
    with pytest.raises(typer.BadParameter, match="no attribute 'Kmeans'"):
        options.chosen_units("sklearn.cluster:Kmeans", "digits", "0.1", "0")
