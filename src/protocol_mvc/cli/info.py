"""The command `info`: describe data before a fit, and estimate the time and memory that a fit needs."""

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from rich.filesize import decimal
from sklearn.base import clone

from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.cli.settings import Settings, make_model
from protocol_mvc.cli.sources import Source, read_data
from protocol_mvc.data import data_hash
from protocol_mvc.data.checks import is_mapped, is_sparse, row_slices
from protocol_mvc.data.scaling import Scaler, describe_scaling, fit_scalers
from protocol_mvc.data.statistics import column_statistics
from protocol_mvc.data.views import Views
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.cluster_count import count_in_views, parse_auto, prepare
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.exceptions import DivergenceError
from protocol_mvc.io.hdf5 import Inventory, list_contents
from protocol_mvc.io.write import ANNOTATED
from protocol_mvc.methods.base import infer_all
from protocol_mvc.partition.outliers import fit_reference, outlier_scores
from protocol_mvc.partition.selection import find_partition
from protocol_mvc.report.text import explain_count
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import Stage
from protocol_mvc.utils.config import resolve_auto
from protocol_mvc.utils.text import list_names

DEFAULT_N_CLUSTERS = 10  # for the estimate of time and memory if -k is not given
DUPLICATE_SHARE = 0.01  # share of duplicate samples above which there is a note
HEADERS = ("view", "features", "type", "range", "zeros", "constant", "missing", "duplicate")
TRIAL_SAMPLES, TRIAL_STEPS, TRIAL_EPOCHS = 2048, 8, 4
N_SPACES = 6  # in which PROTOCOL searches its starting partition
START_EXPONENT = 1.25  # of the growth of the neighbour search and the starting partition with the samples
WIDTH_FIELDS = ("projection_dim", "feature_dim", "latent_dim")


def describe_data(console: Console, source: Source, settings: Settings) -> JsonDict:
    """Print and return a description of the data and an estimate of the cost of a fit."""
    views, _, read = read_data(source)
    scalers, clusters, k = fit_scalers_of(settings, views), None, resolve_n_clusters(console, settings, views)
    described = [describe_view(views, v) for v in range(views.n_views)]
    for view, scaler in zip(described, scalers, strict=True):
        view |= {"scaling": scaler.kind, "preparation": describe_scaling(scaler, view["name"])}
    if k is not None:
        sizes = estimate_cluster_sizes(views, k, settings.random_state)
        ratio = sizes[0] / min(filter(None, sizes))
        clusters = {"sizes": sizes, "n_samples": sum(sizes), "max_to_min": ratio}
    console.info("Running a few training steps to estimate the time of a fit")
    samples, k = describe_samples(views), min(k or DEFAULT_N_CLUSTERS, len(views))
    samples |= {"fit_bytes": None, "fit_seconds": None}
    if k >= 2:
        cost = estimate_cost(views, make_model(settings.model_copy(update={"n_clusters": k})))
        samples |= {"fit_bytes": cost.n_bytes, "fit_seconds": cost.seconds}
    first = Path(source.paths[0])
    inventory = list_contents(first) if first.suffix.lower() in ANNOTATED else None
    notes = [*read.notes, *data_notes(described, samples), *contents_notes(inventory)]
    _print_description(console, described, samples)
    if clusters:
        console.print(
            f"Estimated cluster sizes without training: {', '.join(map(str, sizes))} "
            f"(largest : smallest = {ratio:.1f} : 1)."
        )
    console.print(*notes)
    contents = {} if inventory is None else inventory._asdict()
    return {**samples, "views": described, "clusters": clusters, "notes": notes, **contents}


def resolve_n_clusters(console: Console, settings: Settings, views: Views) -> int | None:
    """Return the number of clusters that was given or, for "auto", that the data show; None if none is."""
    bounds = parse_auto(settings.n_clusters)
    if bounds is None:
        return None if settings.n_clusters is None else int(settings.n_clusters)
    count = count_in_views(views, bounds, settings.random_state)
    console.print(count.message, *explain_count(count))
    return count.n_clusters


def view_table(described: list[JsonDict]) -> Any:
    """Return a table of the results of `describe_view`."""
    rows = [
        (
            view["name"],
            view["n_features"],
            view["dtype"] + (", sparse" if view["sparse"] else ""),
            f"{view['min']:.4g} to {view['max']:.4g}",
            f"{view['zero_share']:.1%}",
            *(view[name] for name in ("n_constant_columns", "n_missing", "n_duplicates")),
        )
        for view in described
    ]
    return table("Views", HEADERS, rows)


