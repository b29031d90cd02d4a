"""Names, merges and splits of the clusters of a fitted model, and numbers that survive a refit."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from protocol_mvc.data.batches import Source
from protocol_mvc.data.matching import is_numbered
from protocol_mvc.data.views import Views
from protocol_mvc.methods.base import Inferred
from protocol_mvc.partition.changes import Changes, count_pairs, find_changes, number_like
from protocol_mvc.partition.edits import Edit, Merge, Split, fit_split
from protocol_mvc.partition.graphs import Labels, compact, impute
from protocol_mvc.partition.selection import find_partition
from protocol_mvc.utils.text import short_repr

Floats = NDArray[np.float32]
Cluster = int | str  # a number, or the name of a cluster
LabelsBefore = tuple[Any, Labels]  # rows of the data, and their clusters in an older model

DECIDED = 0.51  # no sum of other probabilities exceeds a larger one
MAX_SPLIT_SAMPLES, MAX_SPLIT_VALUES = 10_000, 20_000_000  # of the members whose parts are searched for


def hard_labels(proba: Floats) -> Labels:
    """Return the most probable cluster of each row; every label of the estimator comes from here."""
    return np.asarray(proba.argmax(1), np.int64)


class SteeringMixin:
    """Methods that return a new fitted model with other clusters; the network stays as it is."""

    n_clusters: int | str
    labels_: Labels
    cluster_sizes_: Labels
    class_prior_: Floats
    sample_ids_: NDArray[Any]
    module_: Any
    _order: NDArray[np.int64]  # output of the network for each label, before the edits
    _edits: tuple[Edit, ...] = ()
    _names: tuple[str | None, ...] | None = None
    _undecided: tuple[Labels, Floats] | None = None  # rows below `DECIDED`, and their probabilities

    @property
    def cluster_names_(self) -> tuple[str, ...]:
        """Names of the clusters (K,); a cluster without a name has its number."""
        given = self._names or (None,) * len(self.cluster_sizes_)
        return tuple(str(c) if name is None else name for c, name in enumerate(given))

    def rename_clusters(self, names: Mapping[Cluster, str] | Sequence[str]) -> Self:
        """Return a model whose clusters have names, in label files, reports and tables.

        Args:
            names: new names by number or present name of the cluster, or the names of all clusters.

        Raises:
            ValueError: If there is no such cluster, or two clusters would have one name.
        """
        check_is_fitted(self)
        given = list(self._names or (None,) * len(self.cluster_sizes_))
        if not isinstance(names, Mapping):
            if isinstance(names, str) or len(names) != len(given):
                raise ValueError(f"names must be a dict, or a list of {len(given)}, got {short_repr(names)}")
            names = dict(enumerate(names))
        for cluster, name in names.items():
            if not isinstance(name, str) or not name.strip():
                raise ValueError(f"the name of cluster {cluster} must be a text, got {short_repr(name)}")
            given[self._number(cluster)] = name.strip()
        model = copy(self)
        model._names = tuple(given)
        found = model.cluster_names_
        if len(set(found)) < len(found):
            twice = next(name for name in found if found.count(name) > 1)
            raise ValueError(f"two clusters would be named {short_repr(twice)}: choose another name")
        return model

    def merge_clusters(self, clusters: Iterable[Cluster], X: Any = None) -> Self:
        """Return a model in which several clusters are one, with the smallest of their numbers.

        Its probability is the sum of theirs, so samples that were undecided between them and another cluster
        may join it. The numbers behind move up to close the gap.

        Args:
            clusters: numbers or names of at least two clusters.
            X: the training data; only needed if the model was saved by a version before this method.

        Raises:
            ValueError: If there is no such cluster, or fewer than two clusters would remain.
        """
        check_is_fitted(self)
        if isinstance(clusters, str) or not isinstance(clusters, Iterable):
            raise ValueError(f"clusters must be a list such as [0, 1], got {short_repr(clusters)}")
        merged = tuple(sorted({self._number(cluster) for cluster in clusters}))
        k = len(self.cluster_sizes_)
        if not 2 <= len(merged) < k:
            raise ValueError(f"a merge takes 2 to {k - 1} of the {k} clusters, got {list(merged)}")
        edit = Merge(merged)
        prior = self.class_prior_.copy()
        prior[merged[0]] = prior[list(merged)].sum()
        proba = getattr(self, "label_distributions_", None) if X is None else self._training_proba(X)[0]
        if proba is not None:
            return self._edited(edit, prior, edit.apply(proba))
        if self._undecided is None:
            raise ValueError("the probabilities of the training data are not known: pass them as X")
        new_number = np.array([edit.sources(k).index(merged[0] if c in merged else c) for c in range(k)])
        rows, some = self._undecided[0], edit.apply(self._undecided[1])
        model = self._edited(edit, prior, None)
        model._set_labels(new_number[self.labels_], rows, some)
        return model

    def split_cluster(self, cluster: Cluster, X: Any, *, n_parts: int = 2) -> Self:
        """Return a model in which a cluster is split.

        The parts are found as the starting partition of `PROTOCOL`, in the members of the cluster, and a
        logistic regression on the prepared views assigns new samples. The largest part keeps the number and
        the name; the others get numbers after the last cluster.

        Args:
            cluster: number or name of the cluster.
            X: the training data.
            n_parts: number of parts.

        Raises:
            ValueError: If X is not the training data, or the cluster has too few members.
        """
        number = self._number(cluster)
        proba, source, embedding = self._training_proba(X)
        rows = np.flatnonzero(self.labels_ == number)
        if not 2 <= n_parts <= len(rows) // 2:
            raise ValueError(
                f"cluster {cluster} has {len(rows)} members, so n_parts must be from 2 to {len(rows) // 2}, "
                f"got {n_parts}"
            )
        n_values = sum(scaler.n_outputs for scaler in source.scalers)
        n_samples = min(MAX_SPLIT_SAMPLES, max(MAX_SPLIT_VALUES // n_values, 100))
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:n_samples])
        views: list[Any] = [view.cpu().numpy() for view in source.take(torch.from_numpy(rows)).views]
        mask = source.views.mask[rows]
        complete = views if mask.all() else impute(views, mask)
        labels = compact(find_partition(complete, [embedding[rows]], n_parts, 0).labels)
        labels = np.argsort(np.argsort(-np.bincount(labels), kind="stable"))[labels]
        edit = fit_split(number, np.hstack(views).astype(np.float64), labels)
        parts = np.concatenate([edit.parts(batch.views).cpu().numpy() for batch in source.blocks()])
        new = edit.apply(proba, parts[: len(proba)])
        shares = np.bincount(labels, minlength=n_parts) / len(labels)
        prior = np.append(self.class_prior_, self.class_prior_[number] * shares[1:])
        prior[number] *= shares[0]
        return self._edited(edit, prior.astype(np.float32), new)

    def _number(self, cluster: Cluster) -> int:
        """Return the number of a cluster, given by number or name."""
        check_is_fitted(self)
        names = self.cluster_names_
        if isinstance(cluster, str) and cluster in names:
            return names.index(cluster)
        if isinstance(cluster, (int, np.integer)) and 0 <= cluster < len(names):
            return int(cluster)
        raise ValueError(f"there is no cluster {short_repr(cluster)}, only {', '.join(names)}")

    def _training_proba(self, X: Any) -> tuple[Floats, Source, Floats]:
        """Return probabilities, batches and embedding of the training data, which X must be."""
        source: Source = self._source(X)  # type: ignore[attr-defined]
        proba, embedding = self._infer(source)  # type: ignore[attr-defined]
        if len(proba) != len(self.labels_) or not np.array_equal(hard_labels(proba), self.labels_):
            raise ValueError("X must be the data that the model was fitted to, rows in the same order")
        return proba, source, embedding

    def _edited(self, edit: Edit, prior: Floats, proba: Floats | None) -> Self:
        """Return a copy with one more edit, and with results if the probabilities (n, K) are known."""
        model, sources = copy(self), edit.sources(len(self.cluster_sizes_))
        names = None if self._names is None else [self._names[c] for c in sources]
        if names is not None and isinstance(edit, Split):
            names[len(self.cluster_sizes_) :] = [None] * (len(edit.bias) - 1)
        model._edits, model._names = (*self._edits, edit), None if names is None else tuple(names)
        model.class_prior_ = prior[sources] if isinstance(edit, Merge) else prior
        model.n_clusters = len(sources)
        if proba is not None:
            model._set_distributions(proba)
        return model

    def _set_distributions(self, proba: Floats) -> None:
        """Set all results that follow from the probabilities of the training samples (n, K)."""
        self.label_distributions_ = proba
        rows = np.flatnonzero(proba.max(axis=1) < DECIDED)
        self._set_labels(hard_labels(proba), rows, proba[rows])

    def _set_labels(self, labels: Labels, rows: Labels, undecided: Floats) -> None:
        """Set the labels, of which those of undecided samples are found again."""
        self.labels_ = labels.copy()
        self.labels_[rows] = hard_labels(undecided)
        self.cluster_sizes_ = np.bincount(self.labels_, minlength=undecided.shape[1])
        self._undecided = rows, undecided

    def _parts(self, views: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the probabilities of the parts (n, m) of each split, for a batch of prepared views."""
        return [edit.parts(views) for edit in self._edits if isinstance(edit, Split)]

    def _proba(self, inferred: Inferred, parts: Sequence[torch.Tensor] = ()) -> Floats:
        """Return the probabilities of the clusters (n, K) after all edits."""
        proba: Floats = inferred.log_proba.exp().cpu().numpy()[:, self._order]
        conditional = iter(parts)
        for edit in self._edits:
            if isinstance(edit, Split):
                proba = edit.apply(proba, next(conditional).cpu().numpy())
            else:
                proba = edit.apply(proba)
        return proba

    def _renumber_like(self, old: Any, before: LabelsBefore) -> Changes:
        """Give the clusters the numbers and names of an older model, and return what changed."""
        rows, labels = before
        shape = (len(old.cluster_sizes_), len(self.cluster_sizes_))
        order = number_like(count_pairs(labels, self.labels_[rows], shape))
        self._order, self.class_prior_ = self._order[order], self.class_prior_[order]
        self._set_distributions(self.label_distributions_[:, order])
        counts = count_pairs(labels, self.labels_[rows], shape)
        changes = find_changes(counts, self.cluster_sizes_)
        if old._names is not None:
            kept = changes.kept
            self._names = tuple(old._names[kept[c]] if c in kept else None for c in range(shape[1]))
        return changes


