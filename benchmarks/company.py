"""What the company of a sample in prediction does for GCFAggMVC: `python benchmarks/company.py`.

The published code lets a sample attend to those of its batch, in the order of the data, which may be that of
their classes; ours lets it attend to itself and random training samples. One fit to balanced MNIST-USPS is
read out both ways, with batches in several orders. A record goes to benchmarks/results/laboratory.jsonl.
"""

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
import typer
from sklearn.cluster import KMeans

from benchmarks import provenance
from benchmarks.records import append, now
from protocol_mvc import GCFAggMVC
from protocol_mvc.data import data_hash
from protocol_mvc.evaluation.metrics import all_scores
from protocol_mvc.io.datasets import load_dataset

RESULTS = Path(__file__).parent / "results" / "laboratory.jsonl"
BATCH = 256


@torch.no_grad()
def consensus(model: Any, views: Any, order: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
    """The features of the samples in that order, each seen in the company of its batch."""
    source, network = model._source(views), model.module_.network
    batches = (source.take(rows) for rows in torch.from_numpy(order.copy()).split(BATCH))
    found = [network.fuse(network.encode(batch.views).z)[0] for batch in batches]
    return torch.cat(found).numpy()


def main(
    seed: int = 0, model: Annotated[Path | None, typer.Option(help="A fitted model, to save time.")] = None
) -> None:
    """Fit, or take a model, and read it out with every kind of company."""
    views, truth = load_dataset("mnist_usps", random_state=seed)
    started = time.perf_counter()
    fitted = GCFAggMVC(10, random_state=seed).fit(views) if model is None else GCFAggMVC.load(model)
    orders = {
        "as given": np.arange(len(truth)),
        "sorted by class": np.argsort(truth, kind="stable"),
        "random": np.random.default_rng(seed).permutation(len(truth)),
    }
    found = {"random training samples": all_scores(truth, fitted.labels_)["acc"]}
    for name, order in orders.items():
        label = KMeans(10, n_init=100, random_state=seed).fit_predict(consensus(fitted, views, order))
        found[f"its batch, {name}"] = all_scores(truth[order], label)["acc"]
    typer.echo(found)
    shared = {"seed": seed, "data_hash": data_hash(views), "samples": len(views), **provenance()}
    record = {
        "laboratory": "company of GCFAggMVC",
        "dataset": "mnist_usps",
        "acc": found,
        "seconds": time.perf_counter() - started,
    }
    append({**record, **shared, "ended": now()}, RESULTS)


if __name__ == "__main__":
    typer.run(main)
