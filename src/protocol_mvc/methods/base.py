"""What every method offers to the estimator."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.distributed import gather, world_size
from protocol_mvc.nn.network import Codes
from protocol_mvc.training import Stage


class Inferred(NamedTuple):
    """What a method says of samples, each on its own."""

    embedding: Tensor  # (n, V d) features of all views side by side
    log_proba: Tensor  # (n, k)


class Method(Protocol):
    """A torch module with stages to train and a way to infer."""

    def stages(self) -> list[Stage]:
        """The training, in order."""

    def infer(self, batch: Batch) -> Inferred:
        """Embedding and log-probabilities that depend on nothing but the sample itself."""

    def class_prior(self) -> Tensor:
        """The class frequencies (k,) that the method perceived."""

    def view_weights(self) -> Tensor:
        """The weight (V,) of each view; they sum to one."""


@torch.no_grad()
def infer_all(method: Method, source: Source, *, features: bool = True) -> Inferred:
    """Inference for every sample of a source, in order, on the cpu; without features if nobody needs them."""

    def infer(batch: Batch) -> Inferred:
        inferred = method.infer(batch)
        return inferred if features else inferred._replace(embedding=inferred.embedding[:, :0])

    return Inferred(*over_blocks(infer, source))


def over_blocks(function: Callable[[Batch], Sequence[Tensor]], source: Source) -> list[Tensor]:
    """What a function says of every sample; where work is shared, each process asks it of some of them."""
    parts = [[x.cpu() for x in function(batch)] for batch in source.blocks()]
    if not parts:  # more processes than blocks: this one can tell the shape and no more
        parts = [[x[:0].cpu() for x in function(source.take(torch.tensor([0])))]]
    whole = [torch.cat(column) for column in zip(*parts, strict=True)]
    return [(gather(x) if source.shared else x)[: len(source)] for x in whole]


def together(batch: Batch, codes: Codes) -> tuple[Batch, Codes]:
    """The batch of all processes, but for its views, and its codes; gradients find their way back."""
    if world_size() == 1:
        return batch, codes
    present = None if batch.present is None else gather(batch.present)
    gathered = Codes(*([gather(x) for x in part] for part in codes))
    return Batch([], gather(batch.rows), present), gathered
