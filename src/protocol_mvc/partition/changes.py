"""What happened to the clusters between two partitions: kept, born, died, split, merged."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from protocol_mvc.utils.text import join_words

Counts = npt.NDArray[np.int64]

MOST, PART = 0.5, 0.1  # shares from which on a cluster has most of another, or a part of it


class Changes(NamedTuple):
    """Changes from old to new clusters, by number."""

    kept: dict[int, int]  #: old cluster of each new cluster that is its counterpart
    born: list[int]  #: new clusters that are no part of an old one
    died: list[int]  #: old clusters whose samples are scattered
    split: dict[int, list[int]]  #: new clusters that an old one was split into
    merged: dict[int, list[int]]  #: old clusters that a new one was merged from

    def sentences(self, old: Sequence[str], new: Sequence[str]) -> list[str]:
        """Return the changes in words, given the names of the clusters."""
        found = [f"Cluster {new[c]} is new." for c in self.born]
        found += [f"Cluster {old[c]} is gone." for c in self.died]
        found += [
            f"Cluster {old[c]} was split into {join_words([new[part] for part in parts])}."
            for c, parts in self.split.items()
        ]
        found += [
            f"Clusters {join_words([old[part] for part in parts])} were merged into {new[c]}."
            for c, parts in self.merged.items()
        ]
        return found or ["All clusters were found again."]


def count_pairs(old: npt.NDArray[np.integer], new: npt.NDArray[np.integer], shape: tuple[int, int]) -> Counts:
    """Return how many samples are in each pair of an old and a new cluster (K_old, K_new)."""
    return np.bincount(old * shape[1] + new, minlength=shape[0] * shape[1]).reshape(shape)


def find_changes(counts: Counts, sizes: Counts | None = None) -> Changes:
    """Compare two partitions by the samples that they share.

    A new cluster is part of an old one if most of its shared samples come from there and they are at least a
    tenth of the old one; two or more parts are a split. An old cluster is a source of a new one if most of it
    goes there and it is at least a tenth of the new one; two or more sources are merged. A new cluster is
    born if most of its samples are not shared, or it has neither.

    Args:
        counts: shared samples of each pair (K_old, K_new).
        sizes: size of each new cluster (K_new,) with the samples that are not shared.
    """
    rows, columns = (np.maximum(counts.sum(axis=axis, keepdims=True), 1) for axis in (1, 0))
    sent, received = counts / rows, counts / columns
    is_part, is_source = (received > MOST) & (sent >= PART), (sent > MOST) & (received >= PART)
    known = np.ones(counts.shape[1], dtype=np.bool_) if sizes is None else 2 * counts.sum(axis=0) >= sizes
    related = ((received > MOST) | (sent > MOST)) & known
    return Changes(
        kept={c: o for c, o in match(counts).items() if related[o, c]},
        born=[c for c in np.flatnonzero(~related.any(axis=0)).tolist() if sizes is None or sizes[c]],
        died=[o for o in np.flatnonzero(~related.any(axis=1)).tolist() if counts[o].any()],
        split={o: np.flatnonzero(row).tolist() for o, row in enumerate(is_part & known) if row.sum() > 1},
        merged={c: np.flatnonzero(row).tolist() for c, row in enumerate(is_source.T) if row.sum() > 1},
    )


def match(counts: Counts) -> dict[int, int]:
    """Return the old cluster of each new one, one to one, with the largest sum of Jaccard indices."""
    union = counts.sum(axis=1, keepdims=True) + counts.sum(axis=0) - counts
    old, new = linear_sum_assignment(counts / np.maximum(union, 1), maximize=True)
    return {int(c): int(o) for o, c in zip(old, new, strict=True) if counts[o, c]}


def number_like(counts: Counts) -> list[int]:
    """Return the new clusters in an order in which those with a counterpart have its number, if they can."""
    n_new, kept = counts.shape[1], match(counts)
    place = {o: c for c, o in kept.items() if o < n_new}
    rest = iter([c for c in range(n_new) if c not in place.values()])
    return [place[i] if i in place else next(rest) for i in range(n_new)]
