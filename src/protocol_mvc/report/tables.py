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
    """One cluster; the mean confidence of an empty cluster is NaN."""

    cluster: int
    size: int
    share: float
    confidence: float
    prior: float


def cluster_rows(facts: Facts) -> list[ClusterRow]:
    """Return one row for each cluster, by number."""
    shares = facts.cluster_sizes / facts.n_samples
    columns = (facts.cluster_sizes, shares, facts.mean_confidence, facts.class_prior)
    return [ClusterRow(c, *row) for c, row in enumerate(zip(*map(np.ndarray.tolist, columns), strict=True))]


class RareClusterRow(NamedTuple):
    """One of the smallest clusters."""

    row: ClusterRow
    assessment: str
    is_warning: bool
    view_auc: list[float]  # NaN where it is not defined
    best_view: int | None  # the one of the highest AUC
    second_choice: int | None  # most frequent second choice of its samples
    second_choice_share: float  # of its samples with this second choice
    typical_samples: list[str]  # those of the highest confidence


def rare_cluster_rows(facts: Facts, view_auc: Floats) -> list[RareClusterRow]:
    """Return the rare clusters or, if none is rare, the smallest third; smallest first.

    Args:
        facts: The facts of the report.
        view_auc: (n_views, n_clusters) result of `charts.per_view_cluster_auc`.
    """
    rows, found = cluster_rows(facts), facts.nonempty_clusters
    shown = facts.rare_clusters or found[-max(len(found) // 3, 1) :]
    return [_rare_cluster_row(facts, rows[c], view_auc[:, c]) for c in reversed(shown)]


def _rare_cluster_row(facts: Facts, row: ClusterRow, view_auc: Floats) -> RareClusterRow:
    members = np.flatnonzero(facts.labels == row.cluster)
    typical = members[np.argsort(-facts.confidence[members], kind="stable")][:N_TYPICAL]
    second = np.bincount(facts.second_choice[members], minlength=facts.n_clusters) * (facts.cluster_sizes > 0)
    assessment, is_warning = assess_cluster(facts, row.cluster)
    return RareClusterRow(
        row=row,
        assessment=assessment,
        is_warning=is_warning,
        view_auc=view_auc.tolist(),
        best_view=None if np.isnan(view_auc).all() else int(np.nanargmax(view_auc)),
        second_choice=int(second.argmax()) if second.any() else None,
        second_choice_share=float(second.max() / len(members)),
        typical_samples=[facts.sample_ids[i] for i in typical],
    )


def confidence_histogram(facts: Facts) -> list[list[int]]:
    """Return sample counts by confidence in `N_BINS` bins: of all clusters, then of each one."""
    bins = np.clip((facts.confidence * N_BINS).astype(np.int64), 0, N_BINS - 1)
    counts: Ints = np.zeros((facts.n_clusters, N_BINS), dtype=np.int64)
    np.add.at(counts, (facts.labels, bins), 1)
    return [counts.sum(0).tolist(), *counts.tolist()]


def score_rows(facts: Facts) -> list[tuple[str, float, str]]:
    """Return name, value and description of every score; none without ground truth."""
    if facts.labels_true is None:
        return []
    scores = all_scores(facts.labels_true, facts.labels)
    calibrated = calibration(facts.labels_true, facts.labels, facts.confidence)
    return [
        *((name, scores[key], description) for key, (name, description) in SCORES.items()),
        ("Mean confidence", calibrated.mean_confidence, "equals the accuracy if confidence is calibrated"),
        ("Calibration error", calibrated.ece, "mean |confidence - accuracy| over bins of confidence"),
    ]


class ClassRow(NamedTuple):
    """One class of the ground truth."""

    name: Any
    size: int
    cluster: Any  # matched to it; None if there is none, or it has no sample of the class
    recall: float
    other_clusters: list[tuple[Any, int]]  # at most three: cluster, number of samples of the class


class Comparison(NamedTuple):
    """Clusters compared with the ground truth."""

    classes: list[ClassRow]  # largest first
    clusters: list[Any]  # columns of the contingency table, in the order of their matched classes
    contingency: list[list[int]] | None  # (classes, clusters); None if it were too wide to read


def compare_labels(labels_true: npt.NDArray[Any], labels_pred: npt.NDArray[Any]) -> Comparison:
    """Match the clusters with the classes and count the samples of every pair."""
    names, sizes = np.unique(labels_true, return_counts=True)
    order, clusters = np.argsort(-sizes, kind="stable"), np.unique(labels_pred)
    counts = contingency(labels_true, labels_pred)[order]
    matched = match_clusters(counts)
    columns = [*matched[matched >= 0], *np.setdiff1d(np.arange(len(clusters)), matched)]
    classes = zip(names[order].tolist(), counts, matched, strict=True)
    return Comparison(
        classes=[_class_row(name, row, own, clusters.tolist()) for name, row, own in classes],
        clusters=clusters[columns].tolist(),
        contingency=counts[:, columns].tolist() if max(counts.shape) <= MAX_TABLE_WIDTH else None,
    )


def _class_row(name: Any, counts: Ints, matched: int, clusters: list[Any]) -> ClassRow:
    size, own = int(counts.sum()), int(counts[matched]) if matched >= 0 else 0
    others = [j for j in np.argsort(-counts, kind="stable") if counts[j] and j != matched][:3]
    cluster = clusters[matched] if own else None
    return ClassRow(name, size, cluster, own / size, [(clusters[j], int(counts[j])) for j in others])
