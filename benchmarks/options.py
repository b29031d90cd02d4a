"""Options of the benchmark's commands: lists separated by commas, config changes, files of records."""

import glob
import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from benchmarks.methods import COMPARED, CONFIGS, METHODS, config_of
from benchmarks.records import Record, read_all
from benchmarks.runs import Unit, units
from protocol_mvc.io.datasets import list_datasets
from protocol_mvc.report import figures

out = Console() if Console().is_terminal else Console(width=130)
err = Console(stderr=True)

RESULTS, FIGURES = Path("benchmarks/results"), Path("benchmarks/figures")
PATTERNS = [str(RESULTS / "*.jsonl")]


def chosen_units(
    methods: str, datasets: str, ratios: str, seeds: str, among: Collection[str] = METHODS
) -> list[Unit]:
    """All combinations of lists separated by commas; methods that cannot be chosen are refused."""
    everything = [method for method in COMPARED if method in among]
    chosen = everything if methods == "all" else each(methods, str, "method")
    data = each(datasets, str, "data set")
    known(chosen, METHODS, "method")
    known(chosen, among, "method for samples that lack views")
    known(data, list_datasets(), "data set")
    parts = each(ratios, lambda text: None if text == "none" else float(text), "ratio")
    return list(units(chosen, data, parts, each(seeds, int, "seed")))


def chosen_changes(texts: Iterable[str] | None, wanted: Iterable[Unit]) -> dict[str, Any]:
    """Fields and values from `field=value`, checked against every method that has a config."""
    changes = dict(map(change, texts or ()))
    methods = [method for method in dict.fromkeys(unit.method for unit in wanted) if method in CONFIGS]
    if changes and not methods:
        raise typer.BadParameter(f"--set is for methods with a config: choose among {', '.join(CONFIGS)}")
    for method in methods:
        known(list(changes), CONFIGS[method], f"config field of {method}")
    try:
        for method in methods:
            config_of(method, changes)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return changes


def change(text: str) -> tuple[str, Any]:
    """The field and the value, read as JSON or else as a word, of `field=value`."""
    field, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--set takes field=value, such as mix=0.3, not {text!r}")
    try:
        return field, json.loads(value)
    except json.JSONDecodeError:
        return field, value


def read_records(patterns: Iterable[str]) -> list[Record]:
    """The records of all files that the patterns match; only the default may match nothing."""
    paths: list[Path] = []
    for pattern in patterns:
        found = glob.glob(pattern)
        if not found and pattern not in PATTERNS:
            raise typer.BadParameter(f"there is no file {pattern}: name files of records, or a pattern")
        paths += map(Path, found)
    return read_all(paths)


def draw_if_possible(draw: Callable[[], None], path: Path) -> None:
    """Draw a figure if matplotlib is installed, and print where it is."""
    if figures.can_draw():
        draw()
        err.print(f"Figure: {path}", markup=False, highlight=False, soft_wrap=True)
    else:
        err.print("No figure: it needs matplotlib (pip install 'protocol-mvc[viz]').", markup=False)


def refuse_options(context: typer.Context) -> None:
    """Options in front of a subcommand would be ignored in silence."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"put the options after {context.invoked_subcommand!r}, not before it")


def each(texts: str, read: Callable[[str], Any], kind: str) -> list[Any]:
    """The values of a list separated by commas."""
    try:
        return [read(text.strip()) for text in texts.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{kind}s are numbers separated by commas: {error}") from None


def single(text: str, kind: str) -> str:
    """The text, unless it is a list: a figure shows one data set at one ratio."""
    if "," in text:
        raise typer.BadParameter(f"this study takes one {kind}, not {text!r}: run it once for each")
    return text


def known(chosen: list[str], choices: Iterable[str], kind: str) -> None:
    """Refuse a name that is not among the choices."""
    for name in chosen:
        if name not in choices:
            raise typer.BadParameter(f"unknown {kind} {name!r}: choose among {', '.join(choices)}")
