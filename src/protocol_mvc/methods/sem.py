"""SEM: two views are contrasted the more, the better their clusterings agree."""

from functools import partial
from itertools import combinations_with_replacement
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.contrastive import paired_contrast
from protocol_mvc.losses.divergence import jensen_shannon, mean_discrepancy
from protocol_mvc.losses.pairwise import robust_contrast, spectral_contrast
from protocol_mvc.methods import base
from protocol_mvc.methods.base import map_batches, sum_of
from protocol_mvc.nn.network import CodeNetwork, Codes
from protocol_mvc.partition import consensus
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.utils.config import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

MOST_ROWS = 2000  # for the discrepancy, which looks at all pairs of them
MASKED = 0.3  # share of the entries that a masked view lacks

Context = tuple[Tensor, torch.Generator]  # the weights (V, V) of pairs of views; for the noise


class SemConfig(base.AutoencoderConfig):
    """Every choice of SEM; the defaults are the published values."""

    reconstruct_length: NonNegativeInt = 100  #: epochs
    contrast_length: NonNegativeInt = 100  #: epochs of every round
    rounds: NonNegativeInt = 4  #: each begins with new weights of the pairs of views
    contrast: Literal["infonce", "spectral", "robust"] = "infonce"  #: InfoNCE, PSCL or RINCE
    temperature: PositiveFloat = 1.0  #: of InfoNCE
    measure: Literal["nmi", "jsd", "mmd"] = "nmi"  #: of the agreement of two views
    groups_per_cluster: PositiveInt = 1  #: K-means groups that the NMI compares, for each cluster
    corrupt: Literal["nothing", "noise", "mask"] = "nothing"  #: what views go through before reconstruction
    reconstruction_weight: NonNegativeFloat = 1.0


PRESETS = {"default": SemConfig()}


class OwnHeads(CodeNetwork):
    """Autoencoders and a feature head for each view."""

    def __init__(self, config: SemConfig, dims: list[int]) -> None:
        super().__init__(dims, config.hidden, config.latent)
        self.project = nn.ModuleList(nn.Linear(config.latent, config.feature) for _ in dims)

    def codes(self, z: list[Tensor]) -> Codes:
        """Features of every view; there are no logits."""
        return Codes(z, [functional.normalize(f(x)) for f, x in zip(self.project, z, strict=True)], [])


class Sem(base.KMeansMethod):
    """Self-weighted multi-view contrast with reconstruction."""

    def __init__(self, config: SemConfig, dims: list[int], n_clusters: int) -> None:
        super().__init__(config, dims, n_clusters, config.feature * len(dims))
        self.network = OwnHeads(config, dims)

    def stages(self) -> list[Stage]:
        """Reconstruct, then rounds of contrast; Adam forgets its moments after every epoch of these."""
        c = self.config
        context = lambda source, generator, progress, weights: (weights, generator)
        contrast = Stage("contrast", c.contrast_length, self.contrast, Optimizer(c.rate, reset="epoch"))
        contrast = contrast._replace(on_epoch_start=context)
        begins = [partial(self.weigh, number=i) for i in range(c.rounds)]
        rounds = [
            contrast._replace(name=f"contrast {i + 1}", on_start=begin) for i, begin in enumerate(begins)
        ]
        return [self.first_stage()._replace(on_epoch_start=context), *rounds, self.last_stage()]

    @torch.no_grad()
    def weigh(self, source: Source, generator: torch.Generator, number: int = 0) -> Tensor:
        """W (V, V): exp(NMI) - 1, exp(1 - JSD) - 1 or exp(-MMD) of every two views, by codes at first."""
        encode = self.network.encode
        give = lambda batch: encode(batch.views).h if number else encode(batch.views).z
        features, c = map_batches(self, source, give), self.config
        if c.measure == "nmi":
            k = min(c.groups_per_cluster * self.n_clusters, len(source))
            groups = [self.kmeans(x.numpy(), generator, k) for x in features]
            return torch.from_numpy(consensus.pairwise_nmi(groups)).float().expm1()
        rows = torch.randperm(len(source), generator=generator)[: MOST_ROWS if c.measure == "mmd" else None]
        apart = jensen_shannon if c.measure == "jsd" else mean_discrepancy
        distance = torch.stack([torch.stack([apart(a[rows], b[rows]) for b in features]) for a in features])
        return (1 - distance).expm1() if c.measure == "jsd" else (-distance).exp()

    def reconstruct(self, batch: Batch, progress: float, context: Context) -> Losses:
        """The clean views from what they were made into."""
        given = self._corrupted(batch.views, context[1])
        return base.reconstruction(batch, self.network.reconstruct(given))

    def contrast(self, batch: Batch, progress: float, context: Context) -> Losses:
        """All ordered pairs of views, a view with itself among them, by their weights."""
        c, weights = self.config, context[0]
        codes, x_hat = self.network(batch.views)
        pairs = combinations_with_replacement(range(self.n_views), 2)  # the loss is symmetric
        feature = sum_of(
            (1 + (v != w)) * weights[v, w] * self._pair(codes.h[v], codes.h[w]) for v, w in pairs
        )
        clean = c.corrupt == "nothing"
        error = base.reconstruction(batch, x_hat) if clean else self.reconstruct(batch, progress, context)
        return {"feature": feature, "reconstruction": c.reconstruction_weight * error["reconstruction"]}

    def _pair(self, a: Tensor, b: Tensor) -> Tensor:
        if self.config.contrast == "spectral":
            return spectral_contrast(a, b).sum()
        if self.config.contrast == "robust":
            return robust_contrast(a, b)
        return paired_contrast(a, b, temperature=self.config.temperature)

    def _corrupted(self, views: list[Tensor], generator: torch.Generator) -> list[Tensor]:
        """The views with noise of unit variance, or without some of their entries."""
        if self.config.corrupt == "nothing":
            return views
        if self.config.corrupt == "noise":
            return [x + torch.randn(x.shape, generator=generator).to(x) for x in views]
        return [x * (torch.rand(x.shape, generator=generator) >= MASKED).to(x) for x in views]
