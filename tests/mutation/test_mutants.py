"""Mutants have another meaning and a description, and a module can get one in place."""

import re
import sys
from types import ModuleType

import pytest

pytest.importorskip("cosmic_ray", reason="make mutation installs it")

from tests.mutation.mutants import describe, graft, mutants

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
    found = [describe(SOURCE, mutant) for mutant in mutants(SOURCE)]
    assert (8, "least: - -> +") in found
    assert (8, "least: < -> <=") in found
    assert (7, "least: 1 -> 2") in found
    assert (4, "LIMIT: 3 -> 4") in found
    assert (17, "Box.twice: * -> /") in found
    assert not any("None" in change or "/" in change for line, change in found if line == 7)


def test_a_description_does_not_depend_on_comments_and_names():
    mutant = SOURCE.replace("a - b", "a + b")
    changes = [("LIMIT = 3", "LIMIT = 3  # at most"), ("a", "alpha"), ("b", "beta")]
    renamed = [SOURCE, mutant]
    for old, new in changes:
        pattern = re.compile(rf"\b{old}\b")
        renamed = [pattern.sub(new, source) for source in renamed]
    assert describe(*renamed) == describe(SOURCE, mutant) == (8, "least: - -> +")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a - b", "a + b", (3, 4, 3)),
        ("b: int = 1", "b: int = 2", (0, 4, 3)),
        ("LIMIT = 3", "LIMIT = 1", (1, 4, 1)),
        ("2 * self", "3 * self", (1, 6, 3)),
    ],
)
def test_everyone_who_imported_a_part_of_the_module_gets_the_new_one(module, old, new, expected):
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
