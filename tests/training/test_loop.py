"""The loop: stages in order, progress from 0 to 1, means on record, and a stop when a loss breaks."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import seeded, source
from torch import nn

from protocol_mvc.exceptions import DivergenceError, DivergenceWarning
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import EpochRecord, Stage, TrainingState

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
        return Stage(self.name, self.epochs, self.step, 1e-2, self.begin, self.prepare)

    def begin(self, source, generator):
        self.log.append((self.name, "begin"))
        return f"{self.name} begun"

    def prepare(self, source, generator, progress, begun):
        self.log.append((self.name, "prepare", progress, begun))
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


def test_every_epoch_is_prepared_with_what_began_and_its_steps_get_the_context():
    _, log, _ = run((3,))
    per_epoch = [("prepare", progress, "stage 0 begun") for progress in (0.0, 0.5, 1.0)]
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

    train(module, [Stage("bare", 1, step)], source(DATA), seeded())
    assert seen == [None]


def test_a_stage_without_epochs_needs_no_step():
    began = []
    stage = Stage("only begin", begin=lambda source, generator: began.append(len(source)))
    assert train(Weight(), [stage], source(DATA), seeded()) == []
    assert began == [10]


def test_a_stage_with_epochs_needs_a_step():
    with pytest.raises(AssertionError, match="stage 'idle' has epochs but no step"):
        train(Weight(), [Stage("idle", 1)], source(DATA), seeded())


def test_the_record_holds_the_mean_of_each_term_over_the_batches():
    module, values = Weight(), iter([1.0, 2.0, 6.0])

    def step(batch, progress, context):
        value = next(values)
        return {"a": module.w * 0 + value, "b": module.w * 0 - value}

    (epoch,) = train(module, [Stage("s", 1, step)], source(DATA, 4), seeded())
    assert epoch.losses == pytest.approx({"a": 3.0, "b": -3.0})
    assert epoch.seconds >= 0


def test_the_terms_are_summed_and_descended():
    module = Weight()

    def step(batch, progress, context):
        return {"up": 3 * module.w, "down": -module.w}  # the sum falls with w

    train(module, [Stage("s", 1, step, learning_rate=0.1)], source(DATA, 10), seeded())
    assert float(module.w.detach()) == pytest.approx(0.9)  # Adam's first step is the learning rate


def test_steps_see_every_row_once_an_epoch():
    module, rows = Weight(), []

    def step(batch, progress, context):
        rows.extend(batch.rows.tolist())
        return {"loss": module.w.square()}

    train(module, [Stage("s", 2, step)], source(DATA, 4), seeded())
    assert sorted(rows[:10]) == sorted(rows[10:]) == list(range(10))
    assert rows[:10] != rows[10:]


def test_on_epoch_hears_of_each_epoch_as_it_ends():
    heard: list[EpochRecord] = []
    module = Weight()
    stage = Stage("s", 3, lambda batch, progress, context: {"loss": module.w.square()})
    assert train(module, [stage], source(DATA), seeded(), heard.append) == heard
    assert len(heard) == 3


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.filterwarnings("ignore::protocol_mvc.exceptions.DivergenceWarning")
def test_a_loss_that_is_broken_at_any_rate_stops_the_training(value: float):
    module, calls = Weight(), []

    def step(batch, progress, context):
        calls.append(progress)
        return {"fine": module.w.square(), "broken": module.w * (value if progress else 1.0)}

    expected = rf"the broken loss became {value} in epoch 1 of stage 'tune'.*learning rate.*scale"
    with pytest.raises(DivergenceError, match=expected):
        train(module, [Stage("tune", 5, step)], source(DATA), seeded())
    assert calls == [0.0, *[0.25] * 4]  # the rate, a tenth, a hundredth, a thousandth


def test_an_epoch_that_diverges_is_run_again_from_where_it_began_at_a_lower_rate():
    module, started = Weight(), []

    def step(batch, progress, context):
        if progress == 1:
            started.append(float(module.w.detach()))
        return {"loss": module.w.square() * (math.nan if progress == 1 and len(started) < 3 else 1.0)}

    with pytest.warns(DivergenceWarning, match=r"epoch 2 of stage 'tune': it is run again at 0.\d+ of"):
        history = train(module, [Stage("tune", 3, step, 0.1)], source(DATA, 10), seeded())
    assert len(set(started)) == 1
    assert [epoch.epoch for epoch in history] == [0, 1, 2]
    assert [epoch.rate for epoch in history] == pytest.approx([0.1, 0.1, 0.001])


@pytest.mark.parametrize("last", [math.nan, math.inf], ids=str)
def test_weights_that_broke_in_the_last_step_are_noticed(last: float):
    module = Weight()

    def step(batch, progress, context):
        module.w.register_hook(lambda gradient: gradient * last)
        return {"loss": module.w.square()}

    with (
        pytest.warns(DivergenceWarning, match="norm of the weights became nan"),
        pytest.raises(DivergenceError, match="norm of the weights became nan"),
    ):
        train(module, [Stage("s", 1, step)], source(DATA, 10), seeded())


def test_a_loss_that_explodes_is_a_divergence_too():
    module, values = Weight(), iter([1.0, 5.0, 1e9, 4.0])
    step = lambda batch, progress, context: {"loss": module.w * 0 + next(values)}
    with pytest.warns(DivergenceWarning, match="the loss became 1e[+]09 in epoch 2"):
        history = train(module, [Stage("s", 3, step)], source(DATA, 10), seeded())
    assert [epoch.losses["loss"] for epoch in history] == [1, 5, 4]


def test_a_state_that_no_such_training_has_is_refused():
    module = Weight()

    class Kept:
        def load(self):
            return TrainingState(0, 7, None, 1.0, [], {})

        def keep(self, state, *, final=False):
            raise AssertionError

    step = lambda batch, progress, context: {"loss": module.w.square()}
    with pytest.raises(ValueError, match="stage 0, epoch 7, which is not there"):
        train(module, [Stage("s", 3, step)], source(DATA), seeded(), keeper=Kept())


def visited(stage: Stage, batch_size: int, seed: int = 0) -> list[list[int]]:
    """The rows of every step of a stage."""
    module, rows = Weight(), []

    def step(batch, progress, context):
        rows.append(batch.rows.tolist())
        return {"loss": module.w.square()}

    train(module, [stage._replace(step=step)], source(DATA, batch_size), seeded(seed))
    return rows


@given(st.integers(1, 25), st.integers(1, 12))
def test_an_epoch_is_the_fewest_whole_passes_that_have_enough_steps(least: int, batch_size: int):
    steps = visited(Stage("s", 1, least_steps=least), batch_size)
    n_batches = -(-10 // batch_size)
    assert len(steps) % n_batches == 0
    assert len(steps) - n_batches < least <= len(steps)
    for first in range(0, len(steps), n_batches):
        assert sorted(chain.from_iterable(steps[first : first + n_batches])) == list(range(10))


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 25))
def test_an_epoch_ends_after_its_most_steps(most: int, batch_size: int, least: int):
    stage = Stage("s", 1, least_steps=least)
    assert visited(stage._replace(most_steps=most), batch_size) == visited(stage, batch_size)[:most]


def test_epochs_that_are_cut_see_other_rows_each_time():
    steps = visited(Stage("s", 30, most_steps=1), batch_size=2)
    assert len(steps) == 30
    assert set(chain.from_iterable(steps)) == set(range(10))


def test_the_record_of_an_epoch_is_the_mean_of_the_steps_it_had():
    module, values = Weight(), iter([1.0, 2.0, 6.0, 50.0])
    step = lambda batch, progress, context: {"a": module.w * 0 + next(values)}
    (epoch,) = train(module, [Stage("s", 1, step, most_steps=2)], source(DATA, 4), seeded())
    assert epoch.losses == pytest.approx({"a": 1.5})


def test_the_generator_decides_the_order_alone():
    stage = Stage("s", 2, least_steps=5)
    assert visited(stage, 4, seed=1) == visited(stage, 4, seed=1) != visited(stage, 4, seed=2)


def test_begin_and_prepare_get_the_generator_and_the_source_of_the_training():
    module, data, generator = Weight(), source(DATA), seeded()
    seen: list[Any] = []
    stage = Stage(
        "s",
        1,
        lambda batch, progress, context: {"loss": module.w.square()},
        begin=lambda *given: seen.append(given),
        prepare=lambda *given: seen.append(given[:2]),
    )
    train(module, [stage], data, generator)
    assert seen == [(data, generator)] * 2


def test_false_leaves_a_stage_out_without_a_trace():
    _, log, expected = run((2, 1))
    module = Weight()
    seen: list[Any] = []
    stages = [Spy(module, f"stage {i}", n, seen).stage() for i, n in enumerate((2, 1))]
    absent = stages[0]._replace(name="absent", begin=lambda source, generator: False)
    history = train(module, [stages[0], absent, stages[1]], source(DATA, 4), seeded())
    assert seen == log
    assert [epoch.losses for epoch in history] == [epoch.losses for epoch in expected]


def test_on_skip_hears_of_the_stages_that_are_left_out_alone():
    module, heard = Weight(), list[Stage]()
    step = lambda batch, progress, context: {"loss": module.w.square()}
    begins = [lambda source, generator: True, lambda source, generator: False]
    stages = [Stage(f"stage {i}", i, step, begin=begins[i % 2]) for i in range(4)]
    history = train(module, stages, source(DATA), seeded(), on_skip=heard.append)
    assert heard == [stages[1], stages[3]]
    assert len(history) + sum(stage.epochs for stage in heard) == sum(stage.epochs for stage in stages)


@pytest.mark.parametrize("value", [None, 0, "", (), True], ids=repr)
def test_nothing_but_false_leaves_a_stage_out_or_ends_it(value):
    module, given_on = Weight(), []

    def prepare(source, generator, progress, begun):
        given_on.append(begun)
        return value

    step = lambda batch, progress, context: {"loss": module.w.square()}
    stage = Stage("s", 2, step, begin=lambda source, generator: value, prepare=prepare)
    assert len(train(module, [stage], source(DATA), seeded())) == 2
    assert given_on == [value, value]


@pytest.mark.parametrize("length", range(4))
def test_a_stage_ends_where_it_is_prepared_with_false_and_the_next_begins(length):
    module, log, heard = Weight(), list[Any](), list[Stage]()
    long, last = Spy(module, "long", 3, log).stage(), Spy(module, "last", 1, log).stage()
    ends = lambda source, generator, progress, begun: progress < length / 2
    history = train(module, [long._replace(prepare=ends), last], source(DATA), seeded(), on_skip=heard.append)
    assert [(epoch.stage, epoch.epoch) for epoch in history] == [
        *(("long", epoch) for epoch in range(length)),
        ("last", 0),
    ]
    assert sum(event[:2] == ("long", "step") for event in log) == length
    assert [(stage.name, stage.epochs) for stage in heard] == ([("long", 3 - length)] if length < 3 else [])


def test_without_a_begin_nothing_has_begun():
    module, given_on = Weight(), []
    step = lambda batch, progress, context: {"loss": module.w.square()}
    prepare = lambda source, generator, progress, begun: given_on.append(begun)
    train(module, [Stage("s", 1, step, prepare=prepare)], source(DATA), seeded())
    assert given_on == [None]


def test_a_stage_with_a_monitor_cannot_end_unseen():
    module, log = Weight(), list[Any]()
    stage = (
        Spy(module, "s", 2, log)
        .stage()
        ._replace(
            prepare=lambda source, generator, progress, begun: False, monitor=lambda source, generator: 0.0
        )
    )
    with pytest.raises(AssertionError, match="stage 's' cannot end before its monitor has looked"):
        train(module, [stage], source(DATA), seeded())


def watched(
    values: Sequence[float], every: int | None = 1, stages: int = 1, **kwargs: Any
) -> tuple[list[float], list[EpochRecord]]:
    """The weight after every epoch and at the end, and the history of stages that see these values."""
    module, weights, given_out = Weight(), list[float](), iter(values)
    step = lambda batch, progress, context: {"loss": module.w.square()}
    monitor = lambda source, generator: next(given_out)
    stage = Stage("s", len(values) // stages, step, 0.1, monitor=monitor, every=every)
    parts = [stage._replace(name=f"s{i}") for i in range(stages)]
    history = train(
        module,
        parts,
        source(DATA, 10),
        seeded(),
        lambda _: weights.append(float(module.w.detach())),
        **kwargs,
    )
    return [*weights, float(module.w.detach())], history


def test_a_monitored_stage_ends_with_the_weights_of_the_least_value():
    weights, history = watched([3.0, 1.0, 2.0])
    assert weights[-1] == weights[1] != weights[2]
    assert [epoch.losses["monitored"] for epoch in history] == [3, 1, 2]


def test_the_best_of_several_stages_is_found_among_all_of_them():
    weights, _ = watched([3.0, 1.0, 2.0, 1.5], stages=2)
    assert weights[-1] == weights[1]
    weights, _ = watched([3.0, 1.0, 2.0, 0.5], stages=2)
    assert weights[-1] == weights[3]


def test_without_an_interval_the_monitor_looks_at_the_end_alone():
    weights, history = watched([1.0, 2.0, 3.0], every=None)
    assert weights[-1] == weights[-2]
    assert ["monitored" in epoch.losses for epoch in history] == [False, False, True]


def test_a_monitored_stage_that_breaks_down_gives_the_best_there_was():
    with pytest.warns(DivergenceWarning) as heard:
        weights, history = watched([2.0, *[math.nan] * 9])
    assert "monitored loss became nan in epoch 1" in str(heard[-1].message)
    assert "best weights so far are kept" in str(heard[-1].message)
    assert weights[-1] == weights[0]
    assert len(history) == 1


@pytest.mark.filterwarnings("ignore::protocol_mvc.exceptions.DivergenceWarning")
def test_a_stage_that_has_no_good_weights_at_all_is_an_error():
    with pytest.raises(DivergenceError, match="monitored"):
        watched([math.nan] * 9)


class Interrupted:
    """Keeps every state; the second training goes on from the one of that number."""

    def __init__(self, number: int | None = None, states: list[TrainingState] | None = None) -> None:
        self.number, self.states = number, [] if states is None else states

    def load(self) -> TrainingState | None:
        return None if self.number is None else self.states[self.number]

    def keep(self, state: TrainingState, *, final: bool = False) -> None:
        if self.number is None:
            copies = {name: value.clone() for name, value in state.tensors.items()}
            self.states.append(state._replace(history=list(state.history), tensors=copies))


@pytest.mark.parametrize("number", range(5))
def test_the_best_is_remembered_when_a_training_goes_on(number: int):
    values = [3.0, 1.0, 2.0, 1.5]
    kept = Interrupted()
    weights, _ = watched(values, stages=2, keeper=kept)
    module, rest = Weight(), iter(values[number:])
    step = lambda batch, progress, context: {"loss": module.w.square()}
    stage = Stage("s", 2, step, 0.1, monitor=lambda source, generator: next(rest), every=1)
    parts = [stage._replace(name=f"s{i}") for i in range(2)]
    train(module, parts, source(DATA, 10), seeded(), keeper=Interrupted(number, kept.states))
    assert float(module.w.detach()) == weights[-1]


@pytest.mark.parametrize(("clip", "length"), [(None, 2.0), (100.0, 2.0), (0.5, 0.5)], ids=str)
def test_long_gradients_are_clipped(clip: float | None, length: float):
    module = Weight()
    stage = Stage("s", 1, lambda batch, progress, context: {"loss": 2 * module.w}, clip=clip)
    train(module, [stage], source(DATA, 10), seeded())
    assert module.w.grad is not None
    assert module.w.grad.item() == pytest.approx(length, rel=1e-5)


class Line(nn.Module):
    """A slope and an offset."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)
        nn.init.ones_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def step(self, batch, progress, context):
        return {"loss": self.layer(batch.views[0]).square().mean()}


