"""CPU time of the start of Python with the package, and of the command where it has nothing to compute."""

import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.records import RESULTS, append, now, provenance

COMMANDS = {
    "python": ["-c", "pass"],
    "import protocol_mvc": ["-c", "import protocol_mvc"],
    "protocol-mvc --help": ["-m", "protocol_mvc", "--help"],
    "protocol-mvc --version": ["-m", "protocol_mvc", "--version"],
    "protocol-mvc fitt": ["-m", "protocol_mvc", "fitt"],
}


def cpu_seconds(arguments: list[str]) -> float:
    """Return user and system seconds of Python with these arguments, in a new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def startup(
    repeats: Annotated[int, typer.Option(help="Number of processes; the median counts.")] = 5,
    records: Annotated[Path, typer.Option(help="File of records.")] = RESULTS / "startup.jsonl",
) -> None:
    """Measure the CPU seconds of importing the package and of the command's help."""
    seconds = {
        name: round(statistics.median(cpu_seconds(arguments) for _ in range(repeats)), 3)
        for name, arguments in COMMANDS.items()
    }
    for name, value in seconds.items():
        typer.echo(f"{name}: {value:.3f} s")
    append(
        {"study": "startup", "cpu_seconds": seconds, "repeats": repeats, **provenance(), "ended": now()},
        records,
    )
