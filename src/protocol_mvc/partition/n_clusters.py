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

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from protocol_mvc.partition.candidates import whitening
from protocol_mvc.partition.graphs import Communities, Features, Floats, Labels, ViewSpace
from protocol_mvc.partition.merging import Merging, merge_by
from protocol_mvc.partition.separation import mean_separation, valley

ENOUGH = 0.55  # evidence of a split that is made
WEAK, STRONG = 0.5, 0.65  # evidence of the splits that are made at the ends of the range
NEGLIGIBLE, CERTAIN = 0.25, 0.8  # evidence without doubt: no range beyond, and groups beyond doubt
CLEAR_VALLEY, SEPARATION_RANGE = 0.6, 3.0  # of the equation of the module
N_COMMUNITIES, COMMUNITY_SIZE = 80, 12  # the most communities, and their mean size in smaller data
MIN_COMMUNITIES, MIN_COMMUNITY_SIZE = 20, 5  # the same in very small data
N_NEIGHBORS, SAMPLES_PER_NEIGHBOR, MIN_NEIGHBORS = 15, 20, 5
N_EDGES = (10, 15, 10, 15, 7)  # edges of a sample in the graph of each division into communities
SHRINKAGE = 0.1  # of the covariance within communities


class Split(NamedTuple):
    """A split of one group in two; groups are numbered as in the linkage matrices of scipy."""

    left: int  #: number of the first part: leaves are 0 to m - 1, and split i divides group m + i
    right: int  #: number of the second part
    n_left: int  #: samples in the first part
    n_right: int  #: samples in the second part
    evidence: float  #: that both parts are groups, from 0 to 1
    margin: float  #: how well neighbours tell both parts apart, at most 1
    valley: float  #: depth of the valley between both parts; one group cut in two has about 0.5 or less
    separation: float  #: in the single views, in standard deviations, on average


class Level(NamedTuple):
    """The groups at one number of clusters."""

    n_clusters: int
    evidence: float  #: of the weakest split that was made, from 0 to 1; 1 for a single group
    sizes: tuple[int, ...]  #: of the groups, largest first
    split: int | None  #: position in the tree of the split that leads here; None for a single group


