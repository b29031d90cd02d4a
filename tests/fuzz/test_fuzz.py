"""A sample of every target; `make fuzz` runs them all the way."""

import pytest
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_rubbish_is_refused_or_works(name: str):
    target = TARGETS[name]
    assert target.run(target.quick, None) > 0
