"""The one training loop. It knows stages and steps, but no loss."""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.optim import Adam, Optimizer

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.exceptions import DivergenceError, DivergenceWarning
from protocol_mvc.training.snapshot import BestWeights, capture, restore
from protocol_mvc.training.stage import EpochRecord, Keeper, Losses, Stage, TrainingState
from protocol_mvc.utils.distributed import all_reduce_mean, data_parallel_step

LR_BACKOFF = 0.1  # times the learning rate, after a divergence
MIN_LR_FACTOR = 1e-3  # times the learning rate of the stage
MONITOR = "monitored"  # name of the monitor's value among the losses of an epoch
MAX_LOSS_RATIO = 1e3  # times the loss at the start of a stage


def train(
    module: nn.Module,
    stages: Sequence[Stage],
    source: Source,
    generator: torch.Generator,
    on_epoch: Callable[[EpochRecord], None] = lambda epoch: None,
    on_skip: Callable[[Stage], None] = lambda stage: None,
    keeper: Keeper | None = None,
) -> list[EpochRecord]:
    """Run the stages in order; progress goes from 0 to 1 within each, so schedules are functions of it.

    Every epoch is told to `on_epoch` as it ends, every stage or rest of one that is left out to `on_skip`.
    An epoch that diverges is run again from where it began, at a lower learning rate. A stage with a monitor
    ends with the best weights that this stage or an earlier one with a monitor had. If a stage diverges at
    any rate, the training goes on with the next that begins anew; with none, it ends with the best weights.

    Raises:
        DivergenceError: If a stage diverges at any rate, and there are neither such stages nor such weights.
        ValueError: If the keeper has a state of another training.
    """
    training = _Training(module, source, generator, on_epoch, on_skip, keeper)
    start = keeper.load() if keeper else None
    if start is not None:
        training.go_to(start, stages)
    broken, done = False, 0 if start is None else start.stage
    for number, stage in enumerate(stages[done:], done):
        broken = broken and not stage.anew and stage.epochs > 0
        if broken:
            on_skip(stage)
            continue
        again = any(later.anew for later in stages[number + 1 :])
        broken = not training.take(number, stage, start if number == done else None, again=again)
    training.keep(TrainingState(len(stages), 0, None, 1.0, training.history, {}), None, final=True)
    return training.history


class _Training:
    """A training under way: what all its stages work with, and what they did."""

    def __init__(
        self,
        module: nn.Module,
        source: Source,
        generator: torch.Generator,
        on_epoch: Callable[[EpochRecord], None],
        on_skip: Callable[[Stage], None],
        keeper: Keeper | None,
    ) -> None:
        self.module, self.source, self.generator = module, source, generator
        self.on_epoch, self.on_skip, self.keeper = on_epoch, on_skip, keeper
        self.history: list[EpochRecord] = []
        self.best = BestWeights()
        self.adam: Adam | None = None

    def go_to(self, state: TrainingState, stages: Sequence[Stage]) -> None:
        """Be where a former process was."""
        if state.stage > len(stages) or (
            state.stage < len(stages) and state.epoch > stages[state.stage].epochs
        ):
            raise ValueError(f"the state is of stage {state.stage}, epoch {state.epoch}, which is not there")
        restore(state.tensors, self.module, None, self.generator)
        self.best.restore(state.tensors)
        for record in state.history:
            self.history.append(record)
            self.on_epoch(record)
        left_out = sum(stage.epochs for stage in stages[: state.stage]) + state.epoch - len(state.history)
        if left_out:
            self.on_skip(stages[state.stage - 1]._replace(epochs=left_out))

    def part(self, number: int, stage: Stage) -> Source:
        """What a stage works on; its number and the seed of all tell it, so that it need not be kept."""
        return self.source.subsample(stage.most_rows, (self.generator.initial_seed(), number))

    def begin(self, number: int, stage: Stage, source: Source) -> TrainingState:
        begun = stage.begin(source, self.generator) if stage.begin else None
        return TrainingState(number, 0, begun, 1.0, self.history, {})

    def keep(
        self, state: TrainingState, optimiser: Optimizer | None, *, final: bool = False
    ) -> TrainingState:
        """The state with copies of all tensors, given to the keeper too."""
        tensors = capture(self.module, optimiser, self.generator, state.tensors) | self.best.capture()
        state = state._replace(tensors=tensors, history=self.history)
        if self.keeper:
            self.keeper.keep(state, final=final)
        return state

    def take(self, number: int, stage: Stage, state: TrainingState | None, *, again: bool) -> bool:
        """A stage on its part of the samples, which is let go with it; False if it broke down."""
        part = self.part(number, stage)
        state = self.begin(number, stage, part) if state is None else state
        if state.begun is not False:
            return self.run(stage, part, state, again=again)
        self.on_skip(stage)
        return True

    def run(self, stage: Stage, source: Source, state: TrainingState, *, again: bool) -> bool:
        """A stage from a state on; False if it broke down, which is an error if nothing else is left."""
        ended = True
        try:
            self._epochs(stage, source, state)
        except DivergenceError as error:
            if not (self.best.found or again):
                raise
            instead = "another run begins" if again else "the best weights so far are kept"
            warnings.warn(f"{error}; {instead}", DivergenceWarning, stacklevel=2)
            ended = False
        if stage.monitor or not ended:
            self.best.bring_back(self.module)
        return ended

    def _epochs(self, stage: Stage, source: Source, state: TrainingState) -> None:
        optimiser = self._adam(fresh=stage.adam == "fresh")
        if state.tensors:
            restore(state.tensors, self.module, optimiser, self.generator)
        if stage.step:
            stage = stage._replace(step=data_parallel_step(self.module, stage.step))
        while state.epoch < stage.epochs:
            state = self.keep(state, optimiser)
            try:
                record = self._epoch(stage, source, state, optimiser)
            except DivergenceError as error:
                state = _with_lower_lr(state, error)
                restore(state.tensors, self.module, optimiser, self.generator)
                continue
            if record is None:
                self.on_skip(stage._replace(epochs=stage.epochs - state.epoch))
                break
            self.history.append(record)
            self.on_epoch(record)
            self.best.see(record.losses.get(MONITOR), self.module)
            state = state._replace(epoch=state.epoch + 1)
            if stage.adam == "renewed":
                optimiser = self._adam(fresh=True)

    def _adam(self, *, fresh: bool) -> Adam:
        """The optimiser, which comes to every epoch without a rate of its own."""
        if fresh or self.adam is None:
            self.adam = Adam(self.module.parameters(), fused=True)
        return self.adam

    def _epoch(
        self, stage: Stage, source: Source, state: TrainingState, optimiser: Optimizer
    ) -> EpochRecord | None:
        started, rate = time.perf_counter(), stage.learning_rate * state.slowness
        for group in optimiser.param_groups:
            group["lr"] = rate
        progress = state.epoch / max(stage.epochs - 1, 1)
        prepared = stage.prepare(source, self.generator, progress, state.begun) if stage.prepare else None
        if prepared is False:
            assert stage.monitor is None, f"stage {stage.name!r} cannot end before its monitor has looked"
            return None
        batches = stage.batches(source, self.generator)
        losses = _run_epoch(stage, optimiser, batches, progress, prepared, len(source))
        if stage.monitor and stage.is_watched(state.epoch):
            losses[MONITOR] = stage.monitor(source, self.generator)
        record = EpochRecord(
            stage.name, state.epoch, time.perf_counter() - started, rate, state.slowness, losses
        )
        earlier = (epoch for epoch in self.history if epoch.stage == stage.name)
        _check(record, next(earlier, record), self.module)
        return record


