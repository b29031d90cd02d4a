"""Whatever a verb does ends in one document or a sentence, and in the exit code that says what happened."""

import json
import math
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from protocol_mvc.cli import output
from protocol_mvc.cli.output import CommandGroup, Console, Json, Quiet, as_json, exit_code, sentence
from protocol_mvc.exceptions import DivergenceError, ModelFileError, UnreliableResultError

ENDS = {
    "data": (ValueError("view 'a' is\nempty"), 3, "view 'a' is empty"),
    "file": (
        FileNotFoundError(2, "No such file or directory", "x.npz"),
        3,
        "x.npz: No such file or directory",
    ),
    "told": (FileNotFoundError("There is no file x."), 3, "There is no file x."),
    "package": (ModuleNotFoundError("pip install 'protocol-mvc[data]'."), 3, "protocol-mvc[data]"),
    "memory": (MemoryError("9 TB"), 3, "not enough memory (9 TB)"),
    "diverged": (DivergenceError("the loss became nan"), 3, "became nan"),
    "doubt": (UnreliableResultError(["too small."], {"run": "r"}), 4, "too small."),
    "model": (ModelFileError("m: damaged"), 5, "m: damaged"),
}

app = typer.Typer(cls=CommandGroup)


@app.command()
def end(how: str, as_json: Json = False, quiet: Quiet = False) -> output.JsonDict:
    """End in one of the ways."""
    voice = Console(as_json, quiet)
    voice.tell("a [message]")
    if how in ENDS:
        raise ENDS[how][0]
    if how == "stopped":
        raise KeyboardInterrupt
    if how == "fault":
        raise ZeroDivisionError("a fault")
    voice.show("a [result]", output.table("[title]", ["name"], [["[red]cell"]]))
    return {"value": float("nan"), "path": Path("p")}


@app.command()
def other() -> None:
    """A group needs two verbs."""


def run(*words: str):
    return CliRunner().invoke(app, ["end", *words], env={"COLUMNS": "100", "TERM": "dumb"})


@pytest.mark.parametrize("how", ENDS)
def test_an_exception_becomes_a_sentence_and_a_code(how: str):
    _, code, says = ENDS[how]
    result = run(how, "--quiet")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("error: ")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("how", [*ENDS, "stopped", "fault", "none", "--colour"])
def test_with_json_there_is_one_document_whatever_happens(how: str):
    result = run(how, "--json")
    found = json.loads(result.stdout)
    codes = {"stopped": 130, "fault": 1, "none": 0, "--colour": 2}
    assert result.exit_code == (ENDS[how][1] if how in ENDS else codes[how])
    assert found["ok"] == (result.exit_code == 0)
    if not found["ok"]:
        assert found["error"]["code"] == result.exit_code
        assert found["error"]["message"]
        assert "\n" not in found["error"]["message"]
        assert found["error"]["hint"]


def test_a_doubtful_result_is_in_the_document_all_the_same():
    assert json.loads(run("doubt", "--json").stdout)["run"] == "r"


def test_unexpected_failures_are_not_hidden_from_people():
    result = run("fault")
    assert result.exit_code == 1
    assert isinstance(result.exception, ZeroDivisionError)
    assert "ZeroDivisionError: a fault" in run("fault", "--json").stdout


def test_ctrl_c_has_the_code_that_shells_expect():
    result = run("stopped")
    assert (result.exit_code, result.stdout) == (130, "")


def test_results_and_messages_go_apart():
    result = run("fine")
    assert result.stderr == "a [message]\n"
    assert "a [result]" in result.stdout
    assert "[title]" in result.stdout
    assert "[red]cell" in result.stdout
    assert run("fine", "--quiet").stderr == ""
    assert run("fine", "--quiet").stdout == result.stdout
    assert json.loads(run("fine", "--json").stdout) == {"ok": True, "value": None, "path": "p"}


def test_help_speaks_for_itself():
    result = run("--help", "--json")
    assert result.exit_code == 0
    assert "End in one of the ways" in result.stdout


numbers = st.floats() | st.integers() | st.floats().map(np.float64) | st.integers(0, 9).map(np.int8)
values = st.recursive(
    numbers | st.text() | st.booleans() | st.none(),
    lambda part: st.lists(part) | st.dictionaries(st.text(), part) | st.tuples(part, part),
)


@given(values)
def test_anything_becomes_strict_json(value):
    text = json.dumps(as_json(value), allow_nan=False)
    assert as_json(json.loads(text)) == as_json(value)


def test_arrays_are_lists_and_infinity_a_word():
    found = as_json({"a": np.array([[1, 2]]), "b": math.inf, 3: (np.nan,)})
    assert found == {"a": [[1, 2]], "b": "inf", "3": [None]}


def test_every_code_has_a_hint():
    assert set(output.HINTS) == {1, 2, 3, 4, 5, 130, 143}
    assert exit_code(KeyError("x")) == 1
    assert sentence(KeyError("x")) == "KeyError: 'x'"


class _Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def _die_and_sleep() -> None:
    dying = _Dying()
    del dying
    time.sleep(10)


def test_of_several_processes_the_first_alone_has_things_to_leave_in_order(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    before = signal.getsignal(signal.SIGTERM)
    for number, heeds in (("0", True), ("1", False)):
        monkeypatch.setenv("RANK", number)
        with output._heeding_signals():
            assert (signal.getsignal(signal.SIGTERM) is not before) is heeds
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.skipif(not output.AGAIN, reason="the system has no alarm")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stop_that_is_lost_in_a_destructor_is_raised_again(monkeypatch):
    monkeypatch.setattr(output, "PATIENCE", 0.05)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(output.StoppedError), output._heeding_signals():
        _die_and_sleep()
    assert signal.getsignal(signal.SIGINT) is before
