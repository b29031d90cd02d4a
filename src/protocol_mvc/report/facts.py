"""What a report is about: a fitted model beside its data, checked once and counted once."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from protocol_mvc.data.views import Views, as_views
from protocol_mvc.evaluation.stability import DISSOLVED_JACCARD, Stability
from protocol_mvc.partition.consensus import MIN_CLUSTER_SIZE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SURE, UNSURE = 0.9, 0.5  # confidence above and below which a sample is called sure, and in doubt
DOUBTFUL = 0.7  # mean confidence below which a cluster is called doubtful
UNCERTAIN = 0.1  # share of the samples by which perceived and labelled sizes may differ
RARE = 0.5  # share of an equal part of the samples below which a cluster is called rare
STRANGERS = 0.01  # share of labels that another machine's rounding may change; more are other data


@dataclass(frozen=True, eq=False)
class Facts:
    """The samples, their clusters and what is known of both.

    Attributes:
        views: The data.
        ids: What each sample is called.
        labels: Cluster of each sample, 0 being the largest.
        confidence: Probability of that cluster.
        runner_up: The cluster next in probability.
        prior: Share of each cluster that the method perceived.
        weights: Weight of each view.
        truth: True class of each sample, if known.
        stability: What refits say, if they were made.
        source: Where the data come from, if told.
        slowed: Stages of the training that diverged and were run at a lower rate.
    """

    views: Views
    ids: list[str]
    labels: Ints
    confidence: Floats
    runner_up: Ints
    prior: Floats
    weights: Floats
    truth: npt.NDArray[Any] | None = None
    stability: Stability | None = None
    source: str | None = None
    slowed: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.labels)

    @property
    def k(self) -> int:
        """Number of clusters, empty ones among them."""
        return len(self.prior)

    @cached_property
    def sizes(self) -> Ints:
        """Samples of each cluster."""
        return np.bincount(self.labels, minlength=self.k).astype(np.int64)

    @cached_property
    def mean_confidence(self) -> Floats:
        """Mean confidence of each cluster; NaN for an empty one."""
        sums = np.bincount(self.labels, weights=self.confidence, minlength=self.k)
        means: Floats = np.divide(sums, self.sizes, out=np.full(self.k, np.nan), where=self.sizes > 0)
        return means

    @cached_property
    def disagreement(self) -> Floats:
        """How much larger each cluster is by its labels than was perceived, as shares of the samples."""
        return self.sizes / self.n - self.prior

    @property
    def empty(self) -> list[int]:
        """Clusters without a sample."""
        return _where(self.sizes == 0)

    @property
    def filled(self) -> list[int]:
        """Clusters with samples, the largest first."""
        order = np.argsort(-self.sizes, kind="stable")
        return [int(c) for c in order if self.sizes[c]]

    @property
    def inequality(self) -> float:
        """Largest : smallest cluster that holds samples."""
        return float(self.sizes[self.filled[0]] / self.sizes[self.filled[-1]])

    @property
    def sure(self) -> float:
        """Share of the samples that the model is sure of."""
        return float(np.mean(self.confidence > SURE))

    @property
    def equal_part(self) -> float:
        """Samples that every cluster would hold if all that hold any were of one size."""
        return self.n / len(self.filled)

    @property
    def rare(self) -> list[int]:
        """Clusters smaller than half an equal part, the largest of them first."""
        return [c for c in self.filled if self.sizes[c] < RARE * self.equal_part]

    @property
    def tiny(self) -> list[int]:
        """Clusters with too few samples to be believed."""
        return _where((self.sizes > 0) & (self.sizes < MIN_CLUSTER_SIZE))

    @property
    def smallest_third(self) -> list[int]:
        """The smaller clusters, as `metrics.group_recall` cuts classes into three."""
        return self.filled[-max(len(self.filled) // 3, 1) :]

    @property
    def doubtful(self) -> list[int]:
        """Clusters of low mean confidence, the most doubtful first."""
        low = _where(self.mean_confidence < DOUBTFUL)
        return sorted(low, key=lambda c: float(self.mean_confidence[c]))

    @property
    def loose(self) -> list[int]:
        """Clusters of a believable size that refits did not find again; none if there were no refits."""
        if self.stability is None:
            return []
        return _where((self.stability.clusters < DISSOLVED_JACCARD) & (self.sizes >= MIN_CLUSTER_SIZE))


def _where(condition: npt.NDArray[np.bool_]) -> list[int]:
    return [int(c) for c in np.flatnonzero(condition)]


def collect_facts(
    model: Any,
    X: Any,
    *,
    proba: Any = None,
    truth: Any = None,
    ids: Any = None,
    stability: Any = None,
    source: Any = None,
) -> Facts:
    """Ask the model for all that the report tells, but for probabilities that are known already.

    Raises:
        ValueError: If X is not what the model was fitted to, or something given beside it has another length.
    """
    check_is_fitted(model)
    views = as_views(X, model.view_columns)
    _same_length("X", len(views), len(model.labels_))
    proba = np.asarray(model.predict_proba(X) if proba is None else proba, dtype=np.float64)
    _same_data(model.labels_, proba)
    return Facts(
        views=views,
        ids=[str(x) for x in _column("ids", views.sample_ids if ids is None else ids, len(views))],
        labels=model.labels_,
        confidence=proba[np.arange(len(views)), model.labels_],
        runner_up=_runner_up(proba, model.labels_),
        prior=np.asarray(model.class_prior_, dtype=np.float64),
        weights=np.asarray(model.view_weights_, dtype=np.float64),
        truth=None if truth is None else _column("truth", truth, len(views)),
        stability=None if stability is None else _fitting(stability, len(views), model.n_clusters),
        source=None if source is None else str(source),
        slowed=tuple(
            {row["stage"]: None for row in model.history_ if row.get("slowness", 1) < 1}
        ),  # in order
    )


def _same_length(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"the model was fitted to {expected} samples, {name} has {found}: pass the same")


def _same_data(labels: Ints, proba: Floats) -> None:
    share = float(np.mean(proba.argmax(1) != labels))
    if share > STRANGERS:
        raise ValueError(
            f"the model gives {share:.1%} of the samples of X another label than in fit: "
            "pass the data it was fitted to, with the rows in the same order"
        )


def _column(name: str, values: Any, n: int) -> npt.NDArray[Any]:
    """One value per sample; those of mixed types are taken as text, which can be sorted."""
    column = np.asarray(values)
    if column.ndim != 1:
        raise ValueError(f"{name} has {column.ndim} dimensions: give a list of one value per sample")
    _same_length(name, len(column), n)
    return column if column.dtype != object else np.array([str(value) for value in column])


def _runner_up(proba: Floats, labels: Ints) -> Ints:
    others = proba.copy()
    others[np.arange(len(labels)), labels] = -1
    second: Ints = others.argmax(1).astype(np.int64)
    return second


def _fitting(stability: Stability, n: int, k: int) -> Stability:
    _same_length("stability", len(stability.samples), n)
    if len(stability.clusters) != k:
        raise ValueError(
            f"stability tells of {len(stability.clusters)} clusters, the model has {k}: "
            "measure it again with this model"
        )
    return stability
