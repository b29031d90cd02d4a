"""The number of clusters found without labels, by `suggest_n_clusters` and by other methods."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import diags_array
from scipy.sparse.linalg import eigsh
from sklearn.cluster import HDBSCAN
from sklearn.mixture import BayesianGaussianMixture

from benchmarks.datasets import load_dataset
from benchmarks.methods import Config
from benchmarks.quality import SEEDS
from benchmarks.records import Record, timed
from benchmarks.runs import Unit
from benchmarks.tables import NOT_RUN, Section, Table
from protocol_mvc.data import data_hash
from protocol_mvc.estimators.cluster_count import prepare, suggest_n_clusters
from protocol_mvc.evaluation.comparison import LeidenCommunities, summed_graph, umap_embedding
from protocol_mvc.partition.graphs import Features, Floats, join_views

STUDY, OURS = "n-clusters", "suggest"
MAX_COMPONENTS, WEIGHT_CONCENTRATION = 30, 1e-2  # of the Bayesian mixture
MIN_CLUSTER_SIZE, N_NEIGHBORS, UMAP_DIM = 15, 15, 5
NOTE = (
    "Mean over the seeds of the number of clusters found. Near: |found - K| <= max(1, K / 10). Within: K is "
    "in the range. Width: size of the range over K. BGMM: components of a Bayesian Gaussian mixture of at "
    "most 30 to which samples are assigned; Leiden at resolution 1 on the sum of the neighbour graphs."
)


def mixture_count(x: Floats, seed: int) -> int:
    """Return the number of components of a Bayesian Gaussian mixture to which samples are assigned."""
    model = BayesianGaussianMixture(
        n_components=min(MAX_COMPONENTS, len(x)),
        weight_concentration_prior=WEIGHT_CONCENTRATION,
        random_state=seed,
    )
    return len(np.unique(model.fit_predict(x)))


def density_count(x: Floats) -> int:
    """Return the number of clusters of HDBSCAN, at least 1."""
    return max(1, int(HDBSCAN(min_cluster_size=MIN_CLUSTER_SIZE, copy=True).fit_predict(x).max()) + 1)


def leiden_count(components: Sequence[Features], seed: int) -> int:
    """Return the number of communities of the Leiden algorithm at resolution 1."""
    graph = summed_graph(components, N_NEIGHBORS)
    return int(LeidenCommunities(graph, seed).find(1.0).max()) + 1


def eigengap_count(components: Sequence[Features]) -> int:
    """Return the position of the largest gap between the first eigenvalues of the normalised Laplacian."""
    graph = summed_graph(components, N_NEIGHBORS)
    scale = diags_array(1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel()))
    count = min(MAX_COMPONENTS + 1, graph.shape[0] - 1)
    values = np.sort(eigsh(scale @ graph @ scale, k=count, v0=np.ones(graph.shape[0]))[0])[::-1]
    return 1 + int(np.argmax(values[:-1] - values[1:]))


COUNTERS: dict[str, Callable[[Sequence[Features], int], int]] = {
    "bgmm": lambda parts, seed: mixture_count(join_views(parts), seed),
    "bgmm-umap": lambda parts, seed: mixture_count(umap_embedding(parts, seed, UMAP_DIM), seed),
    "hdbscan": lambda parts, seed: density_count(join_views(parts)),
    "hdbscan-umap": lambda parts, seed: density_count(umap_embedding(parts, seed, UMAP_DIM)),
    "leiden": leiden_count,
    "eigengap": lambda parts, seed: eigengap_count(parts),
}
METHODS = [OURS, *COUNTERS]


def count(unit: Unit, config: Config) -> Record:
    """Load the data and find the number of clusters; the CPU time has the preparation of the views."""
    views, labels_true = load_dataset(
        unit.dataset, imbalance_ratio=unit.imbalance_ratio, random_state=unit.seed
    )
    with timed() as times, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about convergence and repeated rows
        if unit.method == OURS:
            found = _suggestion(views, unit.seed)
        else:
            found = {"n_found": COUNTERS[unit.method](prepare(views)[1], unit.seed)}
    sizes = {"n_samples": len(views), "n_classes": len(np.unique(labels_true))}
    return {"data_hash": data_hash(views), **sizes, **times, **found}


def _suggestion(views: Any, seed: int) -> Record:
    """Return the suggestion as a record holds it."""
    found = suggest_n_clusters(views, random_state=seed)
    return {
        "n_found": found.n_clusters,
        **{name: getattr(found, name) for name in ("low", "high", "certain", "message")},
        "evidence": [round(level.evidence, 4) for level in found.path],
    }


def section(records: Sequence[Record]) -> Section:
    """Return the table of all data sets, with the shares of good answers below."""
    runs = [r for r in records if r.get("study") == STUDY and r["seed"] in SEEDS]
    if not runs:
        return Section("Number of clusters", [], [])
    frame = pd.DataFrame(runs).drop_duplicates(["dataset", "method", "seed"], keep="last")
    frame["near"] = (frame["n_found"] - frame["n_classes"]).abs() <= np.maximum(1, frame["n_classes"] / 10)
    rows = [_row(name, part) for name, part in frame.groupby("dataset")]
    near = frame.groupby("method")["near"].mean()
    cpu = frame.groupby("method")["cpu_seconds"].mean()
    ours = frame[frame["method"] == OURS]
    within = (ours["low"] <= ours["n_classes"]) & (ours["n_classes"] <= ours["high"])
    width = (ours["high"] - ours["low"]) / ours["n_classes"]
    last = {"data": "near", "range": f"within {within.mean():.2f}, width {width.mean():.2f}"}
    rows += [last | _cells(near, ".2f"), {"data": "CPU seconds", **_cells(cpu, ".1f")}]
    return Section("Number of clusters", [Table("Number of clusters", pd.DataFrame(rows).fillna(""))], [NOTE])


def _row(name: Any, part: pd.DataFrame) -> dict[str, Any]:
    """Return the means of a data set."""
    ours, found = part[part["method"] == OURS], part.groupby("method")["n_found"].mean()
    span = f"{ours['low'].mean():.1f} to {ours['high'].mean():.1f}" if len(ours) else NOT_RUN
    return {"data": name, "K": str(part["n_classes"].max()), "range": span, **_cells(found, ".1f")}


def _cells(values: "pd.Series[Any]", form: str) -> dict[str, str]:
    return {m: f"{values[m]:{form}}" if m in values else NOT_RUN for m in METHODS}
