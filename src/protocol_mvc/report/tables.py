"""The rows of the tables of the report."""

from typing import Any

import numpy as np
import numpy.typing as npt

from protocol_mvc.evaluation.metrics import all_scores, calibration, contingency, match_clusters
from protocol_mvc.report.facts import Facts, Floats, Ints
from protocol_mvc.report.text import assess_cluster

Row = dict[str, Any]

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


def cluster_rows(facts: Facts) -> list[Row]:
    """Return one row for each cluster, by number; the mean confidence of an empty cluster is NaN."""
    columns = {
        "cluster": np.arange(facts.n_clusters),
        "size": facts.cluster_sizes,
        "share": facts.cluster_sizes / facts.n_samples,
        "confidence": facts.mean_confidence,
        "prior": facts.class_prior,
    }
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def rare_cluster_rows(facts: Facts, view_auc: Floats) -> list[Row]:
    """Return the rare clusters or, if none is rare, the smallest third; smallest first.

    Args:
        facts: The facts of the report.
        view_auc: (n_views, n_clusters) result of `charts.per_view_cluster_auc`.

    Returns:
        The fields of `cluster_rows`, an assessment, the AUC of each view and the view of the highest AUC,
        the most frequent second choice of the samples, and the samples of the highest confidence.
    """
    rows, found, described = cluster_rows(facts), facts.nonempty_clusters, []
    for c in reversed(facts.rare_clusters or found[-max(len(found) // 3, 1) :]):
        members = np.flatnonzero(facts.labels == c)
        typical = members[np.argsort(-facts.confidence[members], kind="stable")][:N_TYPICAL]
        second = np.bincount(facts.second_choice[members], minlength=facts.n_clusters)
        second[facts.empty_clusters] = 0
        assessment, is_warning = assess_cluster(facts, c)
        described.append(
            rows[c]
            | {
                "assessment": assessment,
                "is_warning": is_warning,
                "view_auc": view_auc[:, c].tolist(),
                "best_view": None if np.isnan(view_auc[:, c]).all() else int(np.nanargmax(view_auc[:, c])),
                "second_choice": int(second.argmax()) if second.any() else None,
                "second_choice_share": float(second.max() / len(members)),
                "typical_samples": [facts.sample_ids[i] for i in typical],
            }
        )
    return described


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


def compare_labels(labels_true: npt.NDArray[Any], labels_pred: npt.NDArray[Any]) -> Row:
    """Match the clusters with the classes and count the samples of every pair.

    Returns:
        classes: A row for each class, largest first: its name, its size, the matched cluster (None if there
            is none, or it has no sample of the class), the recall, and at most three other clusters with
            their number of samples of the class.
        clusters: The columns of the contingency table, in the order of their matched classes.
        contingency: (classes, clusters) numbers of samples; None if the table were too wide to read.
    """
    names, sizes = np.unique(labels_true, return_counts=True)
    order, clusters = np.argsort(-sizes, kind="stable"), np.unique(labels_pred).tolist()
    counts = contingency(labels_true, labels_pred)[order]
    matched, classes = match_clusters(counts), []
    for name, row, own in zip(names[order].tolist(), counts, matched, strict=True):
        n_own = int(row[own]) if own >= 0 else 0
        others = [j for j in np.argsort(-row, kind="stable") if row[j] and j != own][:3]
        classes.append(
            {
                "name": name,
                "size": int(row.sum()),
                "cluster": clusters[own] if n_own else None,
                "recall": n_own / int(row.sum()),
                "other_clusters": [(clusters[j], int(row[j])) for j in others],
            }
        )
    columns = [*matched[matched >= 0], *np.setdiff1d(np.arange(len(clusters)), matched)]
    table = counts[:, columns].tolist() if max(counts.shape) <= MAX_TABLE_WIDTH else None
    return {"classes": classes, "clusters": [clusters[j] for j in columns], "contingency": table}
