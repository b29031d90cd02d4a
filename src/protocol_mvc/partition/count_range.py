"""The number of groups and its range, from the evidence of the splits that lead to 2, 3, ... groups."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from protocol_mvc.partition.graphs import Floats
from protocol_mvc.partition.rank import RankCount

ENOUGH, USUAL_WEIGHT = 0.31, 1.0  # evidence of a split that is made: without usual evidence, and its weight
USUAL_GROUPS, MAX_USUAL = slice(8, 28), 0.4  # splits to 10 to 29 groups, and a limit of their evidence
ENOUGH_FOR_TWO = 0.42  # evidence of the first split: most clouds have less
NEGLIGIBLE, CLEAR = 0.25, 0.55  # evidence of a split that is surely not made, and of one that surely is
SLOPE, CLIFF = 0.1, 0.25  # falls of the evidence after the number: full doubt, and none
RATIO_BELOW = 1.9  # of the number to the low end of the range in full doubt
ANY_DIVISION, MANY = 0.25, 10  # evidence of the first split of more than a cloud; the most groups then


class Count(NamedTuple):
    """A number of groups and its range."""

    n_clusters: int  #: the number
    low: int  #: the fewest that are possible
    high: int  #: the most that are possible


def overlapping_groups(n_communities: Sequence[int], most: int) -> Count:
    """Return the mean number of communities, at most `MANY`; the range is from 2 to that mean or `MANY`.

    Args:
        n_communities: number of communities at resolution 1, in every space.
        most: largest number of groups.
    """
    mean = math.floor(sum(n_communities) / len(n_communities) + 0.5)
    return Count(min(max(mean, 2), MANY, most), 2, min(max(mean, MANY), most))


def count_range(path: Floats) -> Count:
    r"""Return the number of groups by the evidence of the splits, and its range.

    With the doubt d of `count_doubt`, there are :math:`K / 1.9^d` to K groups, rounded. If the last split
    that is made is not clear, or the next one not negligible, the range has at least one more number on that
    side. Without any split that is made, there may be up to `MANY` groups that overlap, unless the first
    split has no more evidence than most clouds (`ANY_DIVISION`).

    Args:
        path: evidence of the splits that lead to 2, 3, ... groups, in descending order.
    """
    found = _count(path)
    if found == 1:
        in_doubt = len(path) > 0 and path[0] >= ANY_DIVISION
        return Count(1, 1, min(MANY, len(path) + 1) if in_doubt else 1)
    least, most = math.floor(found / RATIO_BELOW ** count_doubt(path, found) + 0.5), found
    if path[found - 2] < CLEAR:
        least = min(least, found - 1)
    if found <= len(path) and path[found - 1] > NEGLIGIBLE:
        most = found + 1
    return Count(found, max(least, 1), min(most, len(path) + 1))


def _count(path: Floats) -> int:
    """Return the number of groups: the splits are made that have enough evidence, see `n_clusters`."""
    if not len(path) or path[0] < ENOUGH_FOR_TWO:
        return 1
    usual = min(float(path[USUAL_GROUPS].mean()), MAX_USUAL) if len(path) > USUAL_GROUPS.start else 0.0
    return max(2, 1 + int((path >= ENOUGH + USUAL_WEIGHT * usual).sum()))


def raise_to_rank(count: Count, rank: RankCount) -> Count:
    """Return number and range of the groups, raised to what the rank of the views' dependence shows.

    If the rank shows more groups than the evidence, some overlap, and there may be another one.

    Args:
        count: the number and its range by the evidence.
        rank: the same by the rank.
    """
    found, least, most = count
    if rank.n_clusters > found:
        most = max(most, rank.n_clusters + 1)
    return Count(max(found, rank.n_clusters), max(least, rank.low), max(most, rank.high))


def count_doubt(path: Floats, found: int) -> float:
    r"""Return the doubt about a number of groups, from 0 (the evidence falls off a cliff) to 1 (a slope).

    With the fall g from the evidence of the last split that is made to the mean of the next K / 4 splits, it
    is :math:`(0.25 - g) / 0.15`, between 0 and 1.

    Args:
        path: evidence of the splits that lead to 2, 3, ... groups, in descending order.
        found: the number of groups K, at least 2.

    Returns:
        The doubt.
    """
    count = max(1, round(found / 4))
    fall = path[found - 2] - path[found - 1 : found - 1 + count].sum() / count
    return float(np.clip((CLIFF - fall) / (CLIFF - SLOPE), 0, 1))
