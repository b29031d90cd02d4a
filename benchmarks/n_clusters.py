"""Clusterings whose number of clusters is not given, by PROTOCOL and by other methods."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from sklearn.cluster import HDBSCAN, SpectralClustering
from sklearn.mixture import BayesianGaussianMixture

from benchmarks.datasets import DATASETS, load_dataset
from benchmarks.methods import AUTO, Config, fit_method
from benchmarks.options import check_known
from benchmarks.quality import HALVES, SEEDS, dataset_names, quality_units
from benchmarks.records import Record, timed
from benchmarks.runs import Unit, class_recalls, rounded_scores
from benchmarks.tables import NOT_RUN, Section, Table
from protocol_mvc.data import Views, as_views, data_hash
from protocol_mvc.estimators.cluster_count import prepare
from protocol_mvc.evaluation.comparison import LeidenCommunities, summed_graph, umap_embedding
from protocol_mvc.partition.candidates import group_means
from protocol_mvc.partition.graphs import Features, Floats, Labels, compact, join_views, nearest_neighbors

STUDY = "n-clusters"
KNOWN = "protocol"  # the same with the number of classes given, from the records of the quality
MAX_COMPONENTS, WEIGHT_CONCENTRATION = 30, 1e-2  # of the Bayesian mixture
MIN_CLUSTER_SIZE, N_NEIGHBORS, UMAP_DIM = 15, 15, 5
NOTE = (
    "Mean over the seeds of the number of clusters found. Near: |found - K| <= max(1, K / 10). Within: K is "
    "in the range. Width: size of the range over K. ACC, recall (mean over the classes) and tail: means over "
    "the data sets of what the labels score. BGMM: components of a Bayesian Gaussian mixture of at most 30 "
    "to which samples are assigned; Leiden at resolution 1 on the sum of the neighbour graphs; eigengap: "
    "spectral clustering at the largest gap; FINCH: the coarsest partition with several clusters."
)


def mixture_labels(x: Floats, seed: int) -> Labels:
    """Return the components of a Bayesian Gaussian mixture to which samples are assigned."""
    model = BayesianGaussianMixture(
        n_components=min(MAX_COMPONENTS, len(x)),
        weight_concentration_prior=WEIGHT_CONCENTRATION,
        random_state=seed,
    )
    return compact(model.fit_predict(x))


def density_labels(x: Floats) -> Labels:
    """Return the clusters of HDBSCAN; -1 is noise."""
    labels: Labels = HDBSCAN(min_cluster_size=MIN_CLUSTER_SIZE, copy=True).fit_predict(x).astype(np.int64)
    return labels


def leiden_labels(components: Sequence[Features], seed: int) -> Labels:
    """Return the communities of the Leiden algorithm at resolution 1."""
    return LeidenCommunities(summed_graph(components, N_NEIGHBORS), seed).find(1.0)


def eigengap_labels(components: Sequence[Features], seed: int) -> Labels:
    """Return spectral clusters, as many as eigenvalues before the largest gap of the normalised Laplacian."""
    graph = summed_graph(components, N_NEIGHBORS)
    scale = diags_array(1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel()))
    count = min(MAX_COMPONENTS + 1, graph.shape[0] - 1)
    values = np.sort(eigsh(scale @ graph @ scale, k=count, v0=np.ones(graph.shape[0]))[0])[::-1]
    found = 1 + int(np.argmax(values[:-1] - values[1:]))
    model = SpectralClustering(found, affinity="precomputed", assign_labels="cluster_qr", random_state=seed)
    return np.zeros(graph.shape[0], np.int64) if found == 1 else compact(model.fit_predict(graph))


def finch_labels(x: Floats) -> Labels:
    """Return the coarsest partition with several clusters of FINCH (Sarfraz et al., CVPR 2019).

    Rows that are first neighbours of each other or of the same row are joined; then the means of the groups
    are joined likewise, until one group is left.
    """
    labels, found = np.arange(len(x)), np.arange(len(x))
    while labels.max() > 0:
        found = labels
        first = nearest_neighbors(group_means(x, labels), 1)[:, 0]
        ends = np.arange(len(first)), first
        joined = connected_components(coo_array((np.ones(len(first)), ends), shape=(len(first),) * 2))[1]
        labels = joined[labels].astype(np.int64)
    return found


CLUSTERERS: dict[str, Callable[[Sequence[Features], int], Labels]] = {
    "bgmm": lambda parts, seed: mixture_labels(join_views(parts), seed),
    "bgmm-umap": lambda parts, seed: mixture_labels(umap_embedding(parts, seed, UMAP_DIM), seed),
    "hdbscan": lambda parts, seed: density_labels(join_views(parts)),
    "hdbscan-umap": lambda parts, seed: density_labels(umap_embedding(parts, seed, UMAP_DIM)),
    "leiden": leiden_labels,
    "eigengap": eigengap_labels,
    "finch": lambda parts, seed: finch_labels(join_views(parts)),
}
METHODS = [AUTO, *CLUSTERERS]


def normal_groups(sizes: Sequence[int], seed: int, distance: float = 7.0) -> tuple[Views, Labels]:
    """Return two views of normal groups whose means have a given length, and the group of each sample."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    views = []
    for _ in range(2):
        means = rng.normal(size=(len(sizes), 12))
        means *= distance / np.linalg.norm(means, axis=1, keepdims=True)
        views.append(means[labels] + rng.normal(size=(len(labels), 12)))
    return as_views(views), labels


