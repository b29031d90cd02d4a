"""Costs grow with the data, and count the steps that a fit would take."""

import time

import numpy as np
import pytest
import torch
from tests.examples import TINY, TINY_PAPER, blobs, seeded, source, tiny
from tests.methods.small import small
from torch import nn

from protocol_mvc import ProtocolConfig
from protocol_mvc.cli import cost
from protocol_mvc.data import as_views
from protocol_mvc.data.batches import Source
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.exceptions import DivergenceError
from protocol_mvc.training.stage import STOP, Sampling, Signal, Stage

VIEWS, _ = blobs((40, 20, 10))


@pytest.mark.parametrize("config", [TINY, TINY_PAPER])
def test_a_fit_costs_time_and_memory(config):
    found = cost.cost(as_views(VIEWS), tiny(config=config))
    assert found.seconds is not None
    assert 0 < found.seconds < 60
    assert found.n_bytes > sum(view.nbytes for view in VIEWS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_method_has_its_cost(name: str):
    found = cost.cost(as_views(VIEWS), small(name))
    assert found.seconds is not None
    assert 0 < found.seconds < 60


def test_memory_grows_with_the_samples():
    large = as_views([np.tile(view, (10, 1)) for view in VIEWS])
    assert cost.cost(large, tiny()).n_bytes > cost.cost(as_views(VIEWS), tiny()).n_bytes


def test_a_trial_leaves_model_and_data_alone():
    views, model = as_views(VIEWS), tiny()
    before = [view.copy() for view in VIEWS]
    cost.cost(views, model)
    assert not hasattr(model, "labels_")
    assert all(np.array_equal(a, b) for a, b in zip(before, VIEWS, strict=True))


def test_a_fit_without_a_stage_has_a_cost():
    lengths = ("reconstruct_length", "align_length", "twins_length", "rounds")
    nothing = ProtocolConfig(**{**dict(TINY), **dict.fromkeys(lengths, 0)})
    assert cost.cost(as_views(VIEWS), tiny(config=nothing)).seconds is not None


def test_what_a_trial_took_grows_from_the_samples_it_worked_on():
    trial = cost.Trial(Stage("s", 1, sampling=Sampling(max_samples=20)), begin=3.0, prepare=0.0, step=0.0)
    assert trial.whole(1000, 50, 10) == 3.0
    assert trial.whole(1000, 10, 10) == 6.0


@pytest.mark.parametrize(
    ("least", "most", "most_rows", "n", "steps"),
    [
        (1, None, None, 50, 5),
        (8, None, None, 50, 10),
        (1, 4, None, 50, 4),
        (8, 16, 1000, 1000, 16),
        (1, None, 30, 50, 3),
        (8, None, 30, 50, 9),
    ],
)
def test_steps_are_those_of_the_training_loop(
    least: int, most: int | None, most_rows: int | None, n: int, steps: int
):
    stage = Stage("s", 3, sampling=Sampling(least, most, most_rows))
    assert cost.Trial(stage, begin=0.0, prepare=0.0, step=1.0).whole(n, 5, 10) == 3 * steps
    growth = min(n, most_rows or n) / 5
    assert cost.Trial(stage, begin=1.0, prepare=0.5, step=0.0).whole(n, 5, 10) == growth * (1 + 3 * 0.5)


@pytest.mark.parametrize(("length", "epochs"), [(1, 5), (2, 10), (4, 20)])
def test_a_stage_is_expected_to_end_as_early_as_its_trial(length: int, epochs: int):
    module, pause = nn.Linear(1, 1), 0.02

    def prepare(source: Source, generator: torch.Generator, progress: float, value: None) -> Signal | None:
        time.sleep(pause)
        return STOP if round(3 * progress) >= length else None  # a trial has four epochs

    step = lambda batch, progress, context: {"loss": module.weight.square().sum()}
    stage = Stage("s", 20, step, on_epoch_start=prepare)
    trial = cost._tried(stage, module, source(VIEWS), seeded())
    assert trial.stage.n_epochs == epochs
    assert trial.prepare * length >= min(length + 1, 4) * pause  # the call that ends it is paid for too
    assert trial.step > 0


def test_a_trial_that_diverges_tells_no_time(monkeypatch):
    def diverge(*args):
        raise DivergenceError("nan")

    monkeypatch.setattr(cost, "train", diverge)
    assert cost.cost(as_views(VIEWS), tiny()).seconds is None
