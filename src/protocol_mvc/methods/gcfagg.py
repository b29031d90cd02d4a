"""GCFAggMVC: a consensus from samples that attend to one another, and views contrasted with it."""

from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.contrastive import paired_contrast
from protocol_mvc.methods import base
from protocol_mvc.methods.base import sum_of
from protocol_mvc.nn.fusion import TwiceNormedAttention
from protocol_mvc.nn.network import CodeNetwork, Codes
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.utils.config import NonNegativeInt, PositiveFloat, PositiveInt


class GcfAggConfig(base.AutoencoderConfig):
    """Every choice of GCFAggMVC; the defaults are the published values."""

    feedforward: PositiveInt = 256  #: inside the attention block
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1  #: of the attention block
    contrast_length: NonNegativeInt = 100  #: epochs
    temperature: PositiveFloat = 0.5
    anchors: PositiveInt = 256  #: training samples that every sample attends to in prediction


PRESETS = {"default": GcfAggConfig()}


class AttentiveNetwork(CodeNetwork):
    """Autoencoders, a feature head that all views share, and a consensus by attention over the batch."""

    def __init__(self, config: GcfAggConfig, dims: list[int]) -> None:
        super().__init__(dims, config.hidden, config.latent)
        width = config.latent * len(dims)
        self.project = nn.Linear(config.latent, config.feature)
        self.attention = TwiceNormedAttention(width, config.feedforward, config.dropout)
        self.project_consensus = nn.Linear(width, config.feature)

    def codes(self, z: list[Tensor]) -> Codes:
        """Features of every view; there are no logits."""
        return Codes(z, [functional.normalize(self.project(x)) for x in z], [])

    def fuse(self, z: list[Tensor], anchors: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The consensus (n, feature) and who attends to whom: the samples, or each to itself and anchors."""
        fused, s = self.attention(torch.cat(z, dim=1), anchors)
        return functional.normalize(self.project_consensus(fused)), s


class GcfAgg(base.KMeansMethod):
    """Global and cross-view feature aggregation."""

    network: AttentiveNetwork
    anchors: Tensor

    def __init__(self, config: GcfAggConfig, dims: list[int], n_clusters: int) -> None:
        super().__init__(config, dims, n_clusters, config.feature)
        self.network = AttentiveNetwork(config, dims)
        self.register_buffer("anchors", torch.empty(config.anchors, config.latent * len(dims)))

    def stages(self) -> list[Stage]:
        """Reconstruct, then contrast; one Adam for both."""
        c = self.config
        contrast = Stage("contrast", c.contrast_length, self.contrast, Optimizer(c.rate, reset="never"))
        return [self.first_stage(), contrast, self.last_stage()]

    def contrast(self, batch: Batch, progress: float, context: None) -> Losses:
        """Every view meets the consensus; those who attend to one another repel each other less."""
        codes, x_hat = self.network(batch.views)
        consensus, s = self.network.fuse(codes.z)
        near: dict[str, Any] = {"temperature": self.config.temperature, "attenuate": 1 - s}
        feature = sum_of(paired_contrast(h, consensus, **near) for h in codes.h)
        return {"feature": feature} | base.reconstruction(batch, x_hat)

    @torch.no_grad()
    def read_out(self, source: Source, generator: torch.Generator) -> None:
        """Keep the codes of random samples for the company in prediction, then K-means of the consensus."""
        rows = torch.randperm(len(source), generator=generator)
        rows = rows.repeat(-(-len(self.anchors) // len(rows)))[: len(self.anchors)]
        self.anchors.copy_(torch.cat(self.network.encode(source.take(rows).views).z, dim=1))
        super().read_out(source, generator)

    def embed(self, batch: Batch) -> Tensor:
        """The consensus of a sample in the company of the anchors."""
        return self.network.fuse(self.network.encode(batch.views).z, self.anchors)[0]
