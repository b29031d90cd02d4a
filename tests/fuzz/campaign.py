"""Fuzz at length and record it: `python -m tests.fuzz.campaign [TARGET ...]`; `make fuzz` runs them all."""

import faulthandler
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from benchmarks.records import append, now, provenance
from tests.fuzz.targets import TARGETS

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "fuzz.jsonl"


def campaign(
    targets: Annotated[list[str] | None, typer.Argument(help="Which; all of them if none is named.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the cases; else of the clock.")] = None,
    share: Annotated[float, typer.Option(help="Part of the cases of each target.")] = 1.0,
    results: Annotated[Path, typer.Option(help="Where the record goes.")] = RESULTS,
) -> None:
    """Give rubbish to all that takes input, and append a record of it."""
    faulthandler.enable()
    number = int(time.time()) if seed is None else seed
    started, cases, failures = time.perf_counter(), {}, {}
    for name in targets or TARGETS:
        target = TARGETS[name]
        try:
            cases[name] = target.run(max(1, round(share * target.full)), number)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failures[name] = f"{type(error).__name__}: {error}"[:500]
        typer.echo(f"{name}: {failures.get(name) or f'{cases[name]} cases, no failure'}", err=True)
    seconds = round(time.perf_counter() - started, 1)
    record = {"study": "fuzz", "seed": number, "cases": cases, "failures": failures, "seconds": seconds}
    append({**record, "ended": now(), **provenance()}, results)
    sys.exit(bool(failures))


if __name__ == "__main__":
    typer.run(campaign)
