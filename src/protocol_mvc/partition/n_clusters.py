r"""The number of clusters, judged group by group.

A criterion that averages over all samples never pays for a group of 1 % of them. Here the samples are divided
into many small communities of a neighbour graph, which are merged again, least distinguishable first. Every
merge has an evidence against it, from 0 to 1, that is measured on the members of the two groups alone:

.. math:: e = \max(m, 0) \cdot \min(v / 0.6, 1) \cdot \min(\max(1/2 + (s - s_0) / 3, 0), 1)

- m, the margin: whether the neighbours of their members tell the two groups apart (`Merging.margin`).
- v, the valley: whether there are fewer samples between the groups than in them (`separation.valley`).
- s, the separation in the single views (`mean_separation`), and :math:`s_0` of communities that are next to
  each other: views of one item depend on each other within a group as well, so the data themselves tell
  which separation means nothing.

The number of clusters is the number of groups that are left when the evidence against every further merge
reaches `ENOUGH`. Several divisions into communities are compared, and the median is taken.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from protocol_mvc.partition.candidates import whitening
from protocol_mvc.partition.graphs import Communities, Features, Floats, Labels, ViewSpace
from protocol_mvc.partition.merging import Merging, merge_by
from protocol_mvc.partition.separation import mean_separation, valley

ENOUGH, STRONG, WEAK = 0.55, 0.75, 0.45  # evidence
CLEAR_VALLEY, SEPARATION_RANGE = 0.6, 3.0
N_GROUPS, MIN_GROUP_SIZE = 80, 12  # communities, and samples per community on average
N_NEIGHBORS, SHRINKAGE = 15, 0.1
DIVISIONS = (10, 15, 10, 15, 10)  # edges per sample of the graph of each division


class Split(NamedTuple):
    """A split of one group in two; its parts are leaves or other splits, numbered as in scipy's linkage."""

    left: int  #: number of the first part: leaves are 0 to m - 1, and split i divides group m + i
    right: int  #: number of the second part
    n_left: int  #: samples in the first part
    n_right: int  #: samples in the second part
    evidence: float  #: that both parts are groups, from 0 to 1
    margin: float  #: how well neighbours tell both parts apart, at most 1
    valley: float  #: depth of the valley between both parts; one group cut in two has about 0.5 or less
    separation: float  #: in the single views, in standard deviations, on average


def split_tree(data: ViewSpace, white: ViewSpace, whole: Floats, groups: Labels) -> list[Split]:
    """Merge communities until one group is left, and return the merges as splits, the last merge last.

    Args:
        data: the prepared views.
        white: the views, whitened within communities.
        whole: all views side by side (n, d), whitened within communities.
        groups: community of each sample (n,).
    """
    merging = Merging(np.sum(white.votes(groups), axis=0), groups)
    usual = _usual_separation(merging, white.views)

    def judge(a: int, b: int) -> tuple[float, ...]:
        rows = merging.members[a], merging.members[b]
        margin, depth = merging.margin(a, b), valley(whole, *rows)
        apart = mean_separation(white.views, *rows)
        return evidence(margin, depth, apart - usual), margin, depth, apart

    number, tree = {c: c for c in merging.members}, []
    m = len(number)
    for a, b, score in merge_by(merging, judge):
        sizes = len(merging.members[a]), len(merging.members[b])
        tree.append(Split(number[a], number.pop(b), *sizes, *score))
        number[a] = m + len(tree) - 1
    left, *rest = sorted(merging.members, key=lambda c: -len(merging.members[c]))
    for c in rest:  # no edges connect the groups that are left
        sizes = len(merging.members[left]), len(merging.members[c])
        tree.append(Split(number[left], number[c], *sizes, *judge(left, c))._replace(evidence=1.0))
        merging.merge(left, c)
        number[left] = m + len(tree) - 1
    return tree


def evidence(margin: float, depth: float, separation: float) -> float:
    """Return the evidence that two groups differ, from 0 to 1: the equation of the module."""
    apart = float(np.clip(0.5 + separation / SEPARATION_RANGE, 0, 1))
    return max(margin, 0.0) * min(depth / CLEAR_VALLEY, 1.0) * apart


def _usual_separation(merging: Merging, views: Sequence[Floats]) -> float:
    """Return the median separation of a community from the one with which it is confused most."""
    found = []
    for a, rows in merging.members.items():
        near = merging.nearest(a).tolist()
        if near:
            b = min(near, key=lambda c: merging.margin(a, c))
            found.append(mean_separation(views, rows, merging.members[b]))
    return float(np.median(found)) if found else 0.0


def prepare_spaces(views: Sequence[Features], n_groups: int, seed: int):
    data = ViewSpace(views, N_NEIGHBORS)
    groups = Communities(data.graph("all", DIVISIONS[0]), seed).about(n_groups)
    centred = [np.asarray(x, np.float64) - np.mean(x, axis=0, dtype=np.float64) for x in [*views, data.joined]]
    *parts, whole = [x @ whitening(x, groups, SHRINKAGE) for x in centred]
    return data, ViewSpace(parts, N_NEIGHBORS), whole
