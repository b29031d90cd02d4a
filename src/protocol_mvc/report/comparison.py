"""The clusters beside a truth: scores, every class, and the table of both."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from protocol_mvc.evaluation.metrics import all_scores, calibration, contingency, match_clusters
from protocol_mvc.report.facts import Facts, Ints

MOST_COLUMNS = 30  # of a table that people can still read
HEATS = 10  # shades of a cell

SCORES = {
    "acc": ("Accuracy", "share of samples in the cluster matched with their class"),
    "recall": ("Mean recall", "the same share, class by class, averaged over the classes"),
    "head": ("Recall, largest classes", "mean over the largest third of the classes"),
    "medium": ("Recall, middle classes", "mean over the middle third"),
    "tail": ("Recall, smallest classes", "mean over the smallest third"),
    "macro_f1": ("Macro F1", "recall and precision together, averaged over the classes"),
    "pur": ("Purity", "share of samples in the majority class of their cluster"),
    "nmi": ("NMI", "normalised mutual information"),
    "ami": ("AMI", "mutual information corrected for chance"),
    "ari": ("ARI", "Rand index corrected for chance"),
    "balanced_ari": ("Balanced ARI", "Rand index when every class counts the same"),
}


class ScoreRow(NamedTuple):
    """A score with its meaning."""

    name: str
    value: float
    meaning: str


class ClassRow(NamedTuple):
    """A true class and what became of it."""

    name: str
    size: int
    cluster: int | None  # matched with it
    recall: float
    astray: list[tuple[int, int]]  # other clusters with most of its samples, and how many


class Comparison(NamedTuple):
    """Clusters beside a truth."""

    scores: list[ScoreRow]
    classes: list[ClassRow]  # the largest first
    columns: list[int]  # clusters, those matched with the classes first and in their order
    table: list[list[int]] | None  # (classes, columns); None if it were too wide to read
    heats: list[list[int]]  # share of the class in every cell, in tenths


def compare(facts: Facts) -> Comparison | None:
    """All of it, or None without a truth."""
    if facts.truth is None:
        return None
    names, sizes = np.unique(facts.truth, return_counts=True)
    order, clusters = np.argsort(-sizes, kind="stable"), np.unique(facts.labels)
    table = contingency(facts.truth, facts.labels)[order]
    partner = match_clusters(table)
    columns = [*partner[partner >= 0], *np.setdiff1d(np.arange(len(clusters)), partner)]
    ordered = table[:, columns]
    classes = zip(names[order], table, partner, strict=True)
    return Comparison(
        scores=_scores(facts.truth, facts),
        classes=[_class_row(str(name), row, own, clusters) for name, row, own in classes],
        columns=clusters[columns].tolist(),
        table=ordered.tolist() if max(table.shape) <= MOST_COLUMNS else None,
        heats=np.minimum(HEATS * ordered // ordered.sum(1, keepdims=True), HEATS - 1).tolist(),
    )


def _scores(truth: npt.NDArray[Any], facts: Facts) -> list[ScoreRow]:
    found, sure = all_scores(truth, facts.labels), calibration(truth, facts.labels, facts.confidence)
    return [
        *(ScoreRow(name, found[key], meaning) for key, (name, meaning) in SCORES.items()),
        ScoreRow("Mean confidence", sure.confidence, "equals the accuracy if confidence means what it says"),
        ScoreRow("Calibration error", sure.error, "mean distance of confidence and accuracy, bin by bin"),
    ]


def _class_row(name: str, row: Ints, partner: int, clusters: Ints) -> ClassRow:
    size, own = int(row.sum()), int(row[partner]) if partner >= 0 else 0
    others = [j for j in np.argsort(-row, kind="stable") if row[j] and j != partner]
    return ClassRow(
        name=name,
        size=size,
        cluster=int(clusters[partner]) if partner >= 0 else None,
        recall=own / size,
        astray=[(int(clusters[j]), int(row[j])) for j in others[:3]],
    )
