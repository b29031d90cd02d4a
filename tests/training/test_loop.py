"""The training loop: order of stages, hooks, signals, divergence, monitors and optimizers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import seeded, source
from torch import Tensor, nn

from protocol_mvc.exceptions import DivergenceError, DivergenceWarning
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import (
    SKIP,
    STOP,
    Callback,
    EpochRecord,
    Optimizer,
    Sampling,
    Stage,
    TrainingState,
)

DATA = np.arange(20.0).reshape(10, 2)


class Weight(nn.Module):
    """One weight, whose loss is its square."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(()))

    def step(self, batch: Any, progress: float, context: Any) -> dict[str, Tensor]:
        return {"loss": self.w.square()}


class Recorder(Callback):
    """Records everything that a callback receives."""

    def __init__(self) -> None:
        self.records: list[EpochRecord] = []
        self.skipped: list[tuple[str, int]] = []
        self.states: list[tuple[int, int]] = []
        self.final: TrainingState | None = None

    def on_epoch_start(self, state: TrainingState) -> None:
        self.states.append((state.stage, state.epoch))

    def on_epoch_end(self, record: EpochRecord) -> None:
        self.records.append(record)

    def on_epochs_skipped(self, stage: str, n_epochs: int) -> None:
        self.skipped.append((stage, n_epochs))

    def on_train_end(self, state: TrainingState) -> None:
        self.final = state


def logged_stages(module: Weight, lengths: Sequence[int], log: list[Any]) -> list[Stage]:
    """Return stages of these lengths, whose hooks and steps append their arguments to the log."""

    def make(name: str, n_epochs: int) -> Stage:
        def on_start(source, generator):
            log.append((name, "on_start"))
            return torch.tensor(n_epochs)

        def on_epoch_start(source, generator, progress, value):
            log.append((name, "on_epoch_start", progress, int(value)))
            return f"context at {progress}"

        def step(batch, progress, context):
            log.append((name, "step", progress, context))
            return {"loss": module.w.square()}

        return Stage(name, n_epochs, step, on_start=on_start, on_epoch_start=on_epoch_start)

    return [make(f"stage {i}", n) for i, n in enumerate(lengths)]


def run(lengths: Sequence[int], batch_size: int = 4) -> tuple[list[Any], list[EpochRecord]]:
    module, log = Weight(), list[Any]()
    history = train(module, logged_stages(module, lengths, log), source(DATA, batch_size), seeded())
    return log, history


class TestOrder:
    def test_stages_run_in_order_and_each_starts_once(self):
        log, history = run((2, 0, 1))
        starts = [event[0] for event in log if event[1] == "on_start"]
        assert starts == ["stage 0", "stage 1", "stage 2"]
        assert [event[0] for event in log] == sorted(event[0] for event in log)
        epochs = [(record.stage, record.epoch) for record in history]
        assert epochs == [("stage 0", 0), ("stage 0", 1), ("stage 2", 0)]

    def test_epochs_get_the_start_value_and_steps_get_the_context(self):
        log, _ = run((3,))
        epochs = [event[2:] for event in log if event[1] == "on_epoch_start"]
        assert epochs == [(progress, 3) for progress in (0.0, 0.5, 1.0)]
        steps = [event[2:] for event in log if event[1] == "step"]
        assert steps == [(p, f"context at {p}") for p in (0.0, 0.5, 1.0) for _ in range(3)]  # 10 rows by 4

    @given(st.integers(1, 7))
    def test_progress_runs_evenly_from_0_to_1(self, n_epochs: int):
        log, _ = run((n_epochs,), batch_size=10)
        progress = [event[2] for event in log if event[1] == "step"]
        assert progress == pytest.approx(np.linspace(0, 1, n_epochs) if n_epochs > 1 else [0])

    def test_value_and_context_are_none_without_hooks(self):
        module, seen = Weight(), []

        def step(batch, progress, context):
            seen.append(context)
            return {"loss": module.w.square()}

        hook = lambda source, generator, progress, value: seen.append(value)
        train(module, [Stage("a", 1, step), Stage("b", 1, step, on_epoch_start=hook)], source(DATA), seeded())
        assert seen == [None, None, None]

    def test_hooks_get_the_source_and_the_generator(self):
        module, data, generator = Weight(), source(DATA), seeded()
        seen: list[Any] = []
        stage = Stage(
            "s",
            1,
            module.step,
            on_start=lambda *args: seen.append(args),
            on_epoch_start=lambda *args: seen.append(args[:2]),
        )
        train(module, [stage], data, generator)
        assert seen == [(data, generator)] * 2

    def test_every_stage_has_its_own_subsample_which_the_seed_determines(self):
        def subsamples(seed: int) -> list[list[float]]:
            module, seen = Weight(), list[list[float]]()

            def step(batch, progress, context):
                seen.append(sorted(batch.views[0][:, 0].tolist()))
                return {"loss": module.w.square()}

            stage = Stage("s", 2, step, sampling=Sampling(max_samples=4))
            train(module, [stage, stage._replace(name="t")], source(DATA, 4), seeded(seed))
            return seen

        first, again, second, _ = subsamples(0)
        assert len(first) == 4
        assert first == again != second
        assert subsamples(0) == subsamples(0) != subsamples(1)

    def test_stage_without_epochs_needs_no_step(self):
        started = []
        stage = Stage("start only", on_start=lambda source, generator: started.append(len(source)))
        assert train(Weight(), [stage], source(DATA), seeded()) == []
        assert started == [10]

    def test_stage_with_epochs_needs_a_step(self):
        with pytest.raises(AssertionError, match="'idle'"):
            train(Weight(), [Stage("idle", 1)], source(DATA), seeded())


