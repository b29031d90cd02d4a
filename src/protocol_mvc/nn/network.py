"""Networks in which every view is encoded once, and everything else follows from the codes."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.nn.autoencoder import Autoencoder, mlp
from protocol_mvc.nn.fusion import Consensus, SampleAttention
from protocol_mvc.nn.heads import CosineClassifier


class Widths(NamedTuple):
    """Sizes of the layers."""

    hidden: tuple[int, ...]  # of the encoders, between input and latent
    latent: int  # of the codes Z^v, the S^v and the consensus U
    feature: int  # of the high-level features H^v
    feedforward: int  # inside the attention block
    attention: int | None  # of its queries, keys and values; None is that of all codes side by side


class Codes(NamedTuple):
    """What is known of a sample without looking at the rest of its batch."""

    z: list[Tensor]  # latent codes Z^v (n, latent)
    h: list[Tensor]  # high-level features H^v (n, feature), unit rows
    logits: list[Tensor]  # h(Z^v), (n, k)


class Fused(NamedTuple):
    """What the samples of a batch say together."""

    g: Tensor  # attention between samples (n, n)
    s: list[Tensor]  # structure-aware features S^v (n, latent)
    u: Tensor  # consensus, projected to unit rows (n, feature)
    logits: Tensor  # h(U), (n, k)


class Pair(NamedTuple):
    """One view beside the consensus, for the samples of a batch that have the view."""

    view: int
    rows: Tensor | slice  # which samples
    z: Tensor
    s: Tensor
    h: Tensor
    u: Tensor
    g: Tensor
    logits: Tensor
    consensus_logits: Tensor


def rows_of(present: Tensor | None, n_views: int) -> Iterator[tuple[int, Tensor | slice]]:
    """Each view with the rows that have it; a view that no row has is left out."""
    for v in range(n_views):
        if present is None:
            yield v, slice(None)
        elif bool(present[:, v].any()):
            yield v, present[:, v].nonzero()[:, 0]


def pairs(codes: Codes, fused: Fused, present: Tensor | None) -> Iterator[Pair]:
    """The views that the batch has, each beside the consensus."""
    for v, rows in rows_of(present, len(codes.z)):
        g = fused.g[rows][:, rows]
        own = (codes.z[v][rows], fused.s[v][rows], codes.h[v][rows])
        yield Pair(v, rows, *own, fused.u[rows], g, codes.logits[v][rows], fused.logits[rows])


class CodeNetwork(nn.Module):
    """One autoencoder per view; a subclass says in `codes` what is made of the latent codes."""

    def __init__(self, dims: list[int], hidden: Sequence[int], latent: int) -> None:
        """Make the autoencoders of views of the given dimensions."""
        super().__init__()
        self.autoencoders = nn.ModuleList(Autoencoder(d, hidden, latent) for d in dims)

    def reconstruct(self, views: list[Tensor]) -> list[Tensor]:
        """The reconstruction of every view."""
        return [f(x)[1] for f, x in zip(self.autoencoders, views, strict=True)]

    def forward(self, views: list[Tensor]) -> tuple[Codes, list[Tensor]]:
        """Codes and reconstructions from one pass through the autoencoders."""
        pairs = [f(x) for f, x in zip(self.autoencoders, views, strict=True)]
        return self.codes([z for z, _ in pairs]), [x_hat for _, x_hat in pairs]

    def encode(self, views: list[Tensor]) -> Codes:
        """Codes alone, for prediction."""
        encoders = [cast(Autoencoder, part).encoder for part in self.autoencoders]
        return self.codes([f(x) for f, x in zip(encoders, views, strict=True)])

    def codes(self, z: list[Tensor]) -> Codes:
        """Features and logits of every view from its latent codes."""
        raise NotImplementedError


class SharedHeads(CodeNetwork):
    """A feature head and a label head on Z^v, shared by all views, with layers between; `unit` norms H^v."""

    def __init__(
        self,
        dims: list[int],
        n_clusters: int,
        widths: tuple[Sequence[int], int, int],  # hidden layers of the encoders, width of Z^v and of H^v
        *,
        between: Sequence[int] = (),
        unit: bool = True,
    ) -> None:
        hidden, latent, feature = widths
        super().__init__(dims, hidden, latent)
        self.project = mlp([latent, *between, feature])
        self.classifier = mlp([latent, *between, n_clusters])
        self.unit = unit

    def codes(self, z: list[Tensor]) -> Codes:
        """Features and logits."""
        h = [functional.normalize(self.project(x)) if self.unit else self.project(x) for x in z]
        return Codes(z, h, [self.classifier(x) for x in z])


class MultiViewNetwork(CodeNetwork):
    """Autoencoders, shared projection, attention over samples, consensus and one cosine classifier."""

    def __init__(
        self,
        dims: list[int],
        n_clusters: int,
        widths: Widths,
        *,
        dropout: float,
        scale: float,
        classify_latent: bool,
    ) -> None:
        """Make the parts for views of the given dimensions.

        Args:
            dims: features of each view.
            n_clusters: outputs of the classifier.
            widths: sizes of the layers.
            dropout: of the attention block.
            scale: of the cosine logits.
            classify_latent: whether the classifier sees Z^v and U (the paper) or their projections H^v.
        """
        super().__init__(dims, widths.hidden, widths.latent)
        self.project = nn.Linear(widths.latent, widths.feature)
        self.project_consensus = nn.Linear(widths.latent, widths.feature)
        self.attention = SampleAttention(
            widths.latent * len(dims), widths.feedforward, dropout, widths.attention
        )
        self.consensus = Consensus(len(dims), widths.latent)
        classified = widths.latent if classify_latent else widths.feature
        self.classifier = CosineClassifier(classified, n_clusters, scale)
        self.classify_latent = classify_latent

    def fuse(self, z: list[Tensor], present: Tensor | None = None) -> Fused:
        """Attention over the batch, consensus and its prediction; absent views enter as zeros."""
        if present is not None:
            z = [x * here[:, None] for x, here in zip(z, present.T, strict=True)]
        s, g = self.attention(torch.cat(z, dim=1))
        pieces = list(s.chunk(len(z), dim=1))
        consensus = self.consensus(pieces, present)
        u = functional.normalize(self.project_consensus(consensus))
        return Fused(g, pieces, u, self.classifier(consensus if self.classify_latent else u))

    def codes(self, z: list[Tensor]) -> Codes:
        """Projections and cosine logits, of all views at once."""
        x = torch.cat(z)
        h = functional.normalize(self.project(x))
        logits = self.classifier(x if self.classify_latent else h)
        return Codes(z, list(h.chunk(len(z))), list(logits.chunk(len(z))))