SIZES = (455, 400, 350, 300, 250, 200, 30, 15)
GENERATED: dict[str, Callable[[int], tuple[Views, Labels]]] = {
    "eight-groups": lambda seed: normal_groups(SIZES, seed),
    "eight-groups-doubled": lambda seed: normal_groups([n if n < 100 else 2 * n for n in SIZES], seed),
    "one-cloud": lambda seed: normal_groups([1000], seed, 0.0),
}


def units(methods: Sequence[str], datasets: str, seeds: Sequence[int]) -> list[Unit]:
    """Return the runs on data sets, or on those that are generated (`datasets="generated"`)."""
    if datasets == "generated":
        return [Unit(m, name, None, seed) for seed in seeds for name in GENERATED for m in methods]
    names = dataset_names(datasets)
    check_known(names, DATASETS, "data set")
    return quality_units(methods, names, seeds)


def count(unit: Unit, config: Config) -> Record:
    """Load the data, cluster them and score the labels; the CPU time has the preparation of the views."""
    if unit.dataset in GENERATED:
        views, labels_true = GENERATED[unit.dataset](unit.seed)
    else:
        ratio = unit.imbalance_ratio
        views, labels_true = load_dataset(unit.dataset, imbalance_ratio=ratio, random_state=unit.seed)
    with timed() as times, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about convergence, repeated rows and small clusters
        if unit.method == AUTO:
            model = fit_method(AUTO, views, unit.seed, config, labels_true)
            labels, found = model.labels_, _suggestion(model.cluster_count_)
        else:
            labels = CLUSTERERS[unit.method](prepare(views)[1], unit.seed)
            found = {"n_found": max(1, int(labels.max()) + 1)}
    sizes = {"n_samples": len(views), "n_classes": len(np.unique(labels_true))}
    scores = {
        "scores": rounded_scores(labels_true, compact(labels)),
        **class_recalls(labels_true, compact(labels)),
    }
    return {"data_hash": data_hash(views), **sizes, **times, **found, **scores}


def _suggestion(found: Any) -> Record:
    """Return the suggestion as a record holds it."""
    return {
        "n_found": found.n_clusters,
        **{name: getattr(found, name) for name in ("low", "high", "certain", "message")},
        "evidence": [round(level.evidence, 4) for level in found.path],
    }


