"""Mutation testing of `transport` and `losses`: `python -m tests.mutation.campaign [FILE ...]`.

Every mutant of a file is tested by the file's own tests and by as many other tests of its folder as fit into
BUDGET seconds. A mutant that survives must be explained in `survivors.toml`, or the command fails. Mutants
exist only in the memory of forked processes: no file is changed, and nothing is imported twice.
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
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from benchmarks.records import append, now, provenance
from hypothesis import settings
from tests.mutation.mutants import describe, graft, mutants

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "protocol_mvc"
PARTS = ("transport", "losses")
RESULTS = ROOT / "benchmarks" / "results" / "mutation.jsonl"
EXPLAINED = tomllib.loads(Path(__file__).with_name("survivors.toml").read_text())
UNEXPLAINED = "unexplained"
BUDGET = 5.0  # CPU seconds after which no test of another file is added
MAX_SECONDS = 60  # CPU seconds of a mutant; one that takes longer is caught
PYTEST = ["-qs", "--hypothesis-profile=mutation", "-p", "no:cacheprovider", "-p", "no:xdist"]
PYTEST += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins are imported already
settings.register_profile("mutation", max_examples=20, derandomize=True, deadline=None, database=None)


class Trial:
    """Plugin of pytest that runs the collected tests once for each mutant, each time in a fork."""

    def __init__(self, path: Path) -> None:
        self.part = path.resolve().relative_to(PACKAGE)
        self.source, self.count = path.read_text(), 0
        self.survivors: dict[str, int] = {}  # line of each, by its description
        self.module = importlib.import_module(".".join(["protocol_mvc", *self.part.with_suffix("").parts]))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Replace the normal run of the tests."""
        session.items[:] = self._chosen(session)
        assert not self.catches(session, self.source), "the tests fail without any change"
        assert self.catches(session, self.source.replace("return ", "return 0 * ")), "no test uses the source"
        seen: Counter[str] = Counter()
        for mutant in mutants(self.source):
            line, change = describe(self.source, mutant)
            seen[change] += 1
            if not self.catches(session, mutant):
                self.survivors[change if seen[change] == 1 else f"{change} ({seen[change]})"] = line
                typer.echo(f"{self.part}:{line} {change} ({seen[change]})", err=True)
        self.count = seen.total()
        return True

    def _chosen(self, session: pytest.Session) -> list[pytest.Item]:
        """Return the file's own tests and others that fit into the budget, the fastest first."""
        random.Random(0).shuffle(session.items)
        other = lambda item: not item.path.name.startswith(f"test_{self.part.stem}")
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
        """Run test after test and yield the CPU seconds of each."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        for item, after in itertools.pairwise([*session.items, None]):
            start = time.process_time()
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            yield time.process_time() - start

    def catches(self, session: pytest.Session, source: str) -> bool:
        """Return whether a test fails with this source, in a process of its own."""
        if child := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code > 1:  # the test that caught this mutant may catch the next
                session.items.insert(0, session.items.pop(code - 2))
            return code != 0
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
            graft(self.module, source)
            for i, _ in enumerate(self._run(session)):
                if session.testsfailed:
                    os._exit(i + 2 if i < 250 else 1)
            os._exit(0)
        finally:
            os._exit(1)

    def record(self) -> dict[str, Any]:
        """Return the record of the file."""
        reasons = {x: reason for reason, found in EXPLAINED.get(str(self.part), {}).items() for x in found}
        survivors = [
            {"line": line, "mutant": x, "reason": reasons.get(x, UNEXPLAINED)}
            for x, line in self.survivors.items()
        ]
        counts = {"mutants": self.count, "killed": self.count - len(survivors), "survived": len(survivors)}
        tool = f"cosmic-ray {metadata.version('cosmic-ray')}"
        return {"study": "mutation", "file": str(self.part), **counts, "survivors": survivors, "tool": tool}


def campaign(
    files: Annotated[list[Path] | None, typer.Argument(help="Which sources; all if none is named.")] = None,
    results: Annotated[Path, typer.Option(help="Where the records go.")] = RESULTS,
) -> None:
    """Test the mutants of the sources and append a record of those that survive."""
    unexplained = 0
    for path in files or [p for part in PARTS for p in sorted((PACKAGE / part).glob("[a-z]*.py"))]:
        trial = Trial(path)
        pytest.main([*PYTEST, str(ROOT / "tests" / trial.part.parent)], plugins=[trial])
        record = {**trial.record(), "ended": now(), **provenance()}
        append(record, results)
        typer.echo(json.dumps(record))
        unexplained += sum(found["reason"] == UNEXPLAINED for found in record["survivors"])
    sys.exit(unexplained > 0)


if __name__ == "__main__":
    typer.run(campaign)
