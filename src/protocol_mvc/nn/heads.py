"""Heads on top of features."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.nn.seeded import Seeded

EMPTY_CENTER = 1e3  # coordinates of an empty cluster's centre, far from all features


class CosineClassifier(Seeded):
    """Logits = scale x cosine between the input and one prototype per cluster (the h of Eqs. 8-9)."""

    def __init__(self, width: int, n_clusters: int, scale: float) -> None:
        """Make room for one prototype per cluster."""
        super().__init__()
        self.prototypes = nn.Parameter(torch.empty(n_clusters, width))
        self.scale = scale

    def draw(self, generator: torch.Generator) -> None:
        """Directions drawn uniformly."""
        nn.init.normal_(self.prototypes, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, k)."""
        return self.scale * functional.normalize(x) @ functional.normalize(self.prototypes).T


def cluster_means(x: Tensor, label: Tensor, n_clusters: int, *, empty: float = EMPTY_CENTER) -> Tensor:
    """Mean of each cluster (k, d); the coordinates of an empty one are as said, else nowhere near."""
    member = functional.one_hot(label, n_clusters).to(x)
    size = member.sum(0)[:, None]
    return torch.where(size > 0, member.T @ x / size.clamp_min(1), empty)


def log_assignment(x: Tensor, centers: Tensor, scale: float) -> Tensor:
    r"""Log-probabilities (n, k) of the clusters, :math:`\log softmax_k(-s \|x - c_k\|^2 / 2)`."""
    return torch.log_softmax(scale * (x @ centers.T - centers.square().sum(1) / 2), dim=1)
