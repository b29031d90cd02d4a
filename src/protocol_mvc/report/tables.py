"""The rows of the tables of the report."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from protocol_mvc.evaluation.metrics import all_scores, calibration, contingency, match_clusters
from protocol_mvc.report.facts import Facts, Floats, Ints
from protocol_mvc.report.text import assess_cluster

N_BINS = 10  # of the histogram of confidence
N_LEAST_CONFIDENT = 15  # samples listed one by one
N_TYPICAL = 3  # samples named for a rare cluster
MAX_TABLE_WIDTH = 30  # classes or clusters of a contingency table that people can read

SCORES = {
    "acc": ("Accuracy", "fraction of the samples in the cluster matched to their class"),
    "recall": ("Mean recall", "recall averaged over the classes"),
    "head": ("Recall, largest classes", "mean over the largest third of the classes"),
    "medium": ("Recall, middle classes", "mean over the middle third"),
    "tail": ("Recall, smallest classes", "mean over the smallest third"),
    "macro_f1": ("Macro F1", "F1 averaged over the classes"),
    "pur": ("Purity", "fraction of the samples in the majority class of their cluster"),
    "nmi": ("NMI", "normalized mutual information"),
    "ami": ("AMI", "mutual information adjusted for chance"),
    "ari": ("ARI", "Rand index adjusted for chance"),
    "balanced_ari": ("Balanced ARI", "adjusted Rand index with equal weight for every class"),
}


class ClusterRow(NamedTuple):
    """One cluster."""

    cluster: int
    size: int
    share: float
    prior: float
    confidence: float | None
    jaccard: float | None  # with refits


def cluster_rows(facts: Facts) -> list[ClusterRow]:
    """Return one row for each cluster, by number."""
    shares = facts.cluster_sizes / facts.n_samples
    jaccard = None if facts.stability is None else facts.stability.cluster_jaccard
    return [
        ClusterRow(
            cluster=c,
            size=int(facts.cluster_sizes[c]),
            share=float(shares[c]),
            prior=float(facts.class_prior[c]),
            confidence=_none_if_nan(facts.mean_confidence[c]),
            jaccard=None if jaccard is None or not facts.cluster_sizes[c] else float(jaccard[c]),
        )
        for c in range(facts.n_clusters)
    ]


class RareClusterRow(NamedTuple):
    """One of the smallest clusters."""

    row: ClusterRow
    assessment: str
    is_warning: bool
    best_view: str | None
    best_auc: float | None
    view_auc: list[float | None]
    second_choice: int | None  # most frequent second choice of its samples
    second_choice_share: float  # of its samples with this second choice
    typical_samples: list[str]  # those of the highest confidence


def rare_cluster_rows(facts: Facts, view_auc: Floats) -> list[RareClusterRow]:
    """Return the rare clusters or, if none is rare, the smallest third; smallest first.

    Args:
        facts: The facts of the report.
        view_auc: (n_views, n_clusters) result of `charts.per_view_cluster_auc`.
    """
    rows = cluster_rows(facts)
    shown = facts.rare_clusters or facts.smallest_third
    return [_rare_cluster_row(facts, rows[c], view_auc[:, c]) for c in reversed(shown)]


def _rare_cluster_row(facts: Facts, row: ClusterRow, view_auc: Floats) -> RareClusterRow:
    members = np.flatnonzero(facts.labels == row.cluster)
    typical = members[np.argsort(-facts.confidence[members], kind="stable")][:N_TYPICAL]
    second = np.bincount(facts.second_choice[members], minlength=facts.n_clusters) * (facts.cluster_sizes > 0)
    best = None if np.isnan(view_auc).all() else int(np.nanargmax(view_auc))
    assessment, is_warning = assess_cluster(facts, row.cluster)
    return RareClusterRow(
        row=row,
        assessment=assessment,
        is_warning=is_warning,
        best_view=None if best is None else facts.views.names[best],
        best_auc=None if best is None else float(view_auc[best]),
        view_auc=[_none_if_nan(value) for value in view_auc],
        second_choice=int(second.argmax()) if second.any() else None,
        second_choice_share=float(second.max() / len(members)),
        typical_samples=[facts.sample_ids[i] for i in typical],
    )


class ViewRow(NamedTuple):
    """One view."""

    name: str
    n_features: int
    n_present: int
    weight: float
    mean_auc: float | None  # over the clusters


def view_rows(facts: Facts, view_auc: Floats) -> list[ViewRow]:
    """Return one row for each view; `view_auc` is as in `rare_cluster_rows`."""
    known = np.isfinite(view_auc)
    means = np.where(known, view_auc, 0).sum(1) / np.where(known.any(1), known.sum(1), np.nan)
    return [
        ViewRow(
            name=facts.views.names[v],
            n_features=facts.views.n_features[v],
            n_present=int(facts.views.mask[:, v].sum()),
            weight=float(facts.view_weights[v]),
            mean_auc=_none_if_nan(means[v]),
        )
        for v in range(facts.views.n_views)
    ]


def confidence_histogram(facts: Facts) -> list[list[int]]:
    """Return sample counts by confidence in `N_BINS` bins: of all clusters, then of each one."""
    bins = np.clip((facts.confidence * N_BINS).astype(np.int64), 0, N_BINS - 1)
    counts: Ints = np.zeros((facts.n_clusters, N_BINS), dtype=np.int64)
    np.add.at(counts, (facts.labels, bins), 1)
    return [counts.sum(0).tolist(), *counts.tolist()]


def least_confident_samples(facts: Facts) -> list[int]:
    """Return the row indices of the `N_LEAST_CONFIDENT` samples of lowest confidence, lowest first."""
    order: list[int] = np.argsort(facts.confidence, kind="stable").tolist()
    return order[:N_LEAST_CONFIDENT]


class ClassRow(NamedTuple):
    """One class of the ground truth."""

    name: str
    size: int
    cluster: int | None  # matched to it; None if there is none, or it has no sample of the class
    recall: float
    other_clusters: list[tuple[int, int]]  # at most three: cluster, number of samples of the class


class Comparison(NamedTuple):
    """Clusters compared with the ground truth."""

    scores: list[tuple[str, float, str]]  # name, value, description
    classes: list[ClassRow]  # largest first
    clusters: list[int]  # columns of the contingency table, in the order of their matched classes
    contingency: list[list[int]] | None  # (classes, clusters); None if it were too wide to read


def compare_with_labels(facts: Facts) -> Comparison | None:
    """Compare the clusters with the ground truth; None if it is not known."""
    if facts.labels_true is None:
        return None
    names, sizes = np.unique(facts.labels_true, return_counts=True)
    order, clusters = np.argsort(-sizes, kind="stable"), np.unique(facts.labels)
    counts = contingency(facts.labels_true, facts.labels)[order]
    matched = match_clusters(counts)
    columns = [*matched[matched >= 0], *np.setdiff1d(np.arange(len(clusters)), matched)]
    table = counts[:, columns]
    classes = zip(names[order], counts, matched, strict=True)
    return Comparison(
        scores=_score_rows(facts.labels_true, facts),
        classes=[_class_row(str(name), row, own, clusters) for name, row, own in classes],
        clusters=clusters[columns].tolist(),
        contingency=table.tolist() if max(table.shape) <= MAX_TABLE_WIDTH else None,
    )


def _score_rows(labels_true: npt.NDArray[Any], facts: Facts) -> list[tuple[str, float, str]]:
    scores = all_scores(labels_true, facts.labels)
    calibrated = calibration(labels_true, facts.labels, facts.confidence)
    return [
        *((name, scores[key], description) for key, (name, description) in SCORES.items()),
        ("Mean confidence", calibrated.mean_confidence, "equals the accuracy if confidence is calibrated"),
        ("Calibration error", calibrated.ece, "mean |confidence - accuracy| over bins of confidence"),
    ]


def _class_row(name: str, counts: Ints, matched: int, clusters: Ints) -> ClassRow:
    size, own = int(counts.sum()), int(counts[matched]) if matched >= 0 else 0
    others = [j for j in np.argsort(-counts, kind="stable") if counts[j] and j != matched]
    return ClassRow(
        name=name,
        size=size,
        cluster=int(clusters[matched]) if own else None,
        recall=own / size,
        other_clusters=[(int(clusters[j]), int(counts[j])) for j in others[:3]],
    )


def _none_if_nan(value: float | np.floating[Any]) -> float | None:
    return None if np.isnan(value) else float(value)
