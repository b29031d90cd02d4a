"""The one training loop. It knows stages and steps, but no loss."""

import time
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from protocol_mvc.data.batches import Batch, Source

Losses = dict[str, Tensor]
Step = Callable[[Batch, float, Any], Losses]


class Duration(NamedTuple):
    """How long a stage lasts: in passes over the data, or in optimisation steps rounded to whole passes."""

    length: int
    unit: Literal["epochs", "steps"] = "epochs"

    def epochs(self, n_batches: int) -> int:
        """Passes over data of so many batches; a stage of at least one step has at least one."""
        return self.length if self.unit == "epochs" else -(-self.length // n_batches)


class Stage(NamedTuple):
    """A part of the training: what happens before it, before every epoch, and for every batch."""

    name: str
    duration: Duration = Duration(0)
    step: Step | None = None  # (batch, progress, context) -> loss terms by name
    learning_rate: float = 1e-3
    begin: Callable[[Source, torch.Generator], None] | None = None  # once, before the first epoch
    prepare: Callable[[Source, torch.Generator, float], Any] | None = None  # every epoch; gives the context


class Epoch(NamedTuple):
    """The record of one epoch."""

    stage: str
    epoch: int
    seconds: float
    losses: dict[str, float]


class DivergenceError(RuntimeError):
    """A loss stopped being a finite number."""


def train(
    module: nn.Module,
    stages: Iterable[Stage],
    source: Source,
    generator: torch.Generator,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> list[Epoch]:
    """Run the stages in order; progress goes from 0 to 1 within each, so schedules are functions of it."""
    history: list[Epoch] = []
    for stage in stages:
        if stage.begin is not None:
            stage.begin(source, generator)
        optimiser = torch.optim.Adam(module.parameters(), lr=stage.learning_rate, fused=True)
        epochs = stage.duration.epochs(source.n_batches)
        for number in range(epochs):
            started = time.perf_counter()
            progress = number / max(epochs - 1, 1)
            context = stage.prepare(source, generator, progress) if stage.prepare else None
            losses = _run_epoch(stage, optimiser, source.shuffled(generator), progress, context)
            history.append(Epoch(stage.name, number, time.perf_counter() - started, losses))
            _check_finite(history[-1])
            on_epoch(history[-1])
    return history


def _run_epoch(
    stage: Stage, optimiser: torch.optim.Optimizer, batches: Iterable[Batch], progress: float, context: Any
) -> dict[str, float]:
    """One pass over the batches; returns the mean of every loss term."""
    assert stage.step is not None, f"stage {stage.name!r} has epochs but no step"
    records: list[Losses] = []
    for batch in batches:
        losses = stage.step(batch, progress, context)
        optimiser.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        optimiser.step()
        records.append({name: value.detach() for name, value in losses.items()})
    return {name: float(torch.stack([r[name] for r in records]).mean()) for name in records[0]}


def _check_finite(epoch: Epoch) -> None:
    """Stop before a broken network gives labels that look like a result."""
    for name, value in epoch.losses.items():
        if value != value or abs(value) == float("inf"):
            raise DivergenceError(
                f"the {name} loss became {value} in epoch {epoch.epoch} of stage {epoch.stage!r}: "
                "lower the learning rate of that stage or scale the views (scale='standard')"
            )
