"""The training loop: it runs stages and epochs, and knows no loss."""

import math
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from protocol_mvc.data.batches import Source
from protocol_mvc.exceptions import DivergenceError, DivergenceWarning
from protocol_mvc.training.adam import Adam
from protocol_mvc.training.checkpoint import BestWeights, capture, restore
from protocol_mvc.training.stage import Callback, EpochRecord, Losses, Signal, Stage, Tensors, TrainingState
from protocol_mvc.utils.distributed import all_reduce_mean, data_parallel_step
from protocol_mvc.utils.threads import training_threads

LR_BACKOFF = 0.1  # factor of the learning rate after a divergence
MIN_LR_FACTOR = 1e-3  # smallest factor of the learning rate of a stage
MAX_LOSS_RATIO = 1e3  # loss / loss of the first epoch above which a stage has diverged
MONITOR = "monitor"  # name of the monitor's value in the losses of an epoch


def train(
    module: nn.Module,
    stages: Sequence[Stage],
    source: Source,
    generator: torch.Generator,
    callbacks: Sequence[Callback] = (),
) -> list[EpochRecord]:
    """Run the stages in order.

    An epoch that diverges is repeated at a lower learning rate. If a stage diverges at every rate, training
    continues with the next stage that reinitializes the weights; without one, it ends with the best weights
    of the stages that have a monitor.

    Args:
        module: the method; stages change its weights in place.
        stages: the stages.
        source: the training data.
        generator: source of all random numbers.
        callbacks: observers; the first that returns a state from `load_state` decides where to resume.

    Returns:
        The records of all epochs, including those before a resume.

    Raises:
        DivergenceError: If a stage diverges at every learning rate and no weights are left to use.
        ValueError: If the state to resume from does not belong to these stages.
    """
    training = _Training(module, source, generator, callbacks)
    for callback in callbacks:
        callback.on_train_start(module, source)
    resumed = training.resume(stages)
    first, diverged = 0 if resumed is None else resumed.stage, False
    for index, stage in enumerate(stages[first:], first):
        diverged = diverged and not stage.reinitialize and stage.n_epochs > 0
        if diverged:
            training.skip(stage.name, stage.n_epochs)
            continue
        state = resumed if resumed and index == first else None
        can_restart = any(later.reinitialize for later in stages[index + 1 :])
        diverged = not training.run_stage(index, stage, state, can_restart=can_restart)
    training.reset_optimizer()  # the final state needs no moments
    state = training.snapshot(TrainingState(len(stages), 0, None, 1.0, training.history, {}))
    for callback in callbacks:
        callback.on_train_end(state)
    return training.history


