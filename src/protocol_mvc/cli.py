"""The command: parse, call, print. Results go to stdout, progress and messages to stderr."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from protocol_mvc import bench, report
from protocol_mvc.data import load, names
from protocol_mvc.estimator import PROTOCOL
from protocol_mvc.metrics import scores

app = typer.Typer(help="Cluster several views whose groups are of very unequal size.", no_args_is_help=True)
bench_app = typer.Typer(help="Measured runs, recorded as JSON lines.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")

WIDTH = 130  # of tables where no terminal tells how wide it is
out = Console() if Console().is_terminal else Console(width=WIDTH)
err = Console(stderr=True)

RESULTS = Path("benchmarks/results")
Seeds = Annotated[str, typer.Option(help="Seeds, separated by commas.")]
Records = Annotated[Path, typer.Option(help="File of records; runs that it has are not repeated.")]


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Seed of the data and of the method.")] = 0,
    ratio: Annotated[float, typer.Option(help="Smallest / largest class.", min=0.01, max=1)] = 0.1,
    picture: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("protocol_demo.png"),
) -> None:
    """Cluster scikit-learn's digits, made imbalanced, and compare with K-means."""
    if not picture.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {picture.parent} for the picture")
    views, truth = load("digits", ratio=ratio, seed=seed)
    k = len(np.unique(truth))
    err.print(
        f"{len(views)} digits seen from {views.n_views} sides, class sizes {np.bincount(truth).tolist()}"
    )
    model = PROTOCOL(k, random_state=seed, verbose=1)
    runs = {
        "K-means, all views": lambda: bench.cluster_concatenated(views, k, seed),
        "K-means, best view": lambda: bench.cluster_best_view(views, k, seed, truth),
        "PROTOCOL": lambda: model.fit_predict(views),
    }
    records = [_timed(name, run, truth, ratio) for name, run in runs.items()]
    out.print(report.score_table(records, "Digits at imbalance ratio R"))
    out.print(report.size_table(model.class_prior_ * len(truth), model.cluster_sizes_, np.bincount(truth)))
    if importlib.util.find_spec("matplotlib") is None:
        err.print("No picture: pip install 'protocol-mvc\\[viz]' to get one.")
    else:
        report.draw_fit(model, truth, picture)
        err.print(f"Picture: {picture}")


def _timed(name: str, run: Any, truth: Any, ratio: float) -> bench.Record:
    started = perf_counter()
    labels = run()
    seconds = perf_counter() - started
    return {
        "dataset": "digits",
        "ratio": ratio,
        "method": name,
        "seconds": seconds,
        "scores": scores(truth, labels),
    }


@bench_app.command("run")
def bench_run(
    methods: Annotated[str, typer.Option(help=f"Among {', '.join(bench.METHODS)}.")] = "kmeans,protocol",
    datasets: Annotated[str, typer.Option(help=f"Among {', '.join(names())}.")] = "digits",
    ratios: Annotated[str, typer.Option(help='Imbalance ratios; "none" takes the data as they are.')] = "0.1",
    seeds: Seeds = "0,1,2",
    records: Records = RESULTS / "runs.jsonl",
) -> None:
    """Run methods on data sets; a run that was cut off continues where it stopped."""
    chosen = _each(ratios, lambda ratio: None if ratio == "none" else float(ratio), "ratio")
    _bench(_each(methods, str, "method"), _each(datasets, str, "data set"), chosen, seeds, records)


@bench_app.command("ablation")
def bench_ablation(
    dataset: str = "hdigit",
    ratio: float = 0.1,
    seeds: Seeds = "0,1,2",
    records: Records = RESULTS / "ablation.jsonl",
) -> None:
    """The paper's ablation: base, with POT labels, with POT labels and rebalanced losses."""
    _bench(list(bench.ABLATION), [dataset], [ratio], seeds, records)


def _bench(
    methods: list[str], datasets: list[str], ratios: list[float | None], seeds: str, path: Path
) -> None:
    _known(methods, bench.METHODS, "method")
    _known(datasets, names(), "data set")
    wanted = bench.units(methods, datasets, ratios, _each(seeds, int, "seed"))
    rows = []
    for record in bench.run_missing(wanted, path):
        rows.append(record)
        shown = {name: record["scores"][name] for name in report.COLUMNS}
        unit = f"{record['dataset']} R={record['ratio']} {record['method']} seed {record['seed']}"
        err.print(f"{unit}: {shown}", soft_wrap=True)
    out.print(report.score_table(rows, f"Mean over seeds, from {path}"))


def _each(texts: str, read: Callable[[str], Any], kind: str) -> list[Any]:
    try:
        return [read(text.strip()) for text in texts.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{kind}s are numbers separated by commas: {error}") from None


def _known(chosen: list[str], known: Any, kind: str) -> None:
    for name in chosen:
        if name not in known:
            raise typer.BadParameter(f"unknown {kind} {name!r}: choose among {', '.join(known)}")


def main() -> None:
    """Entry point of the command; data that cannot be read end in one sentence and exit code 3."""
    try:
        app()
    except (OSError, ValueError) as error:
        err.print(f"error: {error}", markup=False, highlight=False)
        raise SystemExit(3) from None
