"""Options of the commands: lists separated by commas, changes of the config, files of records."""

import glob
import os
import pkgutil
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.datasets import OWN, list_datasets
from benchmarks.methods import COMPARED, METHODS, NETWORKS, Changes, config_of, is_imported
from benchmarks.records import Record, read_all
from benchmarks.runs import Unit, units
from protocol_mvc.cli.settings import parse_change
from protocol_mvc.report import charts

RESULTS, FIGURES = Path("benchmarks/results"), Path("benchmarks/figures")
PATTERNS = [str(RESULTS / "*.jsonl")]
out = Console() if Console().is_terminal else Console(width=130)
err = Console(stderr=True)


def _set_data_home(folder: Path | None) -> Path | None:
    if folder is not None:
        os.environ["PROTOCOL_DATA"] = str(folder)
    return folder


PROTOCOL_METHODS = [name for name in NETWORKS if name.split("-")[0] == "protocol"]
Method = Annotated[str, typer.Option(help=f"One of {', '.join(PROTOCOL_METHODS)}.")]
Methods = Annotated[
    str,
    typer.Option(
        help=f"Among {', '.join(METHODS)}, separated by commas; or all. A class of your own, which has "
        "n_clusters, random_state and fit_predict, is named by its place, package.module:Class."
    ),
]
Dataset = Annotated[str, typer.Option(help=f"One of {', '.join(list_datasets())}.")]
Datasets = Annotated[str, typer.Option(help=f"Among {', '.join(list_datasets())}; separated by commas.")]
Ratio = Annotated[str, typer.Option(help='Imbalance ratio; "none" takes the data as they are.')]
Ratios = Annotated[str, typer.Option(help='Imbalance ratios; "none" takes the data as they are.')]
Seeds = Annotated[str, typer.Option(help="Seeds, separated by commas.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Change a field of the config; may be repeated."),
]
RecordFile = Annotated[
    Path, typer.Option("--records", help="File of records; runs that it has are not repeated.")
]
RecordFiles = Annotated[
    list[str], typer.Option("--records", help="Files of records or patterns; repeatable.")
]
Figure = Annotated[Path, typer.Option(help="File of the figure.")]
DataHome = Annotated[
    Path | None,
    typer.Option(callback=_set_data_home, help="Folder of the data sets; the default is $PROTOCOL_DATA."),
]


def chosen_units(
    methods: str, datasets: str, ratios: str, seeds: str, among: Collection[str] = METHODS
) -> list[Unit]:
    """Return all combinations of four lists separated by commas.

    Args:
        methods: Names of methods, or "all".
        datasets: Names of data sets.
        ratios: Imbalance ratios or "none".
        seeds: Seeds.
        among: The methods that can be chosen.
    """
    chosen = [m for m in COMPARED if m in among] if methods == "all" else split(methods, str, "method")
    check_methods(chosen, METHODS, "method")
    check_methods(chosen, among, "method for samples with missing views")
    names = split(datasets, str, "data set")
    check_known([name for name in names if OWN not in name], list_datasets(), "data set")
    values = split(ratios, lambda text: None if text == "none" else float(text), "ratio")
    return list(units(chosen, names, values, split(seeds, int, "seed")))


def single_group(
    methods: str, dataset: str, ratio: str, seeds: str, among: Collection[str] = PROTOCOL_METHODS
) -> list[Unit]:
    """Return units of one data set at one ratio, for studies whose figure shows no more."""
    check_known(split(methods, str, "method"), among, "method of this study")
    for text, kind in ((dataset, "data set"), (ratio, "ratio")):
        if "," in text:
            raise typer.BadParameter(f"this study takes one {kind}, not {text!r}: run it once for each")
    return chosen_units(methods, dataset, ratio, seeds)


def chosen_changes(texts: Iterable[str] | None, wanted: Iterable[Unit]) -> Changes:
    """Return names and values of `--set` options, after validating them for every method with a config."""
    changes = dict(parse_change(text) for text in texts or ())
    methods = [method for method in dict.fromkeys(unit.method for unit in wanted) if method in NETWORKS]
    if changes and not methods:
        raise typer.BadParameter(f"--set is for methods with a config: choose among {', '.join(NETWORKS)}")
    try:
        for method in methods:
            config_of(method, changes)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return changes


def read_records(patterns: Iterable[str]) -> list[Record]:
    """Return the records of all files that match; only the default pattern may match no file."""
    paths: list[Path] = []
    for pattern in patterns:
        found = glob.glob(pattern)
        if not found and pattern not in PATTERNS:
            raise typer.BadParameter(f"there is no file {pattern}")
        paths += map(Path, found)
    return read_all(paths)


def draw(path: Path, function: Callable[..., None], *args: Any) -> None:
    """Call ``function(*args, path)`` if matplotlib is installed, and print the path."""
    if charts.can_draw():
        function(*args, path)
        err.print(f"Figure: {path}", markup=False, highlight=False, soft_wrap=True)
    else:
        err.print("No figure: install matplotlib (pip install 'protocol-mvc[viz]').", markup=False)


def split(texts: str, read: Callable[[str], Any], kind: str) -> list[Any]:
    """Return the values of a list separated by commas."""
    try:
        return [read(text.strip()) for text in texts.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{kind}s are numbers separated by commas: {error}") from None


def check_methods(names: Iterable[str], known: Collection[str], kind: str) -> None:
    """Raise `BadParameter` for a method that is neither known nor a class that can be imported."""
    for name in filter(is_imported, names):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise typer.BadParameter(f"{kind} {name!r} cannot be imported: {error}") from None
    check_known([name for name in names if not is_imported(name)], known, kind)


def check_known(names: Iterable[str], known: Collection[str], kind: str) -> None:
    """Raise `BadParameter` for the first name that is not among the known names."""
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"unknown {kind} {name!r}: choose among {', '.join(known)}")
