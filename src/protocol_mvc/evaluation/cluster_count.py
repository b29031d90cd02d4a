"""A suggestion for the number of clusters, without known classes."""

from typing import Any

import numpy as np

from protocol_mvc.data.views import as_views
from protocol_mvc.evaluation.comparison import prepare
from protocol_mvc.partition.n_clusters import ClusterCountSuggestion, count_clusters

MAX_SAMPLES = 10_000  # random subsample of larger data


def suggest_n_clusters(
    X: Any, *, min_clusters: int = 1, max_clusters: int = 40, random_state: int = 0
) -> ClusterCountSuggestion:
    """Suggest a number of clusters, with a range and the reasons.

    Every group is judged by its own members, so a rare group counts as much as a large one; see
    `partition.n_clusters` for the evidence. One group is a possible answer. The views are prepared as
    ``scaling="auto"`` does it. Of more than 10,000 samples a random subsample is used.

    Args:
        X: the views, as an estimator takes them; samples may lack views.
        min_clusters: smallest number to suggest.
        max_clusters: largest number to suggest.
        random_state: seed of the subsample and of the search for groups.

    Returns:
        The suggestion.

    Raises:
        ValueError: If the bounds are not integers with 1 <= min_clusters <= max_clusters.
    """
    whole = isinstance(min_clusters, (int, np.integer)) and isinstance(max_clusters, (int, np.integer))
    if not whole or not 1 <= min_clusters <= max_clusters:
        raise ValueError(
            "min_clusters and max_clusters must be integers with 1 <= min_clusters <= max_clusters, "
            f"got {min_clusters!r} and {max_clusters!r}."
        )
    views = as_views(X)
    if len(views) > MAX_SAMPLES:
        views = views[np.random.default_rng(random_state).permutation(len(views))[:MAX_SAMPLES]]
    _, components = prepare(views)
    return count_clusters(components, min_clusters=min_clusters, max_clusters=max_clusters, seed=random_state)