class TestRecords:
    def test_record_holds_the_mean_of_each_loss_over_the_steps_of_the_epoch(self):
        module, values = Weight(), iter([1.0, 2.0, 50.0])

        def step(batch, progress, context):
            value = next(values)
            return {"a": module.w * 0 + value, "b": module.w * 0 - value}

        stage = Stage("s", 1, step, sampling=Sampling(max_steps=2))
        (record,) = train(module, [stage], source(DATA, 4), seeded())
        assert record.losses == pytest.approx({"a": 1.5, "b": -1.5})

    def test_callbacks_get_every_record_and_the_final_state(self):
        module, recorders = Weight(), [Recorder(), Recorder()]
        stages = [Stage("a", 2, module.step), Stage("b", 1, module.step)]
        history = train(module, stages, source(DATA), seeded(), recorders)
        for recorder in recorders:
            assert recorder.records == history
            assert recorder.states == [(0, 0), (0, 1), (1, 0)]
            assert recorder.final is not None
            assert recorder.final.stage == 2
            assert recorder.final.history == history
            assert torch.equal(recorder.final.tensors["module.w"], module.w.detach())


class TestSignals:
    def test_stage_is_skipped_if_on_start_returns_skip(self):
        log, expected = run((2, 1))
        module, seen, recorder = Weight(), list[Any](), Recorder()
        first, last = logged_stages(module, (2, 1), seen)
        skipped = first._replace(name="skipped", n_epochs=5, on_start=lambda source, generator: SKIP)
        history = train(module, [first, skipped, last], source(DATA, 4), seeded(), [recorder])
        assert seen == log
        assert [record.losses for record in history] == [record.losses for record in expected]
        assert recorder.skipped == [("skipped", 5)]

    @pytest.mark.parametrize("n_run", range(4))
    def test_stage_stops_if_on_epoch_start_returns_stop(self, n_run: int):
        module, log, recorder = Weight(), list[Any](), Recorder()
        stage, last = logged_stages(module, (3, 1), log)
        stop = lambda source, generator, progress, value: STOP if progress >= n_run / 2 else None
        stages = [stage._replace(on_epoch_start=stop), last]
        history = train(module, stages, source(DATA), seeded(), [recorder])
        epochs = [("stage 0", epoch) for epoch in range(n_run)]
        assert [(record.stage, record.epoch) for record in history] == [*epochs, ("stage 1", 0)]
        assert sum(event[:2] == ("stage 0", "step") for event in log) == n_run
        assert recorder.skipped == ([("stage 0", 3 - n_run)] if n_run < 3 else [])

    def test_stage_with_a_monitor_cannot_stop(self):
        module = Weight()
        stage = Stage("s", 2, module.step, on_epoch_start=lambda *args: STOP, monitor=lambda *args: 0.0)
        with pytest.raises(AssertionError, match="'s'"):
            train(module, [stage], source(DATA), seeded())


