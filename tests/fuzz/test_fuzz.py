"""A sample of every target; `make fuzz` and `make adversary` run them all the way."""

import sys

import pytest
from tests.fuzz.targets import ADVERSARY, TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_rubbish_is_refused_or_works(name: str):
    target = TARGETS[name]
    assert target.run(target.quick, None) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="forks processes, and reads their memory from /proc")
@pytest.mark.parametrize("name", ADVERSARY)
def test_hostile_cases_lose_nothing_and_take_no_more_than_the_limit(name: str):
    target = ADVERSARY[name]
    assert target.run(target.quick, None) > 0
