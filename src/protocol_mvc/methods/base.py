"""What every method offers to the estimator."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from protocol_mvc.data.batches import Batch, Source
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
def infer_all(method: Method, source: Source) -> Inferred:
    """Inference for every sample of a source, in order, on the cpu."""
    parts = [method.infer(batch) for batch in source.blocks()]
    return Inferred(
        *(torch.cat([x.cpu() for x in column])[: len(source)] for column in zip(*parts, strict=True))
    )