def _print_description(console: Console, described: list[JsonDict], samples: JsonDict) -> None:
    console.print(
        view_table(described),
        *(view["preparation"] for view in described),
        f"{samples['n_samples']} samples, {samples['n_complete_samples']} with all {samples['n_views']} "
        f"views; {samples['n_duplicate_samples']} duplicates.",
        f"Data: {decimal(samples['data_bytes'])} "
        f"{'on disk (memory-mapped)' if samples['memory_mapped'] else 'in memory'}.",
    )
    if samples["fit_bytes"] is not None:
        seconds = samples["fit_seconds"]
        duration = "unknown (diverged)" if seconds is None else timedelta(seconds=max(round(seconds), 1))
        needed = decimal(samples["fit_bytes"])
        console.print(f"Estimate for a fit: {needed} of memory, time {duration} (h:mm:ss).")


def fit_scalers_of(settings: Settings, views: Views) -> tuple[Scaler, ...]:
    """Return the scalers that a fit with these settings would use."""
    scaling = resolve_auto(settings.scaling, ESTIMATORS[settings.method]._method.scaling)
    return fit_scalers(views, scaling, getattr(settings.config, "n_components", None))


def describe_view(views: Views, v: int) -> JsonDict:
    """Return size, value range and missing or duplicate rows of one view."""
    array, stats = views.arrays[v], column_statistics(views, v)
    keys = _row_hashes(views, v)[views.mask[:, v]]
    return {
        "name": views.names[v],
        "n_features": views.n_features[v],
        "dtype": str(array.dtype),
        "sparse": is_sparse(array),
        "min": float(stats.low.min()),
        "max": float(stats.high.max()),
        "zero_share": stats.zero_fraction,
        "n_constant_columns": int((stats.low == stats.high).sum()),
        "n_missing": len(views) - stats.n,
        "n_duplicates": len(keys) - len(np.unique(keys)),
    }


def describe_samples(views: Views) -> JsonDict:
    """Return counts of samples, of complete samples and of duplicates, and the size of the data."""
    hashes = np.column_stack([_row_hashes(views, v) for v in range(views.n_views)])
    return {
        "n_samples": len(views),
        "n_views": views.n_views,
        "n_complete_samples": int(views.mask.all(axis=1).sum()),
        "n_duplicate_samples": len(views) - len(np.unique(hashes, axis=0)),
        "data_bytes": sum(stored_bytes(array) for array in views.arrays),
        "memory_mapped": any(is_mapped(array) for array in views.arrays),
    }


def _row_hashes(views: Views, v: int) -> npt.NDArray[np.int64]:
    """Return a hash of each row, 0 where the view is missing."""
    array: Any = views.arrays[v]
    hashes = list[int]()
    for rows in row_slices(array):
        block = array[rows]
        if is_sparse(block):
            cells = [slice(*block.indptr[i : i + 2]) for i in range(block.shape[0])]
            hashes += [hash((block.indices[c].tobytes(), block.data[c].tobytes())) for c in cells]
        else:
            hashes += [hash(row.tobytes()) for row in block]
    return np.where(views.mask[:, v], np.array(hashes, dtype=np.int64), 0)


def stored_bytes(array: Any) -> int:
    """Return the memory of a dense or sparse matrix."""
    parts = (array.data, array.indices, array.indptr) if is_sparse(array) else (array,)
    return sum(int(part.nbytes) for part in parts)


def contents_notes(inventory: Inventory | None) -> list[str]:
    """Return what else an annotated file has, with the options that use it."""
    if inventory is None:
        return []
    return [
        f"Matrices for --view: {list_names(inventory.matrices, 30)}.",
        f"Columns of obs for --labels and --color: {list_names(inventory.obs_columns, 30) or 'none'}.",
    ]


def data_notes(described: list[JsonDict], samples: JsonDict) -> list[str]:
    """Return notes on constant columns, missing views, duplicates and too little memory."""
    n, notes = samples["n_samples"], []
    for view in described:
        if view["n_constant_columns"]:
            notes.append(f"View {view['name']!r} has {view['n_constant_columns']} constant columns.")
        if view["n_missing"]:
            notes.append(f"View {view['name']!r} is missing for {view['n_missing'] / n:.1%} of the samples.")
    if samples["n_duplicate_samples"] > DUPLICATE_SHARE * n:
        notes.append(
            f"{samples['n_duplicate_samples']} samples are duplicates in all views: many copies of one "
            "sample can form a cluster."
        )
    needed, available = samples.get("fit_bytes") or 0, 2**63
    if hasattr(os, "sysconf"):  # not on Windows
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > available:
        notes.append(f"A fit may need {decimal(needed)} of memory; this machine has {decimal(available)}.")
    return notes


