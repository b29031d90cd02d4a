"""Outlier scores: how far a sample is from all training samples, in each view and in all views together."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from protocol_mvc.data.components import fit_components

Floats = npt.NDArray[np.float32]

MAX_POINTS = 2000  # training samples that are kept
MAX_WIDTH, N_COMPONENTS = 100, 50  # wider views are reduced to components
MIN_LEVELS = 20  # points with a view, for samples to be far from them
FAR = 1.2  # times the strangeness of 99 % of the points
MIN_POINTS = 3  # with a view, for the view to count


class OutlierReference(NamedTuple):
    """What outlier scores are computed from; there are m points and S spaces, the views and all of them.

    Attributes:
        points: prepared views of some training samples (m, d_v), zeros where missing.
        axes: directions (D_v, d_v) of wide views, or an empty array (0, 0).
        scales: number that each view is multiplied by before the views are put side by side (V,).
        distances: distance of each point to the nearest other one (m, S); infinite where a view is missing.
        levels: strangeness of the points in each space, sorted (m, S); infinite at the end.
        totals: strangeness of the points in all spaces, sorted (m,).
    """

    points: tuple[Floats, ...]
    axes: tuple[Floats, ...]
    scales: Floats
    distances: Floats
    levels: Floats
    totals: Floats


def fit_reference(views: Sequence[npt.NDArray[np.floating]], mask: npt.NDArray[np.bool_]) -> OutlierReference:
    """Return the reference of outlier scores.

    Args:
        views: prepared views (m, D_v) of some training samples, zeros where missing.
        mask: which sample has which view (m, V).
    """
    axes = tuple(_wide_axes(x, mask[:, v]) for v, x in enumerate(views))
    points = tuple(np.asarray(x @ a if a.size else x, np.float32) for x, a in zip(views, axes, strict=True))
    squares = [
        np.square(x, dtype=np.float64).sum() / max(m.sum(), 1) for x, m in zip(points, mask.T, strict=True)
    ]
    scales = np.array([1 / np.sqrt(s) if s > 0 else 1.0 for s in squares], np.float32)
    n_spaces = len(views) + (len(views) > 1)
    empty = np.full((len(mask), n_spaces), np.inf, np.float32)
    reference = OutlierReference(points, axes, scales, empty, empty, np.empty(0, np.float32))
    x, here = _spaces(reference, [torch.from_numpy(p) for p in points], torch.from_numpy(mask), project=False)
    distances = torch.stack([d for d, _ in _nearest_in_spaces(reference, x, x, here)], dim=1)
    distances[~here] = torch.inf
    reference = reference._replace(distances=distances.numpy())
    levels = _strangeness(reference, x, here)
    reference = reference._replace(levels=np.sort(levels.numpy(), axis=0))
    return reference._replace(totals=np.sort(_total(reference, levels).numpy()))


def outlier_scores(reference: OutlierReference, views: Sequence[Tensor], present: Tensor | None) -> Tensor:
    r"""Return the outlier score of each sample (n,), in [0, 1].

    In each space, a sample at distance d of its nearest point, which is at distance d' of its own nearest
    point, has the strangeness :math:`d / \sqrt{d'}`. With the share p of points that are at least as strange,
    the total is the mean of :math:`-\log p` over the spaces that the sample has, and the score is
    :math:`1 - q - \sqrt{q (1 - q) / m}` with the share q of points of at least this total. So at most about
    5 % of samples like those of the training have a score above 0.95. A point is not its own neighbour.

    Args:
        reference: result of `fit_reference`.
        views: prepared views (n, D_v).
        present: which sample has which view (n, V), or None if all do.
    """
    x, here = _placed(reference, views, present)
    total = _total(reference, _strangeness(reference, x, here))
    q = _share_at_least(torch.from_numpy(reference.totals), total)
    return (1 - q - (q * (1 - q) / len(reference.totals)).sqrt()).clamp(0, 1)


def far_spaces(reference: OutlierReference, views: Sequence[Tensor], present: Tensor | None) -> list[int]:
    """Return the spaces, views or all views together, in which many samples are far from the training data.

    These are spaces in which more than a quarter of the samples are clearly stranger than 99 % of the
    training samples. Such a view may be another one, or in other units; if only all views together are
    strange, their rows may not belong together.

    Args:
        reference: result of `fit_reference`.
        views: prepared views (n, D_v) of some samples.
        present: which sample has which view (n, V), or None if all do.
    """
    x, here = _placed(reference, views, present)
    strangeness, far = _strangeness(reference, x, here), []
    for s, levels in enumerate(torch.from_numpy(reference.levels).T):
        own, known = strangeness[here[:, s], s], levels[levels.isfinite()]
        if len(own) and len(known) >= MIN_LEVELS and own.quantile(0.75) > FAR * known.quantile(0.99):
            far.append(s)
    return far


def _placed(
    reference: OutlierReference, views: Sequence[Tensor], present: Tensor | None
) -> tuple[list[Tensor], Tensor]:
    """Return samples on any device in each space (n, d), and which sample is in which space (n, S)."""
    cpu = [x.cpu() for x in views]
    mask = torch.ones(len(cpu[0]), len(cpu), dtype=torch.bool) if present is None else present.cpu()
    return _spaces(reference, cpu, mask)


def _wide_axes(x: npt.NDArray[np.floating], present: npt.NDArray[np.bool_]) -> Floats:
    """Return the principal axes of a wide view (D, d), or an empty array if it is not wide."""
    if x.shape[1] <= MAX_WIDTH or not present.any():
        return np.empty((0, 0), np.float32)
    own = x if present.all() else x[present]
    return fit_components(own.astype(np.float64), N_COMPONENTS).axes.astype(np.float32)


def _spaces(
    reference: OutlierReference, views: Sequence[Tensor], mask: Tensor, *, project: bool = True
) -> tuple[list[Tensor], Tensor]:
    """Return the samples in each space (n, d), and which sample is in which space (n, S)."""
    x = [
        view @ torch.from_numpy(axes) if project and axes.size else view
        for view, axes in zip(views, reference.axes, strict=True)
    ]
    if len(x) == 1:
        return x, mask
    joined = torch.cat([view * float(scale) for view, scale in zip(x, reference.scales, strict=True)], dim=1)
    return [*x, joined], torch.cat([mask, mask.all(dim=1, keepdim=True)], dim=1)


def _nearest(x: Tensor, points: Tensor, square: Tensor) -> tuple[Tensor, Tensor]:
    """Return distance and index of the nearest point of each row (n,), except the row itself.

    Args:
        x: samples (n, d).
        points: points (m, d).
        square: squared distances (n, m) up to a number of each sample; infinite for points to leave out.
    """
    index = _argmin(square)
    distance = (x - points[index]).norm(dim=1)  # exact, so that a point has distance 0 to itself
    itself = (distance == 0).nonzero()[:, 0]
    if len(itself):
        rest = square[itself]
        rest[torch.arange(len(itself)), index[itself]] = torch.inf
        index[itself] = _argmin(rest)
        distance[itself] = (x[itself] - points[index[itself]]).norm(dim=1)
    return distance, index


def _nearest_in_spaces(
    reference: OutlierReference, x: Sequence[Tensor], points: Sequence[Tensor], known: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield distance and index of the nearest point of each sample in each space.

    The squared distance in all views together is the sum of those in the views, so that it takes no product.

    Args:
        reference: its scales are used.
        x: samples in each space (n, d).
        points: points in each space (m, d).
        known: which point is in which space (m, S).
    """
    total: Tensor | None = None
    for s, (own, place) in enumerate(zip(x, points, strict=True)):
        if s < len(reference.scales):
            square = torch.addmm((place**2).sum(1), own, place.T, alpha=-2)
            part = square * float(reference.scales[s]) ** 2 if len(x) > 1 else square
            total = part if total is None else total.add_(part)
        else:
            assert total is not None
            square = total
        if not known[:, s].all():
            square = square.masked_fill(~known[:, s], torch.inf)
        yield _nearest(own, place, square)


