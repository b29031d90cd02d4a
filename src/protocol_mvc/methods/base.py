"""What every method offers to the estimator, and what most of them share."""

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

SHARPNESS = 10.0  # of the probabilities after K-means; labels do not depend on it


class AutoencoderConfig(Config):
    """The choices of a method that begins with one autoencoder per view."""

    hidden: tuple[PositiveInt, ...] = (500, 500, 2000)  #: encoder layers between input and latent
    latent: PositiveInt = 512  #: of the codes z^v
    feature: PositiveInt = 128  #: of the features h^v
    reconstruct_length: NonNegativeInt = 200  #: epochs
    rate: PositiveFloat = 3e-4  #: of learning
    kmeans_starts: PositiveInt = 100  #: of every K-means


class Inferred(NamedTuple):
    """What a method says of samples, each on its own."""

    embedding: Tensor  # (n, V d) features of all views side by side
    log_proba: Tensor  # (n, k)


class DeepMethod(nn.Module):
    """What every method offers to the estimator; the class sizes are read off the final predictions.

    A subclass gives `stages`, the last of which is `self.last_stage()`, and `infer`.
    """

    incomplete: ClassVar[bool] = False  # whether samples may lack views
    divisible: ClassVar[bool] = False  # whether several processes may share the work
    batch_size: ClassVar[int] = 256  # of training, unless the user says otherwise
    scaling: ClassVar[str] = "auto"  # of the views, likewise
    prior: Tensor

    def __init__(self, config: Any, dims: list[int], n_clusters: int) -> None:
        super().__init__()
        self.config, self.n_clusters, self.n_views = config, n_clusters, len(dims)
        self.register_buffer("prior", torch.empty(n_clusters))  # mean prediction

    def stages(self) -> list[Stage]:
        """The training, in order."""
        raise NotImplementedError

    def infer(self, batch: Batch) -> Inferred:
        """Embedding and log-probabilities that depend on nothing but the sample itself."""
        raise NotImplementedError

    def last_stage(self) -> Stage:
        """What ends every training."""
        return Stage("read out", on_start=self.read_out)

    def read_out(self, source: Source, generator: torch.Generator) -> None:
        """Settle what the final labels need."""
        self.prior.copy_(infer_all(self, source).log_proba.exp().mean(0))

    def class_prior(self) -> Tensor:
        """The class frequencies (k,): the mean prediction of the training samples."""
        return self.prior

    def view_weights(self) -> Tensor:
        """The weight (V,) of each view; they sum to one."""
        return self.prior.new_full((self.n_views,), 1 / self.n_views)


class CodeMethod(DeepMethod):
    """A method that begins with the reconstruction of every view; a subclass makes its `network`."""

    network: CodeNetwork

    def first_stage(self) -> Stage:
        """The autoencoders alone."""
        return Stage(
            "reconstruct", self.config.reconstruct_length, self.reconstruct, Optimizer(self.config.rate)
        )

    def reconstruct(self, batch: Batch, progress: float, context: Any) -> Losses:
        """The error of the reconstructions."""
        return reconstruction(batch, self.network.reconstruct(batch.views))

    def kmeans(self, x: Features, generator: torch.Generator, count: int = 0) -> Labels:
        """The group (n,) of every row; there are as many as clusters, unless a count is given."""
        seed, starts = draw_seed(generator), self.config.kmeans_starts
        return kmeans(x, count or self.n_clusters, seed, starts)


class LabelMethod(CodeMethod):
    """A method with a feature head and a label head that all views share."""

    def __init__(self, config: Any, dims: list[int], n_clusters: int, **heads: Any) -> None:
        super().__init__(config, dims, n_clusters)
        widths = (config.hidden, config.latent, config.feature)
        self.network = SharedHeads(dims, n_clusters, widths, **heads)

    def infer(self, batch: Batch) -> Inferred:
        """The features of the views that are there, and the mean of their predictions."""
        codes, here = self.network.encode(batch.views), batch.present
        return Inferred(concat_views(codes.h, here), log_mean(codes.logits, here))


