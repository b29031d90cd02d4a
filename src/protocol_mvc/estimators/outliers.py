"""Outlier scores of an estimator, and labels of -1 for samples that are like none of the training data."""

import warnings
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, from_numpy

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.data.sampling import stratified_rows
from protocol_mvc.exceptions import DataWarning
from protocol_mvc.methods.base import map_batches
from protocol_mvc.partition.outliers import (
    MAX_POINTS,
    OutlierReference,
    far_spaces,
    fit_reference,
    outlier_scores,
)
from protocol_mvc.utils.text import join_words, short_repr
from protocol_mvc.utils.threads import with_threads

Floats = NDArray[np.float32]

MAX_CHECKED = 100  # new samples that are compared with the training data before a prediction
MAX_VALUES = 10_000_000  # of the prepared views of the reference


class OutlierMixin:
    """Methods that tell samples of unseen kinds."""

    labels_: NDArray[np.int64]
    module_: Any
    outlier_scores_: Floats
    _reference: OutlierReference | None = None
    _scores_outliers = True  # refits need no scores

    @with_threads
    def outlier_score(self, X: Any) -> Floats:
        """Return how unlike the training data each sample is (n,), in [0, 1].

        About 5 % of samples of known kinds have a score above 0.95, and most samples of unseen kinds do. For
        the training data, the result is `outlier_scores_`. It does not depend on the clusters.

        Raises:
            ValueError: If the model was saved by a version without outlier scores.
        """
        check_is_fitted(self)
        return self._score_outliers(self._source(X))  # type: ignore[attr-defined]

    def score_samples(self, X: Any) -> Floats:
        """Return the opposite of `outlier_score` (n,): larger is more normal, as in scikit-learn."""
        return -self.outlier_score(X)

    def _reject(self, source: Source, labels: NDArray[np.int64], limit: Any) -> NDArray[np.int64]:
        """Return the labels with -1 where the outlier score exceeds the limit."""
        if isinstance(limit, bool) or not isinstance(limit, Real) or not 0 <= float(limit) <= 1:
            raise ValueError(f"reject must be an outlier score from 0 to 1, got {short_repr(limit)}")
        return np.where(self._score_outliers(source) > limit, -1, labels)

    def _near_source(self, X: Any) -> Source:
        """Return batches of new samples, with a warning if a view is unlike that of the training data."""
        source: Source = self._source(X)  # type: ignore[attr-defined]
        if self._reference is None:
            return source
        rows = np.unique(np.linspace(0, len(source) - 1, MAX_CHECKED).astype(np.int64))
        batch = source.take(from_numpy(rows))
        far = far_spaces(self._reference, batch.views, batch.present)
        names = [repr(source.views.names[s]) for s in far if s < source.views.n_views]
        if far:
            where = (
                f"in the view {join_words(names)}" if names else "in all views together, but in no single one"
            )
            check = "views, columns and units are those of the fit" if names else "rows of all views match"
            warnings.warn(
                f"X is far from the training data {where}: check that {check}; `outlier_score` tells which "
                "samples are unlike it.",
                DataWarning,
                stacklevel=3,
            )
        return source

    def _fit_outliers(self, source: Source) -> None:
        """Keep some training samples of every cluster, and score all."""
        if not self._scores_outliers:
            self._reference = None
            return
        width = sum(scaler.n_outputs for scaler in source.scalers)
        n_points = min(MAX_POINTS, max(MAX_VALUES // width, 100))
        rows = stratified_rows(self.labels_, n_points)
        views = [x.cpu().numpy() for x in source.take(from_numpy(rows)).views]
        self._reference = fit_reference(views, source.views.mask[rows])
        self.outlier_scores_ = self._score_outliers(source)

    def _score_outliers(self, source: Source) -> Floats:
        reference = self._reference
        if reference is None:
            raise ValueError("this model was saved without outlier scores: fit it again")

        def score(batch: Batch) -> list[Tensor]:
            return [outlier_scores(reference, batch.views, batch.present)]

        found: Floats = map_batches(self.module_, source, score)[0].numpy()
        return found
