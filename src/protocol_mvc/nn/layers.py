"""Layers and heads: perceptrons, the autoencoder of one view, cosine classifier, nearest centroid."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from protocol_mvc.nn.seeded import Seeded

EMPTY_CENTER = 1e3  # coordinates of the centroid of an empty cluster, far from all features
MIN_NORM = 1e-12  # rows below it are divided by it, as in `torch.nn.functional.normalize`


class HeLinear(nn.Linear, Seeded):
    """Linear layer with He's initialization: normal weights of variance 2 / fan_in."""

    def draw(self, generator: torch.Generator) -> None:
        """Draw normal weights, and biases as `torch.nn.Linear` does."""
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu", generator=generator)
        bound = 1 / math.sqrt(self.in_features)
        nn.init.uniform_(self.bias, -bound, bound, generator=generator)


class BatchNorm(nn.BatchNorm1d):
    """Batch normalization that uses the running statistics for a training batch of one sample."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the columns of x (n, d)."""
        if self.training and len(x) == 1:
            statistics = (self.running_mean, self.running_var, self.weight, self.bias)
            return functional.batch_norm(x, *statistics, eps=self.eps)
        return super().forward(x)


def mlp(dims: Sequence[int]) -> nn.Sequential:
    """Return linear layers of the given widths with ReLU between them; the output is linear."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(dims):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def he_relu_mlp(dims: Sequence[int]) -> nn.Sequential:
    """Return linear layers with He's initialization and ReLU after every layer, also after the last."""
    blocks = ((HeLinear(a, b), nn.ReLU(inplace=True)) for a, b in pairwise(dims))
    return nn.Sequential(*[part for block in blocks for part in block])


def batch_norm_mlp(dims: Sequence[int]) -> nn.Sequential:
    """Return linear layers with batch normalization and ReLU between them; the output is linear."""
    blocks = ((nn.Linear(a, b), BatchNorm(b), nn.ReLU(inplace=True)) for a, b in pairwise(dims))
    return nn.Sequential(*[part for block in blocks for part in block][:-2])


class Autoencoder(nn.Module):
    """Encoder of one view, with `hidden_dims` layers between input and latent code, and mirrored decoder."""

    def __init__(self, dim: int, hidden_dims: Sequence[int], latent_dim: int) -> None:
        super().__init__()
        dims = [dim, *hidden_dims, latent_dim]
        self.encoder = mlp(dims)
        self.decoder = mlp(dims[::-1])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the latent code z (n, latent_dim) and the reconstruction of x (n, dim)."""
        z = self.encoder(x)
        return z, self.decoder(z)


class CosineClassifier(Seeded):
    """Cosine classifier h of Eqs. 8-9: logits are `logit_scale` x cosines of inputs and prototypes."""

    def __init__(self, width: int, n_clusters: int, logit_scale: float) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(torch.empty(n_clusters, width))
        self.logit_scale = logit_scale

    def draw(self, generator: torch.Generator) -> None:
        """Draw prototypes whose directions are uniform."""
        nn.init.normal_(self.prototypes, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, n_clusters) of x (n, width)."""
        return self.unit_logits(normalize_rows(x))

    def unit_logits(self, x: Tensor) -> Tensor:
        """Return the logits (n, n_clusters) of x (n, width), whose rows have unit norm."""
        return x @ (self.logit_scale * normalize_rows(self.prototypes)).T


def normalize_rows(x: Tensor) -> Tensor:
    r"""Return the rows of x (n, d), scaled to unit norm, as `torch.nn.functional.normalize` does.

    The gradient of :math:`y = x / \|x\|` for an incoming gradient g is :math:`(g - (g \cdot y) y) / \|x\|`,
    which takes fewer operations than that of the quotient.
    """
    found: Tensor = _NormalizeRows.apply(x)  # type: ignore[no-untyped-call]
    return found


class _NormalizeRows(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min_(MIN_NORM)
        y: Tensor = x / norm
        ctx.save_for_backward(y, norm)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        y, norm = ctx.saved_tensors
        return grad.addcmul((grad * y).sum(-1, keepdim=True), y, value=-1).div_(norm)


def cluster_means(x: Tensor, labels: Tensor, n_clusters: int, *, empty: float = EMPTY_CENTER) -> Tensor:
    """Return the mean (n_clusters, d) of the rows of x (n, d) in each cluster; `empty` if it has none."""
    member = functional.one_hot(labels, n_clusters).to(x)
    size = member.sum(0)[:, None]
    return torch.where(size > 0, member.T @ x / size.clamp_min(1), empty)


def log_assignment(x: Tensor, centers: Tensor, scale: float) -> Tensor:
    r"""Return log-probabilities (n, k) of the clusters, :math:`\log softmax_k(-s \|x - c_k\|^2 / 2)`."""
    return torch.log_softmax(scale * (x @ centers.T - centers.square().sum(1) / 2), dim=1)
