"""The data behind the report: a fitted model's labels and probabilities beside its views."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from protocol_mvc.data.views import Views, as_views
from protocol_mvc.evaluation.cluster_review import ClusterReview
from protocol_mvc.evaluation.explanation import Explanation
from protocol_mvc.evaluation.stability import DISSOLVED_JACCARD, Stability
from protocol_mvc.partition.consensus import MIN_CLUSTER_SIZE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

HIGH_CONFIDENCE, LOW_CONFIDENCE = 0.9, 0.5  # of one sample
LOW_MEAN_CONFIDENCE = 0.7  # of a cluster; below it the report warns
RARE_FRACTION = 0.5  # of the mean cluster size; smaller clusters are rare
MAX_CHANGED_LABELS = 0.01  # fraction that rounding on another machine may change; more means other data


@dataclass(eq=False)
class Facts:
    """What the report shows of n samples in k clusters; the fields from `n_samples` on are computed."""

    views: Views
    sample_ids: list[str]
    labels: Ints  # (n,) cluster of each sample
    confidence: Floats  # (n,) probability of that cluster
    second_choice: Ints  # (n,) most probable other cluster
    class_prior: Floats  # (k,) estimated share of each cluster
    view_weights: Floats  # weight of each view in the consensus
    labels_true: npt.NDArray[Any] | None = None  # (n,) ground truth
    stability: Stability | None = None  # result of `protocol_mvc.stability`
    source: str | None = None  # origin of the data, such as a file name
    diverged_stages: tuple[str, ...] = ()  # of training, which continued at a lower learning rate
    names: tuple[str, ...] = ()  # of the clusters, if the user has given any
    review: ClusterReview | None = None  # what the data say about the clusters
    explanation: Explanation | None = None  # what is in the clusters
    colors: dict[str, npt.NDArray[Any]] = field(default_factory=dict)  # columns (n,) that colour the map

    n_samples: int = field(init=False)
    n_clusters: int = field(init=False)  # including empty ones
    cluster_sizes: Ints = field(init=False)  # (k,)
    mean_confidence: Floats = field(init=False)  # (k,), NaN if a cluster is empty
    empty_clusters: list[int] = field(init=False)
    nonempty_clusters: list[int] = field(init=False)  # largest first
    size_ratio: float = field(init=False)  # largest / smallest non-empty cluster
    mean_size: float = field(init=False)  # of the non-empty clusters
    rare_clusters: list[int] = field(init=False)  # below `RARE_FRACTION` of the mean size, largest first
    tiny_clusters: list[int] = field(init=False)  # non-empty, fewer than `MIN_CLUSTER_SIZE` samples
    low_confidence_clusters: list[int] = field(init=False)  # mean below `LOW_MEAN_CONFIDENCE`, lowest first
    unstable_clusters: list[int] = field(init=False)  # of sufficient size, but refits did not find them again

    def __post_init__(self) -> None:
        """Compute what follows from the given facts."""
        n, k = len(self.labels), len(self.class_prior)
        sizes = np.bincount(self.labels, minlength=k).astype(np.int64)
        sums = np.bincount(self.labels, weights=self.confidence, minlength=k)
        mean_confidence = np.where(sizes > 0, sums / np.maximum(sizes, 1), np.nan)
        found = [c for c in np.argsort(-sizes, kind="stable").tolist() if sizes[c]]
        by_confidence = np.argsort(mean_confidence, kind="stable").tolist()
        jaccard = np.ones(k) if self.stability is None else self.stability.cluster_jaccard
        dissolved = (jaccard < DISSOLVED_JACCARD) & (sizes >= MIN_CLUSTER_SIZE)
        self.n_samples, self.n_clusters = n, k
        self.cluster_sizes, self.mean_confidence = sizes, mean_confidence
        self.empty_clusters, self.nonempty_clusters = np.flatnonzero(sizes == 0).tolist(), found
        self.size_ratio, self.mean_size = float(sizes[found[0]] / sizes[found[-1]]), n / len(found)
        self.rare_clusters = [c for c in found if sizes[c] < RARE_FRACTION * self.mean_size]
        self.tiny_clusters = [c for c, size in enumerate(sizes) if 0 < size < MIN_CLUSTER_SIZE]
        self.low_confidence_clusters = [c for c in by_confidence if mean_confidence[c] < LOW_MEAN_CONFIDENCE]
        self.unstable_clusters = np.flatnonzero(dissolved).tolist()


def collect_facts(
    model: Any,
    X: Any,
    *,
    proba: Any = None,
    labels_true: Any = None,
    sample_ids: Any = None,
    stability: Stability | None = None,
    source: Any = None,
    colors: Mapping[str, Any] | None = None,
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
        _check_length("stability.cluster_jaccard", n_clusters, model.n_clusters_, "clusters")
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
        names=tuple(model.cluster_names_),
        colors={
            str(name): _as_column(f"colors[{name!r}]", values, n) for name, values in (colors or {}).items()
        },
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
