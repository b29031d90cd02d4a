"""Normal samples with the covariance of the data: what the data would be like without groups."""

from collections.abc import Sequence

import numpy as np

from protocol_mvc.partition.graphs import Features


def normal_cloud(views: Sequence[Features], rng: np.random.Generator) -> list[Features]:
    r"""Return as many normal samples as the data have, of the same mean and joint covariance.

    With the centred data :math:`X` of all views side by side and a matrix :math:`G` (n, n) of standard normal
    numbers, the samples are the rows of :math:`G X / \sqrt n` plus the mean.

    Args:
        views: prepared data (n, d_v) of every view.
        rng: source of the normal numbers.

    Returns:
        The cloud (n, d_v) in every view.
    """
    x = np.hstack([np.asarray(view, np.float32) for view in views])
    mean = x.mean(axis=0)
    noise = rng.standard_normal((len(x), len(x)), dtype=np.float32)
    cloud = noise @ (x - mean) / np.sqrt(len(x), dtype=np.float32) + mean
    return np.split(cloud, np.cumsum([view.shape[1] for view in views])[:-1], axis=1)