def estimate_cluster_sizes(views: Views, n_clusters: int, seed: int) -> list[int]:
    """Return cluster sizes of a partition of principal components, without training, in descending order.

    At most `TRIAL_SAMPLES` samples are used.

    Raises:
        ValueError: if there are fewer samples than clusters.
    """
    if n_clusters > len(views):
        raise ValueError(f"n_clusters = {n_clusters} exceeds the {len(views)} samples: use a smaller -k.")
    rows = np.random.default_rng(seed).permutation(len(views))[: max(TRIAL_SAMPLES, n_clusters)]
    _, components = prepare(views[np.sort(rows)])
    labels = find_partition(components, components, n_clusters, seed).labels
    return sorted(np.bincount(labels, minlength=n_clusters).tolist(), reverse=True)


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
        growth = n / stage_samples(self.stage, n_measured)
        n_steps = sampling.n_steps(-(-n // batch_size))
        per_epoch = growth * self.on_epoch_start + n_steps * self.step
        return float(growth**START_EXPONENT) * self.on_start + self.stage.n_epochs * per_epoch


def stage_samples(stage: Stage, n_samples: int) -> int:
    """Return the number of samples that a stage uses."""
    return min(n_samples, stage.sampling.max_samples or n_samples)


def estimate_cost(views: Views, model: MultiViewClusterer) -> Cost:
    """Run a few steps of every stage on a subset of the data and extrapolate to a whole fit.

    The peak memory is that of the data (unless memory-mapped), the subsample of a stage and the outputs.
    """
    rows, n = np.sort(np.random.default_rng(0).permutation(len(views))[:TRIAL_SAMPLES]), len(views)
    batch_size = model._resolved_batch_size(n)
    model = clone(model).set_params(batch_size=batch_size)  # the steps of all data, not of the subset
    method, source, generator, _ = model._set_up(views[rows])
    stages = method.stages()
    n_used = max((stage_samples(stage, n) for stage in stages if stage.n_epochs), default=n)
    n_columns = sum(scaler.n_outputs for scaler in source.scalers)
    fields = {name.rpartition("__")[2]: value for name, value in model.get_params().items()}
    width = next(fields[name] for name in WIDTH_FIELDS if name in fields)
    dense = sum(d for d, x in zip(views.n_features, views.arrays, strict=True) if not is_sparse(x))
    n_bytes = (
        sum(stored_bytes(array) for array in views.arrays if not is_mapped(array))
        + (4 if n_used == n else 8) * n_used * dense  # a subsample is copied before it is scaled
        + 16 * n_used * (N_SPACES * n_columns + views.n_views * method.n_clusters)  # partition
        + 16 * n_used * views.n_views * width  # features
        + 16 * sum(parameter.numel() for parameter in method.parameters())
        + 24 * n * method.n_clusters  # outputs of each sample
    )
    try:
        times = [measure_stage(stage, method, source, generator) for stage in stages]
    except DivergenceError:
        return Cost(int(n_bytes), None)
    training = sum(t.extrapolate(n, len(rows), batch_size) for t in times)
    n_components = getattr(model._resolved_config(), "n_components", None)
    parts = (source.subsample(max(len(rows) // 2, 1), [0]), source)
    small, large = (measure_passes(method, part, n_components) for part in parts)
    per_row = max(large - small, 0) * 2 / len(rows)  # fixed costs do not grow with the rows
    return Cost(int(n_bytes), training + large + (n - len(rows)) * per_row)


def measure_passes(method: Any, source: Any, n_components: int | None) -> float:
    """Return the seconds of the passes over all rows, the quicker of two tries.

    They are the hash and the preparation before the training, and two of inference and one of outlier scores
    after it.
    """
    batch, seconds = source.take(torch.arange(len(source))), []
    reference = fit_reference([x.cpu().numpy() for x in batch.views], source.views.mask)
    for _ in range(2):
        started = time.perf_counter()
        data_hash(source.views)
        fit_scalers(source.views, "auto", n_components)
        for _ in range(2):
            infer_all(method, source, features=False)
        outlier_scores(reference, batch.views, batch.present)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def measure_stage(stage: Stage, method: Any, source: Any, generator: Any) -> StageTime:
    """Run a few epochs of a few steps; if the stage stops early in the trial, scale its number of epochs."""

    def timed(function: Any, seconds: list[float]) -> Any:
        def run(*args: Any) -> Any:
            started = time.perf_counter()
            result = function(*args)
            seconds.append(time.perf_counter() - started)
            return result

        return function and run

    on_start, on_epoch_start = list[float](), list[float]()
    trial = stage._replace(
        n_epochs=min(stage.n_epochs, TRIAL_EPOCHS),
        sampling=stage.sampling._replace(min_steps=TRIAL_STEPS, max_steps=TRIAL_STEPS),
        on_start=timed(stage.on_start, on_start),
        on_epoch_start=timed(stage.on_epoch_start, on_epoch_start),
    )
    epochs = train(method, [trial], source, generator)
    if not epochs:  # skipped, or without epochs
        return StageTime(stage._replace(n_epochs=0), sum(on_start), 0.0, 0.0)
    in_steps = sum(epoch.seconds for epoch in epochs) - sum(on_epoch_start[: len(epochs)])
    expected = stage._replace(n_epochs=round(stage.n_epochs * len(epochs) / trial.n_epochs))
    per_step = in_steps / (len(epochs) * TRIAL_STEPS)
    return StageTime(expected, sum(on_start), sum(on_epoch_start) / len(epochs), per_step)
