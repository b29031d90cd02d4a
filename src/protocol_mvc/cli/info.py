"""The command `info`: describe data before a fit, and estimate what a fit needs."""

import os
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.extmath import randomized_svd

from protocol_mvc.cli.cost import estimate_cost, stored_bytes
from protocol_mvc.cli.data import Source, read_data
from protocol_mvc.cli.output import Console, JsonDict, table
from protocol_mvc.cli.settings import Settings, make_model
from protocol_mvc.data.checks import is_mapped, is_sparse, row_slices
from protocol_mvc.data.scaling import choose_kind, fit_scalers, scaled_rows
from protocol_mvc.data.statistics import profile
from protocol_mvc.data.views import Views
from protocol_mvc.partition import consensus
from protocol_mvc.partition.config import CandidateOptions

DEFAULT_N_CLUSTERS = 10  # for the estimate of time and memory if -k is not given
N_COMPONENTS = 32  # of each view in the estimate of cluster sizes
DUPLICATE_SHARE = 0.01  # share of duplicate samples above which there is a note
HASH_FACTOR = 6364136223846793005  # odd, so that the product with a hash loses no bits
HEADERS = ("view", "features", "type", "scaling", "range", "zeros", "constant", "missing", "duplicate")


def describe_data(console: Console, source: Source, settings: Settings) -> JsonDict:
    """Print and return a description of the data and an estimate of the cost of a fit."""
    views = read_data(source).views
    described = [describe_view(views, v) for v in range(views.n_views)]
    clusters = _cluster_sizes(views, settings)
    console.info("Running a few training steps to estimate the time of a fit")
    samples = describe_samples(views) | _cost(views, settings)
    notes = id_column_notes(views) + data_notes(described, samples)
    console.print(_view_table(described), *_sentences(samples))
    if clusters:
        console.print(
            f"Estimated cluster sizes without training: {', '.join(map(str, clusters['sizes']))} "
            f"(largest : smallest = {clusters['max_to_min']:.1f} : 1)."
        )
    console.print(*notes)
    return {**samples, "views": described, "clusters": clusters, "notes": notes}


def describe_view(views: Views, v: int) -> JsonDict:
    """Return size, value range, scaling and missing or duplicate rows of one view."""
    array, stats = views.arrays[v], profile(views, v)
    keys = _row_hashes(views, v)[views.mask[:, v]]
    return {
        "name": views.names[v],
        "n_features": views.n_features[v],
        "dtype": str(array.dtype),
        "sparse": is_sparse(array),
        "scaling": choose_kind(stats),
        "min": float(stats.low.min()),
        "max": float(stats.high.max()),
        "zero_share": stats.zeros,
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
    array: Any = views.arrays[v]
    keys = np.zeros(len(views), dtype=np.int64)
    for rows in row_slices(array):
        block = array[rows]
        keys[rows] = [hash(_row_bytes(block, i)) for i in range(block.shape[0])]
    keys[~views.mask[:, v]] = 0
    return keys


def _row_bytes(block: Any, i: int) -> Any:
    if not is_sparse(block):
        return block[i].tobytes()
    cells = slice(block.indptr[i], block.indptr[i + 1])
    return block.indices[cells].tobytes(), block.data[cells].tobytes()


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
    array, column = views.arrays[v], (views.columns[v] or ()).index(name)
    if is_sparse(array):
        return False
    parts = []
    for rows in row_slices(array):  # the first rows exclude most columns
        part = np.asarray(array)[rows, column][views.mask[rows, v]]
        if (part != np.rint(part)).any() or len(np.unique(part)) < len(part):
            return False
        parts.append(part)
    values = np.concatenate(parts)
    return len(np.unique(values)) == len(values)


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
        notes.append(
            f"A fit may need {format_bytes(needed)} of memory; this machine has {format_bytes(available)}."
        )
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
    rows = np.sort(np.random.default_rng(seed).permutation(len(views))[: CandidateOptions().max_samples])
    subset = views[rows]
    blocks = [
        _principal_components(scaled_rows(subset, v, slice(None), scaler), subset.mask[:, v], seed)
        for v, scaler in enumerate(fit_scalers(subset))
    ]
    labels = consensus.consensus_partition(np.hstack(blocks), n_clusters, seed, views.n_views)
    return sorted(np.bincount(labels, minlength=n_clusters).tolist(), reverse=True)


def _principal_components(x: npt.NDArray[Any], present: npt.NDArray[np.bool_], seed: int) -> npt.NDArray[Any]:
    """Return principal components of the present rows, of unit norm, in an array of fixed width."""
    out = np.full((len(x), N_COMPONENTS + 1), 1e-6)  # the last column keeps every row nonzero
    rows = x[present].astype(np.float64)
    if rows.size:
        width = min(N_COMPONENTS, *rows.shape)
        u, singular_values, _ = randomized_svd(rows - rows.mean(axis=0), width, random_state=seed)
        scores = u * singular_values
        norm = np.linalg.norm(scores, axis=1, keepdims=True)
        out[present, :width] = scores / np.where(norm > 0, norm, 1.0)
    return out


def _cluster_sizes(views: Views, settings: Settings) -> JsonDict | None:
    if settings.n_clusters is None:
        return None
    sizes = estimate_cluster_sizes(views, settings.n_clusters, settings.random_state)
    nonempty = [size for size in sizes if size]
    return {"sizes": sizes, "n_samples": sum(sizes), "max_to_min": nonempty[0] / nonempty[-1]}


def _cost(views: Views, settings: Settings) -> JsonDict:
    k = min(settings.n_clusters or DEFAULT_N_CLUSTERS, len(views))
    if k < 2:
        return {"fit_bytes": None, "fit_seconds": None}
    cost = estimate_cost(views, make_model(settings.model_copy(update={"n_clusters": k})))
    return {"fit_bytes": cost.n_bytes, "fit_seconds": cost.seconds}


def _view_table(described: list[JsonDict]) -> Any:
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
    return table("Views (scaling: the one that 'auto' selects)", HEADERS, rows)


def _sentences(samples: JsonDict) -> list[str]:
    lines = [
        f"{samples['n_samples']} samples, {samples['n_complete_samples']} with all {samples['n_views']} "
        f"views; {samples['n_duplicate_samples']} duplicates.",
        f"Data: {format_bytes(samples['data_bytes'])} "
        f"{'on disk (memory-mapped)' if samples['memory_mapped'] else 'in memory'}.",
    ]
    if samples["fit_bytes"] is not None:
        lines.append(
            f"Estimate for a fit: {format_bytes(samples['fit_bytes'])} of memory, "
            f"{format_seconds(samples['fit_seconds'])}."
        )
    return lines


def format_bytes(n_bytes: float) -> str:
    """Return a number of bytes with a unit."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"


def format_seconds(seconds: float | None) -> str:
    """Return a duration with a unit; None is a training that diverged."""
    if seconds is None:
        return "unknown time (the trial steps diverged)"
    units = ((6000, 3600, "hours"), (100, 60, "minutes"), (0, 1, "seconds"))
    length, name = next((seconds / unit, name) for least, unit, name in units if seconds >= least)
    return f"about {max(length, 1):.{int(length < 10)}f} {name} on this machine"
