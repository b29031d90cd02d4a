"""Base classes of the methods, and functions that several methods use."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.data.views import Views
from protocol_mvc.losses.clustering import kl_to_uniform
from protocol_mvc.losses.contrastive import class_contrast
from protocol_mvc.losses.reconstruction import squared_error
from protocol_mvc.nn.heads import cluster_means, log_assignment
from protocol_mvc.nn.network import CodeNetwork, SharedHeads, rows_of
from protocol_mvc.nn.seeded import evaluating
from protocol_mvc.partition.candidates import Features, Labels, kmeans
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.utils.config import Config, NonNegativeInt, PositiveFloat, PositiveInt
from protocol_mvc.utils.distributed import all_gather, shard_weight, world_size
from protocol_mvc.utils.random import draw_seed

KMEANS_LOGIT_SCALE = 10.0  # of the probabilities after K-means; labels do not depend on it


class AutoencoderConfig(Config):
    """Fields of methods that start with one autoencoder per view."""

    hidden: tuple[PositiveInt, ...] = (500, 500, 2000)  #: encoder layers between input and latent
    latent: PositiveInt = 512  #: of the codes z^v
    feature: PositiveInt = 128  #: of the features h^v
    reconstruct_length: NonNegativeInt = 200  #: epochs
    rate: PositiveFloat = 3e-4  #: of learning
    kmeans_starts: PositiveInt = 100  #: of every K-means


class Inferred(NamedTuple):
    """Results of inference; those of a sample do not depend on the other samples."""

    embedding: Tensor  # (n, d)
    log_proba: Tensor  # (n, k)


class DeepMethod(nn.Module):
    """Base class of all methods.

    A subclass implements `stages`, the last of which is `self.last_stage()`, and `infer`.

    Attributes:
        incomplete: whether samples may lack views.
        divisible: whether several processes can train together.
        batch_size: what ``batch_size="auto"`` means.
        scaling: what ``scaling="auto"`` means.
        prior: class frequencies (K,), the mean prediction of the training samples.
    """

    incomplete: ClassVar[bool] = False
    divisible: ClassVar[bool] = False
    batch_size: ClassVar[int] = 256
    scaling: ClassVar[str] = "auto"
    prior: Tensor

    def __init__(self, config: Any, dims: list[int], n_clusters: int) -> None:
        super().__init__()
        self.config, self.n_clusters, self.n_views = config, n_clusters, len(dims)
        self.register_buffer("prior", torch.empty(n_clusters))

    def stages(self) -> list[Stage]:
        """Return the stages of the training."""
        raise NotImplementedError

    def infer(self, batch: Batch) -> Inferred:
        """Return embedding and log-probabilities of each sample, independent of the rest of the batch."""
        raise NotImplementedError

    def last_stage(self) -> Stage:
        """Return the stage that ends every training."""
        return Stage("read out", on_start=self.read_out)

    def read_out(self, source: Source, generator: torch.Generator) -> None:
        """Compute what the final labels need, after the last epoch."""
        self.prior.copy_(infer_all(self, source).log_proba.exp().mean(0))

    def class_prior(self) -> Tensor:
        """Return the class frequencies (K,)."""
        return self.prior

    def view_weights(self) -> Tensor:
        """Return the weight of each view (V,); they sum to one."""
        return self.prior.new_full((self.n_views,), 1 / self.n_views)


class CodeMethod(DeepMethod):
    """A method that starts with the reconstruction of every view; a subclass creates its `network`."""

    network: CodeNetwork

    def first_stage(self) -> Stage:
        """Return the stage that trains the autoencoders."""
        return Stage(
            "reconstruct", self.config.reconstruct_length, self.reconstruct, Optimizer(self.config.rate)
        )

    def reconstruct(self, batch: Batch, progress: float, context: Any) -> Losses:
        """Return the reconstruction loss."""
        return reconstruction(batch, self.network.reconstruct(batch.views))

    def kmeans(self, x: Features, generator: torch.Generator, count: int = 0) -> Labels:
        """Return the labels of K-means (n,) with K clusters, or with `count` clusters if it is given."""
        seed, starts = draw_seed(generator), self.config.kmeans_starts
        return kmeans(x, count or self.n_clusters, seed, starts)


class LabelMethod(CodeMethod):
    """A method with a feature head and a label head that are shared by all views."""

    def __init__(self, config: Any, dims: list[int], n_clusters: int, **heads: Any) -> None:
        super().__init__(config, dims, n_clusters)
        widths = (config.hidden, config.latent, config.feature)
        self.network = SharedHeads(dims, n_clusters, widths, **heads)

    def infer(self, batch: Batch) -> Inferred:
        """Return the features of all views, and the mean prediction of the present ones."""
        codes, here = self.network.encode(batch.views), batch.present
        return Inferred(concat_views(codes.h, here), log_mean(codes.logits, here))


class KMeansMethod(CodeMethod):
    """A method that ends with K-means on the features of `embed`."""

    centers: Tensor

    def __init__(self, config: Any, dims: list[int], n_clusters: int, width: int) -> None:
        super().__init__(config, dims, n_clusters)
        self.register_buffer("centers", torch.empty(n_clusters, width))

    def embed(self, batch: Batch) -> Tensor:
        """Return the features (n, d) of each sample: those of all views side by side."""
        return torch.cat(self.network.encode(batch.views).h, dim=1)

    def infer(self, batch: Batch) -> Inferred:
        """Return the features, and log-probabilities that fall with the distance to the centres."""
        x = self.embed(batch)
        return Inferred(x, log_assignment(x, self.centers, KMEANS_LOGIT_SCALE))

    @torch.no_grad()
    def read_out(self, source: Source, generator: torch.Generator) -> None:
        """Run K-means on all samples."""
        x = infer_all(self, source).embedding
        label = torch.from_numpy(self.kmeans(x.numpy(), generator))
        self.centers.copy_(cluster_means(x, label, self.n_clusters))
        super().read_out(source, generator)


def require_complete_views(views: Views, method: type[Any], name: str) -> None:
    """Raise ValueError if samples lack views and the method needs all of them."""
    if not (views.is_complete or method.incomplete):
        raise ValueError(
            f"{name} needs all views of every sample, but {1 - views.mask.mean():.1%} are missing: "
            "drop those samples, or use PROTOCOL or DSIMVC"
        )


def require_divisible(method: type[Any], name: str, batch: int) -> None:
    """Raise ValueError if several processes cannot train this method with this batch size."""
    if world_size() > 1 and not method.divisible:
        raise ValueError(f"{name} needs a single process, but there are {world_size()}: use PROTOCOL")
    if batch < 2 * world_size() and world_size() > 1:
        raise ValueError(
            f"{world_size()} processes cannot share batches of {batch} samples: start fewer processes, or "
            "increase batch_size"
        )


def infer_all(method: Any, source: Source, *, features: bool = True) -> Inferred:
    """Run inference on every sample of a source, in order; `features=False` leaves the embedding empty."""
    bare = lambda batch: (torch.empty(len(batch.rows), 0), method.infer(batch).log_proba)
    return Inferred(*map_batches(method, source, method.infer if features else bare))


@torch.no_grad()
def map_batches(module: nn.Module, source: Source, give: Callable[[Batch], Iterable[Tensor]]) -> list[Tensor]:
    """Apply a function to all batches and return its results for every sample, in order, on the CPU.

    With several processes, each handles a part of the batches, and all get the whole result.
    """
    with evaluating(module):
        parts = [[x.cpu() for x in give(batch)] for batch in source.blocks()]
        if not parts:  # more processes than blocks: only the shape is needed
            parts = [[x[:0].cpu() for x in give(source.take(torch.tensor([0])))]]
    whole = [torch.cat(column) for column in zip(*parts, strict=True)]
    return [(all_gather(x) if source.shared else x)[: len(source)] for x in whole]


def reconstruction(batch: Batch, x_hat: list[Tensor]) -> Losses:
    """Return the sum over views of the mean squared error of the present samples (Eq. 26)."""
    views = rows_of(batch.present, len(x_hat))
    errors = {v: squared_error(batch.views[v][rows], x_hat[v][rows]) for v, rows in views}
    if world_size() > 1:
        here = torch.ones_like(x_hat[0][:, :1]) if batch.present is None else batch.present.float()
        weight = shard_weight(here.sum(0).expand(len(x_hat)))
        errors = {v: weight[v] * error for v, error in errors.items()}
    return {"reconstruction": sum_of(errors.values())}


def label_agreement(
    p: list[Tensor], temperature: float, balance_weight: float, *, own_negatives: bool = False
) -> Losses:
    """Return the class-level contrastive loss of all pairs of views, and the KL of their sizes to uniform."""
    pairs = list(combinations(p, 2))
    if not pairs:
        return {}
    contrast = partial(class_contrast, temperature=temperature, own_negatives=own_negatives)
    return {
        "label": sum_of(contrast(*pair) for pair in pairs),
        "balance": balance_weight * sum_of(kl_to_uniform(a) + kl_to_uniform(b) for a, b in pairs),
    }


def concat_views(h: list[Tensor], present: Tensor | None) -> Tensor:
    """Return the features of all views side by side (n, V d); absent views are the mean of the others."""
    x = torch.stack(h, dim=1)  # (n, V, d)
    if present is not None:
        here = present[:, :, None]
        x = torch.where(here, x, (x * here).sum(1, keepdim=True) / here.sum(1, keepdim=True))
    return x.flatten(1)


def log_mean(logits: list[Tensor], present: Tensor | None) -> Tensor:
    """Return the log of the mean prediction of the views that a sample has (n, K)."""
    log_p = torch.stack(logits, dim=1).log_softmax(2)  # (n, V, k)
    here = torch.ones_like(log_p[:, :, 0]) if present is None else present.to(log_p)
    return torch.logsumexp(log_p + (here / here.sum(1, keepdim=True)).log()[:, :, None], dim=1)


def sum_of(terms: Iterable[Tensor]) -> Tensor:
    """Return the sum of scalar tensors."""
    return torch.stack(list(terms)).sum()
