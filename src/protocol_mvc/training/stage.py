"""Inputs and outputs of the training loop: `Stage`, `EpochRecord`, `TrainingState` and `Callback`."""

import math
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from protocol_mvc.data.batches import Batch, Source

Losses = dict[str, Tensor]
Tensors = dict[str, Tensor]


class Signal(Enum):
    """What a hook of a stage returns to leave out the stage, or the rest of it."""

    SKIP = "skip the stage"
    STOP = "stop the stage"


SKIP, STOP = Signal.SKIP, Signal.STOP

Step = Callable[[Batch, float, Any], Losses]
StartHook = Callable[[Source, torch.Generator], Tensor | Signal | None]
EpochHook = Callable[[Source, torch.Generator, float, Any], Any]
Monitor = Callable[[Source, torch.Generator, Tensor | None], float]


class Sampling(NamedTuple):
    """Samples that a stage and its epochs use.

    Attributes:
        min_steps: smallest number of steps of an epoch; small data are repeated.
        max_steps: largest number of steps of an epoch; of larger data an epoch uses a random part.
        max_samples: size of the random subsample that the whole stage uses; None uses all samples.
        full_batch: make one step per epoch, with the gradient accumulated over all batches.
    """

    min_steps: int = 1
    max_steps: int | None = None
    max_samples: int | None = None
    full_batch: bool = False

    def batches(self, source: Source, generator: torch.Generator) -> Iterator[Batch]:
        """Yield the shuffled batches of one epoch."""
        n_steps = self.n_steps(source.n_batches)
        passes = (source.shuffled(generator) for _ in range(-(-n_steps // source.n_batches)))
        return islice(chain.from_iterable(passes), n_steps)

    def n_steps(self, n_batches: int) -> int:
        """Return the number of steps of an epoch of data with `n_batches` batches."""
        n_steps = -(-self.min_steps // n_batches) * n_batches
        return n_steps if self.max_steps is None else min(n_steps, self.max_steps)


class Optimizer(NamedTuple):
    """Options of Adam.

    Attributes:
        lr: learning rate.
        reset: when the moments are reset: at the start of the stage, after each of its epochs, or never;
            without a reset, the stage starts with the moments of the stage before.
        max_grad_norm: bound on the norm of the gradient of a step.
        scheduler: "constant", or "cosine" for a learning rate that falls to 0 over the epochs of the stage.
        batch_size: of the batches for which `lr` holds; with others it is larger or smaller in proportion
            (Goyal et al., 2017). None: it holds for all.
    """

    lr: float = 1e-3
    reset: Literal["stage", "epoch", "never"] = "stage"
    max_grad_norm: float | None = None
    scheduler: Literal["constant", "cosine"] = "constant"
    batch_size: int | None = None

    def lr_at(self, progress: float, batch_size: int) -> float:
        r"""Return the learning rate of batches after a fraction t of the epochs.

        With the cosine it is :math:`lr (1 + \cos(\pi t)) / 2`.
        """
        lr = self.lr if self.batch_size is None else self.lr * batch_size / self.batch_size
        return lr * (1 + math.cos(math.pi * progress)) / 2 if self.scheduler == "cosine" else lr


class Stage(NamedTuple):
    """One stage of training.

    Attributes:
        name: name in `history_` and in the progress bar.
        n_epochs: largest number of epochs.
        step: ``step(batch, progress, context)`` returns the loss terms by name; progress runs from 0 to 1.
        optimizer: options of Adam.
        sampling: samples that the stage and its epochs use.
        on_start: called once, before the first epoch; returns a tensor for `on_epoch_start`, None or `SKIP`.
        on_epoch_start: called before every epoch; returns the context of the steps, or `STOP`. Without it,
            the context is what `on_start` returned.
        monitor: validation loss; the stage ends with the weights at which it was lowest. It is given what
            `on_start` returned.
        eval_interval: epochs between two evaluations of the monitor; it is always evaluated at the end.
        reinitialize: whether `on_start` draws new weights, so that the stage can follow a diverged one.
    """

    name: str
    n_epochs: int = 0
    step: Step | None = None
    optimizer: Optimizer = Optimizer()
    sampling: Sampling = Sampling()
    on_start: StartHook | None = None
    on_epoch_start: EpochHook | None = None
    monitor: Monitor | None = None
    eval_interval: int | None = None
    reinitialize: bool = False

    def is_evaluated(self, epoch: int) -> bool:
        """Return whether the monitor is evaluated after this epoch."""
        n_done, interval = epoch + 1, self.eval_interval or self.n_epochs
        return self.monitor is not None and (n_done == self.n_epochs or n_done % interval == 0)


class EpochRecord(NamedTuple):
    """Results of one epoch.

    Attributes:
        stage: name of the stage.
        epoch: number of the epoch within the stage, from 0.
        seconds: wall time.
        lr: learning rate.
        lr_factor: `lr` / learning rate of the stage; smaller than 1 after a divergence.
        losses: mean of every loss term, and the value of the monitor.
    """

    stage: str
    epoch: int
    seconds: float
    lr: float
    lr_factor: float
    losses: dict[str, float]

    def row(self) -> dict[str, Any]:
        """Return all fields and losses in one flat dict."""
        return {name: value for name, value in self._asdict().items() if name != "losses"} | self.losses


class TrainingState(NamedTuple):
    """Everything that is needed to resume a training before an epoch, or after the last stage.

    Attributes:
        stage: index of the stage.
        epoch: number of the next epoch.
        start_value: what `on_start` of the stage returned.
        lr_factor: factor of the learning rate.
        history: records of all epochs so far.
        tensors: weights, moments of the optimizer and states of the random generators.
    """

    stage: int
    epoch: int
    start_value: Tensor | None
    lr_factor: float
    history: list[EpochRecord]
    tensors: Tensors


class Callback:
    """Base class of what observes a training; every method does nothing by default."""

    def on_train_start(self, module: nn.Module, source: Source) -> None:
        """Receive the method, whose weights the training changes, and its data."""

    def load_state(self) -> TrainingState | None:
        """Return the state from which the training resumes."""
        return None

    def on_epoch_start(self, state: TrainingState) -> None:
        """Receive the state before an epoch; its tensors change with the next state."""

    def on_epoch_end(self, record: EpochRecord) -> None:
        """Receive the record of an epoch."""

    def on_epochs_skipped(self, stage: str, n_epochs: int) -> None:
        """Receive the number of epochs of a stage that are left out."""

    def on_stage_end(self, state: TrainingState) -> None:
        """Receive the state after the last epoch of a stage; its tensors change with the next state."""

    def on_train_end(self, state: TrainingState) -> None:
        """Receive the final state."""
