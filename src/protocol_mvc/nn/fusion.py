"""Fusion of views: attention between the samples of a batch, and the weighted consensus."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.nn.seeded import Dropout, Seeded

MAX_LOGIT_GAP = 30.0  # of a logit from the maximum of its row, so that G^2 has no denormal numbers


class Projections(Seeded):
    """Linear maps of single-head attention to queries, keys and values, and the output projection.

    `torch.nn.MultiheadAttention` cannot be narrower than its input, and copies its inputs.
    """

    def __init__(self, width: int, attention_dim: int) -> None:
        super().__init__()
        self.scale = attention_dim**-0.5
        self.in_proj_weight = nn.Parameter(torch.empty(3 * attention_dim, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * attention_dim))
        self.out_proj = nn.Linear(attention_dim, width)

    def draw(self, generator: torch.Generator) -> None:
        """Draw Glorot's uniform weights; the bias is zero."""
        nn.init.xavier_uniform_(self.in_proj_weight, generator=generator)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return queries, keys and values, each (n, attention_dim)."""
        return functional.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=1)


class SampleAttention(nn.Module):
    r"""Transformer block (one head, post-norm) whose tokens are the samples of a batch.

    With :math:`G = softmax(Q K^\top / \sqrt{d})` it computes

    .. math:: S = norm_2(Y + drop(W_2 ReLU(W_1 Y))), \qquad Y = norm_1(Z + drop(W_o G V))

    Args:
        width: dimension of the input.
        dim_feedforward: hidden dimension of the feed-forward network.
        dropout: dropout probability.
        attention_dim: dimension d of queries, keys and values; None is `width`.
    """

    def __init__(
        self, width: int, dim_feedforward: int, dropout: float, attention_dim: int | None = None
    ) -> None:
        super().__init__()
        self.attention = Projections(width, attention_dim or width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, dim_feedforward), nn.ReLU(), nn.Linear(dim_feedforward, width)
        )
        self.norm_attention = nn.LayerNorm(width)
        self.norm_feedforward = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the structure-aware features S (n, width) and the attention matrix G (n, n)."""
        q, k, v = self.attention(z)
        scores = q @ k.T * self.attention.scale
        scores = torch.maximum(scores, scores.detach().amax(1, keepdim=True) - MAX_LOGIT_GAP)
        g = torch.softmax(scores, dim=1)
        attended = self.attention.out_proj(g @ v)
        s = self.norm_attention(z + self.dropout(attended))
        return self.norm_feedforward(s + self.dropout(self.feedforward(s))), g


class GcfAggAttention(SampleAttention):
    r"""Attention block of GCFAggMVC: one norm before and after the attention, dropout on the attention.

    With U = norm(X) and :math:`S = drop(softmax(Q(U) K(U)^\top / \sqrt{width}))` it computes

    .. math:: norm_2(Y + drop(W_2\, drop(ReLU(W_1 Y)))), \qquad Y = norm(X + drop(W_o S V(U)))
    """

    def forward(self, x: Tensor, anchors: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return features and attention.

        Args:
            x: concatenated codes (n, width).
            anchors: codes (m, width); every sample then attends only to itself and to these.

        Returns:
            Features (n, width), and the attention S: (n, n), or (n, 1 + m) with anchors.
        """
        q, k, v = self.attention(self.norm_attention(x))
        scale = self.attention.scale
        if anchors is None:
            s = self.dropout(torch.softmax(scale * q @ k.T, dim=1))
            attended = s @ v
        else:
            _, k_anchor, v_anchor = self.attention(self.norm_attention(anchors))
            own = (q * k).sum(1, keepdim=True)
            s = torch.softmax(scale * torch.cat([own, q @ k_anchor.T], dim=1), dim=1)
            attended = s[:, :1] * v + s[:, 1:] @ v_anchor
        y = self.norm_attention(x + self.dropout(self.attention.out_proj(attended)))
        first, relu, second = self.feedforward
        inner = second(self.dropout(relu(first(y))))
        return self.norm_feedforward(y + self.dropout(inner)), s


class WeightedMean(nn.Module):
    r"""Weighted mean of the views, :math:`\sum_v w_v z^v`, where w is the softmax of a trainable vector.

    All weights are equal at first.
    """

    def __init__(self, n_views: int) -> None:
        super().__init__()
        self.view_logits = nn.Parameter(torch.empty(n_views))

    def weights(self) -> Tensor:
        """Return the weights w (n_views,); they sum to one."""
        return torch.softmax(self.view_logits, dim=0)

    def forward(self, z: list[Tensor], present: Tensor | None = None) -> Tensor:
        """Return the mean over the views that a sample has.

        Args:
            z: features of each view (n, width).
            present: whether a sample has a view (n, n_views); the weights of these are scaled to sum to one.

        Returns:
            The weighted mean (n, width).
        """
        stacked = torch.stack(z, dim=1)
        w = self.weights().expand(len(stacked), -1)  # (n, V)
        if present is not None:
            w = w * present
            w = w / w.sum(1, keepdim=True)
        return (w[:, :, None] * stacked).sum(1)


class Consensus(WeightedMean):
    r"""Consensus of the views, :math:`U = \sum_v w_v LeakyReLU(Linear_v(S^v))`."""

    def __init__(self, n_views: int, width: int) -> None:
        super().__init__(n_views)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(n_views))

    def forward(self, s: list[Tensor], present: Tensor | None = None) -> Tensor:
        """Return the consensus U (n, width) of the structure-aware features S^v."""
        activated = [functional.leaky_relu(f(x)) for f, x in zip(self.layers, s, strict=True)]
        return super().forward(activated, present)