class KMeansMethod(CodeMethod):
    """A method that ends with K-means on the features that `embed` gives."""

    centers: Tensor

    def __init__(self, config: Any, dims: list[int], n_clusters: int, width: int) -> None:
        super().__init__(config, dims, n_clusters)
        self.register_buffer("centers", torch.empty(n_clusters, width))

    def embed(self, batch: Batch) -> Tensor:
        """Features (n, width) of each sample on its own: those of all views side by side."""
        return torch.cat(self.network.encode(batch.views).h, dim=1)

    def infer(self, batch: Batch) -> Inferred:
        """The nearer a centre is, the likelier is its cluster."""
        x = self.embed(batch)
        return Inferred(x, log_assignment(x, self.centers, SHARPNESS))

    @torch.no_grad()
    def read_out(self, source: Source, generator: torch.Generator) -> None:
        """K-means of all samples."""
        x = infer_all(self, source).embedding
        label = torch.from_numpy(self.kmeans(x.numpy(), generator))
        self.centers.copy_(cluster_means(x, label, self.n_clusters))
        super().read_out(source, generator)


def require_complete_views(views: Views, method: type[Any], name: str) -> None:
    """Refuse samples that lack views, for methods that need them."""
    if not (views.is_complete or method.incomplete):
        raise ValueError(
            f"{name} needs all views of every sample, but {1 - views.mask.mean():.1%} are missing: "
            "leave those samples out, or use PROTOCOL or DSIMVC."
        )


def require_divisible(method: type[Any], name: str, batch: int) -> None:
    """Refuse to train in company, if the method or the size of its batches forbid it."""
    if world_size() > 1 and not method.divisible:
        raise ValueError(f"{name} is trained by one process, not by {world_size()}: PROTOCOL can share work.")
    if batch < 2 * world_size() and world_size() > 1:
        raise ValueError(
            f"{world_size()} processes cannot share batches of {batch} samples: start fewer processes, or "
            "raise batch_size."
        )


def infer_all(method: Any, source: Source, *, features: bool = True) -> Inferred:
    """Inference for every sample of a source, in order, on the cpu; without features if nobody needs them."""
    bare = lambda batch: (torch.empty(len(batch.rows), 0), method.infer(batch).log_proba)
    return Inferred(*map_batches(method, source, method.infer if features else bare))


@torch.no_grad()
def map_batches(module: nn.Module, source: Source, give: Callable[[Batch], Iterable[Tensor]]) -> list[Tensor]:
    """What a function gives of every sample of a source, in order, on the cpu.

    Where work is shared, each process asks it of some samples, and all get everything.
    """
    with evaluating(module):
        parts = [[x.cpu() for x in give(batch)] for batch in source.blocks()]
        if not parts:  # more processes than blocks: this one can tell the shape and no more
            parts = [[x[:0].cpu() for x in give(source.take(torch.tensor([0])))]]
    whole = [torch.cat(column) for column in zip(*parts, strict=True)]
    return [(all_gather(x) if source.shared else x)[: len(source)] for x in whole]


def reconstruction(batch: Batch, x_hat: list[Tensor]) -> Losses:
    """The mean squared error of every view (Eq. 26), over the samples that have it, in all processes."""
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
    """Every pair of views agrees on what each cluster is, and wishes for clusters of one size."""
    pairs = list(combinations(p, 2))
    if not pairs:
        return {}
    contrast = partial(class_contrast, temperature=temperature, own_negatives=own_negatives)
    return {
        "label": sum_of(contrast(*pair) for pair in pairs),
        "balance": balance_weight * sum_of(kl_to_uniform(a) + kl_to_uniform(b) for a, b in pairs),
    }


def concat_views(h: list[Tensor], present: Tensor | None) -> Tensor:
    """The features of all views (n, V d); an absent view is represented by the mean of the others."""
    x = torch.stack(h, dim=1)  # (n, V, d)
    if present is not None:
        here = present[:, :, None]
        x = torch.where(here, x, (x * here).sum(1, keepdim=True) / here.sum(1, keepdim=True))
    return x.flatten(1)


def log_mean(logits: list[Tensor], present: Tensor | None) -> Tensor:
    """Log of the mean of the predictions of the views that a sample has."""
    log_p = torch.stack(logits, dim=1).log_softmax(2)  # (n, V, k)
    here = torch.ones_like(log_p[:, :, 0]) if present is None else present.to(log_p)
    return torch.logsumexp(log_p + (here / here.sum(1, keepdim=True)).log()[:, :, None], dim=1)


def sum_of(terms: Iterable[Tensor]) -> Tensor:
    """The sum of scalar tensors."""
    return torch.stack(list(terms)).sum()
