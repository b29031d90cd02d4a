"""Run many cases and record them: `python -m tests.fuzz.campaign [TARGET ...]`, as `make fuzz` does.

With `--adversary`, the cases are those of a hostile tester, as `make adversary` runs them.
"""

import faulthandler
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from benchmarks.records import append, now, provenance
from tests.fuzz import memory
from tests.fuzz.targets import ADVERSARY, TARGETS

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def campaign(
    targets: Annotated[list[str] | None, typer.Argument(help="Which; all of them if none is named.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the cases; else of the clock.")] = None,
    share: Annotated[float, typer.Option(help="Part of the cases of each target.")] = 1.0,
    results: Annotated[Path | None, typer.Option(help="Where the record goes.")] = None,
    adversary: Annotated[bool, typer.Option("--adversary", help="Cases of a hostile tester.")] = False,
) -> None:
    """Give rubbish to all that takes input, and append a record of it."""
    faulthandler.enable()
    study, known = ("adversary", ADVERSARY) if adversary else ("fuzz", TARGETS)
    number = int(time.time()) if seed is None else seed
    started, cases, failures = time.perf_counter(), {}, {}
    for name in targets or known:
        target = known[name]
        try:
            cases[name] = target.run(max(1, round(share * target.full)), number)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failures[name] = f"{type(error).__name__}: {error}"[:500]
        typer.echo(f"{name}: {failures.get(name) or f'{cases[name]} cases, no failure'}", err=True)
    seconds = round(time.perf_counter() - started, 1)
    peaks = {kind: round(peak) for kind, peak in memory.peaks.items()}
    record = {"study": study, "seed": number, "cases": cases, "failures": failures, "seconds": seconds}
    record["peak_mib"] = peaks
    append({**record, "ended": now(), **provenance()}, results or RESULTS / f"{study}.jsonl")
    sys.exit(bool(failures))


if __name__ == "__main__":
    typer.run(campaign)
