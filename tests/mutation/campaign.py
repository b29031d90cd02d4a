"""Do the tests notice a wrong sign? `python -m tests.mutation.campaign [FILE ...]`; `make mutation` asks.

Every mutant of a file of `transport` or `losses` is given to the tests of its folder, those of its own test
file first and the slowest not at all. What survives must be explained in `survivors.toml`, or the command
fails. Mutants live in the memory of forked processes: no file is touched, and nothing is imported twice.
"""

import importlib
import itertools
import json
import os
import resource
import sys
import time
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from hypothesis import settings
from tests.mutation.mutants import difference, graft, mutants

from protocol_mvc.bench.records import append, now, provenance

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "protocol_mvc"
PARTS = ("transport", "losses")
RESULTS = ROOT / "benchmarks" / "results" / "mutation.jsonl"
EXPLAINED = tomllib.loads(Path(__file__).with_name("survivors.toml").read_text())
UNEXPLAINED = "unexplained"
BUDGET = 10.0  # seconds of tests for a mutant
SECONDS = 60  # of the processor; a mutant that takes longer does not end
PYTEST = ["-qs", "--hypothesis-profile=mutation", "-p", "no:cacheprovider", "-p", "no:xdist"]
PYTEST += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of plugins that are here already
settings.register_profile("mutation", max_examples=20, derandomize=True, deadline=None, database=None)


class Trial:
    """A plugin of pytest that runs the collected tests once for each mutant, each time in a fork."""

    def __init__(self, path: Path) -> None:
        self.part = path.resolve().relative_to(PACKAGE)
        self.source, self.count = path.read_text(), 0
        self.alive: list[str] = []
        self.module = importlib.import_module(".".join(["protocol_mvc", *self.part.with_suffix("").parts]))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Takes the place of running the tests."""
        read, write = os.pipe()
        assert self.passes(session, self.source, write), "the tests fail without any change"
        os.close(write)
        with os.fdopen(read) as lines:
            self._choose(session, [float(line) for line in lines])
        assert not self.passes(session, self.source.replace("return ", "return 0 * ")), "nothing is noticed"
        for mutant in mutants(self.source):
            self.count += 1
            if self.passes(session, mutant):
                self.alive.append(difference(self.source, mutant))
                typer.echo(f"{self.part} {self.alive[-1]}", err=True)
        return True

    def _choose(self, session: pytest.Session, seconds: list[float]) -> None:
        """Keep the tests that fit into the budget, the file's own first, then the quick ones."""
        own = [item.path.name != f"test_{self.part.name}" for item in session.items]
        order = sorted(range(len(own)), key=lambda i: (own[i], seconds[i]))
        spent = itertools.accumulate(seconds[i] for i in order)
        session.items[:] = [session.items[i] for i, total in zip(order, spent, strict=True) if total < BUDGET]

    def passes(self, session: pytest.Session, source: str, times: int | None = None) -> bool:
        """Whether the tests pass with this source; the seconds of each go to a pipe, if any."""
        if child := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code > 1:  # what caught this one may catch the next
                session.items.insert(0, session.items.pop(code - 2))
            return code == 0
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if times is None:
                resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
                graft(self.module, source)
            for i, (item, after) in enumerate(itertools.pairwise([*session.items, None])):
                start = time.process_time()
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if session.testsfailed:
                    os._exit(i + 2 if i < 250 else 1)
                if times is not None:
                    os.write(times, f"{time.process_time() - start}\n".encode())
            os._exit(0)
        finally:
            os._exit(1)

    def record(self) -> dict[str, Any]:
        """What is known in the end."""
        reasons = {line: why for why, lines in EXPLAINED.get(str(self.part), {}).items() for line in lines}
        survivors = [f"{line} -> {reasons.get(line.partition(': ')[2], UNEXPLAINED)}" for line in self.alive]
        counts = {"mutants": self.count, "killed": self.count - len(self.alive), "survived": len(self.alive)}
        tool = f"cosmic-ray {metadata.version('cosmic-ray')}"
        return {"study": "mutation", "file": str(self.part), **counts, "survivors": survivors, "tool": tool}


def campaign(
    files: Annotated[list[Path] | None, typer.Argument(help="Which sources; all if none is named.")] = None,
    results: Annotated[Path, typer.Option(help="Where the records go.")] = RESULTS,
) -> None:
    """Change the sources, run the tests, and append a record of what they did not notice."""
    unexplained = 0
    for path in files or [p for part in PARTS for p in sorted((PACKAGE / part).glob("[a-z]*.py"))]:
        trial = Trial(path)
        pytest.main([*PYTEST, str(ROOT / "tests" / trial.part.parent)], plugins=[trial])
        record = {**trial.record(), "ended": now(), **provenance()}
        append(record, results)
        typer.echo(json.dumps(record))
        unexplained += sum(UNEXPLAINED in line for line in record["survivors"])
    sys.exit(unexplained > 0)


if __name__ == "__main__":
    typer.run(campaign)
