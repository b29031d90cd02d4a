"""Networks with autoencoders: every view is encoded once, and the heads and the consensus use its code.

Letters as in the paper: Z latent code, S structure-aware features, H projection, U consensus, G attention.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.nn.fusion import Consensus, SampleAttention
from protocol_mvc.nn.layers import Autoencoder, CosineClassifier, mlp, normalize_rows
from protocol_mvc.utils.device import has_native_bfloat16


class ViewOutputs(NamedTuple):
    """Outputs of each view; those of a sample do not depend on the rest of its batch."""

    z: list[Tensor]  #: latent codes Z^v (n, latent_dim)
    h: list[Tensor]  #: projections H^v (n, projection_dim), in most networks with rows of unit norm
    logits: list[Tensor]  #: logits of the clusters (n, k); empty for networks without a classifier


class ConsensusOutputs(NamedTuple):
    """Outputs of the consensus of all views; with attention, those of a sample depend on its batch."""

    g: Tensor  #: attention G between samples (n, n); empty without attention
    s: list[Tensor]  #: structure-aware features S^v (n, latent_dim); Z^v without attention
    u: Tensor  #: projected consensus U (n, projection_dim), rows of unit norm
    logits: Tensor  #: logits of the clusters (n, k)
    features: Tensor  #: input of the cosine classifier (n, width): U before or after its projection


class ViewConsensusPair(NamedTuple):
    """Outputs of one view and of the consensus, for the samples that have the view."""

    view: int
    rows: Tensor | slice  #: indices of these samples in the batch
    z: Tensor
    s: Tensor
    h: Tensor
    u: Tensor
    g: Tensor
    logits: Tensor
    consensus_logits: Tensor


def present_rows(present: Tensor | None, n_views: int) -> Iterator[tuple[int, Tensor | slice]]:
    """Yield each view with the rows that have it; views that no row has are left out.

    Args:
        present: whether a sample has a view (n, n_views); None if all samples have all views.
        n_views: number of views.
    """
    for v in range(n_views):
        if present is None:
            yield v, slice(None)
        elif bool(present[:, v].any()):
            yield v, present[:, v].nonzero()[:, 0]


def view_consensus_pairs(
    views: ViewOutputs, consensus: ConsensusOutputs, present: Tensor | None
) -> Iterator[ViewConsensusPair]:
    """Yield the outputs of each view and of the consensus for the samples that have the view."""
    for v, rows in present_rows(present, len(views.z)):
        g = consensus.g[rows][:, rows]
        own = (views.z[v][rows], consensus.s[v][rows], views.h[v][rows])
        logits = (views.logits[v][rows], consensus.logits[rows])
        yield ViewConsensusPair(v, rows, *own, consensus.u[rows], g, *logits)


class MultiViewAutoencoder(nn.Module):
    """One `Autoencoder` for each view of `dims`; a subclass computes projections and logits from its code."""

    def __init__(self, dims: list[int], hidden_dims: Sequence[int], latent_dim: int) -> None:
        super().__init__()
        self.autoencoders = nn.ModuleList(Autoencoder(d, hidden_dims, latent_dim) for d in dims)

    def reconstruct(self, views: list[Tensor]) -> list[Tensor]:
        """Return the reconstruction (n, D_v) of each view (n, D_v)."""
        return [f(x)[1] for f, x in zip(self.autoencoders, views, strict=True)]

    def forward(self, views: list[Tensor]) -> tuple[ViewOutputs, list[Tensor]]:
        """Return the outputs and the reconstruction of each view (n, D_v)."""
        pairs = [f(x) for f, x in zip(self.autoencoders, views, strict=True)]
        return self.view_outputs([z for z, _ in pairs]), [x_hat for _, x_hat in pairs]

    def encode(self, views: list[Tensor]) -> ViewOutputs:
        """Return the outputs of each view (n, D_v) without decoding."""
        encoders = [cast(Autoencoder, part).encoder for part in self.autoencoders]
        return self.view_outputs([f(x) for f, x in zip(encoders, views, strict=True)])

    def view_outputs(self, z: list[Tensor]) -> ViewOutputs:
        """Return projections and logits of each view from its latent codes (n, latent_dim)."""
        raise NotImplementedError


class MultiViewNetwork(MultiViewAutoencoder):
    """Network of PROTOCOL: autoencoders, shared projection, attention, consensus and a cosine classifier.

    Args:
        dims: number of features of each view.
        n_clusters: outputs of the classifier.
        hidden_dims: widths of the encoder layers between input and latent code.
        latent_dim: dimension of Z^v, S^v and the consensus before its projection.
        projection_dim: dimension of H^v and U.
        dim_feedforward: hidden dimension of the attention block.
        attention_dim: dimension of queries, keys and values; None is that of all Z^v together.
        dropout: dropout probability of the attention block.
        logit_scale: factor of the classifier's cosines.
        classifier_input: what the classifier is applied to, "projection" (H^v, U) or "latent" (Z^v and the
            consensus before its projection, as in the paper).
        heads: "cosine" is one cosine classifier for all views and the consensus, "linear" are two linear
            layers, of Z^v and of U, as in the released code.
        precision: of the matrix products of autoencoders and attention in training; weights, losses and
            inference are in float32, and so are all products on devices without native bfloat16.
    """

    def __init__(
        self,
        dims: list[int],
        n_clusters: int,
        *,
        hidden_dims: Sequence[int],
        latent_dim: int,
        projection_dim: int,
        dim_feedforward: int,
        attention_dim: int | None,
        dropout: float,
        logit_scale: float,
        classifier_input: Literal["projection", "latent"],
        heads: Literal["cosine", "linear"] = "cosine",
        precision: Literal["float32", "bfloat16"] = "float32",
    ) -> None:
        super().__init__(dims, hidden_dims, latent_dim)
        self.mixed_precision = precision == "bfloat16"
        self.project = nn.Linear(latent_dim, projection_dim)
        self.project_consensus = nn.Linear(latent_dim, projection_dim)
        self.attention = SampleAttention(latent_dim * len(dims), dim_feedforward, dropout, attention_dim)
        self.consensus = Consensus(len(dims), latent_dim)
        self.classify_latent = classifier_input == "latent"
        width = latent_dim if self.classify_latent else projection_dim
        self.classifier = CosineClassifier(width, n_clusters, logit_scale)  # not used with linear heads
        linear = heads == "linear"
        self.view_head = nn.Linear(latent_dim, n_clusters) if linear else None
        self.consensus_head = nn.Linear(projection_dim, n_clusters) if linear else None

    def autocast(self) -> torch.autocast:
        """Return the context in which matrix products of the training have the chosen precision."""
        device = self.project.weight.device
        enabled = self.mixed_precision and self.training and has_native_bfloat16(device)
        return torch.autocast(device.type, torch.bfloat16, enabled=enabled)

    def reconstruct(self, views: list[Tensor]) -> list[Tensor]:
        """Return the reconstruction (n, D_v) of each view (n, D_v)."""
        with self.autocast():
            return [x.to(views[0].dtype) for x in super().reconstruct(views)]

    def forward(self, views: list[Tensor]) -> tuple[ViewOutputs, list[Tensor]]:
        """Return the outputs and the reconstruction of each view (n, D_v)."""
        with self.autocast():
            pairs = [f(x) for f, x in zip(self.autoencoders, views, strict=True)]
        z, x_hat = ([x.to(views[0].dtype) for x in part] for part in zip(*pairs, strict=True))
        return self.view_outputs(z), x_hat

    def view_outputs(self, z: list[Tensor]) -> ViewOutputs:
        """Return projections H^v and cosine logits (Eq. 9) of each view."""
        x = torch.cat(z)
        h = functional.normalize(self.project(x))
        features = x if self.classify_latent else h
        logits = self.classifier(features) if self.view_head is None else self.view_head(x)
        return ViewOutputs(z, list(h.chunk(len(z))), list(logits.chunk(len(z))))

    def view_features(self, codes: ViewOutputs) -> list[Tensor]:
        """Return the input of the classifier (n, width) of each view."""
        return codes.z if self.classify_latent else codes.h

    def fuse(self, z: list[Tensor], present: Tensor | None = None) -> ConsensusOutputs:
        """Return attention, consensus and its logits (Eq. 8) for the samples of a batch.

        Args:
            z: latent codes of each view (n, latent_dim).
            present: whether a sample has a view (n, n_views); codes of absent views are replaced by zeros.
        """
        if present is not None:
            z = [x * here[:, None] for x, here in zip(z, present.T, strict=True)]
        with self.autocast():
            attended, g = self.attention(torch.cat(z, dim=1))
        s = list(attended.chunk(len(z), dim=1))
        consensus = self.consensus(s, present)
        u = functional.normalize(self.project_consensus(consensus))
        features = consensus if self.classify_latent else u
        head = self.consensus_head
        return ConsensusOutputs(g, s, u, self.classifier(features) if head is None else head(u), features)


class MeanConsensusNetwork(nn.Module):
    """Network of PROTOCOL's default: encoders whose projections H^v have a mean U, and a cosine classifier.

    Args:
        dims: number of features of each view.
        n_clusters: outputs of the classifier.
        hidden_dims: widths of the encoder layers between input and projection.
        projection_dim: dimension of H^v and U.
        logit_scale: factor of the classifier's cosines.
    """

    def __init__(
        self,
        dims: list[int],
        n_clusters: int,
        *,
        hidden_dims: Sequence[int],
        projection_dim: int,
        logit_scale: float,
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(mlp([dim, *hidden_dims, projection_dim]) for dim in dims)
        self.classifier = CosineClassifier(projection_dim, n_clusters, logit_scale)

    def project(self, views: list[Tensor]) -> list[Tensor]:
        """Return the projections H^v (n, projection_dim) of each view (n, D_v)."""
        h = torch.cat([f(x) for f, x in zip(self.encoders, views, strict=True)])
        return list(normalize_rows(h).chunk(len(views)))

    def view_outputs(self, h: list[Tensor]) -> ViewOutputs:
        """Return the projections, which are also the codes, and cosine logits (Eq. 9) of each view."""
        return ViewOutputs(h, h, list(self.classifier.unit_logits(torch.cat(h)).chunk(len(h))))

    def encode(self, views: list[Tensor]) -> ViewOutputs:
        """Return the projections H^v and cosine logits of each view (n, D_v)."""
        return self.view_outputs(self.project(views))

    def view_features(self, codes: ViewOutputs) -> list[Tensor]:
        """Return the input of the classifier (n, projection_dim) of each view."""
        return codes.h

    def forward(self, views: list[Tensor]) -> tuple[ViewOutputs, list[Tensor]]:
        """Return the outputs of each view; there are no reconstructions."""
        return self.encode(views), []

    def fuse(
        self, z: list[Tensor], present: Tensor | None = None, *, classify: bool = True
    ) -> ConsensusOutputs:
        """Return the mean U of the projections, scaled to unit norm, and its logits (Eq. 8).

        Args:
            z: projections of each view (n, projection_dim).
            present: whether a sample has a view (n, n_views); the mean is over the views that it has.
            classify: without it the logits are empty.
        """
        stacked = torch.stack(z)
        u = normalize_rows((stacked if present is None else stacked * present.T[:, :, None]).sum(0))
        logits = self.classifier.unit_logits(u) if classify else u.new_empty(0)
        return ConsensusOutputs(u.new_empty(0), z, u, logits, u)
