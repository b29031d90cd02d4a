"""MFLVC: multi-level feature learning, contrast of features and of labels, then K-means as a teacher."""

from itertools import combinations

import numpy as np
import torch
from sklearn.preprocessing import minmax_scale
from torch import Tensor
from torch.nn import functional

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.contrastive import paired_contrast
from protocol_mvc.methods import base
from protocol_mvc.methods.base import map_batches, sum_of
from protocol_mvc.partition import consensus
from protocol_mvc.training.stage import Losses, Optimizer, Sampling, Stage
from protocol_mvc.utils.config import NonNegativeFloat, NonNegativeInt, PositiveFloat


class MflvcConfig(base.AutoencoderConfig):
    """Every choice of MFLVC; the defaults are the published values."""

    contrast_length: NonNegativeInt = 50  #: epochs
    match_length: NonNegativeInt = 50  #: steps on all samples, each with labels matched anew
    temperature_feature: PositiveFloat = 0.5
    temperature_label: PositiveFloat = 1.0
    balance_weight: NonNegativeFloat = 1.0  #: of the wish for clusters of one size
    double_softmax: bool = True  #: the K-means labels are learned by softmax(softmax(logits)), as released


PRESETS = {"default": MflvcConfig()}


class Mflvc(base.LabelMethod):
    """Features and labels of every view in spaces of their own, on top of its codes."""

    def stages(self) -> list[Stage]:
        """Reconstruct, contrast, and learn what K-means finds in the features; one Adam for all."""
        c = self.config
        adam = Optimizer(c.rate, reset="never")
        match = Stage("match", c.match_length, self.learn, adam, Sampling(full_batch=True))
        return [
            self.first_stage(),
            Stage("contrast", c.contrast_length, self.contrast, adam),
            match._replace(on_start=self.group, on_epoch_start=self.match),
            self.last_stage(),
        ]

    def contrast(self, batch: Batch, progress: float, context: None) -> Losses:
        """Every pair of views agrees on features and labels, beside the reconstruction."""
        c = self.config
        codes, x_hat = self.network(batch.views)
        p, pairs = [x.softmax(1) for x in codes.logits], list(combinations(codes.h, 2))
        losses = base.label_agreement(p, c.temperature_label, c.balance_weight)
        if pairs:
            losses["feature"] = sum_of(paired_contrast(*h, temperature=c.temperature_feature) for h in pairs)
        return losses | base.reconstruction(batch, x_hat)

    def group(self, source: Source, generator: torch.Generator) -> Tensor:
        """K-means of the features of each view, columns scaled to [0, 1]: (n, V), found once."""
        features = np.split(base.infer_all(self, source).embedding.numpy(), self.n_views, axis=1)
        found = [self.kmeans(minmax_scale(h), generator) for h in features]
        return torch.from_numpy(np.stack(found, axis=1))

    def match(self, source: Source, generator: torch.Generator, progress: float, groups: Tensor) -> Tensor:
        """The groups under the names, one for each, that agree most with the label head: (n, V)."""
        logits = map_batches(self, source, lambda batch: self.network.encode(batch.views).logits)
        named = zip(groups.numpy().T, (x.argmax(1).numpy() for x in logits), strict=True)
        return torch.from_numpy(
            np.stack([consensus.relabel_to_match(*pair, self.n_clusters) for pair in named], 1)
        )

    def learn(self, batch: Batch, progress: float, labels: Tensor) -> Losses:
        """The label head learns the matched groups."""
        logits = self.network.encode(batch.views).logits
        if self.config.double_softmax:
            logits = [x.softmax(1) for x in logits]
        target = labels[batch.rows].to(logits[0].device)
        return {"matched": sum_of(functional.cross_entropy(x, target[:, v]) for v, x in enumerate(logits))}
