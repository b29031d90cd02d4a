"""Metrics of clusterings with known classes, for large and for small classes.

Every function takes `(labels_true, labels_pred)`, two 1-D sequences of equal length with values of any
sortable type. The metrics depend only on their contingency table `n[i, j]`, the number of samples of class
`i` in cluster `j`, with class sizes `n[i]`, cluster sizes `m[j]` and `n` samples.

Accuracy, recalls and F1 match classes and clusters by `match_clusters`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    normalized_mutual_info_score,
    roc_auc_score,
)
from sklearn.metrics.cluster import contingency_matrix

Ints = NDArray[np.int64]


class GroupRecall(NamedTuple):
    """Mean recall of the largest, the middle and the smallest classes."""

    head: float
    medium: float
    tail: float


class Calibration(NamedTuple):
    """Calibration of the confidence of labels."""

    mean_confidence: float  #: mean confidence; equal to the accuracy if it is calibrated
    ece: float  #: expected calibration error: mean absolute difference of confidence and accuracy over bins
    auroc: float  #: probability that a correct label has more confidence than a wrong one; NaN without both


def contingency(labels_true: ArrayLike, labels_pred: ArrayLike) -> Ints:
    """Return the contingency table `n[i, j]` (classes, clusters)."""
    table: Ints = contingency_matrix(*_codes(labels_true, labels_pred), dtype=np.int64)
    return table


def match_clusters(table: Ints) -> Ints:
    """Match classes and clusters one to one, so that most samples agree.

    Maximizes `sum_i n[i, match[i]]` and, among ties, `sum_i n[i, match[i]] / n[i]`, which favours small
    classes. So accuracy and mean recall are unique; other ties do not depend on the values of the labels.

    Args:
        table: contingency table (classes, clusters).

    Returns:
        The cluster of each class (classes,); -1 for a class without one.
    """
    recall = table / table.sum(axis=1, keepdims=True)
    # The recalls of a matching sum to at most `classes`, so this bonus is worth less than one sample.
    gain = table + recall / (len(table) + 1)
    # Sorting the columns by content makes the remaining ties independent of the values of the labels.
    order = np.lexsort(table)
    rows, columns = linear_sum_assignment(gain[:, order], maximize=True)
    clusters = np.full(len(table), -1, dtype=np.int64)
    clusters[rows] = order[columns]
    return clusters


def matched_counts(labels_true: ArrayLike, labels_pred: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """Return, for each class, its samples in the matched cluster, its size, and the size of the cluster."""
    table = contingency(labels_true, labels_pred)
    clusters = match_clusters(table)
    paired = clusters >= 0
    hits = np.where(paired, table[np.arange(len(table)), clusters], 0)
    found = np.where(paired, table.sum(axis=0)[clusters], 0)
    return hits, table.sum(axis=1), found


def is_correct(labels_true: ArrayLike, labels_pred: ArrayLike) -> NDArray[np.bool_]:
    """Return whether each sample is in the cluster matched with its class (n,)."""
    classes, clusters = _codes(labels_true, labels_pred)
    correct: NDArray[np.bool_] = match_clusters(contingency(labels_true, labels_pred))[classes] == clusters
    return correct


def calibration(
    labels_true: ArrayLike, labels_pred: ArrayLike, confidence: ArrayLike, n_bins: int = 10
) -> Calibration:
    """Compare the confidence of labels with their correctness.

    Args:
        labels_true: class of each sample (n,).
        labels_pred: cluster of each sample (n,).
        confidence: confidence of each label (n,), from 0 to 1.
        n_bins: number of bins of equal width for the expected calibration error.
    """
    correct, p = is_correct(labels_true, labels_pred), np.asarray(confidence, dtype=np.float64)
    bins = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    gap = np.bincount(bins, weights=p - correct)  # of every bin, times its samples
    both = 0 < correct.sum() < len(correct)
    auroc = float(roc_auc_score(correct, p)) if both else float("nan")
    return Calibration(float(p.mean()), float(np.abs(gap).sum() / len(p)), auroc)


def clustering_accuracy(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the clustering accuracy, `max over matchings of sum_i n[i, match[i]] / n`."""
    hits, sizes, _ = matched_counts(labels_true, labels_pred)
    return float(hits.sum() / sizes.sum())


