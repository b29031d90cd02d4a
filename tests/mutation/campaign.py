"""Do the tests notice a wrong sign? `python -m tests.mutation.campaign [FILE ...]`; `make mutation` asks.

Every mutant of a file of `transport` or `losses` is given to its own test file, and to as many other tests of
its folder as BUDGET allows. What survives must be explained in `survivors.toml`, or the command
fails. Mutants live in the memory of forked processes: no file is touched, and nothing is imported twice.
"""

import importlib
import itertools
import json
import os
import random
import resource
import sys
import time
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from benchmarks.records import append, now, provenance
from hypothesis import settings
from tests.mutation.mutants import difference, graft, mutants

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "protocol_mvc"
PARTS = ("transport", "losses")
RESULTS = ROOT / "benchmarks" / "results" / "mutation.jsonl"
EXPLAINED = tomllib.loads(Path(__file__).with_name("survivors.toml").read_text())
UNEXPLAINED = "unexplained"
BUDGET = 5.0  # seconds of the processor after which no test of another file is taken
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
        session.items[:] = self._chosen(session)
        assert not self.notices(session, self.source), "the tests fail without any change"
        assert self.notices(session, self.source.replace("return ", "return 0 * ")), "the tests see no source"
        for mutant in mutants(self.source):
            self.count += 1
            if not self.notices(session, mutant):
                self.alive.append(difference(self.source, mutant))
                typer.echo(f"{self.part} {self.alive[-1]}", err=True)
        return True

    def _chosen(self, session: pytest.Session) -> list[pytest.Item]:
        """The file's own tests, and others that fit into the budget, now sorted by their time."""
        random.Random(0).shuffle(session.items)
        other = lambda item: item.path.name != f"test_{self.part.name}"
        session.items.sort(key=other)
        read, write = os.pipe()
        if not (child := os.fork()):
            for item, seconds in zip(session.items, self._run(session), strict=True):
                os.write(write, f"{seconds}\n".encode())
                if time.process_time() > BUDGET and other(item):
                    break
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as lines:
            cost = [(float(line), i) for i, line in enumerate(lines)]
        os.waitpid(child, 0)
        return [session.items[i] for _, i in sorted(cost)]

    def _run(self, session: pytest.Session) -> Iterator[float]:
        """Run test after test and say how long it took."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        for item, after in itertools.pairwise([*session.items, None]):
            start = time.process_time()
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            yield time.process_time() - start

    def notices(self, session: pytest.Session, source: str) -> bool:
        """Whether a test fails with this source, which only a process of its own sees."""
        if child := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code > 1:  # what caught this one may catch the next
                session.items.insert(0, session.items.pop(code - 2))
            return code != 0
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            graft(self.module, source)
            for i, _ in enumerate(self._run(session)):
                if session.testsfailed:
                    os._exit(i + 2 if i < 250 else 1)
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
