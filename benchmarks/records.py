"""Records of the benchmark: one JSON line for each measurement, with its config and provenance."""

import functools
import json
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

Record = dict[str, Any]

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "igraph")


def read(path: Path) -> list[Record]:
    """Return the records of a file, or none if there is no file; a last line that was cut off is ignored."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def read_all(paths: Iterable[Path]) -> list[Record]:
    """Return the records of several files, sorted by the time of their end; those without a time first."""
    records = [record for path in sorted(set(paths)) for record in read(path)]
    return sorted(records, key=lambda record: str(record.get("ended", "")))


def append(record: Record, path: Path) -> None:
    """Append a record to a file; a last line that was cut off is removed first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        path.write_text("".join(json.dumps(complete) + "\n" for complete in read(path)))
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def as_stored(value: Any) -> Any:
    """Return a value as it is read from a record: tuples become lists."""
    return json.loads(json.dumps(value))


@contextmanager
def timed() -> Iterator[Record]:
    """Measure a block; the dict has its `seconds` and `cpu_seconds` after the block."""
    times: Record = {}
    wall, cpu = time.perf_counter(), time.process_time()
    yield times
    times["seconds"] = round(time.perf_counter() - wall, 2)
    times["cpu_seconds"] = round(time.process_time() - cpu, 2)


def provenance() -> Record:
    """Return command, commit, machine, threads, precision of products and versions of the running process."""
    script = Path(sys.argv[0])
    program = f"python -m {script.parent.name}" if script.name == "__main__.py" else script.name
    return {
        "command": f"{program} {shlex.join(sys.argv[1:])}".strip(),
        "commit": commit(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def now() -> str:
    """Return the time in UTC, in a format that sorts as text."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@functools.cache  # the sources that are running are those of the start
def commit() -> str:
    """Return the commit of the source tree, with a plus sign if files were changed, or "unknown"."""
    try:
        dirty = _git("status", "--porcelain", "--untracked-files=no", "src", "benchmarks/*.py")
        return _git("rev-parse", "--short", "HEAD") + ("+" if dirty else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parents[1]), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
