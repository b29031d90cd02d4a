"""How well do cluster labels agree with the truth, for large groups and for small ones?

Every function takes `(truth, labels)`, two equally long 1-D sequences of any sortable values, and looks only
at their contingency table `n[i, j]` = number of items of class `i` in cluster `j`, with class sizes `n[i]`,
cluster sizes `m[j]` and `n` items in all. Names of classes and clusters carry no meaning.

`accuracy`, `mean_recall`, `group_recall` and `macro_f1` pair classes with clusters, by the one `match`.
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
Floats = NDArray[np.float64]


class GroupRecall(NamedTuple):
    """Mean recall of the largest, the middle and the smallest classes."""

    head: float
    medium: float
    tail: float


class Calibration(NamedTuple):
    """Whether confidence means what it says."""

    confidence: float  #: its mean; that of the accuracy, if it is honest on the whole
    error: float  #: expected calibration error, the mean distance of confidence and accuracy, bin by bin
    ranking: float  #: chance that a right label has more confidence than a wrong one; NaN without both


def contingency(labels_true: ArrayLike, labels_pred: ArrayLike) -> Ints:
    """Count the items of each class in each cluster: the table `n[i, j]`, (classes, clusters)."""
    table: Ints = contingency_matrix(*_codes(labels_true, labels_pred), dtype=np.int64)
    return table


def match_clusters(table: Ints) -> Ints:
    """Pair classes with clusters, one to one, so that most items agree.

    Maximises `sum_i n[i, match[i]]` and, among equals, `sum_i n[i, match[i]] / n[i]`, in favour of the small
    classes. So `accuracy` and `mean_recall` are unique; should several matchings tie in both, one is taken
    that does not depend on the names of the clusters.

    Args:
        table: Counts, (classes, clusters).

    Returns:
        The cluster of each class, (classes,); -1 for a class left without one.
    """
    recall = table / table.sum(axis=1, keepdims=True)
    # The recalls of a matching sum to at most `classes`, hence this bonus is worth less than one item.
    gain = table + recall / (len(table) + 1)
    # Sorting the columns by content is what makes the remaining ties independent of names.
    order = np.lexsort(table)
    rows, columns = linear_sum_assignment(gain[:, order], maximize=True)
    clusters = np.full(len(table), -1, dtype=np.int64)
    clusters[rows] = order[columns]
    return clusters


def matched_counts(labels_true: ArrayLike, labels_pred: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """For each class: items in its matched cluster, items in all, size of that cluster (0 if unmatched)."""
    table = contingency(labels_true, labels_pred)
    clusters = match_clusters(table)
    paired = clusters >= 0
    hits = np.where(paired, table[np.arange(len(table)), clusters], 0)
    found = np.where(paired, table.sum(axis=0)[clusters], 0)
    return hits, table.sum(axis=1), found


def is_correct(labels_true: ArrayLike, labels_pred: ArrayLike) -> NDArray[np.bool_]:
    """Which items are in the cluster matched with their class, (n,)."""
    classes, clusters = _codes(labels_true, labels_pred)
    right: NDArray[np.bool_] = match_clusters(contingency(labels_true, labels_pred))[classes] == clusters
    return right


def calibration(
    labels_true: ArrayLike, labels_pred: ArrayLike, confidence: ArrayLike, n_bins: int = 10
) -> Calibration:
    """Confidence in each label, from 0 to 1, beside whether it is right."""
    right, sure = is_correct(labels_true, labels_pred), np.asarray(confidence, dtype=np.float64)
    bins = np.minimum((sure * n_bins).astype(np.int64), n_bins - 1)
    gap = np.bincount(bins, weights=sure - right)  # of every bin, times its items
    both = 0 < right.sum() < len(right)
    ranking = float(roc_auc_score(right, sure)) if both else float("nan")
    return Calibration(float(sure.mean()), float(np.abs(gap).sum() / len(sure)), ranking)


def clustering_accuracy(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Clustering accuracy: `max over matchings of sum_i n[i, match[i]] / n`."""
    hits, sizes, _ = matched_counts(labels_true, labels_pred)
    return float(hits.sum() / sizes.sum())


