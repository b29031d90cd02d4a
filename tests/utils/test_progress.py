"""The progress bar."""

import re

import pytest

from protocol_mvc.utils.progress import progress_bar


@pytest.mark.parametrize("visible", [True, False])
def test_the_bar_writes_nothing_where_no_terminal_is(capsys, visible: bool):
    with progress_bar(3, visible=visible) as advance:
        advance("one")
        advance("two")
    assert capsys.readouterr() == ("", "")


def test_the_bar_goes_to_the_terminal_on_stderr(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    with progress_bar(1, visible=True) as advance:
        advance("halfway")
    out, err = capsys.readouterr()
    assert out == ""
    assert "halfway" in err


@pytest.mark.parametrize(("steps", "share"), [([1], "20%"), ([1, 3], "80%"), ([1, 3, 1], "100%")])
def test_the_bar_moves_by_the_given_steps(capsys, monkeypatch, steps: list[int], share: str):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar(5, visible=True) as advance:
        for number in steps:
            advance("moving", number)
    assert re.findall(r"\d+%", capsys.readouterr().err)[-1] == share
