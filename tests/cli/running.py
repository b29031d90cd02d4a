"""The command on small data, shared by the tests of its verbs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from tests.examples import QUICK, blobs
from typer.testing import CliRunner, Result

from protocol_mvc.cli import main

VIEWS, TRUTH = blobs((30, 15, 10))
IDS = np.array([f"s{i}" for i in range(len(TRUTH))])
QUICKLY = [
    word
    for name, value in QUICK.items()
    for word in ("--set", f"{name.replace('__', '.')}={json.dumps(value)}")
]
QUICKLY += ["--set", "batch_size=32"]


def run(*words: Any) -> Result:
    """What the command does with the words."""
    return CliRunner().invoke(main.app, [*map(str, words)], env={"COLUMNS": "200", "TERM": "dumb"})


def document(result: Result) -> dict[str, Any]:
    """The one document that was printed."""
    found: dict[str, Any] = json.loads(result.stdout)
    assert found["ok"] == (result.exit_code == 0)
    return found


def save(path: Path, rows: Any = slice(None), **others: Any) -> Path:
    """The small data as an archive."""
    arrays = {"image": VIEWS[0][rows], "text": VIEWS[1][rows], "ids": IDS[rows], **others}
    np.savez(path, **arrays)
    return path


def refusal(result: Result, code: int) -> str:
    """The one sentence on stderr of a refusal, which prints nothing else."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]
