"""A stage knows after which of its epochs the monitor looks."""

import pytest

from protocol_mvc.training.stage import EpochRecord, Stage


@pytest.mark.parametrize(
    ("every", "expected"),
    [(None, [6]), (1, [0, 1, 2, 3, 4, 5, 6]), (3, [2, 5, 6]), (7, [6]), (9, [6])],
)
def test_the_monitor_looks_every_so_often_and_at_the_end(every: int | None, expected: list[int]):
    stage = Stage("s", 7, monitor=lambda source, generator: 0.0, every=every)
    assert [epoch for epoch in range(7) if stage.is_watched(epoch)] == expected


def test_without_a_monitor_there_is_nothing_to_see():
    assert not any(Stage("s", 3, every=1).is_watched(epoch) for epoch in range(3))


def test_the_row_of_an_epoch_has_its_losses_side_by_side():
    row = EpochRecord("s", 3, 0.5, 0.1, 1.0, {"loss": 2.0}).row()
    assert row == {"stage": "s", "epoch": 3, "seconds": 0.5, "rate": 0.1, "slowness": 1.0, "loss": 2.0}
