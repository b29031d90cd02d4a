"""References that cluster the same prepared views, side by side with PROTOCOL, without known classes."""

import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, triu
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, SpectralClustering
from sklearn.mixture import GaussianMixture

from protocol_mvc.data.views import Views, as_views
from protocol_mvc.estimators.cluster_count import prepare
from protocol_mvc.partition.consensus import simplified_silhouette
from protocol_mvc.partition.graphs import (
    Communities,
    Features,
    Floats,
    Labels,
    ViewSpace,
    compact,
    join_views,
    kmeans,
    modularity,
    nearest_in_views,
    symmetric_graph,
)
from protocol_mvc.partition.selection import view_agreement
from protocol_mvc.utils.text import short_repr

N_NEIGHBORS = 15
UMAP_DIM = 10
MIN_CLUSTER_SIZES = (5, 10, 20, 40, 80, 160)  # of HDBSCAN; the one with about K clusters is taken


class Comparison(NamedTuple):
    """Clusterings of the same samples by several methods; every field is a dict by name of the method."""

    labels: dict[str, Labels]  #: cluster of each sample (n,); -1 is noise of HDBSCAN
    scores: dict[str, dict[str, float]]  #: see `scores_without_labels`
    seconds: dict[str, float]  #: wall time with the preparation of the views
    cpu_seconds: dict[str, float]  #: processor time of all threads

    def to_frame(self) -> Any:
        """Return scores and times as a pandas data frame with a row for each method."""
        import pandas as pd  # an optional dependency

        times = {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds}
        return pd.DataFrame.from_dict(self.scores, orient="index").assign(
            **{name: pd.Series(values) for name, values in times.items()}
        )

    def __str__(self) -> str:
        """Return scores and times as a table."""
        names = next(iter(self.scores.values()), {})
        lines = [("method", *names, "seconds", "cpu_seconds")]
        for method, scores in self.scores.items():
            times = self.seconds[method], self.cpu_seconds[method]
            shown = [f"{score:.3f}" for score in scores.values()] + [f"{value:.1f}" for value in times]
            lines.append((method, *shown))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def compare(
    X: Any,
    n_clusters: int,
    methods: Sequence[str] = ("kmeans", "gmm", "ward", "spectral", "leiden", "protocol"),
    *,
    random_state: int = 0,
) -> Comparison:
    """Cluster the same samples by several methods.

    All methods get the same principal components of the prepared views, as ``scaling="auto"`` makes them.

    Args:
        X: the views, as an estimator takes them; samples may lack views.
        n_clusters: number of clusters K.
        methods: names of methods: "kmeans", "gmm" (Gaussian mixture with diagonal covariances) and "ward" on
            the components of all views side by side; "spectral" and "leiden" (the resolution is searched for
            K communities) on the sum of the graphs of 15 neighbours of all views; "leiden-10", "leiden-15"
            and "leiden-30" with other numbers of neighbours; "umap-gmm" and "umap-hdbscan" if umap-learn is
            installed; "protocol", the default preset. Without igraph the Louvain method replaces Leiden, and
            the result is named "louvain".
        random_state: seed of all methods.

    Returns:
        The clusterings with scores that need no known classes, and times.

    Raises:
        ValueError: If a method is unknown, or n_clusters is not from 2 to the number of samples.
        ModuleNotFoundError: If a method needs umap-learn and it is not installed.
    """
    views, names = as_views(X), [methods] if isinstance(methods, str) else list(methods)
    _check(names, n_clusters, len(views))
    with stopwatch() as preparation:
        _, components = prepare(views)
    space = ViewSpace(components, N_NEIGHBORS)
    result = Comparison({}, {}, {}, {})
    for method in names:
        with stopwatch() as own:
            labels = cluster(method, views, components, n_clusters, random_state)
        name, shared = result_name(method), [0.0, 0.0] if method == "protocol" else preparation
        result.labels[name], result.scores[name] = labels, scores_without_labels(space, labels)
        result.seconds[name], result.cpu_seconds[name] = (a + b for a, b in zip(own, shared, strict=True))
    return result


def _check(methods: list[str], n_clusters: Any, n_samples: int) -> None:
    """Refuse unknown methods and numbers of clusters."""
    for name in methods:
        if name not in METHODS:
            raise ValueError(f"Unknown method {short_repr(name)}: use one of {', '.join(METHODS)}.")
        if name.startswith("umap") and find_spec("umap") is None:
            raise ModuleNotFoundError(f"{name!r} needs umap-learn: pip install 'protocol-mvc[bench]'.")
    if not isinstance(n_clusters, (int, np.integer)) or not 2 <= n_clusters <= n_samples:
        raise ValueError(
            f"n_clusters must be an integer from 2 to the number of samples ({n_samples}), "
            f"got {short_repr(n_clusters)}."
        )


@contextmanager
def stopwatch() -> Iterator[list[float]]:
    """Measure a block; the list has its wall and processor seconds after the block."""
    times: list[float] = []
    wall, cpu = time.perf_counter(), time.process_time()
    yield times
    times += [time.perf_counter() - wall, time.process_time() - cpu]


def cluster(method: str, views: Views, components: Sequence[Features], n_clusters: int, seed: int) -> Labels:
    """Return the labels (n,) of a method of `METHODS`; "protocol" prepares the views itself."""
    if method == "protocol":
        from protocol_mvc.estimators.clusterers import PROTOCOL  # loads torch

        labels: Labels = PROTOCOL(n_clusters, random_state=seed).fit(views).labels_
        return labels
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about repeated rows, graphs that are not connected, convergence
        return REFERENCES[method](components, n_clusters, seed)


