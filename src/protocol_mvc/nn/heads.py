"""Heads on top of features."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.nn.seeded import Seeded


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
