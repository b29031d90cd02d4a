"""MFLVC (CVPR 2022): multi-level features, contrast of features and of labels, then k-means as teacher."""

from itertools import combinations

import numpy as np
import torch
from sklearn.preprocessing import minmax_scale
from torch import Tensor
from torch.nn import functional

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.contrastive import paired_contrast
from protocol_mvc.methods.autoencoder import AutoencoderConfig, LabelMethod, label_agreement
from protocol_mvc.methods.base import infer_all, map_batches, reconstruction, sum_of
from protocol_mvc.partition.consensus import relabel_to_match
from protocol_mvc.training.stage import Losses, Optimizer, Sampling, Stage
from protocol_mvc.utils.config import NonNegativeFloat, NonNegativeInt, PositiveFloat


class MflvcConfig(AutoencoderConfig):
    """Hyper-parameters of MFLVC; the defaults are the published values."""

    n_epochs_contrast: NonNegativeInt = 50  #: epochs of contrast
    n_steps_match: NonNegativeInt = 50  #: steps on all samples, each with the k-means labels matched again
    temperature_feature: PositiveFloat = 0.5  #: temperature of the contrast of features
    temperature_label: PositiveFloat = 1.0  #: temperature of the contrast of labels
    cluster_entropy_weight: NonNegativeFloat = 1.0  #: weight of the term that favours clusters of equal size
    double_softmax: bool = True  #: learn the k-means labels by softmax(softmax(logits)), as the released code


PRESETS = {"default": MflvcConfig()}


class Mflvc(LabelMethod):
    """Multi-level feature learning: features and labels of every view in spaces of their own."""

    def stages(self) -> list[Stage]:
        """Return the stages: reconstruct, contrast, learn the k-means labels; Adam is never reset."""
        c = self.config
        adam = Optimizer(c.lr, reset="never")
        match = Stage("match", c.n_steps_match, self.match, adam, Sampling(full_batch=True))
        return [
            self.reconstruction_stage(),
            Stage("contrast", c.n_epochs_contrast, self.contrast, adam),
            match._replace(on_start=self.kmeans_labels, on_epoch_start=self.matched_labels),
            self.last_stage(),
        ]

    def contrast(self, batch: Batch, progress: float, context: None) -> Losses:
        """Return the contrast of features and of labels of all pairs of views, and the reconstruction."""
        c = self.config
        outputs, x_hat = self.network(batch.views)
        p, pairs = [x.softmax(1) for x in outputs.logits], list(combinations(outputs.h, 2))
        losses = label_agreement(p, c.temperature_label, c.cluster_entropy_weight)
        if pairs:
            losses["feature"] = sum_of(paired_contrast(*h, temperature=c.temperature_feature) for h in pairs)
        return losses | reconstruction(batch, x_hat)

    def kmeans_labels(self, source: Source, generator: torch.Generator) -> Tensor:
        """Return the k-means labels (n, V) of the features of each view, with columns scaled to [0, 1]."""
        features = np.split(infer_all(self, source).embedding.numpy(), self.n_views, axis=1)
        found = [self.kmeans(minmax_scale(h), generator) for h in features]
        return torch.from_numpy(np.stack(found, axis=1))

    def matched_labels(
        self, source: Source, generator: torch.Generator, progress: float, labels: Tensor
    ) -> Tensor:
        """Return the k-means labels (n, V), renumbered to agree best with the predictions of each view."""
        logits = map_batches(self, source, lambda batch: self.network.encode(batch.views).logits)
        pairs = zip(labels.numpy().T, (x.argmax(1).numpy() for x in logits), strict=True)
        return torch.from_numpy(np.stack([relabel_to_match(*pair, self.n_clusters) for pair in pairs], 1))

    def match(self, batch: Batch, progress: float, labels: Tensor) -> Losses:
        """Return the cross-entropy of the predictions of each view with the matched k-means labels."""
        logits = self.network.encode(batch.views).logits
        if self.config.double_softmax:
            logits = [x.softmax(1) for x in logits]
        target = labels[batch.rows].to(logits[0].device)
        return {"matched": sum_of(functional.cross_entropy(x, target[:, v]) for v, x in enumerate(logits))}
