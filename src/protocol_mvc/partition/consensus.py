"""Comparison of partitions, and messages about unreliable clusters."""

import warnings

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.spatial.distance import cdist
from scipy.special import xlogy

from protocol_mvc.exceptions import UnreliableClusterWarning
from protocol_mvc.partition.graphs import Features, Labels

MIN_CLUSTER_SIZE = 5  # smaller clusters are reported as unreliable
CHUNK = 5000  # rows of one product of indicator matrices


def contingency(a: Labels, b: Labels, n_clusters: int) -> npt.NDArray[np.int64]:
    """Return how many samples are in cluster i of a and cluster j of b (K, K)."""
    counts = np.bincount(a * n_clusters + b, minlength=n_clusters**2)
    return counts.reshape(n_clusters, n_clusters)


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
    _, new = linear_sum_assignment(contingency(labels, reference, n_clusters), maximize=True)
    return new[labels].astype(np.int64)


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