class _Training:
    """A training in progress: what all stages share, and what they did."""

    def __init__(
        self, module: nn.Module, source: Source, generator: torch.Generator, callbacks: Sequence[Callback]
    ) -> None:
        self.module, self.source, self.generator, self.callbacks = module, source, generator, callbacks
        self.history: list[EpochRecord] = []
        self.buffers: Tensors = {}
        self.best = BestWeights()
        self.reset_optimizer()

    def reset_optimizer(self) -> None:
        """Start Adam with new moments; every epoch sets its learning rate."""
        self.adam = Adam(self.module.parameters())

    def run_stage(self, index: int, stage: Stage, state: TrainingState | None, *, can_restart: bool) -> bool:
        """Run a stage from its start or from a state; return False if it diverged at every learning rate."""
        seed = (self.generator.initial_seed(), index)  # the subsample need not be stored in checkpoints
        source = self.source.subsample(stage.sampling.max_samples, seed)
        if state is None:
            value = stage.on_start(source, self.generator) if stage.on_start else None
            if isinstance(value, Signal):
                assert value is Signal.SKIP, f"stage {stage.name!r} cannot stop before it starts"
                self.skip(stage.name, stage.n_epochs)
                return True
            state = TrainingState(index, 0, value, 1.0, self.history, {})
            if stage.optimizer.reset == "stage":
                self.reset_optimizer()
        if stage.step:
            stage = stage._replace(step=data_parallel_step(self.module, stage.step))
        converged = True
        try:
            self.end_stage(state, self.run_epochs(stage, source, state))
        except DivergenceError as error:
            if not (self.best.weights or can_restart):
                raise
            remedy = "another run begins" if can_restart else "the best weights so far are kept"
            warnings.warn(f"{error}; {remedy}", DivergenceWarning, stacklevel=3)
            converged = False
        if stage.monitor or not converged:
            self.best.load_into(self.module)
        return converged

    def run_epochs(self, stage: Stage, source: Source, state: TrainingState) -> TrainingState:
        """Run the epochs of a stage from a state; return the state at its end."""
        while state.epoch < stage.n_epochs:
            state = self.snapshot(state)
            for callback in self.callbacks:
                callback.on_epoch_start(state)
            try:
                record = self.run_epoch(stage, source, state)
            except DivergenceError as error:
                lr_factor = state.lr_factor * LR_BACKOFF
                if lr_factor < 0.99 * MIN_LR_FACTOR:  # 0.99 allows for rounding
                    raise
                remedy = f"the epoch is repeated with {lr_factor:g} x the learning rate"
                warnings.warn(f"{str(error).partition(': ')[0]}: {remedy}", DivergenceWarning, stacklevel=3)
                state = state._replace(lr_factor=lr_factor)
                restore(state.tensors, self.module, self.adam, self.generator)
                continue
            if isinstance(record, Signal):
                self.skip(stage.name, stage.n_epochs - state.epoch)
                break
            self.add(record)
            self.best.update(record.losses.get(MONITOR), self.module)
            state = state._replace(epoch=state.epoch + 1)
            if stage.optimizer.reset == "epoch":
                self.reset_optimizer()
        return state

    def end_stage(self, start: TrainingState, end: TrainingState) -> None:
        """Report the end of a stage, unless no epoch was run."""
        if end.epoch > start.epoch:
            end = self.snapshot(end)
            for callback in self.callbacks:
                callback.on_stage_end(end)

    def run_epoch(self, stage: Stage, source: Source, state: TrainingState) -> EpochRecord | Signal:
        """Run one epoch; return its record, or `STOP` if the stage asks to stop before it."""
        started = time.perf_counter()
        lr = stage.optimizer.lr_at(state.epoch / stage.n_epochs, source.batch_size) * state.lr_factor
        self.adam.lr = lr
        progress: float = state.epoch / max(stage.n_epochs - 1, 1)
        context: Any = state.start_value
        if stage.on_epoch_start:
            context = stage.on_epoch_start(source, self.generator, progress, context)
        if context is Signal.STOP:
            assert stage.monitor is None, f"stage {stage.name!r} cannot stop before its monitor is evaluated"
            return Signal.STOP
        with training_threads(self.module):
            losses = self.run_steps(stage, source, progress, context)
        if stage.monitor and stage.is_evaluated(state.epoch):
            losses[MONITOR] = stage.monitor(source, self.generator, state.start_value)
        seconds = time.perf_counter() - started
        record = EpochRecord(stage.name, state.epoch, seconds, lr, state.lr_factor, losses)
        earlier = (epoch for epoch in self.history if epoch.stage == stage.name)
        _check_divergence(record, next(earlier, record), self.module)
        return record

    def run_steps(self, stage: Stage, source: Source, progress: float, context: Any) -> dict[str, float]:
        """Make the optimizer steps of one epoch and return the mean of every loss term."""
        assert stage.step is not None, f"stage {stage.name!r} has epochs but no step"
        full_batch, history = stage.sampling.full_batch, list[Losses]()

        def optimizer_step() -> None:
            if stage.optimizer.max_grad_norm is not None:
                nn.utils.clip_grad_norm_(self.module.parameters(), stage.optimizer.max_grad_norm)
            self.adam.step()

        for batch in stage.sampling.batches(source, self.generator):
            losses = stage.step(batch, progress, context)
            if not (full_batch and history):
                self.adam.zero_grad()
            loss = torch.stack(list(losses.values())).sum()
            (loss * (len(batch.rows) / len(source)) if full_batch else loss).backward()
            if not full_batch:
                optimizer_step()
            history.append({name: value.detach() for name, value in losses.items()})
        if full_batch:
            optimizer_step()
        mean = torch.stack([torch.stack(list(losses.values())) for losses in history]).mean(0)
        return dict(zip(history[0], all_reduce_mean(mean).tolist(), strict=True))

    def resume(self, stages: Sequence[Stage]) -> TrainingState | None:
        """Restore the state of an earlier process, if a callback has one."""
        states = (callback.load_state() for callback in self.callbacks)
        state = next((found for found in states if found is not None), None)
        if state is None:
            return None
        n_epochs = [stage.n_epochs for stage in stages]
        if state.stage > len(stages) or (state.stage < len(stages) and state.epoch > n_epochs[state.stage]):
            raise ValueError(f"the checkpoint is of stage {state.stage}, epoch {state.epoch}: no such epoch")
        restore(state.tensors, self.module, self.adam, self.generator)
        self.best.load_state(state.tensors)
        for record in state.history:
            self.add(record)
        skipped = sum(n_epochs[: state.stage]) + state.epoch - len(state.history)
        if skipped:
            self.skip(stages[state.stage - 1].name, skipped)
        return state

    def snapshot(self, state: TrainingState) -> TrainingState:
        """Return the state with copies of all tensors."""
        self.buffers = capture(self.module, self.adam, self.generator, self.buffers)
        return state._replace(tensors=self.buffers | self.best.state(), history=self.history)

    def add(self, record: EpochRecord) -> None:
        """Add the record of an epoch."""
        self.history.append(record)
        for callback in self.callbacks:
            callback.on_epoch_end(record)

    def skip(self, stage: str, n_epochs: int) -> None:
        """Report epochs that are left out."""
        for callback in self.callbacks:
            callback.on_epochs_skipped(stage, n_epochs)


def _check_divergence(record: EpochRecord, first: EpochRecord, module: nn.Module) -> None:
    """Raise `DivergenceError` if a loss or a weight is not finite, or the loss exploded."""
    values = {f"{name} loss": value for name, value in record.losses.items()}
    values["norm of the weights"] = float(nn.utils.get_total_norm(module.parameters()))
    bad = [name for name, value in values.items() if not math.isfinite(value)]
    values["loss"] = sum(record.losses.values())
    if not bad and values["loss"] > MAX_LOSS_RATIO * (1 + abs(sum(first.losses.values()))):
        bad = ["loss"]
    for name in bad:
        raise DivergenceError(
            f"the {name} became {values[name]:g} in epoch {record.epoch} of stage {record.stage!r}: "
            "lower the learning rate of that stage or scale the views (scaling='standard')"
        )