def _argmin(x: Tensor) -> Tensor:
    """Return the place of the least number of each row; numpy is ten times faster than torch."""
    return torch.from_numpy(x.numpy().argmin(axis=1))


def _strangeness(reference: OutlierReference, x: Sequence[Tensor], here: Tensor) -> Tensor:
    """Return the strangeness of samples in each space (n, S); infinite where a view is missing."""
    views = [torch.from_numpy(p) for p in reference.points]
    known = torch.from_numpy(np.isfinite(reference.distances))
    points, _ = _spaces(reference, views, known[:, : len(views)], project=False)
    columns = []
    for s, (distance, index) in enumerate(_nearest_in_spaces(reference, x, points, known)):
        spread = torch.from_numpy(reference.distances[:, s])
        if known[:, s].sum() < MIN_POINTS:
            columns.append(torch.zeros(len(distance)))
            continue
        positive = spread[known[:, s] & (spread > 0)]
        least = positive.median() / 2 if len(positive) else torch.tensor(1.0)  # copies have distance 0
        columns.append(distance / spread[index].clamp_min(least).sqrt())
    return torch.where(here, torch.stack(columns, dim=1), torch.inf)


def _total(reference: OutlierReference, strangeness: Tensor) -> Tensor:
    """Return the mean over the spaces of -log p (n,)."""
    columns = []
    for own, levels in zip(strangeness.T, torch.from_numpy(reference.levels).T, strict=True):
        p = _share_at_least(levels[levels.isfinite()].contiguous(), own.contiguous())
        columns.append(torch.where(own.isfinite(), -p.log(), torch.nan))
    return torch.stack(columns, dim=1).nanmean(dim=1)


def _share_at_least(levels: Tensor, x: Tensor) -> Tensor:
    """Return the share of sorted levels, and x itself, that are at least x (n,)."""
    n_less = torch.searchsorted(levels, x)
    return (len(levels) - n_less + 1) / (len(levels) + 1)
