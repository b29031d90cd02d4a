"""Fits that are interrupted in place of a killed process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol_mvc.training import checkpoint
from protocol_mvc.training.checkpoint import Checkpoint
from protocol_mvc.training.stage import TrainingState

MAX_INTERRUPTIONS = 100


class StopError(Exception):
    """Raised in place of a kill."""


def interrupted(call: Callable[[], Any], n_epochs: int) -> Any:
    """Call a function that fits, write every state, and interrupt it after `n_epochs` epochs.

    Args:
        call: calls `fit` with a `checkpoint_dir`.
        n_epochs: epochs after which the fit is interrupted.

    Returns:
        What the function returns, or None if it was interrupted.
    """
    write, n_states = Checkpoint.on_epoch_start, 0

    def on_epoch_start(self: Checkpoint, state: TrainingState) -> None:
        nonlocal n_states
        write(self, state)
        n_states += 1
        if n_states > n_epochs:
            raise StopError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "SAVE_INTERVAL", 0.0)
        patch.setattr(Checkpoint, "on_epoch_start", on_epoch_start)
        try:
            return call()
        except StopError:
            return None


def interrupted_at_every_epoch(make: Callable[[], Any], X: Any, folder: Path) -> tuple[Any, int]:
    """Interrupt a fit after every epoch; return the fitted estimator and the number of interruptions.

    Args:
        make: returns a new estimator.
        X: the data.
        folder: folder of the checkpoint.
    """
    for n_interruptions in range(MAX_INTERRUPTIONS):
        model = interrupted(lambda: make().fit(X, checkpoint_dir=folder), 1)
        if model is not None:
            return model, n_interruptions
    raise AssertionError(f"the fit did not end after {MAX_INTERRUPTIONS} interruptions")
