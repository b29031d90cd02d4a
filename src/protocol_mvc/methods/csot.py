"""CSOT: prototypes that all views share, and transport to them that guides labels and features."""

import math
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.contrastive import paired_contrast
from protocol_mvc.methods import base
from protocol_mvc.methods.base import map_batches, sum_of
from protocol_mvc.nn.heads import cluster_means
from protocol_mvc.partition import consensus
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.transport import solve
from protocol_mvc.utils.config import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt


class CsotConfig(base.AutoencoderConfig):
    """Every choice of CSOT."""

    reconstruct_length: NonNegativeInt = 1  #: epochs
    contrast_length: NonNegativeInt = 100  #: epochs, each with new prototypes
    kmeans_starts: PositiveInt = 10  #: of the K-means of every epoch; the released code takes 100
    temperature: PositiveFloat = 0.5  #: of the contrast of features and of labels
    epsilon: PositiveFloat = 0.05  #: entropic regularisation of the transport
    semantic_weight: NonNegativeFloat = 0.3  #: alpha, of all that is about labels
    feature_weight: NonNegativeFloat = 1.0  #: beta, of the contrast of features
    balance_weight: NonNegativeFloat = 1.0  #: of the wish for clusters of one size, times alpha
    #: how labels follow the transport: by their inner product, as released, or by the divergence
    semantic_loss: Literal["product", "divergence"] = "product"
    #: prototypes bear the labels that agree most with those of their samples; released: they change at random
    match_prototypes: bool = True


PRESETS = {"default": CsotConfig(), "published": CsotConfig(kmeans_starts=100, match_prototypes=False)}


class Csot(base.LabelMethod):
    """Common semantics by optimal transport."""

    def stages(self) -> list[Stage]:
        """Reconstruct, then contrast; one Adam for both."""
        c = self.config
        contrast = Stage("contrast", c.contrast_length, self.contrast, Optimizer(c.rate, reset="never"))
        contrast = contrast._replace(on_epoch_start=self.find_prototypes)
        return [self.first_stage(), contrast, self.last_stage()]

    def find_prototypes(
        self, source: Source, generator: torch.Generator, progress: float, begun: None
    ) -> Tensor:
        """Centres (k, feature) that K-means finds in the mean features of all samples."""
        feature, log_p = map_batches(self, source, self._means)
        label, k = self.kmeans(feature.numpy(), generator), self.n_clusters
        if self.config.match_prototypes:
            label = consensus.relabel_to_match(label, log_p.argmax(1).numpy(), k)
        return cluster_means(feature, torch.from_numpy(label), k, empty=0.0).to(self.prior.device)

    def _means(self, batch: Batch) -> tuple[Tensor, Tensor]:
        codes = self.network.encode(batch.views)
        return torch.stack(codes.h).mean(0), base.log_mean(codes.logits, None)

    def contrast(self, batch: Batch, progress: float, prototypes: Tensor) -> Losses:
        """Labels follow the transport and agree between views; sure samples are contrasted less."""
        c = self.config
        codes, x_hat = self.network(batch.views)
        p = [x.softmax(1) for x in codes.logits]
        shares = [self.transport(h, prototypes) for h in codes.h]
        losses = base.label_agreement(p, c.temperature, c.balance_weight)
        losses["semantic"] = sum_of(self._follow(*pair) for pair in zip(p, shares, strict=True))
        losses = {name: c.semantic_weight * value for name, value in losses.items()}
        doubts = [1 - share.max(1).values for share in shares]
        pairs = list(combinations(zip(codes.h, doubts, strict=True), 2))
        if pairs:
            losses["feature"] = c.feature_weight * sum_of(
                paired_contrast(a, b, temperature=c.temperature, weight=torch.cat([i, j]))
                for (a, i), (b, j) in pairs
            )
        return losses | base.reconstruction(batch, x_hat)

    @torch.no_grad()
    def transport(self, h: Tensor, prototypes: Tensor) -> Tensor:
        """How samples are split over the prototypes (n, k) if each of these gets the same mass."""
        likeness = h @ prototypes.T
        return (
            solve(likeness, epsilon=self.config.epsilon, prior_strength=math.inf)
            .row_probabilities(likeness)
            .to(h)
        )

    def _follow(self, p: Tensor, share: Tensor) -> Tensor:
        known: Tensor = torch.special.xlogy(share, share)
        if self.config.semantic_loss == "product":
            return (known - share * p).mean()
        return (known - share * p.clamp_min(1e-8).log()).sum(1).mean()
