"""Which grouping explains what views have in common, if each shows another item of the group?

The items of a group are then paired at random: whatever two views share is the group, and nothing else is.
So the look of an item in one view tells nothing of its look in another once the group is known, and the right
grouping is the one that leaves nothing to tell. The looks are those of the raw data, which no training has
touched: an embedding may have learned by heart which items were paired.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import logsumexp, xlogy

from protocol_mvc.partition import consensus
from protocol_mvc.partition.consensus import Features, Labels

Mask = npt.NDArray[np.bool_]
MAX_SAMPLES = 20000  # that tell how words go together
CODEWORDS_PER_CLUSTER = 12  # of the data
MIN_SAMPLES_PER_CODEWORD = 5  # at least, on average
FEATURE_CODEWORDS_PER_CLUSTER = (4, 8, 12)  # per cluster; each gives explanations of its own
SMOOTHING = 0.1  # of every count of words
MAX_ITER, TOLERANCE = 100, 1e-6  # of expectation maximisation, in nats a sample
MAX_REFINEMENTS, MAX_MERGES = 10, 20  # joins of two clusters are tried after a cut
KEEP_MARGIN = (
    2  # times chance, beyond which what is known is doubted: the likeliest of many owes more to chance
)
DROPPED_VARIANCE = 0.01  # part of the features that suggestions go without


def select_partition(
    features: Sequence[Features],
    views: Sequence[Features],
    mask: Mask,
    rows: Labels,
    n_clusters: int,
    seed: int,
    *,
    plain: bool = True,
    known: Labels | None = None,
) -> Labels:
    """The assignment, of those that features and data suggest, that makes the words of the data most likely.

    Where several are as likely but for chance, it is the one that agrees most with all suggestions.

    Args:
        features: learned of each view (n, d).
        views: data of each view (m, D_v), from which nothing was learned yet.
        mask: which sample has which view (n, V).
        rows: which m samples the data are of.
        n_clusters: number of clusters.
        seed: of the suggestions.
        plain: whether the data suggest assignments as well, if they are of all samples.
        known: an assignment that stays, unless another is likelier by far.
    """
    views = consensus.principal_components(views, mask[rows], seed)
    shown = codewords(views, mask[rows], CODEWORDS_PER_CLUSTER * n_clusters, seed)
    found = list(
        consensus.partition_candidates(
            np.hstack(features), n_clusters, seed, len(features), lost=DROPPED_VARIANCE
        )
    )
    found.extend(latent_class_candidates(features, mask, n_clusters, seed))
    looks = [_concat_normalized(features), *features]
    if len(rows) == len(mask):  # the data tell groups apart that the features may have mixed
        views = [x[np.argsort(rows)] for x in views]
        looks += [_concat_normalized(views), *views]
        if plain:
            found.extend(
                consensus.partition_candidates(
                    _concat_normalized(views), n_clusters, seed, lost=DROPPED_VARIANCE
                )
            )
    found = consensus.without_tiny_clusters(found, n_clusters)
    value = np.array([log_likelihood(shown, labels[rows], n_clusters) for labels in found])
    likeliest, chance = value.max(), bic_margin(len(rows))
    if (
        known is not None
        and log_likelihood(shown, known[rows], n_clusters) >= likeliest - KEEP_MARGIN * chance
    ):
        return known
    best = consensus.most_agreed(found, value >= likeliest - chance)
    return refine_by_split_and_merge(best, looks, shown, rows, n_clusters, seed)


def _concat_normalized(views: Sequence[Features]) -> Features:
    """All views side by side, none of them louder than another."""
    return np.hstack([x / (np.linalg.norm(x) or 1.0) for x in views])


def codewords(views: Sequence[Features], mask: Mask, n_words: int, seed: int) -> Labels:
    """The word that every view of every sample shows (n, V): its group of look-alikes, by K-means.

    There are fewer words where samples are few, and the word of an absent view is -1.
    """
    shown = np.full((len(views[0]), len(views)), -1, dtype=np.int64)
    for v, x in enumerate(views):
        here = np.flatnonzero(mask[:, v])
        enough = min(n_words, len(here) // MIN_SAMPLES_PER_CODEWORD)
        if enough > 1:
            shown[here, v] = consensus.micro_clusters(x[here], enough, seed + v)[0]
    return shown


def log_likelihood(shown: Labels, labels: Labels, n_clusters: int) -> float:
    r"""Mean log-likelihood of the words of a sample, were they independent given its cluster.

    .. math:: \frac1n \sum_i \log \sum_k \pi_k \prod_v \theta^v_{k, w^v_i}

    with the sizes :math:`\pi` of the clusters and the frequencies :math:`\theta^v` of the words in them. To
    join two groups lowers it, since their words go together no more; to cut one raises nothing.
    """
    return float(logsumexp(_log_joint(shown, _counts(shown, np.eye(n_clusters)[labels])), axis=1).mean())


def refine_by_split_and_merge(
    labels: Labels, looks: Sequence[Features], shown: Labels, rows: Labels, n_clusters: int, seed: int
) -> Labels:
    """Cut one cluster in two and join the best pair, as long as that makes the words more likely.

    This finds a small group that was left in a large one, if one of the looks (n, d) tells them apart.
    """
    value = log_likelihood(shown, labels[rows], n_clusters)
    for _ in range(MAX_REFINEMENTS):
        cuts = _splits(labels, looks, n_clusters, seed)
        options = [(*_best_merge(shown, cut[rows], n_clusters + 1), cut) for cut in cuts]
        reached, i, j, cut = max(options, key=lambda option: option[0], default=(-np.inf, 0, 0, labels))
        if reached < value + bic_margin(len(rows)):
            break
        joined = np.where(cut == i, j, cut)
        labels, value = np.where(joined == n_clusters, i, joined), reached  # the free number is i
    return labels


def bic_margin(n: int) -> float:
    """Difference of two likelihoods of n samples that tells nothing."""
    return 2 * math.log(n) / n


def _splits(labels: Labels, looks: Sequence[Features], n_clusters: int, seed: int) -> Iterator[Labels]:
    """The assignment with one cluster cut by 2-means of how its members look."""
    for cluster in range(n_clusters):
        members = np.flatnonzero(labels == cluster)
        if len(members) < 2 * consensus.MIN_CLUSTER_SIZE:
            continue
        for x in looks:
            part = consensus.micro_clusters(x[members], 2, seed)[0]
            if np.bincount(part, minlength=2).min() >= consensus.MIN_CLUSTER_SIZE:
                cut = labels.copy()
                cut[members[part == 1]] = n_clusters
                yield cut


def _best_merge(shown: Labels, labels: Labels, n_clusters: int) -> tuple[float, int, int]:
    """The pair of clusters that are best joined, i > j, and the likelihood that is left."""
    counts = _counts(shown, np.eye(n_clusters)[labels])
    log_p = _log_joint(shown, counts)  # (n, k)
    top = log_p.max(1)
    p = np.exp(log_p - top[:, None])
    i, j = _cheapest_merges(counts)
    pair = _log_joint(shown, [count[:, i] + count[:, j] for count in counts], len(labels))  # (n, joins)
    rest = np.maximum(p.sum(1, keepdims=True) - p[:, i] - p[:, j], 0)
    value = np.log(rest + np.exp(pair - top[:, None])).mean(0) + top.mean()
    return max(zip(value.tolist(), i.tolist(), j.tolist(), strict=True))


def _cheapest_merges(counts: list[Features]) -> tuple[Labels, Labels]:
    """The pairs of clusters, i > j, that lose least information about the words; the likelihood is dearer."""
    i, j = np.tril_indices(counts[0].shape[1], -1)
    tables = [count.T for count in counts[1:]]  # (k, words) of each view
    loss = np.sum([_information(t)[i] + _information(t)[j] - _information(t[i] + t[j]) for t in tables], 0)
    least = np.argsort(loss, kind="stable")[:MAX_MERGES]
    return i[least], j[least]


def latent_class_candidates(
    views: Sequence[Features], mask: Mask, n_clusters: int, seed: int
) -> Iterator[Labels]:
    """Assignments by latent classes, started from words that go with the same words of other views."""
    views = consensus.principal_components(views, mask, seed)
    for factor in FEATURE_CODEWORDS_PER_CLUSTER:
        shown = codewords(views, mask, factor * n_clusters, seed)
        for v, word in enumerate(shown.T):
            here = word >= 0
            if not here.any():
                continue
            member = np.full((len(word), n_clusters), 1 / n_clusters)
            member[here] = np.eye(n_clusters)[
                information_bottleneck(_table(shown, v), n_clusters)[word[here]]
            ]
            yield latent_classes(shown, member)


def information_bottleneck(table: Features, n_clusters: int) -> Labels:
    r"""Join the rows of a table of counts, always the pair that loses least information, until K remain.

    Rows s and t lose :math:`f(s) + f(t) - f(s + t)`, where :math:`f(t) = \sum_j t_j \log(t_j / \sum_i t_i)`:
    the agglomerative information bottleneck. Rare rows are cheap to join only if they are alike.
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


