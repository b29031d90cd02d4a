"""Base classes of the methods, and functions that several methods use."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.data.batches import BLOCK, Batch, Source
from protocol_mvc.data.views import Views
from protocol_mvc.nn.network import present_rows
from protocol_mvc.nn.seeded import evaluating
from protocol_mvc.training.stage import Losses, Stage
from protocol_mvc.utils.distributed import all_gather, shard_weight, world_size


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
    whole: list[Tensor] = []  # allocated once: parts that are joined at the end would take twice the memory
    with evaluating(module):
        for i, batch in enumerate(source.blocks()):
            parts = [x.cpu() for x in give(batch)]
            whole = whole or [x.new_empty((source.n_blocks * BLOCK, *x.shape[1:])) for x in parts]
            for column, x in zip(whole, parts, strict=True):
                column[i * BLOCK : (i + 1) * BLOCK] = x
        if not whole:  # more processes than blocks: only the shape is needed
            whole = [x[:0].cpu() for x in give(source.take(torch.tensor([0])))]
    return [(all_gather(x) if source.shared else x)[: len(source)] for x in whole]


def reconstruction(batch: Batch, x_hat: list[Tensor]) -> Losses:
    """Return the sum over views of the mean squared error of the present samples (Eq. 26)."""
    views = present_rows(batch.present, len(x_hat))
    errors = {v: functional.mse_loss(x_hat[v][rows], batch.views[v][rows]) for v, rows in views}
    if world_size() > 1:
        here = torch.ones_like(x_hat[0][:, :1]) if batch.present is None else batch.present.float()
        weight = shard_weight(here.sum(0).expand(len(x_hat)))
        errors = {v: weight[v] * error for v, error in errors.items()}
    return {"reconstruction": sum_of(errors.values())}


def concat_views(h: list[Tensor], present: Tensor | None) -> Tensor:
    """Return the features of all views side by side (n, V d); absent views are the mean of the others."""
    x = torch.stack(h, dim=1)  # (n, V, d)
    if present is not None:
        x = torch.where(present[:, :, None], x, view_mean(x, present)[:, None])
    return x.flatten(1)


def view_mean(x: Tensor, present: Tensor | None) -> Tensor:
    """Return the mean (n, d) of the features x (n, V, d) of the views that a sample has."""
    if present is None:
        return x.mean(1)
    here = present[:, :, None]
    return (x * here).sum(1) / here.sum(1)


def log_mean(logits: list[Tensor], present: Tensor | None) -> Tensor:
    """Return the log of the mean prediction of the views that a sample has (n, K)."""
    log_p = torch.stack(logits, dim=1).log_softmax(2)  # (n, V, k)
    here = torch.ones_like(log_p[:, :, 0]) if present is None else present.to(log_p)
    return torch.logsumexp(log_p + (here / here.sum(1, keepdim=True)).log()[:, :, None], dim=1)


def sum_of(terms: Iterable[Tensor]) -> Tensor:
    """Return the sum of scalar tensors."""
    return torch.stack(list(terms)).sum()
