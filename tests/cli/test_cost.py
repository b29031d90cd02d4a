"""The estimated cost grows with the data and counts the steps of the training loop."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import TINY, TINY_PAPER, blobs, seeded, source, tiny
from tests.methods.small import small
from torch import nn

from protocol_mvc.cli import info
from protocol_mvc.cli.info import START_EXPONENT, StageTime, estimate_cost, measure_stage
from protocol_mvc.data import as_views
from protocol_mvc.data.batches import Source
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.exceptions import DivergenceError
from protocol_mvc.training.stage import STOP, Sampling, Stage
from protocol_mvc.utils.config import update_config

VIEWS, _ = blobs((40, 20, 10))


@pytest.mark.parametrize("config", [TINY, TINY_PAPER])
def test_a_fit_costs_time_and_memory(config):
    found = estimate_cost(as_views(VIEWS), tiny(config=config))
    assert found.seconds is not None
    assert 0 < found.seconds < 60
    assert found.n_bytes > sum(view.nbytes for view in VIEWS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_method_has_a_cost(name: str):
    found = estimate_cost(as_views(VIEWS), small(name))
    assert found.seconds is not None
    assert 0 < found.seconds < 60


def test_memory_grows_with_the_samples():
    large = as_views([np.tile(view, (10, 1)) for view in VIEWS])
    assert estimate_cost(large, tiny()).n_bytes > estimate_cost(as_views(VIEWS), tiny()).n_bytes


def test_a_trial_changes_neither_model_nor_data():
    views, model = as_views(VIEWS), tiny()
    before = [view.copy() for view in VIEWS]
    estimate_cost(views, model)
    assert not hasattr(model, "labels_")
    assert all(np.array_equal(a, b) for a, b in zip(before, VIEWS, strict=True))


def test_a_fit_without_epochs_has_a_cost():
    names = ("n_epochs_align", "n_epochs_rebalance")
    config = update_config(TINY, {f"schedule__{name}": 0 for name in names})
    assert estimate_cost(as_views(VIEWS), tiny(config=config)).seconds is not None


def test_times_grow_from_the_samples_that_were_measured():
    stage = Stage("s", n_epochs=1, sampling=Sampling(max_samples=20))
    measured = StageTime(stage, on_start=3.0, on_epoch_start=0.0, step=0.0)
    assert measured.extrapolate(1000, 50, 10) == 3.0
    assert measured.extrapolate(1000, 10, 10) == 3.0 * 2**START_EXPONENT


@given(
    min_steps=st.integers(1, 9),
    max_steps=st.none() | st.integers(1, 20),
    max_samples=st.none() | st.integers(1, 60),
    n=st.integers(1, 60),
)
def test_steps_are_those_of_the_training_loop(min_steps, max_steps, max_samples, n):
    stage = Stage("s", n_epochs=3, sampling=Sampling(min_steps, max_steps, max_samples))
    used = source(np.zeros((n, 1)), batch_size=10).subsample(max_samples, [0])
    n_steps = len(list(stage.sampling.batches(used, seeded())))
    assert StageTime(stage, on_start=0.0, on_epoch_start=0.0, step=1.0).extrapolate(n, 5, 10) == 3 * n_steps


@pytest.mark.parametrize(("length", "expected"), [(1, 5), (2, 10), (4, 20)])
def test_a_stage_that_stops_early_in_the_trial_is_expected_to_stop_early(length: int, expected: int):
    module, pause = nn.Linear(1, 1), 0.02

    def on_epoch_start(source: Source, generator: torch.Generator, progress: float, start_value: None):
        time.sleep(pause)
        return STOP if round(3 * progress) >= length else None  # a trial has four epochs

    step = lambda batch, progress, context: {"loss": module.weight.square().sum()}
    stage = Stage("s", 20, step, on_epoch_start=on_epoch_start)
    measured = measure_stage(stage, module, source(VIEWS), seeded())
    assert measured.stage.n_epochs == expected
    assert measured.on_epoch_start * length >= min(length + 1, 4) * pause  # the last call stops
    assert measured.step > 0


def test_a_trial_that_diverges_gives_no_time(monkeypatch):
    def diverge(*args):
        raise DivergenceError("nan")

    monkeypatch.setattr(info, "train", diverge)
    assert estimate_cost(as_views(VIEWS), tiny()).seconds is None
