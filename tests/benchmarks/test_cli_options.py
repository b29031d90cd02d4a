"""Options of several words become units, changes and records, or a usage error that says what to do."""

import json
import re

import pytest
import typer
from benchmarks import options
from benchmarks.methods import COMPARED, FOR_GAPS
from benchmarks.options import (
    chosen_changes,
    chosen_units,
    draw_if_possible,
    each,
    known,
    read_records,
    single,
)
from benchmarks.runs import Unit

PROTOCOL = [Unit("protocol", "digits", 0.1, 0)]
KMEANS = [Unit("kmeans", "digits", 0.1, 0)]


def test_lists_become_all_combinations():
    found = chosen_units("kmeans, protocol", "digits", "0.1,none", "0,7")
    assert len(found) == 8
    assert Unit("protocol", "digits", None, 7) in found


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("mix=0.25", "mix", 0.25),
        ("hidden=[16,8]", "hidden", [16, 8]),
        ("rebalance=false", "rebalance", False),
        ("readout=kmeans", "readout", "kmeans"),
        ("kl_weight=inf", "kl_weight", "inf"),
    ],
)
def test_changes_are_read_as_json_or_as_words(text: str, field: str, value):
    assert chosen_changes([text], PROTOCOL) == {field: value}


def test_no_changes_suit_every_method():
    assert chosen_changes(None, KMEANS) == chosen_changes([], PROTOCOL) == {}


@pytest.mark.parametrize(
    ("text", "units", "says"),
    [
        ("mix", PROTOCOL, "takes field=value"),
        ("mixx=1", PROTOCOL, "unknown config field of protocol 'mixx': choose among hidden"),
        ("mix=3", PROTOCOL, "'mix' cannot be 3"),
        ("mix=0.3", KMEANS, "methods with a config: choose among protocol"),
    ],
)
def test_impossible_changes_are_usage_errors(text: str, units, says: str):
    with pytest.raises(typer.BadParameter, match=re.escape(says)):
        chosen_changes([text], units)


def test_records_come_from_files_and_patterns(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"name": name}) + "\n")
    both = [{"name": "a"}, {"name": "b"}]
    assert read_records([str(tmp_path / "*.jsonl")]) == both
    assert read_records([str(tmp_path / "b.jsonl"), str(tmp_path / "*.jsonl")]) == both


def test_only_the_default_may_match_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_records(options.PATTERNS) == []
    with pytest.raises(typer.BadParameter, match="there is no file other"):
        read_records(["other*.jsonl"])


@pytest.mark.parametrize("there", [True, False])
def test_a_picture_is_drawn_only_where_it_can_be(tmp_path, monkeypatch, capsys, there: bool):
    monkeypatch.setattr("protocol_mvc.report.figures.can_draw", lambda: there)
    drawn: list[int] = []
    draw_if_possible(lambda: drawn.append(1), tmp_path / "p.png")
    assert drawn == [1] * there
    assert ("Figure:" if there else "protocol-mvc[viz]") in capsys.readouterr().err


def test_a_single_value_is_no_list():
    assert single("digits", "data set") == "digits"
    with pytest.raises(typer.BadParameter, match="takes one data set"):
        single("digits,hdigit", "data set")


def test_words_that_are_no_numbers_are_refused():
    assert each("1, 2", int, "seed") == [1, 2]
    with pytest.raises(typer.BadParameter, match="seeds are numbers"):
        each("1,two", int, "seed")


def test_unknown_names_are_refused_with_the_known_ones():
    known(["a"], ["a", "b"], "letter")
    with pytest.raises(typer.BadParameter, match="unknown letter 'c': choose among a, b"):
        known(["a", "c"], ["a", "b"], "letter")


def test_all_are_the_methods_to_compare():
    every = [unit.method for unit in chosen_units("all", "digits", "0.1", "0")]
    assert every == COMPARED
    assert "dsimvc" in (some := [unit.method for unit in chosen_units("all", "digits", "0.1", "0", FOR_GAPS)])
    assert set(some) == {"kmeans", "protocol", "dsimvc"}
    with pytest.raises(typer.BadParameter, match="unknown method for samples that lack views 'mflvc'"):
        chosen_units("protocol,mflvc", "digits", "0.1", "0", FOR_GAPS)
