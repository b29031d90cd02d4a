"""The loop: stages in order, progress from 0 to 1, means on record, and a stop when a loss breaks."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import seeded, source
from torch import nn

from protocol_mvc.training import DivergenceError, Duration, Epoch, Stage, train

DATA = np.arange(20.0).reshape(10, 2)


class Weight(nn.Module):
    """One number."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(()))


class Spy:
    """A stage that writes down everything that happens to it."""

    def __init__(self, module: Weight, name: str, epochs: int, log: list[Any]) -> None:
        self.module, self.name, self.epochs, self.log = module, name, epochs, log

    def stage(self) -> Stage:
        return Stage(self.name, Duration(self.epochs), self.step, 1e-2, self.begin, self.prepare)

    def begin(self, source, generator):
        self.log.append((self.name, "begin"))

    def prepare(self, source, generator, progress):
        self.log.append((self.name, "prepare", progress))
        return f"context at {progress}"

    def step(self, batch, progress, context):
        self.log.append((self.name, "step", progress, context))
        return {"loss": self.module.w.square()}


def run(epochs: tuple[int, ...], batch_size: int = 4):
    module = Weight()
    log: list[Any] = []
    stages = [Spy(module, f"stage {i}", n, log).stage() for i, n in enumerate(epochs)]
    return module, log, train(module, stages, source(DATA, batch_size), seeded())


def test_stages_run_in_order_and_each_begins_once():
    _, log, history = run((2, 0, 1))
    assert [event for event in log if event[1] == "begin"] == [(f"stage {i}", "begin") for i in range(3)]
    assert [event[0] for event in log] == sorted(event[0] for event in log)
    assert [(epoch.stage, epoch.epoch) for epoch in history] == [
        ("stage 0", 0),
        ("stage 0", 1),
        ("stage 2", 0),
    ]


def test_every_epoch_is_prepared_and_its_steps_get_the_context():
    _, log, _ = run((3,))
    per_epoch = [("prepare", 0.0), ("prepare", 0.5), ("prepare", 1.0)]
    assert [event[1:] for event in log if event[1] == "prepare"] == per_epoch
    steps = [event[2:] for event in log if event[1] == "step"]
    assert steps == [(p, f"context at {p}") for p in (0.0, 0.5, 1.0) for _ in range(3)]  # 10 rows by 4


@given(st.integers(1, 7))
def test_progress_goes_evenly_from_0_to_1(epochs: int):
    _, log, _ = run((epochs,), batch_size=10)
    progress = [event[2] for event in log if event[1] == "step"]
    assert progress == pytest.approx(np.linspace(0, 1, epochs) if epochs > 1 else [0])


def test_a_stage_without_prepare_has_no_context():
    module, seen = Weight(), []

    def step(batch, progress, context):
        seen.append(context)
        return {"loss": module.w.square()}

    train(module, [Stage("bare", Duration(1), step)], source(DATA), seeded())
    assert seen == [None]


def test_a_stage_without_epochs_needs_no_step():
    began = []
    stage = Stage("only begin", begin=lambda source, generator: began.append(len(source)))
    assert train(Weight(), [stage], source(DATA), seeded()) == []
    assert began == [10]


def test_a_stage_with_epochs_needs_a_step():
    with pytest.raises(AssertionError, match="stage 'idle' has epochs but no step"):
        train(Weight(), [Stage("idle", Duration(1))], source(DATA), seeded())


def test_the_record_holds_the_mean_of_each_term_over_the_batches():
    module, values = Weight(), iter([1.0, 2.0, 6.0])

    def step(batch, progress, context):
        value = next(values)
        return {"a": module.w * 0 + value, "b": module.w * 0 - value}

    (epoch,) = train(module, [Stage("s", Duration(1), step)], source(DATA, 4), seeded())
    assert epoch.losses == pytest.approx({"a": 3.0, "b": -3.0})
    assert epoch.seconds >= 0


def test_the_terms_are_summed_and_descended():
    module = Weight()

    def step(batch, progress, context):
        return {"up": 3 * module.w, "down": -module.w}  # the sum falls with w

    train(module, [Stage("s", Duration(1), step, learning_rate=0.1)], source(DATA, 10), seeded())
    assert float(module.w.detach()) == pytest.approx(0.9)  # Adam's first step is the learning rate


def test_steps_see_every_row_once_an_epoch():
    module, rows = Weight(), []

    def step(batch, progress, context):
        rows.extend(batch.rows.tolist())
        return {"loss": module.w.square()}

    train(module, [Stage("s", Duration(2), step)], source(DATA, 4), seeded())
    assert sorted(rows[:10]) == sorted(rows[10:]) == list(range(10))
    assert rows[:10] != rows[10:]


def test_on_epoch_hears_of_each_epoch_as_it_ends():
    heard: list[Epoch] = []
    module = Weight()
    stage = Stage("s", Duration(3), lambda batch, progress, context: {"loss": module.w.square()})
    assert train(module, [stage], source(DATA), seeded(), heard.append) == heard
    assert len(heard) == 3


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_broken_loss_stops_the_training_with_advice(value: float):
    module, calls = Weight(), []

    def step(batch, progress, context):
        calls.append(progress)
        return {"fine": module.w.square(), "broken": module.w * (value if progress else 1.0)}

    expected = rf"the broken loss became {value} in epoch 1 of stage 'tune'.*learning rate.*scale"
    with pytest.raises(DivergenceError, match=expected):
        train(module, [Stage("tune", Duration(5), step)], source(DATA), seeded())
    assert calls == [0.0, 0.25]


@given(st.integers(0, 50), st.integers(1, 9))
def test_a_duration_in_steps_is_the_fewest_passes_that_have_them(length: int, n_batches: int):
    epochs = Duration(length, "steps").epochs(n_batches)
    assert epochs * n_batches >= length > (epochs - 1) * n_batches
    assert Duration(length).epochs(n_batches) == length
