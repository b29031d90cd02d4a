"""The rows of the report's tables, most of which are charts too: a bar is a share of its column's width."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from protocol_mvc.report.facts import Facts, Floats

COLOURS, SHAPES = 7, 6  # without a common factor, so that 42 clusters look different from one another
BINS = 10  # of confidence
MOST_DOUBTS = 15  # samples that are listed one by one


class ClusterRow(NamedTuple):
    """One cluster beside what was perceived of it."""

    number: int
    size: int
    share: float
    prior: float
    confidence: float | None
    stability: float | None
    bar: float  # length of the share, and of the prior, as parts of the longest
    mark: float


class ViewRow(NamedTuple):
    """One view."""

    name: str
    features: int
    present: int
    weight: float
    chance: float | None  # how well it tells clusters apart, in the mean over the clusters
    bar: float


class DoubtRow(NamedTuple):
    """A sample that the model is not sure of."""

    id: str
    cluster: int
    confidence: float
    other: int
    stability: float | None


def number_or_none(value: float | np.floating[Any]) -> float | None:
    """The value, or None where there is none."""
    return None if np.isnan(value) else float(value)


def cluster_rows(facts: Facts) -> list[ClusterRow]:
    """Every cluster in the order of its number."""
    shares = facts.sizes / facts.n
    longest = max(shares.max(), facts.prior.max())
    overlap = None if facts.stability is None else facts.stability.clusters
    return [
        ClusterRow(
            number=c,
            size=int(facts.sizes[c]),
            share=float(shares[c]),
            prior=float(facts.prior[c]),
            confidence=number_or_none(facts.mean_confidence[c]),
            stability=None if overlap is None or not facts.sizes[c] else float(overlap[c]),
            bar=float(shares[c] / longest),
            mark=float(facts.prior[c] / longest),
        )
        for c in range(facts.k)
    ]


def view_rows(facts: Facts, chances: Floats) -> list[ViewRow]:
    """Every view."""
    known = np.isfinite(chances)
    means = np.where(known, chances, 0).sum(1) / np.where(known.any(1), known.sum(1), np.nan)
    return [
        ViewRow(
            name=facts.views.names[v],
            features=facts.views.n_features[v],
            present=int(facts.views.mask[:, v].sum()),
            weight=float(facts.weights[v]),
            chance=number_or_none(means[v]),
            bar=float(facts.weights[v] / facts.weights.max()),
        )
        for v in range(facts.views.n_views)
    ]


def histogram(facts: Facts) -> list[list[int]]:
    """Samples in each tenth of confidence: of all clusters together, then of each."""
    tenth = np.clip((facts.confidence * BINS).astype(np.int64), 0, BINS - 1)
    counts: npt.NDArray[np.int64] = np.zeros((facts.k, BINS), dtype=np.int64)
    np.add.at(counts, (facts.labels, tenth), 1)
    return [counts.sum(0).tolist(), *counts.tolist()]


def doubt_rows(facts: Facts) -> list[DoubtRow]:
    """The samples of the lowest confidence, the lowest first."""
    agreed = None if facts.stability is None else facts.stability.samples
    return [
        DoubtRow(
            id=facts.ids[i],
            cluster=int(facts.labels[i]),
            confidence=float(facts.confidence[i]),
            other=int(facts.runner_up[i]),
            stability=None if agreed is None else float(agreed[i]),
        )
        for i in np.argsort(facts.confidence, kind="stable")[:MOST_DOUBTS]
    ]
