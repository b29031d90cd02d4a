"""The one training loop. It knows stages and steps, but no loss."""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.distributed import mean, synchronised
from protocol_mvc.snapshot import Tensors, capture, restore

Losses = dict[str, Tensor]
Step = Callable[[Batch, float, Any], Losses]
Begun = Tensor | bool | None
Prepare = Callable[[Source, torch.Generator, float, Any], Any]

SLOWER = 0.1  # times the learning rate, after a divergence
SLOWEST = 1e-3  # times the learning rate of the stage
EXPLODED = 1e3  # times the loss at the start of a stage


class Stage(NamedTuple):
    """A part of the training: what happens before it, before every epoch, and for every batch."""

    name: str
    epochs: int = 0
    step: Step | None = None  # (batch, progress, context) -> loss terms by name
    learning_rate: float = 1e-3
    begin: Callable[[Source, torch.Generator], Begun] | None = None  # once, first; False leaves it out
    prepare: Prepare | None = None  # before every epoch, with what `begin` returned; gives the context
    least_steps: int = 1  # in an epoch, which then sees small data several times
    most_steps: int | None = None  # in an epoch, which then sees a random part of large data
    most_rows: int | None = None  # of large data; the stage works on a random part of them


class Epoch(NamedTuple):
    """The record of one epoch."""

    stage: str
    epoch: int
    seconds: float
    rate: float  # of learning
    slowness: float  # times the rate of the stage; less than 1 after a divergence
    losses: dict[str, float]


class State(NamedTuple):
    """Where a training is: before an epoch of a stage, or at its end, behind the last stage."""

    stage: int
    epoch: int
    begun: Begun  # what `begin` of the stage returned
    slowness: float  # times the learning rate of the stage
    history: list[Epoch]
    tensors: Tensors


class Keeper(Protocol):
    """What keeps states, so that a training can go on after the process was killed."""

    def load(self) -> State | None:
        """The state to go on from."""

    def keep(self, state: State, *, final: bool = False) -> None:
        """Keep a state, unless the last one is of a moment ago and this is not the final one."""


class DivergenceError(RuntimeError):
    """A loss stopped being a finite number."""


class DivergenceWarning(UserWarning):
    """A stage went on at a lower learning rate."""


def train(
    module: nn.Module,
    stages: Sequence[Stage],
    source: Source,
    generator: torch.Generator,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    on_skip: Callable[[Stage], None] = lambda stage: None,
    keeper: Keeper | None = None,
) -> list[Epoch]:
    """Run the stages in order; progress goes from 0 to 1 within each, so schedules are functions of it.

    Every epoch is told to `on_epoch` as it ends, every stage that is left out to `on_skip`. An epoch that
    diverges is run again from where it began, at a lower learning rate.

    Raises:
        DivergenceError: If a stage diverges at any rate.
        ValueError: If the keeper has a state of another training.
    """
    training = _Training(module, source, generator, on_epoch, keeper)
    start = keeper.load() if keeper else None
    if start is not None:
        training.go_to(start, stages)
    for number, stage in enumerate(stages):
        if start is not None and number < start.stage:
            continue
        resumed = start is not None and number == start.stage
        part = training.part(number, stage)
        state = start if start is not None and resumed else training.begin(number, stage, part)
        if state.begun is False:
            on_skip(stage)
        else:
            training.run(stage, part, state)
    training.keep(State(len(stages), 0, None, 1.0, training.history, {}), None, final=True)
    return training.history


