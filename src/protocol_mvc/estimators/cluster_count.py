"""A suggestion for the number of clusters, without known classes."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from protocol_mvc.data.batches import Source
from protocol_mvc.data.scaling import Scaler, fit_scalers, scaled_rows
from protocol_mvc.data.views import Views, as_views
from protocol_mvc.methods.base import infer_all
from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.methods.protocol.config import DEFAULT
from protocol_mvc.methods.protocol.pseudo_labels import complete_views
from protocol_mvc.nn.seeded import build
from protocol_mvc.partition.graphs import Features, impute
from protocol_mvc.partition.n_clusters import ClusterCountSuggestion, count_clusters
from protocol_mvc.training.loop import train
from protocol_mvc.utils.config import update_config

MAX_SAMPLES = 10_000  # random subsample of larger data
MAX_CLUSTERS = 40  # largest number to suggest
N_COMPONENTS = 50  # principal components of a view
MIN_SAMPLES = 10  # with fewer samples no features are learned
#: of the alignment whose features the search uses; its networks are wider than those of a fit
ALIGNMENT = update_config(DEFAULT, {"network__hidden_dims": (256,)})
AUTO = re.compile(r"auto(?::(\d+)-(\d+))?")


class Bounds(NamedTuple):
    """The smallest and the largest number of clusters to suggest."""

    low: int = 1
    high: int = MAX_CLUSTERS


def parse_auto(n_clusters: Any) -> Bounds | None:
    """Return the bounds of ``"auto"`` or ``"auto:LOW-HIGH"``, and None for anything else.

    Raises:
        ValueError: If the bounds are not 1 <= LOW <= HIGH.
    """
    found = AUTO.fullmatch(n_clusters) if isinstance(n_clusters, str) else None
    if found is None:
        return None
    bounds = Bounds(*map(int, found.groups())) if found[1] else Bounds()
    if not 1 <= bounds.low <= bounds.high:
        raise ValueError(f"n_clusters={n_clusters!r}: the bounds must be 1 <= LOW <= HIGH, as in 'auto:5-30'")
    return bounds


def suggest_n_clusters(
    X: Any, *, min_clusters: int = 1, max_clusters: int = MAX_CLUSTERS, random_state: int = 0
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
    return count_in_views(as_views(X), Bounds(min_clusters, max_clusters), random_state)


def count_in_views(
    views: Views, bounds: Bounds, seed: int, scalers: Sequence[Scaler] | None = None
) -> ClusterCountSuggestion:
    """Suggest a number of clusters of views; see `suggest_n_clusters`.

    Args:
        views: the views.
        bounds: smallest and largest number.
        seed: seed of the subsample and of the search.
        scalers: those of the views with scaling "auto" and `N_COMPONENTS`, if they are known.
    """
    rows = subsample(len(views), seed)
    if len(rows) < len(views):
        views, scalers = views[rows], None
    spaces = data_and_features(views, seed, scalers)
    most = min(bounds.high, len(rows))
    least = min(bounds.low, most)
    return count_clusters(
        *spaces,
        min_clusters=least,
        max_clusters=most,
        seed=seed % 2**32,
        complete=complete_samples(views),
    )


def complete_samples(views: Views) -> np.typing.NDArray[np.bool_]:
    """Return whether a sample has all views (n,)."""
    complete: np.typing.NDArray[np.bool_] = np.ones(len(views), dtype=np.bool_)
    return complete if views.is_complete else complete & np.all(views.mask, axis=1)


def data_and_features(
    views: Views, seed: int, scalers: Sequence[Scaler] | None = None
) -> tuple[list[Features], list[Features]]:
    """Return the principal components (n, d_v) and learned features (n, d) of every view.

    The features are those of PROTOCOL after the alignment, which does not need the number of clusters.
    """
    if len(views) < MIN_SAMPLES:
        _, components = prepare(views)
        return components, components
    scalers = scalers or fit_scalers(views, "auto", N_COMPONENTS)
    generator, dims = torch.Generator().manual_seed(seed), [scaler.n_outputs for scaler in scalers]
    source = Source(
        views,
        scalers,
        batch_size=ALIGNMENT.schedule.n_samples_per_step,
        device=torch.device("cpu"),
        shared=True,
    )
    method = build(lambda: Protocol(ALIGNMENT, dims, 2), generator)
    train(method, method.alignment(), source, generator)
    return complete_views(source), np.split(infer_all(method, source).embedding.numpy(), len(dims), axis=1)


def subsample(n_samples: int, seed: int) -> np.typing.NDArray[np.int64]:
    """Return at most `MAX_SAMPLES` random rows, in order."""
    rows = np.random.default_rng(seed).permutation(n_samples)[:MAX_SAMPLES]
    return np.sort(rows)


def prepare(views: Views) -> tuple[Sequence[Scaler], list[Features]]:
    """Return the scalers and the principal components (n, d_v) of every view; absent rows are imputed."""
    scalers = fit_scalers(views, "auto", N_COMPONENTS)
    components: list[Any] = components_of(views, scalers)
    return scalers, components if views.is_complete else [*impute(components, views.mask)]


def components_of(views: Views, scalers: Sequence[Scaler]) -> list[Any]:
    """Return the principal components (n, d_v) of every view, with zeros in absent rows."""
    return [scaled_rows(views, v, slice(None), scaler) for v, scaler in enumerate(scalers)]
