r"""Choice of a partition for views that show different items of the same group.

If each view shows another item of the group, the views are conditionally independent given the cluster. Every
raw view is therefore quantised by K-means into code words, and the chosen partition is the one that maximises
the likelihood of a latent class model of the code words,

.. math:: \frac1n \sum_i \log \sum_k \pi_k \prod_v \theta^v_{k, w^v_i}

with cluster sizes :math:`\pi` and code word frequencies :math:`\theta^v`. The raw views are used because a
learned embedding may have memorised which items were paired.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logsumexp, xlogy

from protocol_mvc.partition.candidates import (
    Features,
    Labels,
    Mask,
    micro_clusters,
    partition_candidates,
    principal_components,
)
from protocol_mvc.partition.config import CodebookOptions, PartitionOptions
from protocol_mvc.partition.consensus import most_agreed, without_tiny_clusters

DEFAULT = PartitionOptions()


def select_partition(
    features: Sequence[Features],
    views: Sequence[Features],
    mask: Mask,
    rows: Labels,
    n_clusters: int,
    seed: int,
    *,
    use_raw_views: bool = True,
    current_labels: Labels | None = None,
    options: PartitionOptions = DEFAULT,
) -> Labels:
    """Return the candidate with the largest log-likelihood of the code words, refined by split and merge.

    Among candidates whose likelihoods differ by less than `bic_margin`, the one on which most candidates
    agree is taken.

    Args:
        features: learned features (n, d) of each view.
        views: raw data (m, D_v) of each view.
        mask: which sample has which view (n, V).
        rows: the m samples of the raw data.
        n_clusters: number of clusters.
        seed: seed of the candidates.
        use_raw_views: whether candidates come from the raw views as well, if `rows` are all samples.
        current_labels: labels (n,) that are kept unless a candidate beats them by `keep_margin`.
        options: options of candidates and code words.
    """
    o, c, dropped = options, options.codebook, options.codebook.dropped_variance
    views = principal_components(views, mask[rows], seed, o.candidates)
    words = codewords(views, mask[rows], c.codewords_per_cluster * n_clusters, seed, c)
    x, n_views = np.hstack(features), len(features)
    found = list(
        partition_candidates(x, n_clusters, seed, n_views, dropped_variance=dropped, options=o.candidates)
    )
    found.extend(latent_class_candidates(features, mask, n_clusters, seed, o))
    feature_sets = [_concat_normalized(features), *features]
    if len(rows) == len(mask):  # raw views separate groups that the features may have mixed
        views = [x[np.argsort(rows)] for x in views]
        feature_sets += [_concat_normalized(views), *views]
        if use_raw_views:
            x = _concat_normalized(views)
            found.extend(
                partition_candidates(x, n_clusters, seed, dropped_variance=dropped, options=o.candidates)
            )
    found = without_tiny_clusters(found, n_clusters, o.candidates.min_cluster_size)
    value = np.array([log_likelihood(words, labels[rows], n_clusters, c) for labels in found])
    best, margin = value.max(), bic_margin(len(rows))
    if current_labels is not None:
        current = log_likelihood(words, current_labels[rows], n_clusters, c)
        if current >= best - c.keep_margin * margin:
            return current_labels
    start = most_agreed(found, value >= best - margin)
    return refine_by_split_and_merge(start, feature_sets, words, rows, n_clusters, seed, o)


def bic_margin(n: int) -> float:
    """Return 2 log(n) / n: smaller differences of mean log-likelihoods are not significant."""
    return 2 * math.log(n) / n


def codewords(
    views: Sequence[Features],
    mask: Mask,
    n_words: int,
    seed: int,
    options: CodebookOptions = DEFAULT.codebook,
) -> Labels:
    """Quantise each view by K-means.

    Args:
        views: features (n, d_v) of each view.
        mask: which sample has which view (n, V).
        n_words: largest number of code words of a view; small data have fewer.
        seed: seed of K-means.
        options: smallest mean number of samples of a code word.

    Returns:
        The code word of every view of every sample (n, V), -1 where the view is absent.
    """
    words = np.full((len(views[0]), len(views)), -1, dtype=np.int64)
    for v, x in enumerate(views):
        present = np.flatnonzero(mask[:, v])
        size = min(n_words, len(present) // options.min_samples_per_codeword)
        if size > 1:
            words[present, v] = micro_clusters(x[present], size, seed + v)[0]
    return words


def log_likelihood(
    words: Labels, labels: Labels, n_clusters: int, options: CodebookOptions = DEFAULT.codebook
) -> float:
    """Return the mean log-likelihood of the code words (n, V) if they are independent given the cluster.

    Merging two groups lowers it, because their code words no longer predict each other; splitting one group
    does not raise it.
    """
    counts = _counts(words, np.eye(n_clusters)[labels])
    return float(logsumexp(_log_joint(words, counts, options.smoothing), axis=1).mean())


def refine_by_split_and_merge(
    labels: Labels,
    feature_sets: Sequence[Features],
    words: Labels,
    rows: Labels,
    n_clusters: int,
    seed: int,
    options: PartitionOptions = DEFAULT,
) -> Labels:
    """Split one cluster and merge the best pair, as long as that raises the likelihood by `bic_margin`.

    This finds a small group inside a large cluster, if one of the feature sets (n, d) separates them.
    """
    c, min_size = options.codebook, options.candidates.min_cluster_size
    value = log_likelihood(words, labels[rows], n_clusters, c)
    for _ in range(c.max_refinements):
        moves = [
            (*_best_merge(words, split[rows], n_clusters + 1, c), split)
            for split in _splits(labels, feature_sets, n_clusters, seed, min_size)
        ]
        reached, i, j, split = max(moves, key=lambda move: move[0], default=(-np.inf, 0, 0, labels))
        if reached < value + bic_margin(len(rows)):
            break
        merged = np.where(split == i, j, split)
        labels, value = np.where(merged == n_clusters, i, merged), reached  # number i is free
    return labels


def _splits(
    labels: Labels, feature_sets: Sequence[Features], n_clusters: int, seed: int, min_size: int
) -> Iterator[Labels]:
    """Yield the partition with one cluster split by 2-means in one feature set; the new number is K."""
    for cluster in range(n_clusters):
        members = np.flatnonzero(labels == cluster)
        if len(members) < 2 * min_size:
            continue
        for x in feature_sets:
            part = micro_clusters(x[members], 2, seed)[0]
            if np.bincount(part, minlength=2).min() >= min_size:
                split = labels.copy()
                split[members[part == 1]] = n_clusters
                yield split


def _best_merge(
    words: Labels, labels: Labels, n_clusters: int, options: CodebookOptions = DEFAULT.codebook
) -> tuple[float, int, int]:
    """Return the largest log-likelihood after merging two clusters, and their numbers i > j."""
    counts = _counts(words, np.eye(n_clusters)[labels])
    log_p = _log_joint(words, counts, options.smoothing)  # (n, k)
    top = log_p.max(1)
    p = np.exp(log_p - top[:, None])
    i, j = _cheapest_merges(counts, options.max_merges)
    merged: list[Features] = [count[:, i] + count[:, j] for count in counts]
    pair = _log_joint(words, merged, options.smoothing, len(labels))  # (n, merges)
    rest = np.maximum(p.sum(1, keepdims=True) - p[:, i] - p[:, j], 0)
    value = np.log(rest + np.exp(pair - top[:, None])).mean(0) + top.mean()
    return max(zip(value.tolist(), i.tolist(), j.tolist(), strict=True))


def _cheapest_merges(counts: list[Features], max_merges: int) -> tuple[Labels, Labels]:
    """Return the pairs i > j that lose the least information about the code words, cheap to compute."""
    i, j = np.tril_indices(counts[0].shape[1], -1)
    tables = [count.T for count in counts[1:]]  # (k, words) of each view
    loss = np.sum([_information(t)[i] + _information(t)[j] - _information(t[i] + t[j]) for t in tables], 0)
    order = np.argsort(loss, kind="stable")[:max_merges]
    return i[order], j[order]


def latent_class_candidates(
    views: Sequence[Features], mask: Mask, n_clusters: int, seed: int, options: PartitionOptions = DEFAULT
) -> Iterator[Labels]:
    """Yield the partitions of latent class models, each initialised from the code words of one view."""
    c = options.codebook
    views = principal_components(views, mask, seed, options.candidates)
    for factor in c.feature_codewords_per_cluster:
        words = codewords(views, mask, factor * n_clusters, seed, c)
        for v, word in enumerate(words.T):
            present = word >= 0
            if not present.any():
                continue
            group = information_bottleneck(_cooccurrence(words, v), n_clusters)
            member = np.full((len(word), n_clusters), 1 / n_clusters)
            member[present] = np.eye(n_clusters)[group[word[present]]]
            yield latent_classes(words, member, c)


def information_bottleneck(table: Features, n_clusters: int) -> Labels:
    r"""Merge rows of a table of counts, always the pair that loses the least information, until K remain.

    Rows s and t lose :math:`f(s) + f(t) - f(s + t)` with :math:`f(t) = \sum_j t_j \log(t_j / \sum_i t_i)`
    (agglomerative information bottleneck). Rare rows are cheap to merge only if they are alike.

    Returns:
        The group of each row.
    """
    table, group = table.astype(np.float64), np.arange(len(table))
    own = _information(table)
    loss = np.array([own + own[i] - _information(table + row) for i, row in enumerate(table)])
    np.fill_diagonal(loss, np.inf)
    for _ in range(len(table) - n_clusters):
        i, j = np.unravel_index(np.argmin(loss), loss.shape)
        table[i] += table[j]
        own[i] = _information(table[i])
        gone = np.isinf(loss[i]) | (np.arange(len(table)) == j)
        loss[i] = loss[:, i] = np.where(gone, np.inf, own + own[i] - _information(table + table[i]))
        loss[j] = loss[:, j] = np.inf
        group[group == group[j]] = group[i]
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def latent_classes(words: Labels, member: Features, options: CodebookOptions = DEFAULT.codebook) -> Labels:
    """Fit a latent class model by expectation maximisation and return the most likely classes (n,).

    Args:
        words: code words (n, V).
        member: initial memberships (n, K).
        options: number of steps and tolerance.
    """
    before = -np.inf
    for _ in range(options.max_iter):
        log_p = _log_joint(words, _counts(words, member), options.smoothing)
        top = log_p.max(1, keepdims=True)
        member = np.exp(log_p - top)
        total = member.sum(1, keepdims=True)
        member /= total
        reached = float((np.log(total) + top).mean())
        if reached - before < options.tol:
            break
        before = reached
    return np.asarray(member.argmax(1), np.int64)


def _counts(words: Labels, member: Features) -> list[Features]:
    """Return cluster sizes (1, k), and for each view the counts of its code words (words, k)."""
    return [member.sum(0, keepdims=True), *(_indicator(word) @ member for word in words.T)]


def _log_joint(
    words: Labels, counts: list[Features], smoothing: float, total: float | None = None
) -> Features:
    """Return the log-probability of cluster and code words of every sample (n, k).

    Args:
        words: code words (n, V).
        counts: what `_counts` returns.
        smoothing: pseudo-count.
        total: sum of the sizes of all clusters, if `counts` are not of all.
    """
    size = counts[0][0] + smoothing
    log_p = np.tile(np.log(size / (total or size.sum())), (len(words), 1))
    for word, count in zip(words.T, counts[1:], strict=True):
        present = word >= 0
        log_p[present] += np.log((count + smoothing) / (count + smoothing).sum(0))[word[present]]
    return log_p


def _cooccurrence(words: Labels, v: int) -> Features:
    """Return how often each code word of view v occurs with each code word of the other views."""
    own = _indicator(words[:, v])
    return np.hstack([(own @ _indicator(word).T).toarray() for word in np.delete(words, v, axis=1).T])


def _indicator(word: Labels) -> csr_array:
    """Return which sample has which code word (words, n)."""
    present = np.flatnonzero(word >= 0)
    shape = (int(word.max(initial=-1)) + 1, len(word))
    return csr_array((np.ones(len(present)), (word[present], present)), shape=shape)


def _concat_normalized(views: Sequence[Features]) -> Features:
    """Return all views side by side, each divided by its norm."""
    return np.hstack([x / (np.linalg.norm(x) or 1.0) for x in views])


def _information(table: Features) -> Features:
    return xlogy(table, table).sum(-1) - xlogy(table.sum(-1), table.sum(-1))  # type: ignore[no-any-return]
