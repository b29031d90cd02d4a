"""Facts without a fit."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from protocol_mvc import Stability, as_views
from protocol_mvc.report.facts import Facts

EVIL = "</script><script>alert('x')</script>&\"'\u2028<b>"


def make_facts(labels: Sequence[int], n_clusters: int | None = None, **given: Any) -> Facts:
    """Facts of samples with these labels; the other fields are unremarkable unless given."""
    label, n = np.asarray(labels, dtype=np.int64), len(labels)
    k = int(label.max()) + 1 if n_clusters is None else n_clusters
    default: dict[str, Any] = {
        "views": as_views([np.arange(2.0 * n).reshape(n, 2), np.ones((n, 3))]),
        "sample_ids": [str(i) for i in range(n)],
        "labels": label,
        "confidence": np.full(n, 0.95),
        "second_choice": (label + 1) % k,
        "class_prior": np.full(k, 1 / k),
        "view_weights": np.array([0.6, 0.4]),
    }
    return Facts(**(default | given))


def facts_of_sizes(sizes: Sequence[int], **given: Any) -> Facts:
    """Facts of clusters of these sizes."""
    return make_facts(np.repeat(np.arange(len(sizes)), sizes).tolist(), len(sizes), **given)


def make_stability(jaccard: Sequence[float], n_samples: int) -> Stability:
    """Stability of clusters with these overlaps, in which refits agree on every sample."""
    return Stability(np.asarray(jaccard, dtype=np.float64), np.ones(n_samples), [])
