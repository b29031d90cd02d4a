r"""Evidence that two groups of samples are different groups, measured on their own members.

Two groups are projected on the difference of their means, every sample without its own share in the means.
The power of all measures depends on the size of the smaller group, not on its share of all samples.
"""

from collections.abc import Sequence

import numpy as np

from protocol_mvc.partition.graphs import Features, Floats, Labels

MAX_PROJECTED = 100  # quantiles of a group of which the dip is computed
MAX_SEPARATION = 5.0  # larger separations of a view say no more


def project_apart(x: Features, a: Labels, b: Labels) -> tuple[Floats, Floats]:
    r"""Project two groups on the difference of their means, leaving out the projected sample.

    With the means :math:`\mu` without sample i, its coordinate is
    :math:`(x_i - (\mu_a + \mu_b) / 2)^T (\mu_a - \mu_b) / \|\mu_a - \mu_b\|`.

    Args:
        x: features of all samples (n, d).
        a: positions of the members of the first group.
        b: positions of the members of the second group.

    Returns:
        The coordinates of both groups; those of the first group tend to be positive.
    """
    xa, xb = x[a], x[b]
    return _coordinates(xa, xb.mean(axis=0)), -_coordinates(xb, xa.mean(axis=0))


def _coordinates(x: Features, other: Features) -> Floats:
    r"""Return the coordinates of the members of a group on the line to the mean of the other group.

    With :math:`\mu` the mean of the others of the group and m the other mean, the coordinate is
    :math:`(x^T (\mu - m) - (\|\mu\|^2 - \|m\|^2) / 2) / \|\mu - m\|`; only inner products are computed.
    """
    n = len(x)
    if n < 2:
        return np.zeros(n)
    x = x - other  # the other mean becomes the origin
    total, squares = x.sum(axis=0), np.einsum("ij,ij->i", x, x)
    along = x @ total
    own = (along - squares) / (n - 1)  # inner product with the mean of the others
    length = (total @ total - 2 * along + squares) / (n - 1) ** 2  # of that mean, squared
    coordinates: Floats = (own - length / 2) / np.sqrt(np.maximum(length, 1e-24))
    return coordinates


def mean_separation(views: Sequence[Features], a: Labels, b: Labels) -> float:
    r"""Return the mean over the views of the separation :math:`(m_a - m_b) / \sqrt{(s_a^2 + s_b^2) / 2}`.

    Here m and s are mean and standard deviation of the coordinates of `project_apart`. A view counts at most
    `MAX_SEPARATION`, so that a split that a single view shows is not mistaken for one that all views show.
    """
    found = []
    for x in views:
        first, second = project_apart(x, a, b)
        spread = np.sqrt((first.var() + second.var()) / 2)
        found.append((first.mean() - second.mean()) / max(float(spread), 1e-12))
    return float(np.minimum(found, MAX_SEPARATION).mean())


def valley(x: Features, a: Labels, b: Labels) -> float:
    r"""Return :math:`\sqrt{n}` times the dip of the coordinates of two groups around their border.

    As many members of the larger group as the smaller one has, those nearest to it, are compared with the
    smaller group: a rare group needs a valley on its own side only. At most `MAX_PROJECTED` quantiles of each
    group are used. One unimodal group that was cut in two has a value of .5 or less (95 % of the cases).
    """
    first, second = project_apart(x, a, b)
    m = min(len(first), len(second))
    near = [_quantiles(np.sort(first)[:m]), _quantiles(np.sort(second)[-m:])]
    return float(np.sqrt(2 * len(near[0])) * dip(np.concatenate(near)))


def _quantiles(ordered: Floats) -> Floats:
    """Return at most `MAX_PROJECTED` of the ordered values, evenly spaced."""
    count = min(len(ordered), MAX_PROJECTED)
    return ordered[np.linspace(0, len(ordered) - 1, count).round().astype(np.int64)]


def dip(values: Floats) -> float:
    """Return the dip of Hartigan & Hartigan (1985): the distance to the nearest unimodal distribution.

    The distribution function is compared with its greatest convex minorant left of the mode and its least
    concave majorant right of it; the mode is where both are furthest apart.

    Args:
        values: sample (n,), n at least 1.

    Returns:
        The dip, from 1 / (2 n) to 1 / 4.
    """
    x, counts = np.unique(values, return_counts=True)
    after = np.cumsum(counts, dtype=np.float64)  # distribution function after and before each value
    before = after - counts
    low, high, largest = 0, len(x) - 1, 1.0
    while high > low:
        part, lower, upper = (z[low : high + 1] for z in (x, before, after))
        convex = _convex_knots(part, lower)
        concave = high - low - _convex_knots(-part[::-1], -upper[::-1])[::-1]
        below = np.interp(part, part[convex], lower[convex])
        above = np.interp(part, part[concave], upper[concave])
        knots = np.union1d(convex, concave)
        mode = knots[(above - below)[knots].argmax()]
        if (above - below)[mode] <= largest:
            break
        left = int(convex[np.searchsorted(convex, mode, side="right") - 1])
        right = int(concave[np.searchsorted(concave, mode)])
        outside = [largest, *(upper - below)[:left], *(above - lower)[right + 1 :]]
        largest = float(max(outside))
        if (left, right) == (0, high - low):
            break
        low, high = low + left, low + right
    return largest / (2 * len(values))


def _convex_knots(x: Floats, y: Floats) -> Labels:
    """Return the positions of the knots of the greatest convex minorant of points, x in ascending order."""
    px, py, knots = x.tolist(), y.tolist(), [0]
    for i in range(1, len(px)):
        while len(knots) > 1:
            a, b = knots[-2:]
            if (py[b] - py[a]) * (px[i] - px[b]) < (py[i] - py[b]) * (px[b] - px[a]):
                break
            knots.pop()
        knots.append(i)
    return np.array(knots, dtype=np.int64)
