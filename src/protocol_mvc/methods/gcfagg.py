"""GCFAggMVC (CVPR 2023): a consensus by attention between samples, and contrast of every view with it."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.contrastive import paired_contrast
from protocol_mvc.methods.autoencoder import AutoencoderConfig, KMeansMethod
from protocol_mvc.methods.base import reconstruction, sum_of
from protocol_mvc.nn.fusion import GcfAggAttention
from protocol_mvc.nn.network import MultiViewAutoencoder, ViewOutputs
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.utils.config import NonNegativeInt, PositiveFloat, PositiveInt


class GcfAggConfig(AutoencoderConfig):
    """Hyper-parameters of GCFAggMVC; the defaults are the published values."""

    dim_feedforward: PositiveInt = 256  #: hidden dimension of the attention block
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1  #: dropout of the attention block
    n_epochs_contrast: NonNegativeInt = 100  #: epochs of contrast
    temperature: PositiveFloat = 0.5  #: temperature of the contrast
    n_anchors: PositiveInt = 256  #: training samples to which every sample attends in prediction


PRESETS = {"default": GcfAggConfig()}


class GcfAggNetwork(MultiViewAutoencoder):
    """Autoencoders, a projection shared by all views, and a consensus by attention over the batch."""

    def __init__(self, config: GcfAggConfig, dims: list[int]) -> None:
        super().__init__(dims, config.hidden_dims, config.latent_dim)
        width = config.latent_dim * len(dims)
        self.project = nn.Linear(config.latent_dim, config.feature_dim)
        self.attention = GcfAggAttention(width, config.dim_feedforward, config.dropout)
        self.project_consensus = nn.Linear(width, config.feature_dim)

    def view_outputs(self, z: list[Tensor]) -> ViewOutputs:
        """Return the projections of each view; there are no logits."""
        return ViewOutputs(z, [functional.normalize(self.project(x)) for x in z], [])

    def fuse(self, z: list[Tensor], anchors: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the consensus (n, feature_dim) and the attention S; see `GcfAggAttention`."""
        fused, s = self.attention(torch.cat(z, dim=1), anchors)
        return functional.normalize(self.project_consensus(fused)), s


class GcfAgg(KMeansMethod):
    """Global and cross-view feature aggregation."""

    network: GcfAggNetwork
    anchors: Tensor

    def __init__(self, config: GcfAggConfig, dims: list[int], n_clusters: int) -> None:
        super().__init__(config, dims, n_clusters, config.feature_dim)
        self.network = GcfAggNetwork(config, dims)
        self.register_buffer("anchors", torch.empty(config.n_anchors, config.latent_dim * len(dims)))

    def stages(self) -> list[Stage]:
        """Return the stages: reconstruct, contrast; Adam is never reset."""
        c = self.config
        contrast = Stage("contrast", c.n_epochs_contrast, self.contrast, Optimizer(c.lr, reset="never"))
        return [self.reconstruction_stage(), contrast, self.last_stage()]

    def contrast(self, batch: Batch, progress: float, context: None) -> Losses:
        """Return the contrast of every view with the consensus, and the reconstruction.

        Samples that attend to each other repel each other less: logits of negatives have the factor 1 - S.
        """
        outputs, x_hat = self.network(batch.views)
        u, s = self.network.fuse(outputs.z)
        feature = sum_of(
            paired_contrast(h, u, temperature=self.config.temperature, negative_scale=1 - s)
            for h in outputs.h
        )
        return {"feature": feature} | reconstruction(batch, x_hat)

    @torch.no_grad()
    def read_out(self, source: Source, generator: torch.Generator) -> None:
        """Store the codes of random samples as anchors, then run k-means on the consensus."""
        rows = torch.randperm(len(source), generator=generator)
        rows = rows.repeat(-(-len(self.anchors) // len(rows)))[: len(self.anchors)]
        self.anchors.copy_(torch.cat(self.network.encode(source.take(rows).views).z, dim=1))
        super().read_out(source, generator)

    def embed(self, batch: Batch) -> Tensor:
        """Return the consensus (n, feature_dim) of each sample with the anchors as its batch."""
        return self.network.fuse(self.network.encode(batch.views).z, self.anchors)[0]
