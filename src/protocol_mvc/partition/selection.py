"""The choice of a partition among candidates, without labels.

Three criteria are added. The first asks whether the views confirm each other: whether the neighbours of a
sample in one view are in the same cluster as its neighbours in the other views. The second asks the same of
every cluster and the one that is hardest to tell from it: the halves of a homogeneous group, which views
divide in different ways, score low. The third asks how often every single cluster appears among the other
candidates; small clusters count as much as large ones, so that rare groups are not outvoted.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from protocol_mvc.partition.candidates import candidate_partitions
from protocol_mvc.partition.config import PartitionOptions
from protocol_mvc.partition.consensus import contingency, relabel_to_match
from protocol_mvc.partition.graphs import Features, Floats, Labels, ViewSpace, kmeans, one_hot

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
    return select_partition(found, data, n_clusters, options)


def select_partition(
    candidates: Sequence[Labels], data: ViewSpace, n_clusters: int, options: PartitionOptions = DEFAULT
) -> Selection:
    """Return the candidate with the largest weighted sum of three criteria, each at most 1.

    The criteria are `view_agreement`, `pair_agreement` and the mean of `cluster_agreement` with all
    candidates, whose weight is 1.

    Args:
        candidates: labels (n,) each.
        data: the prepared data of every view.
        n_clusters: number of clusters K.
        options: weights of the first two criteria.
    """
    score = cluster_agreement(candidates).mean(axis=1)
    for i, labels in enumerate(candidates):
        votes = data.votes(labels)
        score[i] += options.view_agreement_weight * view_agreement(votes, labels)
        score[i] += options.pair_agreement_weight * pair_agreement(votes, labels)
    order = np.argsort(-score.round(9), kind="stable")  # the same for any order of summation
    best = candidates[order[0]]
    others = [candidates[i] for i in order[1 : 1 + len(candidates) // 4]]
    same = [relabel_to_match(labels, best, n_clusters) == best for labels in others]
    return Selection(best, np.mean(same, axis=0) if same else np.ones(len(best)))


def view_agreement(votes: Sequence[Floats], labels: Labels) -> float:
    r"""Return how well the neighbours in one view and in the other views agree on the cluster of a sample.

    In every view, and in all other views together, a sample gets the cluster with the most votes of its
    neighbours in relation to the size of the cluster. The result is the mean over the views of Cohen's kappa
    of both labels, :math:`(p_o - p_e) / (1 - p_e)`, with the observed agreement and that of chance; so one
    giant cluster, on which all views agree by chance, counts nothing. A single view is compared with the
    labels themselves.

    Args:
        votes: number of neighbours (n, K) of every sample in every cluster, for each view.
        labels: cluster of each sample (n,).
    """
    kappas = []
    for own, others in _shares(votes, labels):
        table = contingency(own.argmax(axis=1), others.argmax(axis=1), own.shape[1])
        p = table / table.sum()
        chance = float(p.sum(axis=0) @ p.sum(axis=1))
        kappas.append((np.trace(p) - chance) / max(1 - chance, 1e-12))
    return float(np.mean(kappas))


def pair_agreement(votes: Sequence[Floats], labels: Labels) -> float:
    r"""Return how well the views agree on which of two similar clusters the members of both belong to.

    For a pair of clusters a, b and a view, the decision about a member of either is the sign of the
    difference of the votes for a and for b in relation to the sizes. The agreement of a pair is the
    correlation of the decisions of one view and of all other views together, with a and b of equal weight,
    averaged over the views. The result is the mean over all samples of the smallest agreement of their
    cluster with another one.

    Args:
        votes: number of neighbours (n, K) of every sample in every cluster, for each view.
        labels: cluster of each sample (n,).
    """
    sizes = np.bincount(labels)
    if len(sizes) < 2:
        return 0.0
    agreement = np.mean([_decision_correlation(labels, *view) for view in _shares(votes, labels)], axis=0)
    np.fill_diagonal(agreement, np.inf)
    return float(agreement.min(axis=1) @ sizes / len(labels))


def _shares(votes: Sequence[Floats], labels: Labels) -> Iterator[tuple[Floats, Floats]]:
    """Yield for every view the votes in relation to the sizes (n, K), in that view and in all others."""
    sizes, total = np.maximum(np.bincount(labels), 1), np.sum(votes, axis=0)
    for own in votes:
        yield own / sizes, ((total - own) / sizes if len(votes) > 1 else one_hot(labels))


def _decision_correlation(labels: Labels, own: Floats, others: Floats) -> Floats:
    """Return the correlation (K, K) of two views' decisions between any two clusters.

    Args:
        labels: cluster of each sample (n,).
        own: votes of one view (n, K).
        others: votes of the other views (n, K).
    """
    k, rows = own.shape[1], np.arange(len(labels))
    p, q = (np.sign(x[rows, labels][:, None] - x).astype(np.float32) for x in (own, others))
    member = one_hot(labels, k).astype(np.float32)  # sums of whole numbers are exact
    sums = member.T @ np.hstack([p, q, p * p, q * q, p * q])
    means = np.split(sums / np.maximum(np.bincount(labels, minlength=k), 1)[:, None], 5, axis=1)
    signs = (-1, -1, 1, 1, 1)  # column b is about the pair of a sample's own cluster and b
    mean_p, mean_q, pp, qq, pq = ((x + sign * x.T) / 2 for x, sign in zip(means, signs, strict=True))
    variance = (pp - mean_p**2) * (qq - mean_q**2)
    correlation: Floats = (pq - mean_p * mean_q) / np.sqrt(np.maximum(variance, 1e-12))
    return correlation


def cluster_agreement(partitions: Sequence[Labels]) -> Floats:
    """Return the mean over the clusters of one partition of their largest Jaccard index in another (m, m)."""
    m, k = len(partitions), 1 + max(int(labels.max()) for labels in partitions)
    sizes = np.stack([np.bincount(labels, minlength=k) for labels in partitions])  # (m, K)
    places = np.stack(partitions) + (k * k * np.arange(m))[:, None]
    score = np.eye(m)
    for i, labels in enumerate(partitions[1:], 1):
        common = np.bincount((places[:i] + k * labels).ravel(), minlength=i * k * k).reshape(i, k, k)
        union = sizes[i][:, None] + sizes[:i, None, :] - common
        jaccard = common / np.maximum(union, 1)
        score[i, :i], score[:i, i] = jaccard.max(axis=2).mean(axis=1), jaccard.max(axis=1).mean(axis=1)
    return score
