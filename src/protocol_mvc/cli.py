"""The command: parse, call, print. Results go to stdout, progress and messages to stderr."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

from protocol_mvc import cli_bench, report
from protocol_mvc.bench.methods import BestViewKMeans, ViewKMeans
from protocol_mvc.bench.records import Record
from protocol_mvc.cli_options import draw_if_possible, err, out
from protocol_mvc.data import load
from protocol_mvc.estimator import PROTOCOL
from protocol_mvc.metrics import scores

app = typer.Typer(help="Cluster several views whose groups are of very unequal size.", no_args_is_help=True)
app.add_typer(cli_bench.app, name="bench")


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
        "K-means, all views": lambda: ViewKMeans(k, seed).fit(views).labels_,
        "K-means, best view": lambda: BestViewKMeans(k, seed).fit(views, truth).labels_,
        "PROTOCOL": lambda: model.fit_predict(views),
    }
    records = [_timed(name, run, truth, ratio) for name, run in runs.items()]
    out.print(report.score_table(records, "Digits at imbalance ratio R"))
    out.print(report.size_table(model.class_prior_ * len(truth), model.cluster_sizes_, np.bincount(truth)))
    draw_if_possible(lambda: report.draw_fit(model, truth, picture), picture)


def _timed(name: str, run: Any, truth: Any, ratio: float) -> Record:
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


def main() -> None:
    """Entry point of the command; data that cannot be read end in one sentence and exit code 3."""
    try:
        app()
    except (OSError, ValueError) as error:
        err.print(f"error: {error}", markup=False, highlight=False)
        raise SystemExit(3) from None
