"""Progress on stderr."""

import re
import time

import pytest

from protocol_mvc.utils import progress as module
from protocol_mvc.utils.progress import progress


def test_nothing_is_written_if_it_is_not_wanted(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    with progress("start", visible=False) as advance:
        advance("one", total=2)
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_there_is_a_line_for_every_new_text(capsys):
    with progress("start") as advance:
        advance("one", 0, total=4)
        advance("one")
        advance("two", 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert re.sub(r"\d+ s", "_ s", err).splitlines() == ["start", "  one: 0%, _ s", "  two: 75%, _ s"]


def test_without_a_terminal_a_line_tells_now_and_then_that_time_passes(capsys, monkeypatch):
    monkeypatch.setattr(module, "INTERVAL", 0.01)
    with progress("waiting"):
        deadline = time.monotonic() + 5
        seen = ""
        while seen.count("waiting") < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
            seen += capsys.readouterr().err
    assert seen.count("waiting: 0 s") >= 2
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_the_bar_goes_to_the_terminal_on_stderr(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("start") as advance:
        advance("halfway")
    out, err = capsys.readouterr()
    assert out == ""
    assert "halfway" in err


@pytest.mark.parametrize(("steps", "share"), [([1], "20%"), ([1, 3], "80%"), ([1, 3, 1], "100%")])
def test_the_bar_moves_by_the_given_steps(capsys, monkeypatch, steps: list[int], share: str):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("start") as advance:
        advance("moving", 0, total=5)
        for number in steps:
            advance("moving", number)
    assert re.findall(r"\d+%", capsys.readouterr().err)[-1] == share
