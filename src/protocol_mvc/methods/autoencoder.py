"""Shared parts of the methods with one autoencoder per view: MFLVC, GCFAggMVC, SEM, CSOT and DSIMVC."""

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.clustering import kl_to_uniform
from protocol_mvc.losses.contrastive import class_contrast
from protocol_mvc.methods.base import (
    DeepMethod,
    Inferred,
    concat_views,
    infer_all,
    log_mean,
    reconstruction,
    sum_of,
)
from protocol_mvc.nn.layers import cluster_means, log_assignment, mlp
from protocol_mvc.nn.network import MultiViewAutoencoder, ViewOutputs
from protocol_mvc.partition.graphs import Features, Labels, kmeans
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.utils.config import Config, LayerSizes, NonNegativeInt, PositiveFloat, PositiveInt
from protocol_mvc.utils.random import draw_seed

KMEANS_LOGIT_SCALE = 10.0  # of the probabilities after k-means; labels do not depend on it


class AutoencoderConfig(Config):
    """Hyper-parameters of a method that starts with one autoencoder per view."""

    hidden_dims: LayerSizes = (500, 500, 2000)  #: encoder layers between input and latent code
    latent_dim: PositiveInt = 512  #: dimension of the latent codes z^v
    feature_dim: PositiveInt = 128  #: dimension of the features h^v
    n_epochs_reconstruct: NonNegativeInt = 200  #: epochs of reconstruction
    lr: PositiveFloat = 3e-4  #: learning rate
    kmeans_n_init: PositiveInt = 100  #: initializations of every k-means


class SharedHeadsNetwork(MultiViewAutoencoder):
    """Autoencoders with one projection head and one classifier on z^v, both shared by all views.

    Args:
        config: hyper-parameters.
        dims: number of features of each view.
        n_clusters: outputs of the classifier.
        head_hidden_dims: widths of hidden layers in both heads.
        normalize: whether the rows of h^v have unit norm.
    """

    def __init__(
        self,
        config: AutoencoderConfig,
        dims: list[int],
        n_clusters: int,
        *,
        head_hidden_dims: Sequence[int] = (),
        normalize: bool = True,
    ) -> None:
        super().__init__(dims, config.hidden_dims, config.latent_dim)
        self.project = mlp([config.latent_dim, *head_hidden_dims, config.feature_dim])
        self.classifier = mlp([config.latent_dim, *head_hidden_dims, n_clusters])
        self.normalize = normalize

    def view_outputs(self, z: list[Tensor]) -> ViewOutputs:
        """Return projections and logits of each view."""
        h = [functional.normalize(self.project(x)) if self.normalize else self.project(x) for x in z]
        return ViewOutputs(z, h, [self.classifier(x) for x in z])


class AutoencoderMethod(DeepMethod):
    """A method whose first stage trains the autoencoders; a subclass sets `network`."""

    network: MultiViewAutoencoder

    def reconstruction_stage(self) -> Stage:
        """Return the stage that trains the autoencoders alone."""
        c = self.config
        return Stage("reconstruct", c.n_epochs_reconstruct, self.reconstruct, Optimizer(c.lr))

    def reconstruct(self, batch: Batch, progress: float, context: Any) -> Losses:
        """Return the reconstruction error."""
        return reconstruction(batch, self.network.reconstruct(batch.views))

    def kmeans(self, x: Features, generator: torch.Generator) -> Labels:
        """Return the cluster (n,) of every row of x (n, d)."""
        return kmeans(x, self.n_clusters, draw_seed(generator), self.config.kmeans_n_init)


class LabelMethod(AutoencoderMethod):
    """A method whose labels are the mean prediction of a classifier shared by all views."""

    def __init__(self, config: Any, dims: list[int], n_clusters: int, **heads: Any) -> None:
        super().__init__(config, dims, n_clusters)
        self.network = SharedHeadsNetwork(config, dims, n_clusters, **heads)

    def infer(self, batch: Batch) -> Inferred:
        """Return the features of all views, and the mean prediction of the views that a sample has."""
        outputs = self.network.encode(batch.views)
        return Inferred(concat_views(outputs.h, batch.present), log_mean(outputs.logits, batch.present))


class KMeansMethod(AutoencoderMethod):
    """A method whose labels are those of k-means on the features (n, width) of `embed`."""

    centers: Tensor

    def __init__(self, config: Any, dims: list[int], n_clusters: int, width: int) -> None:
        super().__init__(config, dims, n_clusters)
        self.register_buffer("centers", torch.empty(n_clusters, width))

    def embed(self, batch: Batch) -> Tensor:
        """Return the features (n, width) of each sample: those of all views, concatenated."""
        return torch.cat(self.network.encode(batch.views).h, dim=1)

    def infer(self, batch: Batch) -> Inferred:
        """Return the features, and probabilities by the distances to the centroids."""
        x = self.embed(batch)
        return Inferred(x, log_assignment(x, self.centers, KMEANS_LOGIT_SCALE))

    @torch.no_grad()
    def read_out(self, source: Source, generator: torch.Generator) -> None:
        """Run k-means on the features of all samples and store the centroids."""
        x = infer_all(self, source).embedding
        labels = torch.from_numpy(self.kmeans(x.numpy(), generator))
        self.centers.copy_(cluster_means(x, labels, self.n_clusters))
        super().read_out(source, generator)


def label_agreement(
    p: list[Tensor], temperature: float, cluster_entropy_weight: float, *, own_negatives: bool = False
) -> Losses:
    """Return the contrast of the clusters of all pairs of views, and how far their sizes are from uniform.

    Args:
        p: predictions (n, k) of each view.
        temperature: temperature of the contrast.
        cluster_entropy_weight: weight of the divergence.
        own_negatives: as in `class_contrast`.

    Returns:
        The terms "label" and "balance"; no terms for a single view.
    """
    pairs = list(combinations(p, 2))
    if not pairs:
        return {}
    contrast = partial(class_contrast, temperature=temperature, own_negatives=own_negatives)
    return {
        "label": sum_of(contrast(*pair) for pair in pairs),
        "balance": cluster_entropy_weight * sum_of(kl_to_uniform(a) + kl_to_uniform(b) for a, b in pairs),
    }
