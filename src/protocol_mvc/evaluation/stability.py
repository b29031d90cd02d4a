"""Stability of the clusters of a fitted model under resampling, without known classes."""

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.metrics import confusion_matrix

from protocol_mvc.data.sampling import min_rows_per_class
from protocol_mvc.data.scaling import scaled_rows
from protocol_mvc.data.views import Views, as_views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.exceptions import UnreliableClusterWarning
from protocol_mvc.partition.consensus import MIN_CLUSTER_SIZE, tiny_cluster_messages, warn_unreliable

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

DISSOLVED_JACCARD = 0.5  # a cluster with a smaller mean overlap is unstable (Hennig, 2007: dissolved)
MAX_ROWS = 1500  # of a refit
# A refit is shorter than a fit: one round of alignment with fewer steps, fewer candidates (all of learned
# features), and no transport after the warm-up.
SHORTER = {
    "config__structure__n_rounds": 1,
    "config__schedule__n_epochs_align": 2,
    "config__schedule__n_epochs_rebalance": 1,
    "config__schedule__min_steps_per_epoch": 10,
    "config__pseudo_labels__partition__over_clustering": (2.0,),
    "config__pseudo_labels__partition__groups_per_cluster_learned": (4.0,),
    "config__pseudo_labels__partition__groups_per_cluster_data": (),
}


class Stability(NamedTuple):
    """Agreement of a clustering with refits on subsamples."""

    cluster_jaccard: Floats  #: (k,) mean Jaccard index of each cluster and its match in the refits
    sample_agreement: Floats  #: (n,) fraction of the refits that put a sample into the match of its cluster
    messages: list[str]  #: warnings about clusters that are too small or unstable


def stability(
    model: MultiViewClusterer, X: Any, *, n_resamples: int = 5, subsample: float = 0.8, random_state: int = 0
) -> Stability:
    """Refit a model on random subsamples and compare the clusters of all samples.

    The refits start from new weights, and keep the preparation of the views. Those of `PROTOCOL` are shorter
    than the fit: five take about as long as the fit.

    Args:
        model: fitted model.
        X: the views that it was fitted to.
        n_resamples: number of refits.
        subsample: fraction of every cluster in each refit, drawn without replacement, so that rare clusters
            are not lost by chance; at most 1,500 samples in all.
        random_state: seed of the subsamples and of the refits.

    Returns:
        The agreement with the refits.

    Raises:
        ValueError: If X has another number of samples than the model, or an argument is out of range.

    Warns:
        UnreliableClusterWarning: The messages of the result.
    """
    views = as_views(X, model.view_columns)
    if len(views) != len(model.labels_):
        raise ValueError(f"the model was fitted to {len(model.labels_)} samples, but X has {len(views)}")
    if n_resamples < 1 or not 0 < subsample <= 1:
        raise ValueError(
            f"n_resamples must be at least 1 and subsample in (0, 1], got {n_resamples!r} and {subsample!r}"
        )
    rng, refits = np.random.default_rng(random_state), []
    for _ in range(n_resamples):
        rows = stratified_subsample(model.labels_, model.n_clusters_, subsample, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreliableClusterWarning)  # only the model itself is assessed
            refits.append(_refit(model, views, rows, int(rng.integers(2**31))).predict(views))
    cluster_jaccard, sample_agreement = resampling_overlap(model.labels_, refits, model.n_clusters_)
    messages, sizes = tiny_cluster_messages(model.cluster_sizes_), model.cluster_sizes_
    unstable = np.flatnonzero((cluster_jaccard < DISSOLVED_JACCARD) & (sizes >= MIN_CLUSTER_SIZE))
    if len(unstable):
        messages.append(
            f"Clusters {unstable.tolist()} are unstable (mean Jaccard index with refits below "
            f"{DISSOLVED_JACCARD}): try another n_clusters."
        )
    warn_unreliable(messages)
    return Stability(cluster_jaccard, sample_agreement, messages)


def stratified_subsample(labels: Labels, n_clusters: int, share: float, rng: np.random.Generator) -> Labels:
    """Return sorted random rows: the given share of every cluster, rounded up, but at most `MAX_ROWS`.

    Of more rows, small clusters keep theirs and large ones are cut in proportion to their size. Of fewer rows
    than clusters, all rows are taken.
    """
    kept = np.ceil(share * np.bincount(labels, minlength=n_clusters)).astype(np.int64)
    if kept.sum() > MAX_ROWS:
        least = np.minimum(kept, min_rows_per_class(len(kept), MAX_ROWS))
        kept = least + (kept - least) * (MAX_ROWS - least.sum()) // (kept - least).sum()
    parts = [rng.permutation(np.flatnonzero(labels == c))[:size] for c, size in enumerate(kept)]
    rows: Labels = np.sort(np.concatenate(parts))
    return rows if len(rows) >= len(kept) else np.arange(len(labels))


def _refit(model: MultiViewClusterer, views: Views, rows: Labels, seed: int) -> MultiViewClusterer:
    """Return a model fitted to some rows of the views, prepared as for the given model."""
    prepared = [scaled_rows(views, v, rows, scaler) for v, scaler in enumerate(model.scalers_)]
    ids = views.sample_ids[rows]
    part = replace(as_views(prepared), mask=views.mask[rows], names=views.names, sample_ids=ids)
    changes: dict[str, Any] = {
        "n_clusters": model.n_clusters_,
        "view_columns": None,
        "scaling": "none",
        "random_state": seed,
    }
    fields: dict[str, Any] = {"config__n_components": None, **SHORTER}
    known = model.get_params()
    if fields.keys() <= known.keys():  # other methods are refitted as they are
        changes |= {
            name: min(value, known[name]) if isinstance(value, int) else value
            for name, value in fields.items()
        }
    other: MultiViewClusterer = clone(model).set_params(**changes)
    other._scores_outliers = False
    other.fit(part)
    other.scalers_, other._dims, other._columns = model.scalers_, model._dims, model._columns
    return other


def resampling_overlap(labels: Labels, refits: list[Labels], n_clusters: int) -> tuple[Floats, Floats]:
    """Compare a clustering with others of the same samples.

    The clusters of both are matched one to one so that most samples agree.

    Args:
        labels: cluster of each sample (n,).
        refits: clusters of each sample in other clusterings.
        n_clusters: number of clusters.

    Returns:
        The mean Jaccard index of each cluster and its match (k,), and the fraction of the clusterings that
        agree on each sample (n,).
    """
    jaccard, agreed = [], []
    for other in refits:
        table = confusion_matrix(labels, other, labels=range(n_clusters))
        union = table.sum(1)[:, None] + table.sum(0)[None] - table
        rows, columns = linear_sum_assignment(-table)
        jaccard.append(table[rows, columns] / np.maximum(union[rows, columns], 1))
        agreed.append(columns[labels] == other)
    return np.mean(jaccard, axis=0), np.mean(agreed, axis=0)
