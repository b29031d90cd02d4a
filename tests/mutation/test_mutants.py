"""Mutants differ in what they mean, and a module that gets one has it everywhere."""

import sys
from types import ModuleType

import pytest

pytest.importorskip("cosmic_ray", reason="make mutation installs it")

from tests.mutation.mutants import difference, graft, mutants

SOURCE = """
from dataclasses import dataclass

LIMIT = 3


def least(a: int | None, *, b: int = 1) -> int:
    return a - b if a < LIMIT else LIMIT


@dataclass(frozen=True)
class Box:
    size: int

    @property
    def twice(self) -> int:
        return 2 * self.size
"""


@pytest.fixture
def module(monkeypatch):
    made = ModuleType("made")
    made.__file__ = "made.py"
    monkeypatch.setitem(sys.modules, "made", made)
    exec(SOURCE, vars(made))
    return made


def test_every_mutant_is_python_that_means_something_else():
    found = [difference(SOURCE, mutant) for mutant in mutants(SOURCE)]
    assert "8: return a + b if a < LIMIT else LIMIT" in found
    assert "8: return a - b if a <= LIMIT else LIMIT" in found
    assert "7: def least(a: int | None, *, b: int = 2) -> int:" in found
    assert not any("/," in line or "None," not in line for line in found if line.startswith("7:"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a - b", "a + b", (3, 4, 3)),
        ("b: int = 1", "b: int = 2", (0, 4, 3)),
        ("LIMIT = 3", "LIMIT = 1", (1, 4, 1)),
        ("2 * self", "3 * self", (1, 6, 3)),
    ],
)
def test_all_who_hold_a_part_of_the_module_have_the_new_one(module, old, new, expected):
    least, box = module.least, module.Box(2)
    graft(module, SOURCE.replace(old, new))
    assert (least(2), box.twice, module.LIMIT) == expected


def test_a_decorator_can_be_lost(module):
    box = module.Box(2)
    graft(module, SOURCE.replace("    @property\n", ""))
    assert box.twice() == 4
    graft(module, SOURCE.replace("frozen=True", "frozen=False"))
    box.size = 5
    assert box.size == 5


def test_the_same_source_changes_nothing(module):
    before = dict(vars(module))
    graft(module, SOURCE)
    assert vars(module) == before