def result_name(method: str) -> str:
    """Return the name of what a method runs: "louvain" in place of "leiden" without igraph."""
    return method if find_spec("igraph") else method.replace("leiden", "louvain")


def scores_without_labels(space: ViewSpace, labels: Labels) -> dict[str, float]:
    """Return scores of a clustering that need no known classes; larger is better.

    Args:
        space: the prepared views with their neighbours.
        labels: cluster of each sample (n,).

    Returns:
        modularity: of the sum of the neighbour graphs of all views.
        agreement: how well the views agree on the cluster of a sample; NaN with one view.
        silhouette: simplified silhouette in the components of all views.
    """
    labels, several = compact(labels), len(space.views) > 1
    return {
        "modularity": modularity(space.graph("views", space.n_neighbors), labels),
        "agreement": view_agreement(space.votes(labels), labels) if several else float("nan"),
        "silhouette": simplified_silhouette(space.joined, labels),
    }


def _kmeans(components: Sequence[Features], n_clusters: int, seed: int) -> Labels:
    return kmeans(join_views(components), n_clusters, seed)


def _gmm(components: Sequence[Features], n_clusters: int, seed: int) -> Labels:
    return _mixture(join_views(components), n_clusters, seed, "diag")


def _mixture(x: Floats, n_clusters: int, seed: int, covariance_type: str) -> Labels:
    model = GaussianMixture(n_clusters, covariance_type=covariance_type, random_state=seed)
    labels: Labels = model.fit_predict(x).astype(np.int64)
    return labels


def _ward(components: Sequence[Features], n_clusters: int, seed: int) -> Labels:
    labels: Labels = AgglomerativeClustering(n_clusters).fit_predict(join_views(components)).astype(np.int64)
    return labels


def _spectral(components: Sequence[Features], n_clusters: int, seed: int) -> Labels:
    model = SpectralClustering(
        n_clusters, affinity="precomputed", assign_labels="cluster_qr", random_state=seed
    )
    labels: Labels = model.fit_predict(summed_graph(components, N_NEIGHBORS)).astype(np.int64)
    return labels


def summed_graph(components: Sequence[Features], n_neighbors: int) -> csr_matrix:
    """Return the sum (n, n) of the neighbour graphs of all views."""
    return symmetric_graph(nearest_in_views(components, n_neighbors), n_neighbors)


class LeidenCommunities(Communities):
    """Communities that the Leiden algorithm of igraph finds."""

    def __init__(self, graph: csr_matrix, seed: int) -> None:
        import igraph  # an optional dependency, under the GPL

        super().__init__(graph, seed)
        upper = triu(graph, k=1).tocoo()
        edges = np.column_stack([upper.row, upper.col])
        self.network = igraph.Graph(n=graph.shape[0], edges=edges, edge_attrs={"weight": upper.data})

    def find(self, resolution: float) -> Labels:
        """Return the communities (n,) at a resolution."""
        import igraph

        igraph.set_random_number_generator(random.Random(self.seed))
        try:
            found = self.network.community_leiden("modularity", "weight", resolution, n_iterations=2)
        finally:
            igraph.set_random_number_generator(random)
        return compact(np.asarray(found.membership))


def _leiden(components: Sequence[Features], n_clusters: int, seed: int, n_neighbors: int) -> Labels:
    kind = LeidenCommunities if find_spec("igraph") else Communities
    return kind(summed_graph(components, n_neighbors), seed).exactly(n_clusters)


def umap_embedding(components: Sequence[Features], seed: int, dim: int = UMAP_DIM) -> Floats:
    """Return the samples in the few dimensions of UMAP (n, dim)."""
    from umap import UMAP  # an optional dependency

    x = join_views(components)
    n_neighbors, dim = min(N_NEIGHBORS, len(x) - 1), min(dim, max(2, len(x) - 2))
    model = UMAP(n_neighbors=n_neighbors, n_components=dim, min_dist=0.0, random_state=seed)
    return np.asarray(model.fit_transform(x), dtype=np.float64)


def _umap_gmm(components: Sequence[Features], n_clusters: int, seed: int) -> Labels:
    return _mixture(umap_embedding(components, seed), n_clusters, seed, "full")


def _umap_hdbscan(components: Sequence[Features], n_clusters: int, seed: int) -> Labels:
    x = umap_embedding(components, seed)
    sizes = [size for size in MIN_CLUSTER_SIZES if size <= len(x)] or [2]
    found = [HDBSCAN(min_cluster_size=size, copy=True).fit_predict(x).astype(np.int64) for size in sizes]
    return min(found, key=lambda labels: abs(int(labels.max()) + 1 - n_clusters))


REFERENCES: dict[str, Callable[[Sequence[Features], int, int], Labels]] = {
    "kmeans": _kmeans,
    "gmm": _gmm,
    "ward": _ward,
    "spectral": _spectral,
    "leiden": partial(_leiden, n_neighbors=N_NEIGHBORS),
    **{f"leiden-{k}": partial(_leiden, n_neighbors=k) for k in (10, 15, 30)},
    "umap-gmm": _umap_gmm,
    "umap-hdbscan": _umap_hdbscan,
}
METHODS = (*REFERENCES, "protocol")
