"""Classifier heads: a cosine classifier, and assignment to the nearest centroid."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.nn.seeded import Seeded

EMPTY_CENTER = 1e3  # coordinates of the centroid of an empty cluster, far from all features


class CosineClassifier(Seeded):
    """Cosine classifier h of Eqs. 8-9: logits are scaled cosines between inputs and cluster prototypes.

    Args:
        width: dimension of the input.
        n_clusters: number of prototypes.
        logit_scale: factor of the cosines.
    """

    def __init__(self, width: int, n_clusters: int, logit_scale: float) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(torch.empty(n_clusters, width))
        self.logit_scale = logit_scale

    def draw(self, generator: torch.Generator) -> None:
        """Draw prototypes whose directions are uniform."""
        nn.init.normal_(self.prototypes, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, n_clusters) of x (n, width)."""
        return self.logit_scale * functional.normalize(x) @ functional.normalize(self.prototypes).T


def cluster_means(x: Tensor, labels: Tensor, n_clusters: int, *, empty: float = EMPTY_CENTER) -> Tensor:
    """Return the mean (n_clusters, d) of the rows of x (n, d) in each cluster; `empty` if it has none."""
    member = functional.one_hot(labels, n_clusters).to(x)
    size = member.sum(0)[:, None]
    return torch.where(size > 0, member.T @ x / size.clamp_min(1), empty)


def log_assignment(x: Tensor, centers: Tensor, scale: float) -> Tensor:
    r"""Return log-probabilities (n, k) of the clusters, :math:`\log softmax_k(-s \|x - c_k\|^2 / 2)`."""
    return torch.log_softmax(scale * (x @ centers.T - centers.square().sum(1) / 2), dim=1)
