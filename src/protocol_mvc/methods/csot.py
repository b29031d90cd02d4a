"""CSOT (TIP 2024): optimal transport to prototypes shared by all views guides labels and features."""

import math
from itertools import combinations

import torch
from torch import Tensor

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.contrastive import paired_contrast
from protocol_mvc.methods.autoencoder import AutoencoderConfig, LabelMethod, label_agreement
from protocol_mvc.methods.base import log_mean, map_batches, reconstruction, sum_of
from protocol_mvc.nn.layers import cluster_means
from protocol_mvc.partition.consensus import relabel_to_match
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.transport import solve
from protocol_mvc.utils.config import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt


class CsotConfig(AutoencoderConfig):
    """Hyper-parameters of CSOT."""

    n_epochs_reconstruct: NonNegativeInt = 1  #: epochs of reconstruction
    n_epochs_contrast: NonNegativeInt = 100  #: epochs of contrast, each with new prototypes
    kmeans_n_init: PositiveInt = 10  #: initializations of every k-means; 100 in the released code
    temperature: PositiveFloat = 0.5  #: temperature of the contrast of features and of labels
    epsilon: PositiveFloat = 0.05  #: entropic regularization of the transport
    semantic_weight: NonNegativeFloat = 0.3  #: alpha, weight of all terms of labels
    feature_weight: NonNegativeFloat = 1.0  #: beta, weight of the contrast of features
    #: weight of the term that favours clusters of equal size, times alpha
    cluster_entropy_weight: NonNegativeFloat = 1.0
    #: number prototypes to agree best with the predictions; in the released code their order is random
    match_prototypes: bool = True


PRESETS = {"default": CsotConfig(), "published": CsotConfig(kmeans_n_init=100, match_prototypes=False)}


class Csot(LabelMethod):
    """Common semantics by optimal transport."""

    def stages(self) -> list[Stage]:
        """Return the stages: reconstruct, contrast; Adam is never reset."""
        c = self.config
        contrast = Stage("contrast", c.n_epochs_contrast, self.contrast, Optimizer(c.lr, reset="never"))
        contrast = contrast._replace(on_epoch_start=self.find_prototypes)
        return [self.reconstruction_stage(), contrast, self.last_stage()]

    def find_prototypes(
        self, source: Source, generator: torch.Generator, progress: float, start_value: None
    ) -> Tensor:
        """Return the k-means centroids (k, feature_dim) of the mean features of all samples."""

        def means(batch: Batch) -> tuple[Tensor, Tensor]:
            outputs = self.network.encode(batch.views)
            return torch.stack(outputs.h).mean(0), log_mean(outputs.logits, None)

        features, log_p = map_batches(self, source, means)
        labels = self.kmeans(features.numpy(), generator)
        if self.config.match_prototypes:
            labels = relabel_to_match(labels, log_p.argmax(1).numpy(), self.n_clusters)
        centers = cluster_means(features, torch.from_numpy(labels), self.n_clusters, empty=0.0)
        return centers.to(self.prior.device)

    def contrast(self, batch: Batch, progress: float, prototypes: Tensor) -> Losses:
        """Return the terms of labels, the contrast of features, and the reconstruction.

        The labels P of a view follow its transport T to the prototypes by the mean of T log T - T P over all
        entries, as in the released code, and agree between views. The contrast of features weighs a sample
        by 1 - max T.
        """
        c = self.config
        outputs, x_hat = self.network(batch.views)
        p = [x.softmax(1) for x in outputs.logits]
        transports = [self.transport(h, prototypes) for h in outputs.h]
        losses = label_agreement(p, c.temperature, c.cluster_entropy_weight)
        views = zip(p, transports, strict=True)
        losses["semantic"] = sum_of((torch.special.xlogy(t, t) - t * x).mean() for x, t in views)
        losses = {name: c.semantic_weight * value for name, value in losses.items()}
        weights = [1 - t.max(1).values for t in transports]
        pairs = list(combinations(zip(outputs.h, weights, strict=True), 2))
        if pairs:
            losses["feature"] = c.feature_weight * sum_of(
                paired_contrast(a, b, temperature=c.temperature, anchor_weight=torch.cat([i, j]))
                for (a, i), (b, j) in pairs
            )
        return losses | reconstruction(batch, x_hat)

    @torch.no_grad()
    def transport(self, h: Tensor, prototypes: Tensor) -> Tensor:
        """Return the probabilities T (n, k) of the balanced transport of samples to prototypes."""
        similarity = h @ prototypes.T
        plan = solve(similarity, epsilon=self.config.epsilon, prior_strength=math.inf)
        return plan.row_probabilities(similarity).to(h)
