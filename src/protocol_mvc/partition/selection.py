"""The choice of a partition among candidates, without labels.

Two criteria are added. The first asks whether the views confirm each other: whether the neighbours of a
sample in one view are in the same cluster as its neighbours in the other views. The second asks how often
every single cluster appears among the other candidates; small clusters count as much as large ones, so that
rare groups are not outvoted.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from protocol_mvc.partition.candidates import candidate_partitions
from protocol_mvc.partition.config import PartitionOptions
from protocol_mvc.partition.consensus import contingency, relabel_to_match
from protocol_mvc.partition.graphs import Features, Floats, Labels, ViewSpace, kmeans

DEFAULT = PartitionOptions()


class Selection(NamedTuple):
    """The chosen partition.

    Attributes:
        labels: cluster of each sample (n,).
        agreement: fraction of the best quarter of the candidates that agree on a sample (n,).
    """

    labels: Labels
    agreement: Floats


def find_partition(
    views: Sequence[Features],
    learned: Sequence[Features],
    n_clusters: int,
    seed: int,
    options: PartitionOptions = DEFAULT,
) -> Selection:
    """Return the best of several partitions of the samples into K clusters.

    Args:
        views: prepared data (n, d_v) of every view; see `graphs.impute` for samples that lack a view.
        learned: learned features (n, d) of every view.
        n_clusters: number of clusters K.
        seed: seed of the candidates.
        options: options of the search.
    """
    most = max(2, len(views[0]) // (2 * n_clusters))  # more would be members of other clusters
    options = options.model_copy(update={"n_neighbors": min(options.n_neighbors, most)})
    data = ViewSpace(views, options.n_neighbors)
    found = []
    if 2 <= n_clusters <= len(data.joined) // options.min_samples_per_cluster:
        found = list(candidate_partitions(data, learned, n_clusters, seed, options))
    if not found:
        found = [kmeans(data.joined, n_clusters, seed)]
    return select_partition(found, data, n_clusters, options.view_agreement_weight)


def select_partition(
    candidates: Sequence[Labels], data: ViewSpace, n_clusters: int, view_agreement_weight: float = 2.0
) -> Selection:
    """Return the candidate with the largest weighted sum of two criteria, both at most 1.

    The criteria are `view_agreement` and the mean of `cluster_agreement` with all candidates.

    Args:
        candidates: labels (n,) each.
        data: the prepared data of every view.
        n_clusters: number of clusters K.
        view_agreement_weight: weight of the first criterion; that of the second is 1.
    """
    confirmation = [view_agreement(data, labels) for labels in candidates]
    agreement = cluster_agreement(candidates).mean(axis=1)
    score = view_agreement_weight * np.array(confirmation) + agreement
    order = np.argsort(-score.round(9), kind="stable")  # the same for any order of summation
    best = candidates[order[0]]
    others = [candidates[i] for i in order[1 : 1 + len(candidates) // 4]]
    same = [relabel_to_match(labels, best, n_clusters) == best for labels in others]
    return Selection(best, np.mean(same, axis=0) if same else np.ones(len(best)))


def view_agreement(data: ViewSpace, labels: Labels) -> float:
    r"""Return how well the neighbours in one view and in the other views agree on the cluster of a sample.

    In every view, and in all other views together, a sample gets the cluster with the most votes of its
    neighbours in relation to the size of the cluster. The result is the mean over the views of Cohen's kappa
    of both labels, :math:`(p_o - p_e) / (1 - p_e)`, with the observed agreement and that of chance; so one
    giant cluster, on which all views agree by chance, counts nothing. A single view is compared with the
    labels themselves.
    """
    votes, sizes = data.votes(labels), np.bincount(labels)
    total = np.sum(votes, axis=0)
    kappas = []
    for own in votes:
        others = ((total - own) / sizes).argmax(axis=1) if len(votes) > 1 else labels
        table = contingency((own / sizes).argmax(axis=1), others, len(sizes))
        p = table / table.sum()
        chance = float(p.sum(axis=0) @ p.sum(axis=1))
        kappas.append((np.trace(p) - chance) / max(1 - chance, 1e-12))
    return float(np.mean(kappas))


def cluster_agreement(partitions: Sequence[Labels]) -> Floats:
    """Return the mean over the clusters of one partition of their largest Jaccard index in another (m, m)."""
    k = 1 + max(int(labels.max()) for labels in partitions)
    score = np.eye(len(partitions))
    for i, a in enumerate(partitions):
        for j, b in enumerate(partitions[:i]):
            common = contingency(a, b, k)
            union = common.sum(axis=1, keepdims=True) + common.sum(axis=0) - common
            jaccard = common / np.maximum(union, 1)
            score[i, j], score[j, i] = jaccard.max(axis=1).mean(), jaccard.max(axis=0).mean()
    return score
