"""Changes of a partition by hand: clusters are merged or split in the probabilities of a model."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from protocol_mvc.partition.graphs import Features, Labels

Proba: TypeAlias = npt.NDArray[np.float32]


class Merge(NamedTuple):
    """Several clusters become one, with the sum of their probabilities and the smallest of their numbers."""

    clusters: tuple[int, ...]

    def sources(self, n_clusters: int) -> list[int]:
        """Return the old cluster that gives each new cluster its number and name."""
        return [c for c in range(n_clusters) if c not in self.clusters or c == min(self.clusters)]

    def apply(self, proba: Proba) -> Proba:
        """Return the new probabilities (n, K - len(clusters) + 1)."""
        kept, total = min(self.clusters), proba[:, self.clusters[0]]
        for c in self.clusters[1:]:
            total = total + proba[:, c]
        merged = proba.copy()
        merged[:, kept] = total
        return merged[:, self.sources(proba.shape[1])]


class Split(NamedTuple):
    r"""One cluster becomes m: its probability is multiplied by :math:`\text{softmax}(x^T W + b)`.

    The first part keeps the number of the cluster; the others get numbers after the last cluster.

    Attributes:
        cluster: the cluster.
        weights: W (D, m), for the prepared views side by side.
        bias: b (m,).
    """

    cluster: int
    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]

    def sources(self, n_clusters: int) -> list[int]:
        """Return the old cluster that each new cluster is a part of."""
        return [*range(n_clusters), *[self.cluster] * (len(self.bias) - 1)]

    def parts(self, views: Sequence[Tensor]) -> Tensor:
        """Return the probability of each part (n, m), given that a sample is in the cluster."""
        x = torch.cat(list(views), dim=1)
        weights, bias = (torch.from_numpy(array).to(x) for array in (self.weights, self.bias))
        return (x @ weights + bias).softmax(1)

    def apply(self, proba: Proba, parts: Proba) -> Proba:
        """Return the new probabilities (n, K + m - 1)."""
        own = proba[:, self.cluster, None] * parts
        rest = proba.copy()
        rest[:, self.cluster] = own[:, 0]
        return np.hstack([rest, own[:, 1:]])


Edit: TypeAlias = Merge | Split


def fit_split(cluster: int, x: Features, labels: Labels) -> Split:
    """Return a split by logistic regression.

    Args:
        cluster: the cluster to split.
        x: prepared views of its members, side by side (n, D), with zeros where a view is missing.
        labels: part of each member (n,), from 0 for the largest.
    """
    model: Any = LogisticRegression(max_iter=1000).fit(x, labels)
    weights, bias = model.coef_.T, model.intercept_
    if len(bias) == 1:  # two parts: scikit-learn has the logit of the second
        weights, bias = np.hstack([-weights, weights]) / 2, np.concatenate([-bias, bias]) / 2
    return Split(cluster, weights.astype(np.float32, order="C"), bias.astype(np.float32))