def labels_before(old: Any, views: Views) -> LabelsBefore:
    """Return rows of the views and their clusters in an older model: of samples that it shares, or of all.

    Raises:
        TypeError: If it is no model.
        ValueError: If it is not fitted, or shares no samples and its views are others.
    """
    if not isinstance(old, SteeringMixin):
        raise TypeError(
            f"like must be a fitted model, got {short_repr(old)}: load a saved one by `load_model`"
        )
    check_is_fitted(old)
    mine, theirs = shared_rows(views.sample_ids, old.sample_ids_)
    if mine is None:
        return slice(None), old.predict(views)  # type: ignore[attr-defined]
    return mine, old.labels_[theirs]


def shared_rows(ids: NDArray[Any], others: NDArray[Any], *, by_position: bool = False) -> tuple[Any, Any]:
    """Return the rows of the samples that two models share by id, or None twice if there are none.

    Row numbers are no ids, because they may belong to other samples, unless `by_position` says that they do
    not.
    """
    if not by_position and (is_numbered(ids) or is_numbered(others)):
        return None, None
    position = {sample: row for row, sample in enumerate(others.tolist())}
    pairs = [(row, position[sample]) for row, sample in enumerate(ids.tolist()) if sample in position]
    mine, theirs = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return (mine, theirs) if pairs else (None, None)
