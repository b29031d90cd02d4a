"""Which view tells which cluster apart."""

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist
from scipy.stats import rankdata
from sklearn.utils import gen_batches

from protocol_mvc.data.scaling import Scaler, scaled_rows
from protocol_mvc.data.views import Views

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CELLS = 2**22  # numbers of a view that are dense in memory at a time


def per_view_cluster_auc(
    views: Views, scalings: tuple[Scaler, ...], rows: Ints, labels: Ints, n_clusters: int
) -> Floats:
    """How well each view alone tells each cluster from the others, (views, clusters), 1 being perfect.

    It is the chance that a sample of the cluster lies nearer to the cluster's centre than a sample of another
    cluster does: 0.5 if the view knows nothing, whatever the sizes. A sample has no part in the centre that
    it is compared with itself. NaN where a cluster has fewer than two samples with the view, or all.

    Args:
        views: the data.
        scalings: of the views.
        rows: samples to look at.
        labels: cluster of each of them.
        n_clusters: number of clusters.
    """
    found = np.full((views.n_views, n_clusters), np.nan)
    for v in range(views.n_views):
        here = views.mask[rows, v]
        if here.any():
            found[v] = _told_apart_in(views, v, scalings[v], rows[here], labels[here], n_clusters)
    return found


def _told_apart_in(
    views: Views, v: int, scaling: Scaler, rows: Ints, labels: Ints, n_clusters: int
) -> Floats:
    blocks = list(gen_batches(len(rows), max(1, CELLS // views.n_features[v])))
    sums, sizes = np.zeros((n_clusters, views.n_features[v])), np.bincount(labels, minlength=n_clusters)
    for block in blocks:
        member = labels[block] == np.arange(n_clusters)[:, None]
        sums += member.astype(np.float64) @ scaled_rows(views, v, rows[block], scaling)
    centers = sums / np.maximum(sizes, 1)[:, None]
    distance = np.vstack([cdist(scaled_rows(views, v, rows[block], scaling), centers) for block in blocks])
    # Without the sample itself the centre of m samples is m / (m - 1) times as far away.
    distance[np.arange(len(rows)), labels] *= (sizes / np.maximum(sizes - 1, 1))[labels]
    return _chances(distance, labels, sizes)


def _chances(distance: Floats, labels: Ints, sizes: npt.NDArray[np.integer]) -> Floats:
    """The area under the curve of every cluster, from ranks; ties count half."""
    ranks = rankdata(distance, axis=0)[np.arange(len(labels)), labels]
    others = len(labels) - sizes
    nearer = np.bincount(labels, weights=ranks, minlength=len(sizes)) - sizes * (sizes + 1) / 2
    usable = (sizes >= 2) & (others > 0)
    return np.where(usable, 1 - nearer / np.maximum(sizes * others, 1), np.nan)
