"""How far the clusters of a fitted model can be trusted, without knowing the truth."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.metrics import confusion_matrix

from protocol_mvc.data.views import as_views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.exceptions import UnreliableClusterWarning
from protocol_mvc.partition.consensus import MIN_CLUSTER_SIZE, tiny_cluster_messages, warn_unreliable

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

DISSOLVED_JACCARD = 0.5  # overlap below which a cluster of one fit has no counterpart in another


class Stability(NamedTuple):
    """What refits say of a clustering."""

    clusters: Floats  #: (k,) mean overlap (Jaccard) of a cluster with its counterpart, from 0 to 1
    samples: Floats  #: (n,) share of the refits that put a sample where its label is
    doubts: list[str]  #: sentences about clusters that are too small or come out differently each time


def stability(
    model: MultiViewClusterer, X: Any, *, n_resamples: int = 5, subsample: float = 0.8, random_state: int = 0
) -> Stability:
    """Fit again to random parts of the data with other seeds, and compare; doubts are also warned of.

    Args:
        model: fitted to X.
        X: the views it was fitted to.
        n_fits: number of refits; each takes about as long as the fit.
        share: part of the samples in each, without replacement; all are then predicted.
        random_state: seed of the parts and of the refits.

    Raises:
        ValueError: If X is not what the model was fitted to, or the numbers make no sense.
    """
    views = as_views(X, model.view_columns)
    if len(views) != len(model.labels_):
        raise ValueError(
            f"the model was fitted to {len(model.labels_)} samples, X has {len(views)}: pass the same"
        )
    if n_resamples < 1 or not 0 < subsample <= 1:
        raise ValueError(
            f"n_fits must be at least 1 and share in (0, 1], got {n_resamples!r} and {subsample!r}"
        )
    rng = np.random.default_rng(random_state)
    others = [_refit(model, views, subsample, rng) for _ in range(n_resamples)]
    clusters, samples = resampling_overlap(model.labels_, others, model.n_clusters)
    doubts = _doubts(model.cluster_sizes_, clusters)
    warn_unreliable(doubts)
    return Stability(clusters, samples, doubts)


def resampling_overlap(labels: Labels, others: list[Labels], n_clusters: int) -> tuple[Floats, Floats]:
    """Overlap of every cluster and agreement on every sample, as means over other labellings of the same."""
    overlaps, agreed = [], []
    for other in others:
        table = confusion_matrix(labels, other, labels=range(n_clusters))
        union = table.sum(1)[:, None] + table.sum(0)[None] - table
        own, theirs = linear_sum_assignment(-table)
        overlaps.append(table[own, theirs] / np.maximum(union[own, theirs], 1))
        agreed.append(theirs[labels] == other)
    return np.mean(overlaps, axis=0), np.mean(agreed, axis=0)


def _refit(model: MultiViewClusterer, views: Any, subsample: float, rng: np.random.Generator) -> Labels:
    n = len(views)
    rows = np.sort(rng.permutation(n)[: max(model.n_clusters, round(subsample * n))])
    other = clone(model).set_params(view_columns=None, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableClusterWarning)  # it is the model that is assessed
        found: Labels = other.fit(views[rows]).predict(views)
    return found


def _doubts(sizes: npt.NDArray[np.integer], overlap: Floats) -> list[str]:
    """One sentence for every kind of doubt, naming the clusters and what may help."""
    doubts, loose = (
        tiny_cluster_messages(sizes),
        np.flatnonzero((overlap < DISSOLVED_JACCARD) & (sizes >= MIN_CLUSTER_SIZE)),
    )
    if len(loose):
        doubts.append(
            f"Clusters {loose.tolist()} come out differently in other fits (overlap below {DISSOLVED_JACCARD}): "
            "do not build on them, and try other values of n_clusters."
        )
    return doubts