class TestDivergence:
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    @pytest.mark.filterwarnings("ignore::protocol_mvc.exceptions.DivergenceWarning")
    def test_loss_that_is_not_finite_at_any_rate_is_an_error(self, value: float):
        module, calls = Weight(), []

        def step(batch, progress, context):
            calls.append(progress)
            return {"fine": module.w.square(), "bad": module.w * (value if progress else 1.0)}

        with pytest.raises(DivergenceError, match=rf"bad loss became {value} in epoch 1 of stage 'tune'"):
            train(module, [Stage("tune", 5, step)], source(DATA), seeded())
        assert calls == [0.0, *[0.25] * 4]  # the rate, a tenth, a hundredth, a thousandth

    def test_every_epoch_has_the_learning_rate_of_the_scheduler(self):
        module = Weight()
        stage = Stage("s", 4, module.step, Optimizer(0.2, scheduler="cosine"))
        history = train(module, [stage], source(DATA), seeded())
        expected = [stage.optimizer.lr_at(t, 1) for t in (0, 0.25, 0.5, 0.75)]
        assert [record.lr for record in history] == expected

    def test_learning_rate_follows_the_size_of_the_batches(self):
        module, data = Weight(), source(DATA)
        stage = Stage("s", 1, module.step, Optimizer(0.2, batch_size=2 * data.batch_size))
        assert [record.lr for record in train(module, [stage], data, seeded())] == pytest.approx([0.1])

    def test_diverged_epoch_is_repeated_from_its_start_at_a_lower_rate(self):
        module, weights = Weight(), []

        def step(batch, progress, context):
            if progress == 1:
                weights.append(float(module.w.detach()))
            return {"loss": module.w.square() * (math.nan if progress == 1 and len(weights) < 3 else 1.0)}

        stage = Stage("tune", 3, step, Optimizer(0.1))
        with pytest.warns(DivergenceWarning, match="epoch 2 of stage 'tune'"):
            history = train(module, [stage], source(DATA, 10), seeded())
        assert len(weights) == 3
        assert len(set(weights)) == 1
        assert [record.epoch for record in history] == [0, 1, 2]
        assert [record.lr for record in history] == pytest.approx([0.1, 0.1, 0.001])
        assert [record.lr_factor for record in history] == pytest.approx([1, 1, 0.01])

    @pytest.mark.parametrize("factor", [math.nan, math.inf], ids=str)
    def test_weights_that_are_not_finite_are_a_divergence(self, factor: float):
        module = Weight()

        def step(batch, progress, context):
            module.w.register_hook(lambda gradient: gradient * factor)
            return {"loss": module.w.square()}

        with pytest.warns(DivergenceWarning), pytest.raises(DivergenceError, match="weights"):
            train(module, [Stage("s", 1, step)], source(DATA, 10), seeded())

    def test_loss_that_explodes_is_a_divergence(self):
        module, values = Weight(), iter([1.0, 5.0, 1e9, 4.0])
        step = lambda batch, progress, context: {"loss": module.w * 0 + next(values)}
        with pytest.warns(DivergenceWarning, match=r"1e\+09 in epoch 2"):
            history = train(module, [Stage("s", 3, step)], source(DATA, 10), seeded())
        assert [record.losses["loss"] for record in history] == [1, 5, 4]

    def test_training_continues_with_the_next_stage_that_reinitializes(self):
        module, recorder = Weight(), Recorder()
        diverging = lambda batch, progress, context: {"loss": module.w * math.nan}

        def on_start(source, generator):
            nn.init.constant_(module.w, 2.0)

        stages = [
            Stage("a", 2, diverging),
            Stage("b", 3, module.step),
            Stage("c", 1, module.step, on_start=on_start, reinitialize=True),
        ]
        with pytest.warns(DivergenceWarning, match="stage 'a'"):
            history = train(module, stages, source(DATA, 10), seeded(), [recorder])
        assert [(record.stage, record.losses["loss"]) for record in history] == [("c", 4.0)]
        assert recorder.skipped == [("b", 3)]


