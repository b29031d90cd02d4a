"""The pages on equations, deviations and methods name code that exists and state values that hold."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.methods.protocol.config import PRESETS
from protocol_mvc.utils.config import flatten_config

ROOT = Path(__file__).parents[1]
EQUATIONS = (ROOT / "docs" / "equations.md").read_text()
DEVIATIONS, _, OTHERS = (ROOT / "docs" / "deviations.md").read_text().partition("## Other methods")
FUNCTIONS = sorted(set(re.findall(r"`([\w/]+\.py):([A-Za-z_][\w.]*)`", EQUATIONS)))
TESTS = sorted(set(re.findall(r"`([\w/]+\.py)::([\w:]+)`", EQUATIONS)))


def rows(page: str) -> list[list[str]]:
    """Cells of every table row, without headings and rulers."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "---" not in line]


def defined(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[str]:
    """Dotted names of the functions and classes of a module."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from defined(node, f"{prefix}{node.name}.")


def equation_rows() -> list[list[str]]:
    return [row for row in rows(EQUATIONS) if re.fullmatch(r"\d+(-\d+)?", row[0])]


def test_every_equation_is_covered_once():
    spans = [[int(x) for x in row[0].split("-")] for row in equation_rows()]
    assert [n for span in spans for n in range(span[0], span[-1] + 1)] == list(range(1, 50))


def test_every_equation_has_a_function_and_a_test():
    for row in equation_rows():
        assert ".py:" in row[2], row
        assert re.search(r"\.py::(\w+::)?test_", row[3]), row


@pytest.mark.parametrize(("path", "name"), FUNCTIONS)
def test_functions_exist(path: str, name: str):
    source = ROOT / "src" / "protocol_mvc" / path
    assert name in set(defined(ast.parse(source.read_text())))


@pytest.mark.parametrize(("path", "name"), TESTS)
def test_tests_exist(path: str, name: str):
    assert name.replace("::", ".") in set(defined(ast.parse((ROOT / "tests" / path).read_text())))


def field(config: BaseModel, path: str) -> Any:
    """The value of a dotted field."""
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize(("column", "preset"), [(3, "default"), (4, "paper")])
def test_stated_values_hold(column: int, preset: str):
    cells = " ".join(row[column] for row in rows(DEVIATIONS))
    stated = re.findall(r"`([\w.]+)=([^`]+)`", cells)
    assert len(stated) > 10
    wrong = [
        (name, value) for name, value in stated if field(PRESETS[preset], name) != ast.literal_eval(value)
    ]
    assert wrong == []


def test_fields_exist():
    named = {name for row in rows(DEVIATIONS)[1:] for name in re.findall(r"`([a-z_.]+)`", row[5])}
    known = {name.replace("__", ".") for preset in PRESETS.values() for name, _ in flatten_config(preset)}
    assert named - {"batch_size"} <= known


def test_stated_values_of_other_methods_hold():
    for names, _, _, ours, fields in rows(OTHERS)[1:]:
        for name in names.split(", "):
            actual = ESTIMATORS[name.lower()]._presets["default"].model_dump()
            stated = re.findall(r"`(\w+)=([^`\"]+)`", ours)
            assert [
                (field, value) for field, value in stated if actual[field] != ast.literal_eval(value)
            ] == []
            assert set(re.findall(r"`(\w+)`", fields)) <= actual.keys(), (name, fields)


PAGES = sorted((ROOT / "docs" / "methods").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_code_named_on_the_page_of_a_method_exists(page: Path):
    assert page.stem in ESTIMATORS
    for path, name in re.findall(r"`([\w/]+\.py):([A-Za-z_][\w.]*)`", page.read_text()):
        assert name in set(defined(ast.parse((ROOT / "src" / "protocol_mvc" / path).read_text()))), name