def mean_recall(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Recall averaged over the K classes: `sum_i (n[i, match[i]] / n[i]) / K`."""
    hits, sizes, _ = matched_counts(labels_true, labels_pred)
    return float(np.mean(hits / sizes))


def group_recall(labels_true: ArrayLike, labels_pred: ArrayLike) -> GroupRecall:
    """Mean recall of the head, medium and tail classes.

    The classes, largest first, are cut into three runs of nearly equal length; a remainder goes to the head,
    then to the medium classes (K = 10: 4, 3, 3). With fewer than three classes the head is the largest class,
    the tail the smallest, and the medium group all of them. Classes of equal size stay in sorted order.
    """
    hits, sizes, _ = matched_counts(labels_true, labels_pred)
    return group_means((hits / sizes)[np.argsort(-sizes, kind="stable")])


def group_means(recalls: ArrayLike) -> GroupRecall:
    """The means of `group_recall`, from the recalls of the classes in order, that of the largest first."""
    r = np.asarray(recalls)
    groups = np.array_split(r, 3) if len(r) >= 3 else [r[:1], r, r[-1:]]
    return GroupRecall(*(float(group.mean()) for group in groups))


def macro_f1(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """F1 averaged over the K classes: `sum_i 2 n[i, match[i]] / (n[i] + m[match[i]]) / K`."""
    hits, sizes, found = matched_counts(labels_true, labels_pred)
    return float(np.mean(2 * hits / (sizes + found)))


def purity(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Share of items in the majority class of their cluster: `sum_j max_i n[i, j] / n`."""
    table = contingency(labels_true, labels_pred)
    return float(table.max(axis=0).sum() / table.sum())


def nmi(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Mutual information over mean entropy: `2 I(truth; labels) / (H(truth) + H(labels))`."""
    return float(normalized_mutual_info_score(*_codes(labels_true, labels_pred), average_method="arithmetic"))


def ami(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Mutual information corrected for chance: `(I - E[I]) / ((H(truth) + H(labels)) / 2 - E[I])`."""
    return float(adjusted_mutual_info_score(*_codes(labels_true, labels_pred), average_method="arithmetic"))


def ari(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Rand index corrected for chance: `(S - E[S]) / ((A + B) / 2 - E[S])` with `E[S] = A B / (n choose 2)`.

    `S`, `A` and `B` count the pairs of items that share class and cluster, class, and cluster.
    """
    return float(adjusted_rand_score(*_codes(labels_true, labels_pred)))


def balanced_ari(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Adjusted Rand index when every class carries the same mass.

    With `p[i, j] = n[i, j] / (K n[i])` two items are drawn independently: a class uniformly, then one of its
    items uniformly. `S = sum_ij p[i, j]^2`, `A = sum_i p[i]^2 = 1 / K` and `B = sum_j p[j]^2` are the chances
    that they share class and cluster, class, and cluster:

        `(S - A B) / ((A + B) / 2 - A B)`, and 1 where that is 0 / 0 (one class, one cluster).

    This is the limit of `ari` when each class is repeated up to one common, ever larger size. For classes
    that are of equal size already it differs from `ari` by O(1 / class size), since pairs of an item with
    itself count here.
    """
    table = contingency(labels_true, labels_pred)
    if table.size == 1:
        return 1.0
    p = table / table.sum(axis=1, keepdims=True) / len(table)
    both, in_class, in_cluster = _squares(p), _squares(p.sum(axis=1)), _squares(p.sum(axis=0))
    chance = in_class * in_cluster
    return (both - chance) / ((in_class + in_cluster) / 2 - chance)


def all_scores(labels_true: ArrayLike, labels_pred: ArrayLike) -> dict[str, float]:
    """Compute every metric of this module, by its short name."""
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
    """Validate both sequences and number their values 0, 1, ... in sorted order."""
    labels_true, labels_pred = np.asarray(labels_true), np.asarray(labels_pred)
    if labels_true.ndim != 1 or labels_true.shape != labels_pred.shape or labels_true.size == 0:
        raise ValueError(
            "truth and labels must be 1-D, not empty and equally long, "
            f"but their shapes are {labels_true.shape} and {labels_pred.shape}"
        )
    first, second = (np.unique(values, return_inverse=True)[1] for values in (labels_true, labels_pred))
    return first.astype(np.int64), second.astype(np.int64)


def _squares(values: Floats) -> float:
    return float(np.sum(values**2))
