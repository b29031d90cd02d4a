"""SEM (NeurIPS 2023): contrast between pairs of views, weighted by the agreement of their clusterings."""

from functools import partial
from itertools import combinations_with_replacement

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.contrastive import paired_contrast
from protocol_mvc.methods.autoencoder import AutoencoderConfig, KMeansMethod
from protocol_mvc.methods.base import map_batches, reconstruction, sum_of
from protocol_mvc.nn.network import MultiViewAutoencoder, ViewOutputs
from protocol_mvc.partition.consensus import pairwise_nmi
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.utils.config import NonNegativeFloat, NonNegativeInt, PositiveFloat


class SemConfig(AutoencoderConfig):
    """Hyper-parameters of SEM; the defaults are the published values."""

    n_epochs_reconstruct: NonNegativeInt = 100  #: epochs of reconstruction
    n_epochs_contrast: NonNegativeInt = 100  #: epochs of every round of contrast
    n_rounds: NonNegativeInt = 4  #: rounds of contrast, each with new weights of the pairs of views
    temperature: PositiveFloat = 1.0  #: temperature of the contrast
    reconstruction_weight: NonNegativeFloat = 1.0  #: weight of the reconstruction during contrast


PRESETS = {"default": SemConfig()}


class SemNetwork(MultiViewAutoencoder):
    """Autoencoders with a projection head of its own for each view."""

    def __init__(self, config: SemConfig, dims: list[int]) -> None:
        super().__init__(dims, config.hidden_dims, config.latent_dim)
        self.project = nn.ModuleList(nn.Linear(config.latent_dim, config.feature_dim) for _ in dims)

    def view_outputs(self, z: list[Tensor]) -> ViewOutputs:
        """Return the projections of each view; there are no logits."""
        h = [functional.normalize(f(x)) for f, x in zip(self.project, z, strict=True)]
        return ViewOutputs(z, h, [])


class Sem(KMeansMethod):
    """Self-weighted multi-view contrastive learning with reconstruction regularization."""

    def __init__(self, config: SemConfig, dims: list[int], n_clusters: int) -> None:
        super().__init__(config, dims, n_clusters, config.feature_dim * len(dims))
        self.network = SemNetwork(config, dims)

    def stages(self) -> list[Stage]:
        """Return the stages: reconstruction, rounds of contrast (Adam is reset in every epoch), k-means."""
        c = self.config
        stage = Stage("contrast", c.n_epochs_contrast, self.contrast, Optimizer(c.lr, reset="epoch"))
        starts = [partial(self.pair_weights, features="h" if i else "z") for i in range(c.n_rounds)]
        rounds = [stage._replace(name=f"contrast {i}", on_start=f) for i, f in enumerate(starts, 1)]
        return [self.reconstruction_stage(), *rounds, self.last_stage()]

    @torch.no_grad()
    def pair_weights(self, source: Source, generator: torch.Generator, *, features: str) -> Tensor:
        """Return the weights exp(NMI) - 1 (V, V) of all pairs of views.

        The NMI is that of k-means clusterings of the views' latent codes (features "z") or projections ("h").
        """
        encode = lambda batch: getattr(self.network.encode(batch.views), features)
        labels = [self.kmeans(x.numpy(), generator) for x in map_batches(self, source, encode)]
        return torch.from_numpy(pairwise_nmi(labels)).float().expm1()

    def contrast(self, batch: Batch, progress: float, weights: Tensor) -> Losses:
        """Return the weighted contrast of all ordered pairs of views, including each with itself."""
        c = self.config
        outputs, x_hat = self.network(batch.views)
        h = outputs.h
        contrast = partial(paired_contrast, temperature=c.temperature)
        pairs = combinations_with_replacement(range(self.n_views), 2)  # the contrast is symmetric
        feature = sum_of((1 + (v != w)) * weights[v, w] * contrast(h[v], h[w]) for v, w in pairs)
        error = reconstruction(batch, x_hat)["reconstruction"]
        return {"feature": feature, "reconstruction": c.reconstruction_weight * error}
