"""Clusters beside known classes: which classes are found, split or lost, and all scores."""

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from protocol_mvc.evaluation.metrics import all_scores, calibration, contingency, match_clusters
from protocol_mvc.report.facts import Facts

Outcome = Literal["found", "split", "in part", "lost"]

FOUND, LOST = 0.8, 0.2  # shares of a class, from which it is found and below which it is lost
MAIN = 0.05  # share of a class from which a cluster is one of its main clusters
MAX_MAIN = 6  # main clusters
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


class KnownClass(NamedTuple):
    """A class and what became of it."""

    name: Any
    size: int
    cluster: int | None  #: the matched cluster; None if there is none, or it has no sample of the class
    recall: float  #: share of the class in the matched cluster
    clusters: list[tuple[int, int]]  #: main clusters and their samples of the class, most first
    outcome: Outcome


class Comparison(NamedTuple):
    """Clusters beside known classes."""

    classes: list[KnownClass]  #: largest first
    clusters: list[int]  #: columns of the contingency table, in the order of their matched classes
    contingency: list[list[int]] | None  #: (classes, clusters) samples; None if it were too wide to read

    def having(self, outcome: Outcome) -> list[KnownClass]:
        """Return the classes of an outcome, largest first."""
        return [row for row in self.classes if row.outcome == outcome]


def compare_labels(labels_true: npt.NDArray[Any], labels_pred: npt.NDArray[Any]) -> Comparison:
    """Match the clusters with the classes one to one, and count the samples of every pair.

    A class is found if its recall is at least `FOUND`. It is split if as large a share of it is in clusters
    of which it is the majority, and lost if that share and the recall are below `LOST`.
    """
    names, sizes = np.unique(labels_true, return_counts=True)
    order, clusters = np.argsort(-sizes, kind="stable"), np.unique(labels_pred).tolist()
    counts = contingency(labels_true, labels_pred)[order]
    matched, majority, classes = match_clusters(counts), counts.argmax(axis=0), []
    for i, (name, row) in enumerate(zip(names[order].tolist(), counts, strict=True)):
        size, n_own = int(row.sum()), int(row[matched[i]]) if matched[i] >= 0 else 0
        first, *others = np.argsort(-row, kind="stable")
        most = [first, *(j for j in others if row[j] >= MAIN * size)][:MAX_MAIN]
        classes.append(
            KnownClass(
                name=name,
                size=size,
                cluster=clusters[matched[i]] if n_own else None,
                recall=n_own / size,
                clusters=[(clusters[j], int(row[j])) for j in most],
                outcome=_outcome(n_own / size, float(row[majority == i].sum()) / size),
            )
        )
    columns = [*matched[matched >= 0], *np.setdiff1d(np.arange(len(clusters)), matched)]
    table = counts[:, columns].tolist() if max(counts.shape) <= MAX_TABLE_WIDTH else None
    return Comparison(classes, [clusters[j] for j in columns], table)


def _outcome(recall: float, majority_share: float) -> Outcome:
    """Return what became of a class, of which a share is in clusters where it is the majority."""
    if recall >= FOUND:
        return "found"
    if majority_share >= FOUND:
        return "split"
    return "lost" if max(recall, majority_share) < LOST else "in part"


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