class ClusterCountSuggestion(NamedTuple):
    """How many clusters there are, and why."""

    n_clusters: int  #: the suggestion
    low: int  #: the fewest clusters that the data allow
    high: int  #: the most clusters that the data allow
    certain: int  #: groups that are beyond doubt
    path: list[Level]  #: from one group on
    tree: list[Split]  #: of all groups, weakest splits first and the first division last
    message: str  #: number, range and doubt in one sentence

    def verdict(self, n_clusters: int) -> str:
        """Return "suggested", "possible" or "" for a number of clusters."""
        if n_clusters == self.n_clusters:
            return "suggested"
        return "possible" if self.low <= n_clusters <= self.high else ""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain numbers, texts, lists and dicts."""
        levels, splits = ([item._asdict() for item in items] for items in (self.path, self.tree))
        return self._asdict() | {"path": levels, "tree": splits}


def count_clusters(
    views: Sequence[Features], *, min_clusters: int = 1, max_clusters: int = 40, seed: int = 0
) -> ClusterCountSuggestion:
    """Suggest a number of clusters, with a range and the evidence of every split.

    Args:
        views: prepared data (n, d_v) of every view; see `graphs.impute` for samples that lack a view.
        min_clusters: smallest number to suggest.
        max_clusters: largest number to suggest.
        seed: seed of the communities.
    """
    trees = sorted(split_trees(views, seed), key=lambda tree: count_at(tree, ENOUGH))
    tree = trees[len(trees) // 2]
    found, least, most, certain = (_median_count(trees, e) for e in (ENOUGH, STRONG, WEAK, CERTAIN))
    running = running_evidence(tree)
    if found > 1 and running[-(found - 1)] < CERTAIN:
        least = min(least, found - 1)
    if found <= len(running) and running[-found] > NEGLIGIBLE:
        most = max(most, found + 1)
    found, least, most = (int(np.clip(k, min_clusters, max_clusters)) for k in (found, least, most))
    certain = min(certain, found)
    path = list(_levels(tree, len(views[0]), max_clusters))
    return ClusterCountSuggestion(
        found, least, most, certain, path, tree, _message(found, least, most, certain)
    )


class Divisions(NamedTuple):
    """Divisions of the samples into communities, and what is measured between their groups."""

    groups: list[Labels]  #: community of each sample (n,)
    white: ViewSpace  #: the views, whitened within the communities of the first division
    whole: Floats  #: all views side by side (n, d), likewise


def divide(views: Sequence[Features], seed: int, n_edges: Sequence[int] = N_EDGES) -> Divisions | None:
    """Divide the samples into communities of several graphs; None if there are too few samples."""
    n = len(views[0])
    most = min(max(n // COMMUNITY_SIZE, min(n // MIN_COMMUNITY_SIZE, MIN_COMMUNITIES)), N_COMMUNITIES)
    if most < 2:
        return None
    data = ViewSpace(views, int(np.clip(n // SAMPLES_PER_NEIGHBOR, MIN_NEIGHBORS, N_NEIGHBORS)))
    groups = [Communities(data.graph("all", k), seed + i).about(most) for i, k in enumerate(n_edges)]
    white = ViewSpace([_whiten(x, groups[0]) for x in views], data.n_neighbors)
    return Divisions(groups, white, _whiten(data.joined, groups[0]))


def split_trees(views: Sequence[Features], seed: int) -> list[list[Split]]:
    """Return the tree of every division of the samples into communities."""
    found = divide(views, seed)
    return [[]] if found is None else [split_tree(found, groups) for groups in found.groups]


def cluster_tree(views: Sequence[Features], labels: Labels, seed: int = 0) -> list[Split]:
    """Return the tree of given clusters, with the evidence of every split.

    Args:
        views: prepared data (n, d_v) of every view.
        labels: cluster of each sample (n,), from 0 without gaps; the clusters are the leaves of the tree.
        seed: seed of the communities that tell which separation means nothing.
    """
    found = divide(views, seed, N_EDGES[:1])
    return [] if found is None or labels.max() == 0 else split_tree(found, labels)


def _whiten(x: Features, groups: Labels) -> Floats:
    """Return the features (n, d), the covariance within the groups being the identity."""
    centred = np.asarray(x, np.float64) - np.mean(x, axis=0, dtype=np.float64)
    white: Floats = centred @ whitening(centred, groups, SHRINKAGE)
    return white


def split_tree(divisions: Divisions, groups: Labels) -> list[Split]:
    """Merge groups until one is left, and return the merges as splits, the last merge last.

    Args:
        divisions: communities, and what is measured between groups.
        groups: group of each sample (n,).
    """
    white, whole = divisions.white, divisions.whole
    merging, first = _merging(white, groups), divisions.groups[0]
    own = any(groups is division for division in divisions.groups)
    usual = _usual_separation(merging if own else _merging(white, first), white.views)

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


def _merging(white: ViewSpace, groups: Labels) -> Merging:
    """Return the state of a merging before the first merge."""
    return Merging(np.sum(white.votes(groups), axis=0), groups)


def _usual_separation(merging: Merging, views: Sequence[Features]) -> float:
    """Return the median separation of a community from the one with which it is confused most."""
    found = []
    for a, rows in merging.members.items():
        near = merging.nearest(a).tolist()
        if near:
            b = min(near, key=lambda c: merging.margin(a, c))
            found.append(mean_separation(views, rows, merging.members[b]))
    return float(np.median(found)) if found else 0.0


def running_evidence(tree: Sequence[Split]) -> Floats:
    """Return the evidence of the splits, where no split has less than a split of one of its parts."""
    return np.maximum.accumulate([split.evidence for split in tree])


def count_at(tree: Sequence[Split], evidence: float) -> int:
    """Return the number of groups if all splits of at least this evidence are made."""
    return 1 + int((running_evidence(tree) >= evidence).sum()) if tree else 1


def _median_count(trees: Sequence[Sequence[Split]], evidence: float) -> int:
    return int(np.median([count_at(tree, evidence) for tree in trees]))


def _levels(tree: Sequence[Split], n_samples: int, max_clusters: int) -> Iterator[Level]:
    """Yield the groups at 1, 2, ... clusters."""
    m, evidence = len(tree) + 1, running_evidence(tree) if tree else np.ones(0)
    groups = {m + len(tree) - 1: n_samples}
    yield Level(1, 1.0, (n_samples,), None)
    for i in reversed(range(max(0, m - max_clusters), len(tree))):
        split = tree[i]
        del groups[m + i]
        groups |= {split.left: split.n_left, split.right: split.n_right}
        yield Level(len(groups), float(evidence[i]), tuple(sorted(groups.values(), reverse=True)), i)


def _message(n_clusters: int, low: int, high: int, certain: int) -> str:
    """Return the suggestion in one sentence."""
    if high == 1:
        return "One group: nothing divides the samples."
    if low == high:
        return f"{n_clusters} groups; {'all' if certain == n_clusters else certain} are beyond doubt."
    doubt = f"{certain} are beyond doubt" if certain > 1 else "no division is beyond doubt"
    return f"{low} to {high} groups, most likely {n_clusters}; {doubt}."
