"""Batches of an epoch, epochs at which the monitor is evaluated, and rows of the history."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import seeded, source

from protocol_mvc.training.stage import EpochRecord, Optimizer, Sampling, Stage

DATA = np.arange(20.0).reshape(10, 2)


def rows_of(sampling: Sampling, batch_size: int, seed: int = 0) -> list[list[int]]:
    """Return the rows of every batch of one epoch."""
    return [batch.rows.tolist() for batch in sampling.batches(source(DATA, batch_size), seeded(seed))]


@given(st.integers(1, 25), st.integers(1, 12))
def test_epoch_is_the_fewest_passes_with_min_steps(min_steps: int, batch_size: int):
    batches = rows_of(Sampling(min_steps), batch_size)
    n_batches = -(-10 // batch_size)
    assert len(batches) % n_batches == 0
    assert len(batches) - n_batches < min_steps <= len(batches)
    for first in range(0, len(batches), n_batches):
        assert sorted(chain.from_iterable(batches[first : first + n_batches])) == list(range(10))


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 25))
def test_epoch_is_cut_after_max_steps(max_steps: int, batch_size: int, min_steps: int):
    whole = rows_of(Sampling(min_steps), batch_size)
    assert rows_of(Sampling(min_steps, max_steps), batch_size) == whole[:max_steps]


def test_cut_epochs_use_other_rows_each_time():
    generator, data = seeded(), source(DATA, 2)
    epochs = [list(Sampling(max_steps=1).batches(data, generator)) for _ in range(30)]
    assert {len(batches) for batches in epochs} == {1}
    assert {row for (batch,) in epochs for row in batch.rows.tolist()} == set(range(10))


def test_order_of_rows_depends_on_the_generator_alone():
    sampling = Sampling(min_steps=5)
    assert rows_of(sampling, 4, seed=1) == rows_of(sampling, 4, seed=1) != rows_of(sampling, 4, seed=2)


def test_learning_rate_is_constant_or_falls_to_zero_by_a_cosine():
    assert [Optimizer(0.2).lr_at(t, 8) for t in (0.0, 0.5, 1.0)] == [0.2, 0.2, 0.2]
    cosine = Optimizer(0.2, scheduler="cosine")
    assert [cosine.lr_at(t, 8) for t in (0, 0.5, 1)] == pytest.approx([0.2, 0.1, 0])


def test_learning_rate_of_a_batch_size_grows_in_proportion():
    rates = [Optimizer(0.2, batch_size=128).lr_at(0, n) for n in (64, 128, 512)]
    assert rates == pytest.approx([0.1, 0.2, 0.8])


@pytest.mark.parametrize(
    ("eval_interval", "expected"),
    [(None, [6]), (1, [0, 1, 2, 3, 4, 5, 6]), (3, [2, 5, 6]), (7, [6]), (9, [6])],
)
def test_monitor_is_evaluated_at_every_interval_and_at_the_end(
    eval_interval: int | None, expected: list[int]
):
    stage = Stage("s", 7, monitor=lambda *args: 0.0, eval_interval=eval_interval)
    assert [epoch for epoch in range(7) if stage.is_evaluated(epoch)] == expected


def test_nothing_is_evaluated_without_a_monitor():
    assert not any(Stage("s", 3, eval_interval=1).is_evaluated(epoch) for epoch in range(3))


def test_row_of_a_record_is_flat():
    row = EpochRecord("s", 3, 0.5, 0.1, 1.0, {"loss": 2.0}).row()
    assert row == {"stage": "s", "epoch": 3, "seconds": 0.5, "lr": 0.1, "lr_factor": 1.0, "loss": 2.0}