class _Training:
    """A training under way: what all its stages work with, and what they did."""

    def __init__(
        self,
        module: nn.Module,
        source: Source,
        generator: torch.Generator,
        on_epoch: Callable[[Epoch], None],
        keeper: Keeper | None,
    ) -> None:
        self.module, self.source, self.generator = module, source, generator
        self.on_epoch, self.keeper = on_epoch, keeper
        self.history: list[Epoch] = []

    def go_to(self, state: State, stages: Sequence[Stage]) -> None:
        """Be where a former process was."""
        if state.stage > len(stages) or (
            state.stage < len(stages) and state.epoch > stages[state.stage].epochs
        ):
            raise ValueError(f"the state is of stage {state.stage}, epoch {state.epoch}, which is not there")
        restore(state.tensors, self.module, None, self.generator)
        for record in state.history:
            self.history.append(record)
            self.on_epoch(record)

    def part(self, number: int, stage: Stage) -> Source:
        """What a stage works on; its number and the seed of all tell it, so that it need not be kept."""
        return self.source.part(stage.most_rows, (self.generator.initial_seed(), number))

    def begin(self, number: int, stage: Stage, source: Source) -> State:
        begun = stage.begin(source, self.generator) if stage.begin else None
        return State(number, 0, begun, 1.0, self.history, {})

    def keep(self, state: State, optimiser: Optimizer | None, *, final: bool = False) -> State:
        """The state with copies of all tensors, given to the keeper too."""
        state = state._replace(tensors=capture(self.module, optimiser, self.generator), history=self.history)
        if self.keeper:
            self.keeper.keep(state, final=final)
        return state

    def run(self, stage: Stage, source: Source, state: State) -> None:
        """The epochs of a stage from a state on."""
        optimiser = Adam(self.module.parameters(), lr=stage.learning_rate, fused=True)
        if state.tensors:
            restore(state.tensors, self.module, optimiser, self.generator)
        if stage.step:
            stage = stage._replace(step=synchronised(self.module, stage.step))
        while state.epoch < stage.epochs:
            state = self.keep(state, optimiser)
            try:
                record = self._epoch(stage, source, state, optimiser)
            except DivergenceError as error:
                state = _slower(state, error)
                restore(state.tensors, self.module, optimiser, self.generator)
                continue
            self.history.append(record)
            self.on_epoch(record)
            state = state._replace(epoch=state.epoch + 1)

    def _epoch(self, stage: Stage, source: Source, state: State, optimiser: Optimizer) -> Epoch:
        started, rate = time.perf_counter(), stage.learning_rate * state.slowness
        for group in optimiser.param_groups:
            group["lr"] = rate
        progress = state.epoch / max(stage.epochs - 1, 1)
        prepared = stage.prepare(source, self.generator, progress, state.begun) if stage.prepare else None
        batches = _batches(stage, source, self.generator)
        losses = _run_epoch(stage, optimiser, batches, progress, prepared)
        record = Epoch(stage.name, state.epoch, time.perf_counter() - started, rate, state.slowness, losses)
        _check(
            record, next((epoch for epoch in self.history if epoch.stage == stage.name), record), self.module
        )
        return record


def _slower(state: State, error: DivergenceError) -> State:
    """The state with a lower learning rate; there is a lowest, at which the error stands."""
    slowness = state.slowness * SLOWER
    if slowness < 0.99 * SLOWEST:  # not for want of a last digit
        raise error
    what = str(error).partition(": ")[0]
    warnings.warn(f"{what}: it is run again at {slowness:g} of the rate", DivergenceWarning, stacklevel=2)
    return state._replace(slowness=slowness)


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
    means = mean(torch.stack([torch.stack(list(record.values())) for record in records]).mean(0))
    return dict(zip(records[0], means.tolist(), strict=True))


def _check(epoch: Epoch, first: Epoch, module: nn.Module) -> None:
    """Stop before a broken network gives labels that look like a result."""
    values = {f"{name} loss": value for name, value in epoch.losses.items()}
    values["norm of the weights"] = float(nn.utils.get_total_norm(module.parameters()))
    bad = [name for name, value in values.items() if not math.isfinite(value)]
    values["loss"] = sum(epoch.losses.values())
    if not bad and values["loss"] > EXPLODED * (1 + abs(sum(first.losses.values()))):
        bad = ["loss"]
    for name in bad:
        raise DivergenceError(
            f"the {name} became {values[name]:g} in epoch {epoch.epoch} of stage {epoch.stage!r}: "
            "lower the learning rate of that stage or scale the views (scale='standard')"
        )
