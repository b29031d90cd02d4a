"""What moved between two models of the same samples."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.steering import shared_rows
from protocol_mvc.partition.changes import Changes, count_pairs, find_changes


class RunComparison(NamedTuple):
    """The clusters of the samples that two models share."""

    counts: npt.NDArray[np.int64]  #: (K_a, K_b) samples in cluster i of the first and j of the second model
    names_a: tuple[str, ...]  #: of the clusters of the first model
    names_b: tuple[str, ...]  #: of the clusters of the second model
    changes: Changes  #: clusters that were kept, born, died, split or merged
    moved: npt.NDArray[Any]  #: ids of the samples that are not in the counterpart of their cluster

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row for each pair of clusters with common samples."""
        import pandas as pd  # an optional dependency

        i, j = np.nonzero(self.counts)
        size, total = self.counts[i, j], self.counts.sum(axis=1)
        a, b = np.array(self.names_a)[i], np.array(self.names_b)[j]
        frame = pd.DataFrame({"from": a, "to": b, "n_samples": size, "share": size / total[i]})
        return frame.sort_values("n_samples", ascending=False, kind="stable", ignore_index=True)

    def __str__(self) -> str:
        """Return the table of pairs, and the changes in words."""
        lines = [("", *self.names_b)]
        lines += [(a, *map(str, row)) for a, row in zip(self.names_a, self.counts.tolist(), strict=True)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ["  ".join(map(str.rjust, line, widths)) for line in lines]
        n = int(self.counts.sum())
        moved = f"{len(self.moved)} of {n} samples moved to another cluster."
        return "\n".join([*table, *self.changes.sentences(self.names_a, self.names_b), moved])


def compare_runs(a: MultiViewClusterer, b: MultiViewClusterer) -> RunComparison:
    """Compare the clusters of two models, by the samples that both were fitted to.

    Args:
        a: fitted model.
        b: fitted model; samples are matched by id, or by position if the ids are row numbers.

    Raises:
        ValueError: If the models have no sample in common.
    """
    for model in (a, b):
        check_is_fitted(model)
    rows_a, rows_b = shared_rows(a.sample_ids_, b.sample_ids_, by_position=True)
    if rows_a is None:
        raise ValueError("the two models have no sample id in common, so their clusters cannot be compared")
    labels_a, labels_b = a.labels_[rows_a], b.labels_[rows_b]
    counts = count_pairs(labels_a, labels_b, (len(a.cluster_sizes_), len(b.cluster_sizes_)))
    changes = find_changes(counts)
    counterpart = np.array([changes.kept.get(c, -1) for c in range(counts.shape[1])])
    moved = a.sample_ids_[rows_a][counterpart[labels_b] != labels_a]
    return RunComparison(counts, a.cluster_names_, b.cluster_names_, changes, moved)
