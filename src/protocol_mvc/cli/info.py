"""The command `info`: describe data before a fit, and estimate what a fit needs."""

import os
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.filesize import decimal
from sklearn.preprocessing import normalize

from protocol_mvc.cli.cost import estimate_cost, stored_bytes
from protocol_mvc.cli.data import Source, read_data
from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.cli.settings import Settings, make_model
from protocol_mvc.data.checks import is_mapped, is_sparse, row_slices
from protocol_mvc.data.scaling import choose_scaling, column_statistics, fit_scalers, scaled_rows
from protocol_mvc.data.views import Views
from protocol_mvc.partition.candidates import principal_components
from protocol_mvc.partition.config import CandidateOptions
from protocol_mvc.partition.consensus import consensus_partition

DEFAULT_N_CLUSTERS = 10  # for the estimate of time and memory if -k is not given
DUPLICATE_SHARE = 0.01  # share of duplicate samples above which there is a note
HASH_FACTOR = 6364136223846793005  # odd, so that the product with a hash loses no bits
HEADERS = ("view", "features", "type", "scaling", "range", "zeros", "constant", "missing", "duplicate")


def describe_data(console: Console, source: Source, settings: Settings) -> JsonDict:
    """Print and return a description of the data and an estimate of the cost of a fit."""
    views = read_data(source).views
    described, clusters = [describe_view(views, v) for v in range(views.n_views)], None
    if settings.n_clusters is not None:
        sizes = estimate_cluster_sizes(views, settings.n_clusters, settings.random_state)
        ratio = sizes[0] / min(filter(None, sizes))
        clusters = {"sizes": sizes, "n_samples": sum(sizes), "max_to_min": ratio}
    console.info("Running a few training steps to estimate the time of a fit")
    samples = describe_samples(views) | _cost(views, settings)
    notes = id_column_notes(views) + data_notes(described, samples)
    _print_description(console, described, samples)
    if clusters:
        console.print(
            f"Estimated cluster sizes without training: {', '.join(map(str, sizes))} "
            f"(largest : smallest = {ratio:.1f} : 1)."
        )
    console.print(*notes)
    return {**samples, "views": described, "clusters": clusters, "notes": notes}


def describe_view(views: Views, v: int) -> JsonDict:
    """Return size, value range, scaling and missing or duplicate rows of one view."""
    array, stats = views.arrays[v], column_statistics(views, v)
    keys = _row_hashes(views, v)[views.mask[:, v]]
    return {
        "name": views.names[v],
        "n_features": views.n_features[v],
        "dtype": str(array.dtype),
        "sparse": is_sparse(array),
        "scaling": choose_scaling(stats),
        "min": float(stats.low.min()),
        "max": float(stats.high.max()),
        "zero_share": stats.zero_fraction,
        "n_constant_columns": int((stats.low == stats.high).sum()),
        "n_missing": len(views) - stats.n,
        "n_duplicates": len(keys) - len(np.unique(keys)),
    }


def describe_samples(views: Views) -> JsonDict:
    """Return counts of samples, of complete samples and of duplicates, and the size of the data."""
    keys = np.zeros(len(views), dtype=np.int64)
    for v in range(views.n_views):
        keys = HASH_FACTOR * keys + _row_hashes(views, v)  # wraps around on overflow
    return {
        "n_samples": len(views),
        "n_views": views.n_views,
        "n_complete_samples": int(views.mask.all(axis=1).sum()),
        "n_duplicate_samples": len(keys) - len(np.unique(keys)),
        "data_bytes": sum(stored_bytes(array) for array in views.arrays),
        "memory_mapped": any(is_mapped(array) for array in views.arrays),
    }


def _row_hashes(views: Views, v: int) -> npt.NDArray[np.int64]:
    """Return a hash of each row, 0 where the view is missing."""

    def content(block: Any, i: int) -> Any:
        if not is_sparse(block):
            return block[i].tobytes()
        cells = slice(block.indptr[i], block.indptr[i + 1])
        return block.indices[cells].tobytes(), block.data[cells].tobytes()

    array: Any = views.arrays[v]
    blocks = (array[rows] for rows in row_slices(array))
    hashes = [hash(content(block, i)) for block in blocks for i in range(block.shape[0])]
    return np.where(views.mask[:, v], np.array(hashes, dtype=np.int64), 0)


