"""Comparison of partitions, and the choice of the one on which most candidates agree."""

import warnings

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.spatial.distance import cdist
from scipy.special import xlogy

from protocol_mvc.exceptions import UnreliableClusterWarning
from protocol_mvc.partition.candidates import Features, Labels, partition_candidates
from protocol_mvc.partition.config import CandidateOptions

DEFAULT = CandidateOptions()
MIN_CLUSTER_SIZE = DEFAULT.min_cluster_size  # smaller clusters are reported as unreliable
CHUNK = 5000  # rows of one product of indicator matrices


def consensus_partition(
    x: Features, n_clusters: int, seed: int, n_views: int = 1, options: CandidateOptions = DEFAULT
) -> Labels:
    """Return the candidate with the largest mean normalised mutual information with the others.

    Args:
        x: features (n, n_views * d), those of the views side by side.
        n_clusters: number of clusters.
        seed: seed of the candidates.
        n_views: number of equal blocks of columns in `x`.
        options: options of the candidates.
    """
    candidates = list(partition_candidates(x, n_clusters, seed, n_views, options=options))
    return most_agreed(without_tiny_clusters(candidates, n_clusters, options.min_cluster_size))


def without_tiny_clusters(partitions: list[Labels], n_clusters: int, min_size: int) -> list[Labels]:
    """Return the partitions whose clusters all have at least `min_size` samples; all, if there is none."""
    large = [labels for labels in partitions if np.bincount(labels, minlength=n_clusters).min() >= min_size]
    return large or partitions


def most_agreed(partitions: list[Labels], eligible: npt.NDArray[np.bool_] | None = None) -> Labels:
    """Return the partition with the largest mean NMI with all others; the first of several.

    Args:
        partitions: labels (n,) each.
        eligible: which partitions may be returned; all of them are compared with.
    """
    score = pairwise_nmi(partitions).sum(1)
    return partitions[int(np.argmax(score if eligible is None else np.where(eligible, score, -np.inf)))]


def pairwise_nmi(partitions: list[Labels]) -> Features:
    """Return the normalised mutual information of every pair of partitions (m, m)."""
    count, k = len(partitions), 1 + max(int(labels.max()) for labels in partitions)
    column = np.stack(partitions, axis=1) + k * np.arange(count)  # (n, count), columns of the indicators
    joint = np.zeros((count * k, count * k))
    for rows in np.array_split(column, -(-len(column) // CHUNK)):
        indicator = np.zeros((len(rows), count * k), dtype=np.float32)
        np.put_along_axis(indicator, rows, 1, axis=1)
        joint += indicator.T @ indicator
    joint = joint.reshape(count, k, count, k) / len(column)
    entropy = -xlogy(joint, joint).sum((1, 3))  # of pairs; the diagonal holds those of single partitions
    sums = entropy.diagonal()[:, None] + entropy.diagonal()
    nmi: Features = np.where(sums > 0, 2 * (sums - entropy) / np.where(sums > 0, sums, 1), 1.0)
    return nmi.round(12)  # so that equal values stay equal in any order of summation


def relabel_to_match(labels: Labels, reference: Labels, n_clusters: int) -> Labels:
    """Permute the labels so that most samples agree with the reference."""
    overlap = np.bincount(labels * n_clusters + reference, minlength=n_clusters**2)
    _, new = linear_sum_assignment(overlap.reshape(n_clusters, n_clusters), maximize=True)
    return new[labels].astype(np.int64)


def same_partition(
    labels: Labels, reference: Labels, n_clusters: int, max_changed_fraction: float = 0.01
) -> bool:
    """Return whether two partitions are equal up to a permutation and a small fraction of every cluster."""
    relabeled = relabel_to_match(labels, reference, n_clusters)
    kept, before, after = (
        np.bincount(x, minlength=n_clusters)
        for x in (relabeled[relabeled == reference], reference, relabeled)
    )
    return bool(np.all(kept >= (1 - max_changed_fraction) * np.maximum(before, after)))


def tiny_cluster_messages(sizes: npt.NDArray[np.integer]) -> list[str]:
    """Return a message about clusters of fewer than `MIN_CLUSTER_SIZE` samples, if there are any."""
    tiny = np.flatnonzero(sizes < MIN_CLUSTER_SIZE).tolist()
    message = f"Clusters {tiny} have fewer than {MIN_CLUSTER_SIZE} samples: n_clusters may be too large."
    return [message] if tiny else []


def warn_unreliable(messages: list[str]) -> None:
    """Issue the messages as one `UnreliableClusterWarning` at the caller's caller, if there are any."""
    if messages:
        warnings.warn(" ".join(messages), UnreliableClusterWarning, stacklevel=3)


def simplified_silhouette(x: Features, labels: Labels) -> float:
    r"""Return the mean of :math:`(b - a) / \max(a, b)`, in [-1, 1].

    Here a is the distance of a sample to the centre of its cluster and b to the nearest other centre, so the
    cost is linear in the number of samples. A single cluster scores -1.
    """
    used, position = np.unique(labels, return_inverse=True)
    if len(used) < 2:
        return -1.0
    sums = coo_array((np.ones(len(x)), (position, np.arange(len(x))))).tocsr() @ x.astype(np.float64)
    centers = sums / np.bincount(position)[:, None]
    distance = cdist(x, centers)
    own = distance[np.arange(len(x)), position]
    distance[np.arange(len(x)), position] = np.inf
    other = distance.min(1)
    larger = np.maximum(np.maximum(own, other), np.finfo(float).tiny)
    return float(np.mean((other - own) / larger))
