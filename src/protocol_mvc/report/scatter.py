"""The map: which samples it shows, and where."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA

from protocol_mvc.report.figures import tsne_embedding

Ints = npt.NDArray[np.int64]
Features = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]

MOST_POINTS = 10_000
LEAST_POINTS = 50  # that every cluster keeps, as far as it has them
SPAN = 10_000  # places are whole numbers from 0 to this: enough for a screen, and short in the file
COMPONENTS = 30  # of the features that go into the map: more cost time and show no more
QUICK = 3000  # samples up to which the map takes all its steps; with half of them 10,000 take half a minute
MOST_PATTERNS = 6  # of present views that get a colour of their own


class Patterns(NamedTuple):
    """Which views samples have, as a few named kinds."""

    kind: Ints  # (n,) of each sample
    names: list[str]  # the most frequent kind first


def least_points(n_clusters: int, most: int = MOST_POINTS) -> int:
    """Samples that every cluster keeps on the map, as far as it has them; fewer for very many clusters."""
    return max(1, min(LEAST_POINTS, most // (2 * n_clusters)))


def fair_rows(labels: Ints, n_clusters: int, most: int = MOST_POINTS) -> Ints:
    """Rows of the samples to show, in order: all, or a random part in which small clusters stay whole.

    Every cluster keeps `least_points` samples; the rest of the places are shared out by size.
    """
    if len(labels) <= most:
        return np.arange(len(labels))
    sizes = np.bincount(labels, minlength=n_clusters)
    kept = np.minimum(sizes, least_points(n_clusters, most))
    free = max(most - kept.sum(), 0)
    quota = kept + (sizes - kept) * free // (sizes - kept).sum()
    rng = np.random.default_rng(0)
    parts = [rng.permutation(np.flatnonzero(labels == c))[: quota[c]] for c in range(n_clusters)]
    return np.sort(np.concatenate(parts))


def places(features: Features) -> Ints:
    """Where the samples are on the map (n, 2), from 0 to `SPAN` along the longer side."""
    x = features.astype(np.float64)
    if np.ptp(x, axis=0).max() == 0:  # t-SNE divides by the spread
        return np.full((len(x), 2), SPAN // 2)
    if x.shape[1] > COMPONENTS:
        x = PCA(min(COMPONENTS, len(x)), random_state=0).fit_transform(x)
    if x.shape[1] == 1:  # t-SNE starts from two components
        x = np.hstack([x, np.zeros_like(x)])
    place = tsne_embedding(x, seed=0, steps=1000 if len(x) <= QUICK else 500).astype(np.float64)
    place -= place.min(0)
    whole: Ints = np.rint(place * (SPAN / place.max())).astype(np.int64)
    return whole


def nearest_clusters(features: Features, labels: Ints, n_clusters: int) -> list[int | None]:
    """The cluster whose centre is nearest to that of each cluster; None for empty or lonely ones."""
    found = np.unique(labels)
    if len(found) < 2:
        return [None] * n_clusters
    centers = np.array([features[labels == c].mean(0) for c in found])
    gaps = np.linalg.norm(centers[:, None] - centers[None], axis=2)
    np.fill_diagonal(gaps, np.inf)
    nearest: list[int | None] = [None] * n_clusters
    for own, other in zip(found, found[gaps.argmin(1)], strict=True):
        nearest[own] = int(other)
    return nearest


def patterns(mask: Bools, names: tuple[str, ...]) -> Patterns:
    """The most frequent sets of present views, each with a name, and all others together."""
    sets, kind, counts = np.unique(mask, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    named = [_pattern_name(sets[i], names) for i in order]
    if len(named) > MOST_PATTERNS:
        named = [*named[:MOST_PATTERNS], "other combinations"]
    return Patterns(np.minimum(rank[kind.ravel()], len(named) - 1), named)


def _pattern_name(present: Bools, names: tuple[str, ...]) -> str:
    if present.all():
        return "every view"
    here = [name for name, has in zip(names, present, strict=True) if has]
    gone = [name for name, has in zip(names, present, strict=True) if not has]
    return f"only {', '.join(here)}" if len(here) <= len(gone) else f"without {', '.join(gone)}"