def line(
    batch_size: int, parts: Sequence[Stage], keeper: Any = None
) -> tuple[list[float], list[EpochRecord]]:
    module = Line()
    stages = [part._replace(step=module.step, learning_rate=0.1) for part in parts]
    history = train(module, stages, source(DATA, batch_size), seeded(), keeper=keeper)
    return [*module.layer.weight.detach()[0].tolist(), float(module.layer.bias.detach())], history


@pytest.mark.parametrize("batch_size", [3, 4, 9])
def test_a_whole_epoch_is_one_step_on_all_samples(batch_size: int):
    expected, _ = line(10, [Stage("s", 3)])
    found, history = line(batch_size, [Stage("s", 3, whole=True)])
    assert found == pytest.approx(expected, rel=1e-5)
    assert len(history) == 3


def test_an_optimiser_is_kept_over_stages_renewed_or_fresh():
    once, _ = line(10, [Stage("s", 4)])
    kept, _ = line(10, [Stage("s", 2), Stage("t", 2, adam="kept")])
    fresh, _ = line(10, [Stage("s", 2), Stage("t", 2)])
    assert kept == once != fresh
    renewed, _ = line(10, [Stage("s", 1), Stage("t", 3, adam="renewed")])
    by_hand, _ = line(10, [Stage("s", 1), Stage("t", 1, adam="kept"), Stage("u", 1), Stage("v", 1)])
    assert renewed == by_hand


@pytest.mark.parametrize("adam", ["fresh", "kept", "renewed"])
@pytest.mark.parametrize("number", range(4))
def test_a_training_goes_on_with_the_moments_it_had(number: int, adam: Any):
    stages, kept = [Stage("s", 2), Stage("t", 2, adam=adam)], Interrupted()
    expected, _ = line(4, stages, kept)
    found, _ = line(4, stages, Interrupted(number, kept.states))
    assert found == expected
