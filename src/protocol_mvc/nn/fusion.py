"""Fusion of views: attention over the samples of a batch, then a weighted consensus."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.nn.seeded import Dropout, Seeded

MAX_LOGIT_GAP = 30.0  # nats below the strongest attention; squares of fainter ones are slow, denormal numbers


class Projections(Seeded):
    """The linear maps of a single head: to queries, keys and values, and from what was seen back.

    The head of torch's `MultiheadAttention` is as wide as its input, and copies all that it touches.
    """

    def __init__(self, width: int, inner: int) -> None:
        """Make them for queries of `inner` dimensions."""
        super().__init__()
        self.scale = inner**-0.5
        self.in_proj_weight = nn.Parameter(torch.empty(3 * inner, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * inner))
        self.out_proj = nn.Linear(inner, width)

    def draw(self, generator: torch.Generator) -> None:
        """Glorot's weights, no bias."""
        nn.init.xavier_uniform_(self.in_proj_weight, generator=generator)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values, each (n, inner)."""
        return functional.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=1)


class SampleAttention(nn.Module):
    """A transformer block whose tokens are the samples of a batch: who resembles whom."""

    def __init__(self, width: int, feedforward: int, dropout: float, inner: int | None = None) -> None:
        """Make a single-head, post-norm block; queries are as wide as the input, unless `inner` is given."""
        super().__init__()
        self.attention = Projections(width, inner or width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, feedforward), nn.ReLU(), nn.Linear(feedforward, width)
        )
        self.norm_attention = nn.LayerNorm(width)
        self.norm_feedforward = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Structure-aware features s (n, width) and the attention matrix G (n, n)."""
        q, k, v = self.attention(z)
        scores = q @ k.T * self.attention.scale
        scores = torch.maximum(scores, scores.detach().amax(1, keepdim=True) - MAX_LOGIT_GAP)
        g = torch.softmax(scores, dim=1)
        attended = self.attention.out_proj(g @ v)
        s = self.norm_attention(z + self.dropout(attended))
        return self.norm_feedforward(s + self.dropout(self.feedforward(s))), g


class TwiceNormedAttention(SampleAttention):
    r"""The block of GCFAgg: the same norm before the attention and after it, and noise in the attention.

    With U = norm(X), A = softmax(Q(U) K(U)^T / \sqrt{width}) and S = dropout(A), it gives S and

    .. math:: norm_2(Y + dropout(W_2 dropout(ReLU(W_1 Y)))), \qquad Y = norm(X + dropout(W_o S V(U)))
    """

    def forward(self, x: Tensor, others: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Features (n, width) and S (n, n); if others are given each sample sees these and itself alone."""
        q, k, v = self.attention(self.norm_attention(x))
        scale = self.attention.scale
        if others is None:
            s = self.dropout(torch.softmax(scale * q @ k.T, dim=1))
            seen = s @ v
        else:
            _, k_far, v_far = self.attention(self.norm_attention(others))
            own = (q * k).sum(1, keepdim=True)
            s = torch.softmax(scale * torch.cat([own, q @ k_far.T], dim=1), dim=1)
            seen = s[:, :1] * v + s[:, 1:] @ v_far
        y = self.norm_attention(x + self.dropout(self.attention.out_proj(seen)))
        first, relu, second = self.feedforward
        inner = second(self.dropout(relu(first(y))))
        return self.norm_feedforward(y + self.dropout(inner)), s


class WeightedMean(nn.Module):
    """sum_v w_v z^v with w the softmax of a trainable vector; all views weigh the same at first."""

    def __init__(self, n_views: int) -> None:
        """Make the vector."""
        super().__init__()
        self.preference = nn.Parameter(torch.empty(n_views))

    def weights(self) -> Tensor:
        """The weight w of each view; they sum to one."""
        return torch.softmax(self.preference, dim=0)

    def forward(self, z: list[Tensor], present: Tensor | None = None) -> Tensor:
        """The mean (n, width); where views are absent the others' weights are raised to sum to one."""
        pieces = torch.stack(z, dim=1)
        w = self.weights().expand(len(pieces), -1)  # (n, V)
        if present is not None:
            w = w * present
            w = w / w.sum(1, keepdim=True)
        return (w[:, :, None] * pieces).sum(1)


class Consensus(WeightedMean):
    """U = sum_v w_v LeakyReLU(Linear_v(S^v))."""

    def __init__(self, n_views: int, width: int) -> None:
        """Make one linear layer per view."""
        super().__init__(n_views)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(n_views))

    def forward(self, s: list[Tensor], present: Tensor | None = None) -> Tensor:
        """The consensus (n, width)."""
        pieces = [functional.leaky_relu(f(x)) for f, x in zip(self.layers, s, strict=True)]
        return super().forward(pieces, present)
