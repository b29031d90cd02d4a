"""A sample of every target; `make fuzz` and `make adversary` run them all the way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.targets import ADVERSARY, TARGETS

ROOT = Path(__file__).parents[2]


def run_sample(targets: str, name: str) -> None:
    """Run a target in a process of its own: a fork of one whose threads have computed may wait forever."""
    code = f"from tests.fuzz.targets import {targets}\ntarget = {targets}[{name!r}]\n"
    code += "assert target.run(target.quick, None) > 0"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    words = [sys.executable, "-W", "ignore", "-c", code]
    ended = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("name", TARGETS)
def test_rubbish_is_refused_or_works(name: str):
    run_sample("TARGETS", name)


@pytest.mark.skipif(sys.platform != "linux", reason="forks processes, and reads their memory from /proc")
@pytest.mark.parametrize("name", ADVERSARY)
def test_hostile_cases_lose_nothing_and_take_no_more_than_the_limit(name: str):
    run_sample("ADVERSARY", name)
