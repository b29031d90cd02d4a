"""Every command ends in one document or one line, and in the exit code of what happened."""

import json
import math
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from protocol_mvc.cli import output, signals
from protocol_mvc.cli.options import Json, Quiet
from protocol_mvc.cli.output import CommandGroup, Console, as_json, describe_error
from protocol_mvc.exceptions import DivergenceError, ModelFileError, UnreliableResultError

ERRORS = {
    "data": (ValueError("view 'a' is\nempty"), 3, "view 'a' is empty"),
    "errno": (FileNotFoundError(2, "No such file", "x.npz"), 3, "x.npz: No such file"),
    "message": (FileNotFoundError("There is no file x."), 3, "There is no file x."),
    "package": (ModuleNotFoundError("pip install 'protocol-mvc[data]'."), 3, "protocol-mvc[data]"),
    "memory": (MemoryError("9 TB"), 3, "9 TB"),
    "diverged": (DivergenceError("the loss became nan"), 3, "became nan"),
    "warnings": (UnreliableResultError(["too small."], {"run": "r"}), 4, "too small."),
    "model": (ModelFileError("m: damaged"), 5, "m: damaged"),
    "stopped": (KeyboardInterrupt("to continue: x"), 130, "to continue: x"),
    "terminated": (signals.StoppedError(signal.SIGTERM), 143, "Stopped"),
}

app = typer.Typer(cls=CommandGroup)


@app.command()
def end(how: str, as_json: Json = False, quiet: Quiet = False) -> output.JsonDict:
    """End in one of the ways."""
    console = Console(as_json, quiet)
    console.info("a [message]")
    if how in ERRORS:
        raise ERRORS[how][0]
    if how == "bug":
        raise ZeroDivisionError("a bug")
    warnings.warn("a change of another library", FutureWarning, stacklevel=1)
    with console.show_warnings([UserWarning]):
        warnings.warn("a [warning]", stacklevel=1)
    console.print("a [result]", output.table("[title]", ["name"], [["[red]cell"]]))
    return {"value": float("nan"), "path": Path("p")}


@app.command()
def other() -> None:
    """A group needs two commands."""


def run(*words: str):
    return CliRunner().invoke(app, ["end", *words], env={"COLUMNS": "100", "TERM": "dumb"})


@pytest.mark.parametrize("how", ERRORS)
def test_an_exception_becomes_one_line_and_an_exit_code(how: str):
    _, code, message = ERRORS[how]
    result = run(how, "--quiet")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("how", [*ERRORS, "bug", "success", "--colour"])
def test_with_json_there_is_one_document_in_every_case(how: str):
    result = run(how, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == (ERRORS[how][1] if how in ERRORS else {"bug": 1, "--colour": 2}.get(how, 0))
    assert found["ok"] == (result.exit_code == 0)
    if not found["ok"]:
        assert found["error"]["code"] == result.exit_code
        assert found["error"]["message"]
        assert "\n" not in found["error"]["message"]
        assert found["error"]["hint"]


def test_a_result_with_warnings_is_in_the_document():
    assert json.loads(run("warnings", "--json").stdout)["run"] == "r"


def test_a_bug_has_a_traceback():
    result = run("bug")
    assert result.exit_code == 1
    assert isinstance(result.exception, ZeroDivisionError)
    assert "ZeroDivisionError: a bug" in run("bug", "--json").stdout


def test_results_go_to_stdout_and_messages_to_stderr():
    result = run("success")
    assert result.stderr == "a [message]\nwarning: a [warning]\n"
    assert "a [result]" in result.stdout
    assert "[title]" in result.stdout
    assert "[red]cell" in result.stdout
    assert json.loads(run("success", "--json").stdout) == {"ok": True, "value": None, "path": "p"}


def test_quiet_prints_nothing_but_errors():
    quiet = run("success", "--quiet")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")
    assert json.loads(run("success", "--json", "--quiet").stdout)["ok"]


def test_help_prints_no_document():
    result = run("--help", "--json")
    assert result.exit_code == 0
    assert "End in one of the ways" in result.stdout


numbers = st.floats() | st.integers() | st.floats().map(np.float64) | st.integers(0, 9).map(np.int8)
values = st.recursive(
    numbers | st.text() | st.booleans() | st.none(),
    lambda part: st.lists(part) | st.dictionaries(st.text(), part) | st.tuples(part, part),
)


@given(values)
def test_any_value_becomes_strict_json(value):
    text = json.dumps(as_json(value), allow_nan=False)
    assert as_json(json.loads(text)) == as_json(value)


def test_arrays_become_lists_and_infinity_a_string():
    found = as_json({"a": np.array([[1, 2]]), "b": math.inf, 3: (np.nan,)})
    assert found == {"a": [[1, 2]], "b": "inf", "3": [None]}


def test_every_exit_code_has_a_hint():
    assert set(output.HINTS) == {1, 2, 3, 4, 5, 130, 143}
    assert describe_error(KeyError("x")) == (1, "KeyError: 'x'")
