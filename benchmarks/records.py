"""Records: one JSON line per run, with all that decided its result. Runs are added, never removed."""

import functools
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

Record = dict[str, Any]


def read(path: Path) -> list[Record]:
    """The records of a file; none where there is no file. A last line that was cut off does not count."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def read_all(paths: Iterable[Path]) -> list[Record]:
    """The records of several files, oldest first; those that do not tell when they ended come first."""
    records = [record for path in sorted(set(paths)) for record in read(path)]
    return sorted(records, key=lambda record: str(record.get("ended", "")))


def append(record: Record, path: Path) -> None:
    """Add a record as the last line; a line that was cut off before it makes room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        path.write_text("".join(json.dumps(kept) + "\n" for kept in read(path)))
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def as_stored(value: Any) -> Any:
    """A value as it comes back from a record: tuples are lists there."""
    return json.loads(json.dumps(value))


def provenance() -> Record:
    """Where a number comes from: command, commit and machine."""
    return {
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": commit(),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}",
    }


def now() -> str:
    """The time in UTC, in a form whose alphabetical order is that of time."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@functools.cache  # what was loaded at the start is what runs, whatever happens to the files meanwhile
def commit() -> str:
    """The commit of the source tree that is running, with a plus sign if it has changes; else unknown."""
    try:
        dirty = _git("status", "--porcelain", "--untracked-files=no", ".")
        return _git("rev-parse", "--short", "HEAD") + ("+" if dirty else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    # The whole package, not this folder alone: a change anywhere in it may change a result.
    command = ["git", "-C", str(Path(__file__).parents[1]), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
