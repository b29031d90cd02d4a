"""The command: parse, call, print. Results go to stdout, progress and messages to stderr."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

from protocol_mvc import __version__
from protocol_mvc.cli import datasets, predict
from protocol_mvc.cli.convert import convert
from protocol_mvc.cli.evaluate import evaluate
from protocol_mvc.cli.fit import fit
from protocol_mvc.cli.info import info
from protocol_mvc.cli.options import draw_if_possible
from protocol_mvc.cli.output import CommandGroup, Console, Json, JsonDict, Quiet, table
from protocol_mvc.data import fit_scalers, scaled_rows
from protocol_mvc.estimators.clusterers import PROTOCOL
from protocol_mvc.evaluation.metrics import all_scores, clustering_accuracy
from protocol_mvc.io.datasets import load_dataset
from protocol_mvc.partition.candidates import kmeans
from protocol_mvc.report import figures

COLUMNS = {"acc": "ACC", "nmi": "NMI", "pur": "PUR", "recall": "recall", "tail": "tail"}

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, pretty_exceptions_show_locals=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def command(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Cluster several views whose groups are of very unequal size.

    Examples:
      $ protocol-mvc demo
      $ protocol-mvc info views.npz -k 10
      $ protocol-mvc fit views.npz -k 10 -o run
      $ protocol-mvc report run -o report.html

    Exit codes: 0 done, 1 unexpected failure, 2 wrong usage, 3 bad or unreadable data, 4 doubtful clusters
    under --strict, 5 no usable model, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the data and of the method.", min=0)] = 0,
    ratio: Annotated[float, typer.Option(help="Smallest / largest class.", min=0.01, max=1)] = 0.1,
    picture: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("protocol_demo.png"),
    as_json: Json = False,
    quiet: Quiet = False,
) -> JsonDict:
    """Cluster scikit-learn's digits, made imbalanced, and compare with K-means.

    Examples:
      $ protocol-mvc demo
      $ protocol-mvc demo --ratio 0.5 --seed 1 --picture half.png
    """
    voice = Console(as_json, quiet)
    if not picture.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {picture.parent} for the picture")
    views, truth = load_dataset("digits", imbalance_ratio=ratio, random_state=seed)
    k, sizes = len(np.unique(truth)), np.bincount(truth)
    voice.tell(f"{len(views)} digits seen from {views.n_views} sides, class sizes {sizes.tolist()}")
    model = PROTOCOL(k, random_state=seed, verbose=int(not quiet))
    scaled = [scaled_rows(views, v, slice(None), scaler) for v, scaler in enumerate(fit_scalers(views))]
    runs: dict[str, Callable[[], Any]] = {
        "K-means, all views": lambda: kmeans(np.hstack(scaled), k, seed),
        "K-means, best view": lambda: max(
            (kmeans(x, k, seed) for x in scaled), key=lambda labels: clustering_accuracy(truth, labels)
        ),
        "PROTOCOL": lambda: model.fit_predict(views),
    }
    records = [_timed(name, run, truth, ratio) for name, run in runs.items()]
    voice.show(
        table(
            f"Digits at imbalance ratio {ratio:g}",
            ("method", *COLUMNS.values(), "seconds"),
            [
                [r["method"], *(f"{r['scores'][name]:.3f}" for name in COLUMNS), f"{r['seconds']:.1f}"]
                for r in records
            ],
        ),
        table(
            "Class sizes, largest first",
            ("", *range(1, k + 1)),
            [
                (
                    "estimated prior",
                    *(f"{size:.0f}" for size in np.sort(model.class_prior_)[::-1] * len(truth)),
                ),
                ("clusters", *sorted(model.cluster_sizes_, reverse=True)),
                ("ground truth", *sorted(sizes, reverse=True)),
            ],
        ),
    )
    draw_if_possible(lambda: figures.draw_fit(model, truth, picture), picture, voice.tell)
    return {"runs": records, "class_sizes": sizes, "cluster_sizes": model.cluster_sizes_}


def _timed(name: str, run: Callable[[], Any], truth: Any, ratio: float) -> JsonDict:
    started = perf_counter()
    labels = run()
    seconds = perf_counter() - started
    return {
        "dataset": "digits",
        "ratio": ratio,
        "method": name,
        "seconds": seconds,
        "scores": all_scores(truth, labels),
    }


for verb in (info, fit, predict.predict, predict.transform, predict.report, evaluate, convert, demo):
    app.command()(verb)
app.add_typer(datasets.app, name="datasets")


def main() -> None:
    """Entry point of the command."""
    app()
