"""What a training is told, and what it tells: stages, records of epochs, and states to go on from."""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.training.snapshot import Tensors

Losses = dict[str, Tensor]
Step = Callable[[Batch, float, Any], Losses]
Begun = Tensor | bool | None
Prepare = Callable[[Source, torch.Generator, float, Any], Any]
Monitor = Callable[[Source, torch.Generator], float]


class Stage(NamedTuple):
    """A part of the training: what happens before it, before every epoch, and for every batch."""

    name: str
    epochs: int = 0
    step: Step | None = None  # (batch, progress, context) -> loss terms by name
    learning_rate: float = 1e-3
    begin: Callable[[Source, torch.Generator], Begun] | None = None  # once, first; False leaves it out
    # before every epoch, with what `begin` returned; gives the context, or False to end it (without monitor)
    prepare: Prepare | None = None
    least_steps: int = 1  # in an epoch, which then sees small data several times
    most_steps: int | None = None  # in an epoch, which then sees a random part of large data
    most_rows: int | None = None  # of large data; the stage works on a random part of them
    clip: float | None = None  # largest norm of the gradient of a step
    monitor: Monitor | None = None  # the stage ends with the weights of its least value
    every: int | None = None  # epochs between two values of the monitor; there is one at the end anyway
    anew: bool = False  # begins with new weights, whatever became of the stages before it
    whole: bool = False  # an epoch is one step on all samples, its gradient added up over the batches
    adam: Literal["fresh", "kept", "renewed"] = "fresh"  # kept from the stage before; renewed after an epoch

    def batches(self, source: Source, generator: torch.Generator) -> Iterator[Batch]:
        """Those of one epoch: whole passes over the data until there are enough, cut where there are."""
        passes = -(-self.least_steps // source.n_batches)
        every = chain.from_iterable(source.shuffled(generator) for _ in range(passes))
        return islice(every, self.most_steps)

    def is_watched(self, epoch: int) -> bool:
        """Whether the monitor looks after this epoch."""
        watched = epoch + 1 == self.epochs or (self.every is not None and (epoch + 1) % self.every == 0)
        return self.monitor is not None and watched


class EpochRecord(NamedTuple):
    """The record of one epoch."""

    stage: str
    epoch: int
    seconds: float
    rate: float  # of learning
    slowness: float  # times the rate of the stage; less than 1 after a divergence
    losses: dict[str, float]

    def row(self) -> dict[str, Any]:
        """All of it side by side."""
        return {name: value for name, value in self._asdict().items() if name != "losses"} | self.losses


class TrainingState(NamedTuple):
    """Where a training is: before an epoch of a stage, or at its end, behind the last stage."""

    stage: int
    epoch: int
    begun: Begun  # what `begin` of the stage returned
    slowness: float  # times the learning rate of the stage
    history: list[EpochRecord]
    tensors: Tensors


class Keeper(Protocol):
    """What keeps states, so that a training can go on after the process was killed."""

    def load(self) -> TrainingState | None:
        """The state to go on from."""

    def keep(self, state: TrainingState, *, final: bool = False) -> None:
        """Keep a state, unless the last one is of a moment ago and this is not the final one.

        The tensors are those of the training, which writes the next state over them.
        """
