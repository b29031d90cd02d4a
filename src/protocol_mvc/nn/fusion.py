"""Fusion of views: attention over the samples of a batch, then a weighted consensus."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.nn.seeded import Dropout


class SampleAttention(nn.Module):
    """A transformer block whose tokens are the samples of a batch: who resembles whom."""

    def __init__(self, width: int, feedforward: int, dropout: float) -> None:
        """Make a single-head, post-norm block."""
        super().__init__()
        self.attention = nn.MultiheadAttention(width, num_heads=1)
        self.feedforward = nn.Sequential(
            nn.Linear(width, feedforward), nn.ReLU(), nn.Linear(feedforward, width)
        )
        self.norm_attention = nn.LayerNorm(width)
        self.norm_feedforward = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Structure-aware features s (n, width) and the attention matrix G (n, n)."""
        attended, g = self.attention(z, z, z, need_weights=True)
        s = self.norm_attention(z + self.dropout(attended))
        return self.norm_feedforward(s + self.dropout(self.feedforward(s))), g


class Consensus(nn.Module):
    """U = sum_v w_v LeakyReLU(Linear_v(S^v)) with w the softmax of a trainable vector."""

    def __init__(self, n_views: int, width: int) -> None:
        """Make one linear layer per view."""
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(n_views))
        self.preference = nn.Parameter(torch.empty(n_views))

    def weights(self) -> Tensor:
        """The weight w of each view; they sum to one."""
        return torch.softmax(self.preference, dim=0)

    def forward(self, s: list[Tensor], present: Tensor | None = None) -> Tensor:
        """The consensus (n, width); where views are absent the others' weights are raised to sum to one."""
        pieces = torch.stack(
            [functional.leaky_relu(f(x)) for f, x in zip(self.layers, s, strict=True)], dim=1
        )
        w = self.weights().expand(len(pieces), -1)  # (n, V)
        if present is not None:
            w = w * present
            w = w / w.sum(1, keepdim=True)
        return (w[:, :, None] * pieces).sum(1)