def _with_lower_lr(state: TrainingState, error: DivergenceError) -> TrainingState:
    """The state with a lower learning rate; there is a lowest, at which the error stands."""
    slowness = state.slowness * LR_BACKOFF
    if slowness < 0.99 * MIN_LR_FACTOR:  # not for want of a last digit
        raise error
    what = str(error).partition(": ")[0]
    warnings.warn(f"{what}: it is run again at {slowness:g} of the rate", DivergenceWarning, stacklevel=2)
    return state._replace(slowness=slowness)


def _run_epoch(
    stage: Stage,
    optimiser: Optimizer,
    batches: Iterable[Batch],
    progress: float,
    context: Any,
    n_samples: int,
) -> dict[str, float]:
    """One pass over the batches; returns the mean of every loss term."""
    assert stage.step is not None, f"stage {stage.name!r} has epochs but no step"
    records: list[Losses] = []
    for batch in batches:
        losses = stage.step(batch, progress, context)
        if not (stage.whole and records):
            optimiser.zero_grad()
        loss = torch.stack(list(losses.values())).sum()
        (loss * (len(batch.rows) / n_samples) if stage.whole else loss).backward()
        if not stage.whole:
            _step(optimiser, stage.clip)
        records.append({name: value.detach() for name, value in losses.items()})
    if stage.whole:
        _step(optimiser, stage.clip)
    means = all_reduce_mean(torch.stack([torch.stack(list(record.values())) for record in records]).mean(0))
    return dict(zip(records[0], means.tolist(), strict=True))


def _step(optimiser: Optimizer, clip: float | None) -> None:
    """A step along the gradient, which is cut to that length."""
    if clip is not None:
        parameters = chain.from_iterable(group["params"] for group in optimiser.param_groups)
        nn.utils.clip_grad_norm_(parameters, clip)
    optimiser.step()


def _check(epoch: EpochRecord, first: EpochRecord, module: nn.Module) -> None:
    """Stop before a broken network gives labels that look like a result."""
    values = {f"{name} loss": value for name, value in epoch.losses.items()}
    values["norm of the weights"] = float(nn.utils.get_total_norm(module.parameters()))
    bad = [name for name, value in values.items() if not math.isfinite(value)]
    values["loss"] = sum(epoch.losses.values())
    if not bad and values["loss"] > MAX_LOSS_RATIO * (1 + abs(sum(first.losses.values()))):
        bad = ["loss"]
    for name in bad:
        raise DivergenceError(
            f"the {name} became {values[name]:g} in epoch {epoch.epoch} of stage {epoch.stage!r}: "
            "lower the learning rate of that stage or scale the views (scaling='standard')"
        )