def latent_classes(shown: Labels, member: Features) -> Labels:
    """The model of `likelihood` with memberships of its own, by expectation maximisation from `member`."""
    before = -np.inf
    for _ in range(MAX_ITER):
        log_p = _log_joint(shown, _counts(shown, member))
        top = log_p.max(1, keepdims=True)
        member = np.exp(log_p - top)
        total = member.sum(1, keepdims=True)
        member /= total
        reached = float((np.log(total) + top).mean())
        if reached - before < TOLERANCE:
            break
        before = reached
    return np.asarray(member.argmax(1), np.int64)


def _counts(shown: Labels, member: Features) -> list[Features]:
    """Sizes of the clusters (1, k), and how often they show every word of each view (words, k)."""
    return [member.sum(0, keepdims=True), *(_indicator(word) @ member for word in shown.T)]


def _log_joint(shown: Labels, counts: list[Features], total: float | None = None) -> Features:
    """Log probability of cluster and words of every sample (n, k), with frequencies as counted.

    The clusters are all there are, unless the total of their sizes is given.
    """
    size = counts[0][0] + SMOOTHING
    log_p = np.tile(np.log(size / (total or size.sum())), (len(shown), 1))
    for word, count in zip(shown.T, counts[1:], strict=True):
        here = word >= 0
        log_p[here] += np.log((count + SMOOTHING) / (count + SMOOTHING).sum(0))[word[here]]
    return log_p


def _table(shown: Labels, v: int) -> Features:
    """How often each word of view v meets each word of the other views."""
    own = _indicator(shown[:, v])
    met = [(own @ _indicator(word).T).toarray() for word in np.delete(shown, v, axis=1).T]
    return np.hstack(met)


def _indicator(word: Labels) -> csr_array:
    """Which word is shown by which sample (words, n)."""
    here = np.flatnonzero(word >= 0)
    shape = (int(word.max(initial=-1)) + 1, len(word))
    return csr_array((np.ones(len(here)), (word[here], here)), shape=shape)


def _information(table: Features) -> Features:
    return xlogy(table, table).sum(-1) - xlogy(table.sum(-1), table.sum(-1))  # type: ignore[no-any-return]
