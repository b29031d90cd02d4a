"""What data look like before anything is learned from them."""

import os
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.extmath import randomized_svd

from protocol_mvc.data.checks import is_mapped, is_sparse, row_slices
from protocol_mvc.data.scaling import choose_kind, fit_scalers, scaled_rows
from protocol_mvc.data.statistics import profile
from protocol_mvc.data.views import Views
from protocol_mvc.partition import consensus
from protocol_mvc.partition.config import CandidateOptions

Floats = npt.NDArray[np.float64]
Facts = dict[str, Any]

LOOK_WIDTH = 32  # features of each view in a quick look
MIX = 6364136223846793005  # odd, so that no bit of a key is lost
REPEATED = 0.01  # share of repeated samples worth a word


def view_facts(views: Views, v: int) -> Facts:
    """Size, values and peculiarities of one view."""
    array, stats = views.arrays[v], profile(views, v)
    keys = _row_keys(views, v)[views.mask[:, v]]
    return {
        "view": views.names[v],
        "features": views.n_features[v],
        "dtype": str(array.dtype),
        "sparse": is_sparse(array),
        "scaling": choose_kind(stats),
        "low": float(stats.low.min()),
        "high": float(stats.high.max()),
        "zeros": stats.zeros,
        "constant_columns": int((stats.low == stats.high).sum()),
        "missing_rows": len(views) - stats.n,
        "repeated_rows": len(keys) - len(np.unique(keys)),
    }


def sample_facts(views: Views) -> Facts:
    """What is to be said of the samples as a whole."""
    keys = np.zeros(len(views), dtype=np.int64)
    for v in range(views.n_views):
        keys = MIX * keys + _row_keys(views, v)  # beyond the largest number it goes on from the least
    return {
        "samples": len(views),
        "views": views.n_views,
        "complete_samples": int(views.mask.all(axis=1).sum()),
        "repeated_samples": len(keys) - len(np.unique(keys)),
        "data_bytes": sum(stored_bytes(array) for array in views.arrays),
        "mapped": any(is_mapped(array) for array in views.arrays),
    }


def _row_keys(views: Views, v: int) -> npt.NDArray[np.int64]:
    """A number for every row that equal rows share, 0 where the view is missing."""
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


def stored_bytes(array: Any) -> int:
    """Memory of a matrix, full or sparse."""
    parts = (array.data, array.indices, array.indptr) if is_sparse(array) else (array,)
    return sum(int(part.nbytes) for part in parts)


def forgotten_ids(views: Views) -> list[str]:
    """A sentence about every column that all tables have and that seems to name the samples."""
    tables = [set(columns or ()) for columns in views.columns]
    shared = set.intersection(*tables) if len(tables) > 1 and len(tables) == views.n_views else set()
    return [
        f"Column {name!r} is in all tables, a different whole number in every row: if it names the samples, "
        f"add --id {name}, or rows are matched by their order and the number is taken for a feature."
        for name in sorted(shared)
        if all(_is_key(views, v, name) for v in range(views.n_views))
    ]


def _is_key(views: Views, v: int, name: str) -> bool:
    array, place = views.arrays[v], (views.columns[v] or ()).index(name)
    if is_sparse(array):
        return False
    kept = []
    for rows in row_slices(array):  # most columns are told by their first rows
        kept.append(np.asarray(array)[rows, place][views.mask[rows, v]])
        if (kept[-1] != np.rint(kept[-1])).any() or len(np.unique(kept[-1])) < len(kept[-1]):
            return False
    column = np.concatenate(kept)
    return len(np.unique(column)) == len(column)


def notes(views: list[Facts], samples: Facts) -> list[str]:
    """What the user should know before a fit, in sentences."""
    n, found = samples["samples"], []
    for facts in views:
        if facts["constant_columns"]:
            found.append(
                f"View {facts['view']!r} has {facts['constant_columns']} constant columns: they tell nothing."
            )
        if facts["missing_rows"]:
            share = facts["missing_rows"] / n
            found.append(
                f"View {facts['view']!r} is missing for {share:.1%} of the samples; that is allowed."
            )
    if samples["repeated_samples"] > REPEATED * n:
        found.append(
            f"{samples['repeated_samples']} samples repeat another in all views: many copies of one thing "
            "look like a group."
        )
    memory = samples.get("fit_bytes") or 0
    if memory > (here := _memory()):
        found.append(f"A fit may take {size(memory)} of memory, but this machine has {size(here)}.")
    return found


def _memory() -> int:
    """Memory of this machine in bytes, or no limit where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**63


def size(n_bytes: float) -> str:
    """Bytes as people read them."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"


def quick_sizes(views: Views, n_clusters: int, seed: int) -> list[int]:
    """Sizes of groups, largest first, that can be seen without training in at most some thousand samples.

    Raises:
        ValueError: If there are fewer samples than groups.
    """
    if n_clusters > len(views):
        raise ValueError(f"{n_clusters} groups cannot be seen in {len(views)} samples: ask for fewer.")
    rows = np.sort(np.random.default_rng(seed).permutation(len(views))[: CandidateOptions().max_samples])
    part = views[rows]
    scalings = fit_scalers(part)
    blocks = [
        _reduced(scaled_rows(part, v, slice(None), scaling), part.mask[:, v], seed)
        for v, scaling in enumerate(scalings)
    ]
    found = consensus.consensus_partition(np.hstack(blocks), n_clusters, seed, views.n_views)
    return sorted(np.bincount(found, minlength=n_clusters).tolist(), reverse=True)


def _reduced(x: npt.NDArray[np.float32], present: npt.NDArray[np.bool_], seed: int) -> Floats:
    """The main axes of one view, of unit norm in each row; all views get the same width."""
    out = np.full((len(x), LOOK_WIDTH + 1), 1e-6)  # the last column is never zero: a direction for all
    rows = x[present].astype(np.float64)
    if rows.size:
        width = min(LOOK_WIDTH, *rows.shape)
        left, values, _ = randomized_svd(rows - rows.mean(axis=0), width, random_state=seed)
        place = left * values
        norm = np.linalg.norm(place, axis=1, keepdims=True)
        out[present, :width] = place / np.where(norm > 0, norm, 1.0)
    return out