def section(records: Sequence[Record]) -> Section:
    """Return the table of all data sets, with the shares of good answers and the mean scores below."""
    found = [r for r in records if r.get("study") == STUDY]
    runs = [r for r in found if r["dataset"] in DATASETS and r["seed"] in SEEDS]
    if not runs:
        return Section("Number of clusters", [], [])
    frame = pd.DataFrame(runs).drop_duplicates(["dataset", "method", "seed"], keep="last")
    frame = frame.reindex(columns=frame.columns.union(["low", "high", "scores"]))  # some methods lack them
    frame["near"] = (frame["n_found"] - frame["n_classes"]).abs() <= np.maximum(1, frame["n_classes"] / 10)
    frame["within"] = frame["n_classes"].between(frame["low"], frame["high"])
    frame["width"] = (frame["high"] - frame["low"]) / frame["n_classes"]
    rows = [_row(name, part) for name, part in frame.groupby("dataset")]
    rows += _shares(frame) + _scores(frame, records)
    cells, generated = pd.DataFrame(rows).fillna(""), _generated(found)
    return Section("Number of clusters", [Table("Number of clusters", cells)], [generated, NOTE])


def _generated(records: Sequence[Record]) -> str:
    """Return in how many runs the number of generated groups was found."""
    parts = []
    for name in GENERATED:
        right = [
            r["n_found"] == r["n_classes"] for r in records if (r["dataset"], r["method"]) == (name, AUTO)
        ]
        parts += [f"{name} {sum(right)} of {len(right)}"] if right else []
    return f"Generated data, seeds with the right number: {', '.join(parts) or NOT_RUN}."


def _shares(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows with the shares of good answers, of both halves of the data sets and of all."""
    half, rows = frame["dataset"].map(lambda name: DATASETS[name].half), []
    for name, part in [*((name, frame[half == name]) for name in HALVES), ("all", frame)]:
        ours = part[part["method"] == AUTO]
        span = (
            f"within {ours['within'].mean():.2f}, width {ours['width'].mean():.2f}" if len(ours) else NOT_RUN
        )
        rows.append(
            {"data": f"near, {name}", "range": span, **_cells(part.groupby("method")["near"].mean(), ".2f")}
        )
    return rows


def _scores(frame: pd.DataFrame, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return rows with mean scores, those with the number of classes given in the column of the range."""
    ours = frame[frame["method"] == AUTO]
    runs = set(zip(ours["dataset"], ours["seed"], strict=True))
    quality = [r for r in records if r.get("study") == "quality" and r["method"] == KNOWN]
    known = {(r["dataset"], r["seed"]): r for r in quality if (r["dataset"], r["seed"]) in runs}
    scored = frame[frame["scores"].notna()]
    scores = pd.DataFrame(scored["scores"].tolist()).groupby(scored["method"].to_numpy()).mean()
    rows = []
    for name in ("acc", "recall", "tail"):
        given = f"{np.mean([r['scores'][name] for r in known.values()]):.3f} with K" if known else ""
        title = name.upper() if name == "acc" else name
        rows.append({"data": title, "range": given, **_cells(scores[name], ".3f")})
    given = f"{np.mean([r['cpu_seconds'] for r in known.values()]):.1f} with K" if known else ""
    cpu = frame.groupby("method")["cpu_seconds"].mean()
    return [*rows, {"data": "CPU seconds", "range": given, **_cells(cpu, ".1f")}]


def _row(name: Any, part: pd.DataFrame) -> dict[str, Any]:
    """Return the means of a data set."""
    ours, found = part[part["method"] == AUTO], part.groupby("method")["n_found"].mean()
    span = f"{ours['low'].mean():.1f} to {ours['high'].mean():.1f}" if len(ours) else NOT_RUN
    return {"data": name, "K": str(part["n_classes"].max()), "range": span, **_cells(found, ".1f")}


def _cells(values: "pd.Series[Any]", form: str) -> dict[str, str]:
    return {m: f"{values[m]:{form}}" if m in values else NOT_RUN for m in METHODS}
