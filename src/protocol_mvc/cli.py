"""The command: parse, call, print. Results go to stdout, progress and messages to stderr."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

from protocol_mvc import __version__, cli_bench, report
from protocol_mvc.bench.classical import BestViewKMeans, ViewKMeans
from protocol_mvc.bench.records import Record
from protocol_mvc.cli_options import draw_if_possible
from protocol_mvc.commands import apply, datasets
from protocol_mvc.commands.convert import convert
from protocol_mvc.commands.evaluate import evaluate
from protocol_mvc.commands.fit import fit
from protocol_mvc.commands.info import info
from protocol_mvc.commands.output import Document, Json, Quiet, Verbs, Voice
from protocol_mvc.data import load
from protocol_mvc.estimator import PROTOCOL
from protocol_mvc.metrics import scores

app = typer.Typer(cls=Verbs, no_args_is_help=True, pretty_exceptions_show_locals=False)


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
) -> Document:
    """Cluster scikit-learn's digits, made imbalanced, and compare with K-means.

    Examples:
      $ protocol-mvc demo
      $ protocol-mvc demo --ratio 0.5 --seed 1 --picture half.png
    """
    voice = Voice(as_json, quiet)
    if not picture.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {picture.parent} for the picture")
    views, truth = load("digits", ratio=ratio, seed=seed)
    k, sizes = len(np.unique(truth)), np.bincount(truth)
    voice.tell(f"{len(views)} digits seen from {views.n_views} sides, class sizes {sizes.tolist()}")
    model = PROTOCOL(k, random_state=seed, verbose=int(not quiet))
    runs: dict[str, Callable[[], Any]] = {
        "K-means, all views": lambda: ViewKMeans(k, seed).fit(views).labels_,
        "K-means, best view": lambda: BestViewKMeans(k, seed).fit(views, truth).labels_,
        "PROTOCOL": lambda: model.fit_predict(views),
    }
    records = [_timed(name, run, truth, ratio) for name, run in runs.items()]
    voice.show(
        report.score_table(records, "Digits at imbalance ratio R"),
        report.size_table(model.class_prior_ * len(truth), model.cluster_sizes_, sizes),
    )
    draw_if_possible(lambda: report.draw_fit(model, truth, picture), picture, voice.tell)
    return {"runs": records, "class_sizes": sizes, "cluster_sizes": model.cluster_sizes_}


def _timed(name: str, run: Callable[[], Any], truth: Any, ratio: float) -> Record:
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


for verb in (info, fit, apply.predict, apply.embed, apply.report, evaluate, convert, demo):
    app.command()(verb)
app.add_typer(datasets.app, name="datasets")
app.add_typer(cli_bench.app, name="bench")


def main() -> None:
    """Entry point of the command."""
    app()
