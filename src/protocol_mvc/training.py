"""The one training loop. It knows stages and steps, but no loss."""

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from protocol_mvc.data.batches import Batch, Source

Losses = dict[str, Tensor]
Step = Callable[[Batch, float, Any], Losses]
Prepare = Callable[[Source, torch.Generator, float, Any], Any]


class Stage(NamedTuple):
    """A part of the training: what happens before it, before every epoch, and for every batch."""

    name: str
    epochs: int = 0
    step: Step | None = None  # (batch, progress, context) -> loss terms by name
    learning_rate: float = 1e-3
    begin: Callable[[Source, torch.Generator], Any] | None = None  # once, first; False leaves the stage out
    prepare: Prepare | None = None  # before every epoch, with what `begin` returned; gives the context
    least_steps: int = 1  # in an epoch, which then sees small data several times
    most_steps: int | None = None  # in an epoch, which then sees a random part of large data


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
    on_skip: Callable[[Stage], None] = lambda stage: None,
) -> list[Epoch]:
    """Run the stages in order; progress goes from 0 to 1 within each, so schedules are functions of it.

    Every epoch is told to `on_epoch` as it ends, every stage that is left out to `on_skip`.
    """
    history: list[Epoch] = []
    for stage in stages:
        begun = stage.begin(source, generator) if stage.begin else None
        if begun is False:
            on_skip(stage)
            continue
        optimiser = torch.optim.Adam(module.parameters(), lr=stage.learning_rate, fused=True)
        for number in range(stage.epochs):
            started = time.perf_counter()
            progress = number / max(stage.epochs - 1, 1)
            context = stage.prepare(source, generator, progress, begun) if stage.prepare else None
            losses = _run_epoch(stage, optimiser, _batches(stage, source, generator), progress, context)
            history.append(Epoch(stage.name, number, time.perf_counter() - started, losses))
            _check_finite(history[-1])
            on_epoch(history[-1])
    return history


def _batches(stage: Stage, source: Source, generator: torch.Generator) -> Iterator[Batch]:
    """The batches of one epoch: whole passes over the data until there are enough, cut where there are."""
    passes = -(-stage.least_steps // source.n_batches)
    every = chain.from_iterable(source.shuffled(generator) for _ in range(passes))
    return islice(every, stage.most_steps)


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
