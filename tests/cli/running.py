"""Helpers that run the command on small data."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tests import examples
from typer.testing import CliRunner, Result

from protocol_mvc.cli import main

VIEWS, LABELS_TRUE = examples.blobs((30, 15, 10))
IDS = np.array([f"s{i}" for i in range(len(LABELS_TRUE))])


def set_options(changes: Mapping[str, Any]) -> list[str]:
    """Return `--set` options of config fields in the notation of `update_config`."""
    pairs = ((name.replace("__", "."), json.dumps(value)) for name, value in changes.items())
    return [word for name, value in pairs for word in ("--set", f"{name}={value}")]


QUICK = [*set_options(examples.QUICK), "--set", "batch_size=32"]


def run(*words: Any) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(main.app, [*map(str, words)], env={"COLUMNS": "200", "TERM": "dumb"})


def document(result: Result) -> dict[str, Any]:
    """Return the JSON document on stdout."""
    found: dict[str, Any] = json.loads(result.stdout)
    assert found["ok"] == (result.exit_code == 0)
    return found


def save(path: Path, rows: Any = slice(None), **others: Any) -> Path:
    """Write the small data as an .npz file."""
    np.savez(path, **{"image": VIEWS[0][rows], "text": VIEWS[1][rows], "ids": IDS[rows], **others})
    return path


def error_line(result: Result, code: int) -> str:
    """Check that a command failed with an exit code and one line on stderr, and return the line."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    (line,) = (line for line in result.stderr.strip().splitlines() if not line.startswith("Reading "))
    assert line.startswith("error: ")
    return str(line)
