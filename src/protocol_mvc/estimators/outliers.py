"""Outlier scores of an estimator, and labels of -1 for samples that are like none of the training data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, from_numpy

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.data.sampling import stratified_rows
from protocol_mvc.methods.base import map_batches
from protocol_mvc.partition.outliers import MAX_POINTS, OutlierReference, fit_reference, outlier_scores
from protocol_mvc.utils.text import short_repr

Floats = NDArray[np.float32]

MAX_VALUES = 20_000_000  # of the prepared views of the reference


class OutlierMixin:
    """Methods that tell samples of unseen kinds."""

    labels_: NDArray[np.int64]
    module_: Any
    outlier_scores_: Floats
    _reference: OutlierReference | None = None

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
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 <= limit <= 1:
            raise ValueError(f"reject must be an outlier score from 0 to 1, got {short_repr(limit)}")
        return np.where(self._score_outliers(source) > limit, -1, labels)

    def _fit_outliers(self, source: Source) -> None:
        """Keep some training samples of every cluster, and score all."""
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