def mean_recall(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the recall averaged over the K classes, `sum_i (n[i, match[i]] / n[i]) / K`."""
    hits, sizes, _ = matched_counts(labels_true, labels_pred)
    return float(np.mean(hits / sizes))


def group_recall(labels_true: ArrayLike, labels_pred: ArrayLike) -> GroupRecall:
    """Return the mean recall of the head, medium and tail classes.

    The classes, largest first, are split into three groups of nearly equal length; a remainder goes to the
    head, then to the medium classes (K = 10: 4, 3, 3). With fewer than three classes the head is the largest
    class, the tail the smallest, and the medium group all of them. Ties of size are in sorted order.
    """
    hits, sizes, _ = matched_counts(labels_true, labels_pred)
    return group_means((hits / sizes)[np.argsort(-sizes, kind="stable")])


def group_means(recalls: ArrayLike) -> GroupRecall:
    """Return the means of `group_recall` from the recalls of the classes, the largest class first."""
    r = np.asarray(recalls)
    groups = np.array_split(r, 3) if len(r) >= 3 else [r[:1], r, r[-1:]]
    return GroupRecall(*(float(group.mean()) for group in groups))


def macro_f1(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return F1 averaged over the K classes, `sum_i 2 n[i, match[i]] / (n[i] + m[match[i]]) / K`."""
    hits, sizes, found = matched_counts(labels_true, labels_pred)
    return float(np.mean(2 * hits / (sizes + found)))


def purity(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the fraction of samples in the majority class of their cluster, `sum_j max_i n[i, j] / n`."""
    table = contingency(labels_true, labels_pred)
    return float(table.max(axis=0).sum() / table.sum())


def nmi(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the normalized mutual information, `2 I(true; pred) / (H(true) + H(pred))`."""
    return float(normalized_mutual_info_score(*_codes(labels_true, labels_pred), average_method="arithmetic"))


def ami(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the adjusted mutual information, `(I - E[I]) / ((H(true) + H(pred)) / 2 - E[I])`."""
    return float(adjusted_mutual_info_score(*_codes(labels_true, labels_pred), average_method="arithmetic"))


def ari(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the adjusted Rand index, `(S - E[S]) / ((A + B) / 2 - E[S])` with `E[S] = A B / (n choose 2)`.

    `S`, `A` and `B` count the pairs of samples that share class and cluster, class, and cluster.
    """
    return float(adjusted_rand_score(*_codes(labels_true, labels_pred)))


def balanced_ari(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the adjusted Rand index in which every class has the same mass.

    With `p[i, j] = n[i, j] / (K n[i])` two samples are drawn independently: a class uniformly, then one of
    its samples uniformly. `S = sum_ij p[i, j]^2`, `A = sum_i p[i]^2 = 1 / K` and `B = sum_j p[j]^2` are the
    probabilities that they share class and cluster, class, and cluster. The index is

        `(S - A B) / ((A + B) / 2 - A B)`, and 1 where that is 0 / 0 (one class, one cluster).

    It is the limit of `ari` when all classes are repeated to one common size that goes to infinity. For
    classes of equal size it differs from `ari` by O(1 / class size), as pairs of a sample with itself count.
    """
    table = contingency(labels_true, labels_pred)
    if table.size == 1:
        return 1.0
    p = table / table.sum(axis=1, keepdims=True) / len(table)
    both, in_class, in_cluster = (float(np.sum(x**2)) for x in (p, p.sum(axis=1), p.sum(axis=0)))
    chance = in_class * in_cluster
    return (both - chance) / ((in_class + in_cluster) / 2 - chance)


def all_scores(labels_true: ArrayLike, labels_pred: ArrayLike) -> dict[str, float]:
    """Return all metrics of this module by their short names."""
    codes = _codes(labels_true, labels_pred)
    return {
        "acc": clustering_accuracy(*codes),
        "nmi": nmi(*codes),
        "pur": purity(*codes),
        "ari": ari(*codes),
        "ami": ami(*codes),
        "balanced_ari": balanced_ari(*codes),
        "recall": mean_recall(*codes),
        **group_recall(*codes)._asdict(),
        "macro_f1": macro_f1(*codes),
    }


def _codes(labels_true: ArrayLike, labels_pred: ArrayLike) -> tuple[Ints, Ints]:
    """Return the validated labels with their values numbered 0, 1, ... in sorted order."""
    labels_true, labels_pred = np.asarray(labels_true), np.asarray(labels_pred)
    if labels_true.ndim != 1 or labels_true.shape != labels_pred.shape or labels_true.size == 0:
        raise ValueError(
            "labels_true and labels_pred must be 1-D, of equal length and not empty, "
            f"got shapes {labels_true.shape} and {labels_pred.shape}"
        )
    first, second = (np.unique(values, return_inverse=True)[1] for values in (labels_true, labels_pred))
    return first.astype(np.int64), second.astype(np.int64)
