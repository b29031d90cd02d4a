"""The data behind the report: a fitted model's labels and probabilities beside its views."""

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

HIGH_CONFIDENCE, LOW_CONFIDENCE = 0.9, 0.5  # of one sample
LOW_MEAN_CONFIDENCE = 0.7  # of a cluster; below it the report warns
MAX_PRIOR_DIFFERENCE = 0.1  # between class prior and cluster sizes; above it the report warns
RARE_FRACTION = 0.5  # of the mean cluster size; smaller clusters are rare
MAX_CHANGED_LABELS = 0.01  # fraction that rounding on another machine may change; more means other data


@dataclass(frozen=True, eq=False)
class Facts:
    """What the report shows of n samples in k clusters.

    Attributes:
        views: The data.
        sample_ids: Name of each sample.
        labels: (n,) cluster of each sample.
        confidence: (n,) probability of that cluster.
        second_choice: (n,) most probable other cluster.
        class_prior: (k,) estimated share of each cluster.
        view_weights: Weight of each view in the consensus.
        labels_true: (n,) ground truth, or None.
        stability: Result of `protocol_mvc.stability`, or None.
        source: Origin of the data, such as a file name, or None.
        diverged_stages: Training stages that diverged and continued at a lower learning rate.
    """

    views: Views
    sample_ids: list[str]
    labels: Ints
    confidence: Floats
    second_choice: Ints
    class_prior: Floats
    view_weights: Floats
    labels_true: npt.NDArray[Any] | None = None
    stability: Stability | None = None
    source: str | None = None
    diverged_stages: tuple[str, ...] = ()

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.labels)

    @property
    def n_clusters(self) -> int:
        """Number of clusters, including empty ones."""
        return len(self.class_prior)

    @cached_property
    def cluster_sizes(self) -> Ints:
        """(k,) number of samples of each cluster."""
        return np.bincount(self.labels, minlength=self.n_clusters).astype(np.int64)

    @cached_property
    def mean_confidence(self) -> Floats:
        """(k,) mean confidence of each cluster; NaN if it is empty."""
        sums = np.bincount(self.labels, weights=self.confidence, minlength=self.n_clusters)
        return np.where(self.cluster_sizes > 0, sums / np.maximum(self.cluster_sizes, 1), np.nan)

    @property
    def empty_clusters(self) -> list[int]:
        """Clusters without samples."""
        return [c for c, size in enumerate(self.cluster_sizes) if size == 0]

    @cached_property
    def nonempty_clusters(self) -> list[int]:
        """Clusters with samples, largest first."""
        order = np.argsort(-self.cluster_sizes, kind="stable").tolist()
        return [c for c in order if self.cluster_sizes[c]]

    @property
    def size_ratio(self) -> float:
        """Largest / smallest non-empty cluster."""
        found = self.nonempty_clusters
        return float(self.cluster_sizes[found[0]] / self.cluster_sizes[found[-1]])

    @property
    def mean_size(self) -> float:
        """Mean size of the non-empty clusters."""
        return self.n_samples / len(self.nonempty_clusters)

    @property
    def rare_clusters(self) -> list[int]:
        """Non-empty clusters below `RARE_FRACTION` of the mean size, largest first."""
        return [c for c in self.nonempty_clusters if self.cluster_sizes[c] < RARE_FRACTION * self.mean_size]

    @property
    def tiny_clusters(self) -> list[int]:
        """Non-empty clusters of fewer than `MIN_CLUSTER_SIZE` samples."""
        return [c for c, size in enumerate(self.cluster_sizes) if 0 < size < MIN_CLUSTER_SIZE]

    @property
    def low_confidence_clusters(self) -> list[int]:
        """Clusters whose mean confidence is below `LOW_MEAN_CONFIDENCE`, lowest first."""
        order = np.argsort(self.mean_confidence, kind="stable").tolist()
        return [c for c in order if self.mean_confidence[c] < LOW_MEAN_CONFIDENCE]

    @property
    def unstable_clusters(self) -> list[int]:
        """Clusters of sufficient size that refits did not find again; none without refits."""
        if self.stability is None:
            return []
        dissolved = self.stability.cluster_jaccard < DISSOLVED_JACCARD
        found: list[int] = np.flatnonzero(dissolved & (self.cluster_sizes >= MIN_CLUSTER_SIZE)).tolist()
        return found


def collect_facts(
    model: Any,
    X: Any,
    *,
    proba: Any = None,
    labels_true: Any = None,
    sample_ids: Any = None,
    stability: Stability | None = None,
    source: Any = None,
) -> Facts:
    """Collect the facts about a fitted model.

    The arguments are those of `write_report`, and `proba` (n, k), the result of `model.predict_proba(X)` if
    it is known already.

    Raises:
        ValueError: If X is not the data of the fit, or an argument has another length.
    """
    check_is_fitted(model)
    views, labels, n = as_views(X, model.view_columns), model.labels_, len(model.labels_)
    _check_length("X", len(views), n)
    proba = np.array(model.predict_proba(X) if proba is None else proba, dtype=np.float64)
    changed = float(np.mean(proba.argmax(1) != labels))
    if changed > MAX_CHANGED_LABELS:
        raise ValueError(
            f"the model predicts another label than in fit for {changed:.1%} of the samples of X: "
            "pass the data of the fit, rows in the same order"
        )
    if stability is not None:
        _check_length("stability.sample_agreement", len(stability.sample_agreement), n)
        n_clusters = len(stability.cluster_jaccard)
        _check_length("stability.cluster_jaccard", n_clusters, model.n_clusters, "clusters")
    ids = _as_column("sample_ids", views.sample_ids if sample_ids is None else sample_ids, n)
    diverged = (row["stage"] for row in model.history_ if row["lr_factor"] < 1)
    confidence = proba[np.arange(n), labels]
    proba[np.arange(n), labels] = -1
    return Facts(
        views=views,
        sample_ids=[str(name) for name in ids],
        labels=labels,
        confidence=confidence,
        second_choice=proba.argmax(1),
        class_prior=np.asarray(model.class_prior_, dtype=np.float64),
        view_weights=np.asarray(model.view_weights_, dtype=np.float64),
        labels_true=None if labels_true is None else _as_column("labels_true", labels_true, n),
        stability=stability,
        source=None if source is None else str(source),
        diverged_stages=tuple(dict.fromkeys(diverged)),
    )


def _check_length(name: str, found: int, expected: int, unit: str = "samples") -> None:
    if found != expected:
        raise ValueError(f"the model was fitted with {expected} {unit}, {name} has {found}")


def _as_column(name: str, values: Any, n_samples: int) -> npt.NDArray[Any]:
    """Return one value per sample; values of mixed types become text, which can be sorted."""
    column = np.asarray(values)
    if column.ndim != 1:
        raise ValueError(f"{name} has {column.ndim} dimensions: pass one value per sample")
    _check_length(name, len(column), n_samples)
    return column if column.dtype != object else np.array([str(value) for value in column])
