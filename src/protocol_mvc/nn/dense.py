"""Dense encoders with batch-norm or He's start, a clustering head on fused views, and its whole network."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.nn.fusion import WeightedMean
from protocol_mvc.nn.network import Codes
from protocol_mvc.nn.seeded import Seeded

HIDDEN = 100  # width of H


class HeLinear(nn.Linear, Seeded):
    """A linear layer whose weights are drawn for the ReLU behind it, normal with variance 2 / fan in."""

    def draw(self, generator: torch.Generator) -> None:
        """Weights of Kaiming He, biases as torch does it."""
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu", generator=generator)
        bound = 1 / math.sqrt(self.in_features)
        nn.init.uniform_(self.bias, -bound, bound, generator=generator)


class BatchNorm(nn.BatchNorm1d):
    """Batch-norm that takes a row without company as it does in prediction, by the running statistics."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the columns."""
        if self.training and len(x) == 1:
            statistics = (self.running_mean, self.running_var, self.weight, self.bias)
            return functional.batch_norm(x, *statistics, eps=self.eps)
        return super().forward(x)


def relu_layers(widths: Sequence[int]) -> nn.Sequential:
    """He's linear layers with ReLU after every one, the last too."""
    blocks = ((HeLinear(a, b), nn.ReLU(inplace=True)) for a, b in pairwise(widths))
    return nn.Sequential(*[part for block in blocks for part in block])


def normed_layers(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers with batch-norm and ReLU between them and a linear output."""
    blocks = ((nn.Linear(a, b), BatchNorm(b), nn.ReLU(inplace=True)) for a, b in pairwise(widths))
    return nn.Sequential(*[part for block in blocks for part in block][:-2])


class Clustered(NamedTuple):
    """What is known of the samples of a batch; in training, batch-norm makes it depend on their company."""

    codes: Codes  # of each view; their features are the codes themselves, with unit rows
    hidden: Tensor  # H (n, HIDDEN), of the fused views
    logits: Tensor  # (n, k)


class FusionNetwork(nn.Module):
    """An encoder per view, their weighted mean z, and on it H = batch-norm(ReLU(linear(z))) and its logits.

    The encoders have batch-norm, or else all layers have He's start.
    """

    def __init__(
        self, dims: Sequence[int], n_clusters: int, hidden: Sequence[int], latent: int, *, batch_norm: bool
    ) -> None:
        super().__init__()
        layers, linear = (normed_layers, nn.Linear) if batch_norm else (relu_layers, HeLinear)
        self.encoders = nn.ModuleList(layers([dim, *hidden, latent]) for dim in dims)
        self.fusion = WeightedMean(len(dims))
        self.head = nn.Sequential(linear(latent, HIDDEN), nn.ReLU(), BatchNorm(HIDDEN))
        self.output = linear(HIDDEN, n_clusters)

    def encode(self, views: list[Tensor]) -> Codes:
        """Codes of every view; there are no logits of a view."""
        z = [f(x) for f, x in zip(self.encoders, views, strict=True)]
        return Codes(z, [functional.normalize(x) for x in z], [])

    def forward(self, views: list[Tensor]) -> Clustered:
        """Codes of the views, features and logits of their mean."""
        codes = self.encode(views)
        hidden = self.head(self.fusion(codes.z))
        return Clustered(codes, hidden, self.output(hidden))
