"""The command `demo`: PROTOCOL beside K-means on scikit-learn's digits, made imbalanced."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import typer

from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.data import fit_scalers, scaled_rows
from protocol_mvc.data.digits import load_digits_views
from protocol_mvc.estimators.clusterers import PROTOCOL
from protocol_mvc.evaluation.metrics import all_scores, clustering_accuracy
from protocol_mvc.partition.candidates import kmeans
from protocol_mvc.report import charts

SCORES = {"acc": "ACC", "nmi": "NMI", "pur": "PUR", "recall": "recall", "tail": "tail"}


def run_demo(console: Console, imbalance_ratio: float, seed: int, figure: Path) -> JsonDict:
    """Cluster the digits with K-means and PROTOCOL, print the scores and draw a figure."""
    if not figure.absolute().parent.is_dir():
        raise typer.BadParameter(f"{figure}: folder {figure.absolute().parent} does not exist")
    views, labels_true = load_digits_views(imbalance_ratio=imbalance_ratio, random_state=seed)
    class_sizes = np.bincount(labels_true)
    k = len(class_sizes)
    console.info(f"{len(views)} digits, {views.n_views} views, class sizes {class_sizes.tolist()}")
    model = PROTOCOL(k, random_state=seed, verbose=int(not console.quiet))
    scaled = [scaled_rows(views, v, slice(None), scaler) for v, scaler in enumerate(fit_scalers(views))]
    methods: dict[str, Callable[[], Any]] = {
        "K-means, all views": lambda: kmeans(np.hstack(scaled), k, seed),
        "K-means, best view": lambda: max(
            (kmeans(x, k, seed) for x in scaled), key=lambda labels: clustering_accuracy(labels_true, labels)
        ),
        "PROTOCOL": lambda: model.fit_predict(views),
    }
    runs = []
    for name, cluster in methods.items():
        started = perf_counter()
        labels, seconds = cluster(), perf_counter() - started
        runs.append({"method": name, "seconds": seconds, "scores": all_scores(labels_true, labels)})
    _print_tables(console, runs, class_sizes, model)
    if charts.can_draw():
        charts.draw_fit(model, labels_true, figure)
        console.info(f"Figure: {figure}")
    else:
        console.info("No figure: it needs matplotlib; pip install 'protocol-mvc[viz]'.")
    return {"runs": runs, "class_sizes": class_sizes, "cluster_sizes": model.cluster_sizes_}


def _print_tables(console: Console, runs: list[JsonDict], class_sizes: Any, model: PROTOCOL) -> None:
    sizes = {
        "estimated": np.rint(model.class_prior_ * class_sizes.sum()).astype(int),
        "labels": model.cluster_sizes_,
        "true": class_sizes,
    }
    scores = (
        (r["method"], *(f"{r['scores'][name]:.3f}" for name in SCORES), f"{r['seconds']:.1f}") for r in runs
    )
    ranks = [str(rank) for rank in range(1, len(class_sizes) + 1)]
    rows = ((name, *np.sort(values)[::-1]) for name, values in sizes.items())
    console.print(
        table("Imbalanced digits", ("method", *SCORES.values(), "seconds"), scores),
        table("Class sizes, largest first", ("class", *ranks), rows),
    )
