"""Views that samples lack, from samples that look alike in the views they have."""

import torch
from torch import Tensor

from protocol_mvc.data.batches import Batch, Source

NO_DONOR = -1
CHUNK = 1024  # rows compared at once


def nearest_donors(features: list[Tensor], mask: Tensor, count: int) -> Tensor:
    """Samples (n, V, count + V - 2) to take each missing view from, by likeness in the views that are there.

    By the first view that a sample has it gets the `count` most alike that have both views, by each further
    one the most alike; what is left over, or not missing, is `NOBODY`.

    Args:
        features: of each view (n, d), compared by their inner products.
        mask: (n, V), True where the sample has the view.
        count: donors by the first view.
    """
    n, n_views = mask.shape
    donors = torch.full((n, n_views, count + max(n_views - 2, 0)), NO_DONOR)
    rank = mask.cumsum(1) - 1  # which of its views a view of a sample is
    for lacking in range(n_views):
        for having in range(n_views):
            givers = (mask[:, lacking] & mask[:, having]).nonzero()[:, 0]
            rows = (~mask[:, lacking] & mask[:, having]).nonzero()[:, 0]
            if len(givers) == 0 or len(rows) == 0:
                continue
            found = givers[_most_alike(features[having], rows, givers, count)]
            first = rank[rows, having] == 0
            donors[rows[first], lacking, : found.shape[1]] = found[first]
            donors[rows[~first], lacking, count - 1 + rank[rows[~first], having]] = found[~first, 0]
    return donors


def _most_alike(x: Tensor, rows: Tensor, givers: Tensor, count: int) -> Tensor:
    """Positions among the givers (len(rows), at most count), the most alike first."""
    chunks = (x[part] @ x[givers].T for part in rows.split(CHUNK))
    return torch.cat([likeness.topk(min(count, len(givers)), dim=1).indices for likeness in chunks])


def impute_from_donors(source: Source, batch: Batch, donors: Tensor) -> Batch:
    """The samples of a batch, with the mean of their donors (n, V, m) where they lack a view."""
    views = []
    for v, x in enumerate(batch.views):
        own = donors[batch.rows, v]
        here = (own != NO_DONOR).to(x)[:, :, None]
        given = source.take(own.clamp_min(0).flatten()).views[v].unflatten(0, own.shape)
        mean = (given * here).sum(1) / here.sum(1).clamp_min(1)
        views.append(x if batch.present is None else torch.where(batch.present[:, [v]], x, mean))
    return Batch(views, batch.rows, None)