def id_column_notes(views: Views) -> list[str]:
    """Return a note on every column that all tables share and that looks like a column of sample ids."""
    tables = [set(columns or ()) for columns in views.columns]
    shared = set.intersection(*tables) if len(tables) > 1 and len(tables) == views.n_views else set()
    return [
        f"Column {name!r} is in all tables and has a different integer in every row. If it holds sample ids, "
        f"add --id-column {name}; otherwise rows are matched by order and the column is used as a feature."
        for name in sorted(shared)
        if all(_is_unique_integer(views, v, name) for v in range(views.n_views))
    ]


def _is_unique_integer(views: Views, v: int, name: str) -> bool:
    array = views.arrays[v]
    if is_sparse(array):
        return False
    values = np.asarray(array)[:, (views.columns[v] or ()).index(name)][views.mask[:, v]]
    return bool((values == np.rint(values)).all()) and len(np.unique(values)) == len(values)


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
    needed = samples.get("fit_bytes") or 0
    if needed > (available := _physical_memory()):
        notes.append(f"A fit may need {decimal(needed)} of memory; this machine has {decimal(available)}.")
    return notes


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 2**63


def estimate_cluster_sizes(views: Views, n_clusters: int, seed: int) -> list[int]:
    """Return cluster sizes of a partition of principal components, without training, in descending order.

    At most `CandidateOptions.max_samples` samples are used.

    Raises:
        ValueError: if there are fewer samples than clusters.
    """
    if n_clusters > len(views):
        raise ValueError(f"n_clusters = {n_clusters} exceeds the {len(views)} samples: use a smaller -k.")
    rows = np.random.default_rng(seed).permutation(len(views))[: CandidateOptions().max_samples]
    subset = views[np.sort(rows)]
    scaled = [scaled_rows(subset, v, slice(None), scaler) for v, scaler in enumerate(fit_scalers(subset))]
    components = [normalize(x) for x in principal_components(scaled, subset.mask, seed)]
    labels = consensus_partition(np.hstack(components), n_clusters, seed)
    return sorted(np.bincount(labels, minlength=n_clusters).tolist(), reverse=True)


def _cost(views: Views, settings: Settings) -> JsonDict:
    k = min(settings.n_clusters or DEFAULT_N_CLUSTERS, len(views))
    if k < 2:
        return {"fit_bytes": None, "fit_seconds": None}
    cost = estimate_cost(views, make_model(settings.model_copy(update={"n_clusters": k})))
    return {"fit_bytes": cost.n_bytes, "fit_seconds": cost.seconds}


def _print_description(console: Console, described: list[JsonDict], samples: JsonDict) -> None:
    rows = (
        (
            view["name"],
            view["n_features"],
            view["dtype"] + (", sparse" if view["sparse"] else ""),
            view["scaling"],
            f"{view['min']:.4g} to {view['max']:.4g}",
            f"{view['zero_share']:.1%}",
            *(view[name] for name in ("n_constant_columns", "n_missing", "n_duplicates")),
        )
        for view in described
    )
    console.print(
        table("Views (scaling: the one that 'auto' selects)", HEADERS, rows),
        f"{samples['n_samples']} samples, {samples['n_complete_samples']} with all {samples['n_views']} "
        f"views; {samples['n_duplicate_samples']} duplicates.",
        f"Data: {decimal(samples['data_bytes'])} "
        f"{'on disk (memory-mapped)' if samples['memory_mapped'] else 'in memory'}.",
    )
    if samples["fit_bytes"] is not None:
        seconds = samples["fit_seconds"]
        duration = "unknown (diverged)" if seconds is None else timedelta(seconds=max(round(seconds), 1))
        console.print(
            f"Estimate for a fit: {decimal(samples['fit_bytes'])} of memory, time {duration} (h:mm:ss)."
        )
