"""What a fit would cost in time and memory, from a few real steps on a part of the data."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from protocol_mvc.cli.describe import stored_bytes
from protocol_mvc.data.checks import is_mapped, is_sparse
from protocol_mvc.data.views import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.exceptions import DivergenceError
from protocol_mvc.partition.config import CandidateOptions
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import Stage
from protocol_mvc.utils.config import resolve_auto

TRIAL_ROWS = 2048
TRIAL_STEPS, TRIAL_EPOCHS = 8, 4  # enough to learn something: of rubbish there is more to perceive


class Cost(NamedTuple):
    """What a fit is expected to take; both are estimates."""

    n_bytes: int
    seconds: float | None  # None if the trial failed


def cost(views: Views, model: MultiViewClusterer) -> Cost:
    """Try a few real steps of every stage on a part of the data, and count how many a fit would take."""
    n = len(views)
    rows = np.sort(np.random.default_rng(0).permutation(n)[:TRIAL_ROWS])
    part = views[rows]
    method, source, generator = model._set_up(part)
    stages = method.stages()
    most = max((_rows_of(stage, n) for stage in stages if stage.n_epochs), default=n)
    n_bytes = _fit_bytes(views, most, model.n_clusters, method)
    try:
        trials = [_tried(stage, method, source, generator) for stage in stages]
    except DivergenceError:
        return Cost(n_bytes, None)
    size = resolve_auto(model.batch_size, model._method.batch_size)
    return Cost(n_bytes, sum(trial.whole(n, len(part), size) for trial in trials))


def _rows_of(stage: Stage, n: int) -> int:
    """Samples that a stage works on."""
    return n if stage.sampling.max_samples is None else min(n, stage.sampling.max_samples)


class Trial(NamedTuple):
    """What a few steps of a stage took."""

    stage: Stage
    begin: float  # seconds before the stage, growing with the samples
    prepare: float  # before an epoch, growing with the samples too
    step: float

    def whole(self, n: int, tried: int, batch_size: int) -> float:
        """Seconds of the whole stage for n samples, after a trial with some of them."""
        rows = _rows_of(self.stage, n)
        n_batches, growth = -(-rows // batch_size), rows / _rows_of(self.stage, tried)
        passes = -(-self.stage.sampling.min_steps // n_batches)
        steps = min(passes * n_batches, self.stage.sampling.max_steps or passes * n_batches)
        return growth * self.begin + self.stage.n_epochs * (growth * self.prepare + steps * self.step)


def _tried(stage: Stage, method: Any, source: Any, generator: Any) -> Trial:
    begin, prepare = _Clock(stage.on_start), _Clock(stage.on_epoch_start)
    short = stage._replace(
        n_epochs=min(stage.n_epochs, TRIAL_EPOCHS),
        sampling=stage.sampling._replace(min_steps=1, max_steps=TRIAL_STEPS),
        on_start=begin if stage.on_start else None,
        on_epoch_start=prepare if stage.on_epoch_start else None,
    )
    epochs = train(method, [short], source, generator)
    if not epochs:  # left out, or nothing but a beginning
        return Trial(stage._replace(n_epochs=0), sum(begin.seconds), 0.0, 0.0)
    steps = len(epochs) * min(TRIAL_STEPS, source.n_batches)
    in_steps = sum(epoch.seconds for epoch in epochs) - sum(prepare.seconds[: len(epochs)])
    taken = stage._replace(n_epochs=round(stage.n_epochs * len(epochs) / short.n_epochs))  # it may end early
    return Trial(taken, sum(begin.seconds), sum(prepare.seconds) / len(epochs), in_steps / steps)


class _Clock:
    """A function that remembers how long each of its calls took."""

    def __init__(self, function: Callable[..., Any] | None) -> None:
        self.function, self.seconds = function, list[float]()

    def __call__(self, *args: Any) -> Any:
        assert self.function is not None
        started = time.perf_counter()
        result = self.function(*args)
        self.seconds.append(time.perf_counter() - started)
        return result


def _fit_bytes(views: Views, rows: int, k: int, method: Any) -> int:
    """Memory of the data, unless they are mapped, of what a stage works on, and of what is told of all."""
    n, dims = len(views), [d for d, x in zip(views.n_features, views.arrays, strict=True) if not is_sparse(x)]
    held = sum(stored_bytes(array) for array in views.arrays if not is_mapped(array))
    scaled = (4 if rows == n else 8) * rows * sum(dims)  # a part is copied before it is scaled
    near = min(rows, CandidateOptions().max_samples)
    perceiving = 9 * near**2 + 14 * near * sum(views.n_features)  # distances and copies, as measured
    features = 16 * rows * views.n_views * getattr(method.config, "feature", method.config.latent)
    weights = 16 * sum(p.numel() for p in method.parameters())  # Adam keeps two numbers for each
    return int(held + scaled + perceiving + features + weights + 24 * n * k)
