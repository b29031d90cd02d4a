"""Facts without a fit, for tests of what is said of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from protocol_mvc import as_views
from protocol_mvc.report.facts import Facts

EVIL = "</script><script>alert('x')</script>&\"'\u2028<b>"


def made(labels: Sequence[int], k: int | None = None, **given: Any) -> Facts:
    """Facts of samples with these labels; what is not given is plain."""
    label, n = np.asarray(labels, dtype=np.int64), len(labels)
    clusters = int(label.max()) + 1 if k is None else k
    plain: dict[str, Any] = {
        "views": as_views([np.arange(2.0 * n).reshape(n, 2), np.ones((n, 3))]),
        "ids": [str(i) for i in range(n)],
        "labels": label,
        "confidence": np.full(n, 0.95),
        "runner_up": (label + 1) % clusters,
        "prior": np.full(clusters, 1 / clusters),
        "weights": np.array([0.6, 0.4]),
    }
    return Facts(**(plain | given))


def sized(sizes: Sequence[int], **given: Any) -> Facts:
    """Facts of clusters of these sizes."""
    return made(np.repeat(np.arange(len(sizes)), sizes).tolist(), len(sizes), **given)
