"""Estimated time and memory of a fit, from a few training steps on a subset of the data."""

import time
from typing import Any, NamedTuple

import numpy as np

from protocol_mvc.data.checks import is_mapped, is_sparse
from protocol_mvc.data.views import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.exceptions import DivergenceError
from protocol_mvc.partition.config import CandidateOptions
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import Stage
from protocol_mvc.utils.config import resolve_auto

TRIAL_SAMPLES, TRIAL_STEPS, TRIAL_EPOCHS = 2048, 8, 4
WIDTH_FIELDS = ("projection_dim", "feature_dim", "latent_dim")


class Cost(NamedTuple):
    """Estimated memory in bytes, and time in seconds (None if the trial diverged)."""

    n_bytes: int
    seconds: float | None


class StageTime(NamedTuple):
    """Seconds of the hooks of a stage, which grow with the number of samples, and of one training step."""

    stage: Stage
    on_start: float
    on_epoch_start: float
    step: float

    def extrapolate(self, n_samples: int, n_measured: int, batch_size: int) -> float:
        """Return the seconds of the whole stage on `n_samples`."""
        sampling, n = self.stage.sampling, stage_samples(self.stage, n_samples)
        n_batches, growth = -(-n // batch_size), n / stage_samples(self.stage, n_measured)
        n_steps = -(-sampling.min_steps // n_batches) * n_batches
        n_steps = min(n_steps, sampling.max_steps or n_steps)
        per_epoch = growth * self.on_epoch_start + n_steps * self.step
        return growth * self.on_start + self.stage.n_epochs * per_epoch


def estimate_cost(views: Views, model: MultiViewClusterer) -> Cost:
    """Run a few steps of every stage on a subset of the data and extrapolate to a whole fit."""
    rows = np.sort(np.random.default_rng(0).permutation(len(views))[:TRIAL_SAMPLES])
    method, source, generator = model._set_up(views[rows])
    stages = method.stages()
    n_bytes = _fit_bytes(views, model, stages, sum(p.numel() for p in method.parameters()))
    try:
        times = [measure_stage(stage, method, source, generator) for stage in stages]
    except DivergenceError:
        return Cost(n_bytes, None)
    batch_size = resolve_auto(model.batch_size, model._method.batch_size)
    return Cost(n_bytes, sum(t.extrapolate(len(views), len(rows), batch_size) for t in times))


def stage_samples(stage: Stage, n_samples: int) -> int:
    """Return the number of samples that a stage uses."""
    return min(n_samples, stage.sampling.max_samples or n_samples)


def measure_stage(stage: Stage, method: Any, source: Any, generator: Any) -> StageTime:
    """Run a few epochs of a few steps; if the stage stops early in the trial, scale its number of epochs."""
    on_start, on_epoch_start = list[float](), list[float]()
    trial = stage._replace(
        n_epochs=min(stage.n_epochs, TRIAL_EPOCHS),
        sampling=stage.sampling._replace(min_steps=1, max_steps=TRIAL_STEPS),
        on_start=_timed(stage.on_start, on_start),
        on_epoch_start=_timed(stage.on_epoch_start, on_epoch_start),
    )
    epochs = train(method, [trial], source, generator)
    if not epochs:  # skipped, or without epochs
        return StageTime(stage._replace(n_epochs=0), sum(on_start), 0.0, 0.0)
    n_steps = len(epochs) * min(TRIAL_STEPS, source.n_batches)
    in_steps = sum(epoch.seconds for epoch in epochs) - sum(on_epoch_start[: len(epochs)])
    expected = stage._replace(n_epochs=round(stage.n_epochs * len(epochs) / trial.n_epochs))
    return StageTime(expected, sum(on_start), sum(on_epoch_start) / len(epochs), in_steps / n_steps)


def _timed(function: Any, seconds: list[float]) -> Any:
    """Return the function, if any, so that it appends the duration of every call to `seconds`."""

    def timed(*args: Any) -> Any:
        started = time.perf_counter()
        result = function(*args)
        seconds.append(time.perf_counter() - started)
        return result

    return function and timed


def _fit_bytes(views: Views, model: MultiViewClusterer, stages: list[Stage], n_weights: int) -> int:
    """Estimate the peak memory: data (unless memory-mapped), the subsample of a stage, per-sample outputs."""
    n = len(views)
    n_used = max((stage_samples(stage, n) for stage in stages if stage.n_epochs), default=n)
    n_partition = min(n_used, CandidateOptions().max_samples)
    fields = {name.rpartition("__")[2]: value for name, value in model.get_params().items()}
    width = next(fields[name] for name in WIDTH_FIELDS if name in fields)
    dense = sum(d for d, x in zip(views.n_features, views.arrays, strict=True) if not is_sparse(x))
    data = sum(stored_bytes(array) for array in views.arrays if not is_mapped(array))
    scaled = (4 if n_used == n else 8) * n_used * dense  # a subsample is copied before it is scaled
    partition = 9 * n_partition**2 + 14 * n_partition * sum(views.n_features)  # measured
    features = 16 * n_used * views.n_views * width
    return int(data + scaled + partition + features + 16 * n_weights + 24 * n * model.n_clusters)


def stored_bytes(array: Any) -> int:
    """Return the memory of a dense or sparse matrix."""
    parts = (array.data, array.indices, array.indptr) if is_sparse(array) else (array,)
    return sum(int(part.nbytes) for part in parts)
