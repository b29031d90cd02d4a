"""SIGINT and SIGTERM end the command with their exit code and one line, at any moment and however often."""

import json
import signal
import subprocess
import sys
import time

import pytest

from protocol_mvc.cli.signals import StoppedError, signals_as_exceptions

# Loads the command and then, in place of a verb, does what is given.
COMMAND = """
import sys, time
from protocol_mvc.__main__ import handle_signals
handle_signals()
print("ready", flush=True)
from protocol_mvc.cli import main

@main.app.command()
def work() -> None:
    {work}

main.app(["work"])
"""


def interrupted(
    work: str, *moments: float, number: int = signal.SIGINT, words: str = ""
) -> tuple[int, str, str]:
    """Return the exit code and the output of a command that gets signals some seconds after its start."""
    command = [sys.executable, "-c", COMMAND.format(work=work), *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for moment in moments:
            time.sleep(moment)
            process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moments", [[0], [0.03], [0.6], [0.4] + 5 * [0.01]])
def test_the_command_ends_with_one_line_and_the_code_of_the_signal(number, moments):
    work = "import torch; time.sleep(9)"
    assert interrupted(work, *moments, number=number) == (128 + number, "", "error: Stopped\n")


def test_an_interrupt_is_a_document():
    code, output, errors = interrupted("time.sleep(9)", 0, words="--json")
    assert (code, errors) == (130, "")
    assert json.loads(output)["error"]["code"] == 130


@pytest.mark.parametrize(
    "loss",
    [
        "type('X', (), {'__del__': lambda self: time.sleep(9)})()",  # Python only tells of lost exceptions
        "exec('try: time.sleep(9)\\nexcept BaseException: raise ValueError')",
    ],
    ids=["finalizer", "other error"],
)
def test_an_exception_that_is_lost_ends_the_command_too(loss):
    assert interrupted(loss, 1.2) == (130, "", "error: Stopped\n")


def test_a_second_signal_ends_what_does_not_stop():
    stubborn = "exec('while True:\\n try: time.sleep(9)\\n except BaseException: pass')"
    assert interrupted(stubborn, 1.2, 1.1) == (130, "", "error: Stopped\n")


def test_the_work_is_cleaned_up_once():
    cleaned_up = []

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)  # ignored
            cleaned_up.append(True)

    with pytest.raises(StoppedError), signals_as_exceptions():
        work()
    assert cleaned_up == [True]


@pytest.mark.parametrize(("rank", "handles"), [("0", True), ("1", False)])
def test_only_the_first_process_handles_signals(monkeypatch, rank: str, handles: bool):
    monkeypatch.setenv("RANK", rank)
    before = signal.getsignal(signal.SIGTERM)
    with signals_as_exceptions():
        assert (signal.getsignal(signal.SIGTERM) is not before) is handles
    assert signal.getsignal(signal.SIGTERM) is before