def monitored(
    values: Sequence[float], eval_interval: int | None = 1, n_stages: int = 1
) -> tuple[list[float], list[EpochRecord]]:
    """Run stages whose monitor has these values; return the weight after every epoch and at the end."""
    module, weights, remaining = Weight(), list[float](), iter(values)

    class Observer(Callback):
        def on_epoch_end(self, record: EpochRecord) -> None:
            weights.append(float(module.w.detach()))

    stage = Stage("s", len(values) // n_stages, module.step, Optimizer(0.1), eval_interval=eval_interval)
    stage = stage._replace(monitor=lambda *args: next(remaining))
    stages = [stage._replace(name=f"s{i}") for i in range(n_stages)]
    history = train(module, stages, source(DATA, 10), seeded(), [Observer()])
    return [*weights, float(module.w.detach())], history


class TestMonitor:
    def test_stage_ends_with_the_weights_of_the_lowest_value(self):
        weights, history = monitored([3.0, 1.0, 2.0])
        assert weights[-1] == weights[1] != weights[2]
        assert [record.losses["monitor"] for record in history] == [3, 1, 2]

    @pytest.mark.parametrize(("last", "best"), [(1.5, 1), (0.5, 3)])
    def test_lowest_value_is_that_of_all_stages(self, last: float, best: int):
        weights, _ = monitored([3.0, 1.0, 2.0, last], n_stages=2)
        assert weights[-1] == weights[best]

    def test_monitor_is_evaluated_at_the_end_alone_without_an_interval(self):
        weights, history = monitored([1.0, 2.0, 3.0], eval_interval=None)
        assert weights[-1] == weights[-2]
        assert ["monitor" in record.losses for record in history] == [False, False, True]

    def test_stage_that_diverges_ends_with_the_best_weights(self):
        with pytest.warns(DivergenceWarning, match="monitor loss became nan in epoch 1"):
            weights, history = monitored([2.0, *[math.nan] * 9])
        assert weights[-1] == weights[0]
        assert len(history) == 1

    @pytest.mark.filterwarnings("ignore::protocol_mvc.exceptions.DivergenceWarning")
    def test_stage_that_diverges_without_best_weights_is_an_error(self):
        with pytest.raises(DivergenceError, match="monitor"):
            monitored([math.nan] * 9)


class Line(nn.Module):
    """A linear layer of known weights, whose loss depends on the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)
        nn.init.ones_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def step(self, batch: Any, progress: float, context: Any) -> dict[str, Tensor]:
        return {"loss": self.layer(batch.views[0]).square().mean()}

    def weights(self) -> list[float]:
        return [*self.layer.weight.detach()[0].tolist(), float(self.layer.bias.detach())]


def fit_line(batch_size: int, *stages: tuple[int, str], full_batch: bool = False) -> list[float]:
    """Return the weights after stages of this length and this reset of the optimizer."""
    module = Line()
    made = [
        Stage(f"s{i}", n, module.step, Optimizer(0.1, reset), Sampling(full_batch=full_batch))  # type: ignore[arg-type]
        for i, (n, reset) in enumerate(stages)
    ]
    train(module, made, source(DATA, batch_size), seeded())
    return module.weights()


class TestOptimizer:
    def test_sum_of_the_losses_is_minimized(self):
        module = Weight()
        step = lambda batch, progress, context: {"up": 3 * module.w, "down": -module.w}
        train(module, [Stage("s", 1, step, Optimizer(0.1))], source(DATA, 10), seeded())
        assert float(module.w.detach()) == pytest.approx(0.9)  # Adam's first step is the learning rate

    def test_every_batch_is_one_step_of_adam(self):
        module, generator, data = Line(), seeded(), source(DATA, 4)
        adam = torch.optim.Adam(module.parameters(), lr=0.1, fused=True)
        for batch in [batch for _ in range(2) for batch in data.shuffled(generator)]:
            adam.zero_grad()
            module.step(batch, 0.0, None)["loss"].backward()
            adam.step()
        assert fit_line(4, (2, "stage")) == module.weights()

    @pytest.mark.parametrize(("max_grad_norm", "norm"), [(None, 2.0), (100.0, 2.0), (0.5, 0.5)], ids=str)
    def test_gradient_is_clipped_to_max_grad_norm(self, max_grad_norm: float | None, norm: float):
        module = Weight()
        step = lambda batch, progress, context: {"loss": 2 * module.w}
        stage = Stage("s", 1, step, Optimizer(max_grad_norm=max_grad_norm))
        train(module, [stage], source(DATA, 10), seeded())
        assert module.w.grad is not None
        assert module.w.grad.item() == pytest.approx(norm, rel=1e-5)

    @pytest.mark.parametrize("batch_size", [3, 4, 9])
    def test_full_batch_epoch_is_one_step_on_all_samples(self, batch_size: int):
        expected = fit_line(10, (3, "stage"))
        assert fit_line(batch_size, (3, "stage"), full_batch=True) == pytest.approx(expected, rel=1e-5)

    def test_moments_are_kept_over_stages_unless_reset(self):
        once = fit_line(10, (4, "stage"))
        assert fit_line(10, (2, "stage"), (2, "never")) == once
        assert fit_line(10, (2, "stage"), (2, "stage")) != once

    def test_moments_are_reset_after_every_epoch(self):
        by_hand = fit_line(10, (1, "stage"), (1, "never"), (1, "stage"), (1, "stage"))
        assert fit_line(10, (1, "stage"), (3, "epoch")) == by_hand


@pytest.mark.parametrize(("stage", "epoch"), [(0, 7), (2, 0)])
def test_state_of_other_stages_is_refused(stage: int, epoch: int):
    class Stored(Callback):
        def load_state(self) -> TrainingState:
            return TrainingState(stage, epoch, None, 1.0, [], {})

    module = Weight()
    with pytest.raises(ValueError, match=f"stage {stage}, epoch {epoch}"):
        train(module, [Stage("s", 3, module.step)], source(DATA), seeded(), [Stored()])
