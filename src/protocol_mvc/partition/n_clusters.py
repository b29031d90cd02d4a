r"""The number of clusters, judged group by group.

A criterion that averages over all samples never pays for a group of 1 % of them. Here the samples are divided
into many small communities of a neighbour graph, which are merged again, those first that the neighbours of
their members tell apart least. Every merge has an evidence against it, from 0 to 1, that is measured on the
members of the two groups alone, in the prepared data and in learned features (`evidence`); the mean of both
counts.

The merges, read backwards, are a tree of splits, and the evidence of a number of clusters is found by
cost-complexity pruning (Breiman et al., 1984): of all subtrees with the same root, the one with the largest
sum of :math:`e - \theta` over its splits is kept. A strong split below a weak one pays for it, and many weak
splits below a strong one do not hide behind it. The samples are divided into communities in both spaces, and
the evidence :math:`e_t(K)` at which K groups are left is averaged over both trees. A second opinion is the
evidence :math:`e_c(K)` of the two clusters that are least distinct in partitions into K clusters, which come
from the same communities by other merges (`cuts.cut_path`).

The number of clusters is the largest K with :math:`e(K) = (e_t(K) + e_c(K)) / 2 \geq \theta = 0.31 + u`,
where u is the usual evidence of a split of one group, for which the mean of e(10) to e(29), at most 0.4,
stands: where such splits look like nothing, less is asked. The range is narrow where the evidence falls off
a cliff after K, and wide where it is a slope; see `count_range`.

There are two groups or more if e(2) is at least 0.42, and one if it is below 0.25. In between, the same
search in normal samples with the covariance of the data decides: if it finds much less there than in the
data, there are groups, all of which overlap, and their number is that of the communities of the graphs at
resolution 1. If not, the number is 1, and the range 1 to 10.

If the views depend on each other through the group alone, the rank of their dependence is a lower bound, even
if the groups overlap; see `rank`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from protocol_mvc.partition.candidates import whitening
from protocol_mvc.partition.cloud import normal_cloud
from protocol_mvc.partition.communities import find_communities
from protocol_mvc.partition.count_range import count_range, overlapping_groups, raise_to_rank
from protocol_mvc.partition.cuts import cut_path
from protocol_mvc.partition.evidence import Space, compare
from protocol_mvc.partition.graphs import (
    Communities,
    Features,
    Floats,
    Labels,
    ViewSpace,
    nearest_in_views,
    total_votes,
)
from protocol_mvc.partition.merging import Merging, merge_by
from protocol_mvc.partition.rank import RankCount, count_by_rank
from protocol_mvc.partition.separation import mean_separation

CERTAIN = 0.8  # evidence of groups beyond doubt
WEAK = 0.5  # evidence below which two given clusters look like one group
N_COMMUNITIES, COMMUNITY_SIZE = 80, 12  # the most communities, and their mean size in smaller data
MIN_COMMUNITIES, MIN_COMMUNITY_SIZE = 20, 5  # the same in very small data
N_NEIGHBORS, SAMPLES_PER_NEIGHBOR, MIN_NEIGHBORS = 15, 20, 5
N_EDGES = 10  # of a sample in the graph whose communities are found
SHRINKAGE = 0.1  # of the covariance within communities
MORE_THAN_CLOUD = 1.6  # evidence of the data / of a cloud: most clouds have less
N_CLOUDS, N_FIRST_SPLITS, MIN_SAMPLES_CLOUD, MAX_SAMPLES_CLOUD = 2, 7, 60, 1200  # of this comparison
NO_EVIDENCE = 0.01  # least evidence of a cloud


class Split(NamedTuple):
    """A split of one group in two; groups are numbered as in the linkage matrices of scipy."""

    left: int  #: number of the first part: leaves are 0 to m - 1, and split i divides group m + i
    right: int  #: number of the second part
    n_left: int  #: samples in the first part
    n_right: int  #: samples in the second part
    evidence: float  #: that both parts are groups, from 0 to 1, after pruning: at least that of their splits
    margin: float  #: how well neighbours tell both parts apart, at most 1
    valley: float  #: depth of the valley between both parts; one group cut in two has about 0.5 or less
    separation: float  #: in the single views, in standard deviations, on average


class Level(NamedTuple):
    """The groups at one number of clusters."""

    n_clusters: int
    evidence: float  #: that there are as many, mean over trees and cuts; 1 for a single group
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
    rank: RankCount | None = None  #: numbers by the dependence of the views, if the group alone causes it
    #: evidence of the first splits / that of a cloud; None unless the first split has from 0.25 to 0.42
    over_cloud: float | None = None

    @property
    def overlap(self) -> bool:
        """Whether there are groups, but none that is clear: the data have more evidence than a cloud."""
        return self.over_cloud is not None and self.over_cloud >= MORE_THAN_CLOUD

    def verdict(self, n_clusters: int) -> str:
        """Return "suggested", "possible" or "" for a number of clusters."""
        if n_clusters == self.n_clusters:
            return "suggested"
        return "possible" if self.low <= n_clusters <= self.high else ""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain numbers, texts, lists and dicts."""
        levels, splits = ([item._asdict() for item in items] for items in (self.path, self.tree))
        rank = None if self.rank is None else self.rank._asdict()
        return self._asdict() | {"path": levels, "tree": splits, "rank": rank}


def count_clusters(
    views: Sequence[Features],
    learned: Sequence[Features],
    *,
    min_clusters: int = 1,
    max_clusters: int = 40,
    seed: int = 0,
    complete: npt.NDArray[np.bool_] | None = None,
) -> ClusterCountSuggestion:
    """Suggest a number of clusters, with a range and the evidence of every split.

    Args:
        views: prepared data (n, d_v) of every view; see `graphs.impute` for samples that lack a view.
        learned: learned features (n, d) of every view.
        min_clusters: smallest number to suggest.
        max_clusters: largest number to suggest.
        seed: seed of the communities.
        complete: whether a sample has all views (n,); None if all have. The dependence between the views is
            measured on these samples, and they are compared with a cloud, because imputed rows depend on the
            other views.
    """
    divisions, n_samples = divide([learned, views], seed), len(views[0])
    trees, paths, evidence = divisions.paths() if divisions else ([[]], np.zeros((1, 0)), np.zeros(0))
    count, over_cloud = count_range(evidence), None
    views = views if complete is None else [x[complete] for x in views]
    rank = count_by_rank(views, seed)
    if rank is not None:
        count = raise_to_rank(count, rank)
    elif divisions is not None and count.n_clusters == 1 < min(count.high, max_clusters):
        over_cloud = evidence_over_cloud(views, seed)
        if over_cloud is not None and over_cloud >= MORE_THAN_CLOUD:
            count = overlapping_groups(divisions.n_communities(), len(evidence) + 1)
    tree = trees[np.abs(paths - evidence)[:, : count.n_clusters].sum(axis=1).argmin()]
    certain = max(min(count_at(tree, CERTAIN) for tree in trees), 0 if rank is None else rank.low)
    path = list(_levels(tree, evidence, n_samples, max_clusters))
    found, least, most = (int(np.clip(k, min_clusters, max_clusters)) for k in count)
    certain = min(certain, found)
    message = _message(found, least, most, certain)
    return ClusterCountSuggestion(found, least, most, certain, path, tree, message, rank, over_cloud)


class Divisions(NamedTuple):
    """Divisions of the samples into communities, and the spaces in which their groups are compared."""

    groups: list[Labels]  #: community of each sample (n,) in every space
    spaces: list[Space]  #: of the search: the learned features, then the data
    communities: list[Communities]  #: of the neighbour graphs
    neighbors: list[list[Labels]]  #: nearest neighbours (n, k) in every view, for every graph

    def paths(self) -> tuple[list[list[Split]], Floats, Floats]:
        """Return the trees, their paths, and the mean evidence of trees and cuts; see the module."""
        trees = [split_tree(self.spaces, groups) for groups in self.groups]
        paths, graphs = evidence_paths(trees), [each.graph for each in self.communities]
        cuts = cut_path(self.spaces, self.groups, graphs, self.neighbors, paths.shape[1])
        return trees, paths, (paths.mean(axis=0) + cuts) / 2

    def n_communities(self) -> list[int]:
        """Return the number of communities of each graph at resolution 1."""
        return [int(each.find(1.0).max()) + 1 for each in self.communities]


def divide(features: Sequence[Sequence[Features]], seed: int) -> Divisions | None:
    """Divide the samples into communities in every space; None if there are too few samples.

    Args:
        features: features (n, d) of every view, for every space.
        seed: seed of the communities.
    """
    n = len(features[0][0])
    most = min(max(n // COMMUNITY_SIZE, min(n // MIN_COMMUNITY_SIZE, MIN_COMMUNITIES)), N_COMMUNITIES)
    if most < 2:
        return None
    n_neighbors = int(np.clip(n // SAMPLES_PER_NEIGHBOR, MIN_NEIGHBORS, N_NEIGHBORS))
    found = [ViewSpace(views, n_neighbors) for views in features]
    communities = [find_communities(space.graph("all", N_EDGES), seed) for space in found]
    groups = [each.about(most) for each in communities]
    spaces = [_compared(space, own) for space, own in zip(found, groups, strict=True)]
    return Divisions(groups, spaces, communities, [space.neighbors for space in found])


def _compared(space: ViewSpace, groups: Labels) -> Space:
    """Return the space in which groups are compared: whitened within the given communities."""
    white = [_whiten(x, groups) for x in space.views]
    found = Space(white, nearest_in_views(white, space.n_neighbors), _whiten(space.joined, groups), 0.0)
    return found._replace(usual=_usual_separation(found, groups))


def evidence_over_cloud(views: Sequence[Features], seed: int) -> float | None:
    """Return the evidence of the first splits of the data / that of clouds with their covariance.

    Of larger data, `MAX_SAMPLES_CLOUD` random samples are compared.

    Args:
        views: prepared data (n, d_v) of every view.
        seed: seed of the samples, the clouds and the communities.

    Returns:
        The ratio; None if there are fewer than `MIN_SAMPLES_CLOUD` samples, which say too little.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(views[0]))[:MAX_SAMPLES_CLOUD]
    if len(rows) < MIN_SAMPLES_CLOUD:
        return None
    data = [x[rows] for x in views]
    clouds = [_first_evidence(normal_cloud(data, rng), seed) for _ in range(N_CLOUDS)]
    return _first_evidence(data, seed) / max(float(np.mean(clouds)), NO_EVIDENCE)


def _first_evidence(views: Sequence[Features], seed: int) -> float:
    """Return the mean evidence of the first splits in the data alone."""
    divisions = divide([views], seed)
    return 0.0 if divisions is None else float(divisions.paths()[2][:N_FIRST_SPLITS].sum()) / N_FIRST_SPLITS


def cluster_tree(
    views: Sequence[Features], learned: Sequence[Features], labels: Labels, seed: int = 0
) -> list[Split]:
    """Return the tree of given clusters, with the evidence of every split.

    Args:
        views: prepared data (n, d_v) of every view.
        learned: learned features (n, d) of every view.
        labels: cluster of each sample (n,), from 0 without gaps; the clusters are the leaves of the tree.
        seed: seed of the communities that tell which separation means nothing.
    """
    found = divide([learned, views], seed)
    return [] if found is None or labels.max() == 0 else split_tree(found.spaces, labels)


def _whiten(x: Features, groups: Labels) -> Features:
    """Return the features (n, d), the covariance within the groups being the identity."""
    centred = np.asarray(x, np.float64) - np.mean(x, axis=0, dtype=np.float64)
    return (centred @ whitening(centred, groups, SHRINKAGE)).astype(np.float32)


def split_tree(spaces: Sequence[Space], groups: Labels) -> list[Split]:
    """Merge groups until one is left, and return the merges as splits, the weakest first.

    The pair with the least margin, mean over the spaces, is merged next.

    Args:
        spaces: features in which groups are compared; the neighbours in the first tell which groups are near.
        groups: group of each sample (n,).
    """
    mergings = [_merging(space, groups) for space in spaces]
    first, *others = mergings
    number, tree = {c: c for c in first.members}, []
    m = len(number)

    def record(a: int, b: int, connected: bool) -> None:
        rows = first.members[a], first.members[b]
        score = np.mean([compare(s, z.margin(a, b), *rows) for s, z in zip(spaces, mergings, strict=True)], 0)
        split = Split(number[a], number.pop(b), len(rows[0]), len(rows[1]), *score.tolist())
        tree.append(split if connected else split._replace(evidence=1.0))
        number[a] = m + len(tree) - 1

    for a, b, _ in merge_by(first, lambda a, b: float(np.mean([z.margin(a, b) for z in mergings]))):
        record(a, b, connected=True)
        for state in others:
            state.merge(a, b)
    left, *rest = sorted(first.members, key=lambda c: -len(first.members[c]))
    for c in rest:  # no edges connect the groups that are left
        record(left, c, connected=False)
        for state in mergings:
            state.merge(left, c)
    return weakest_first(tree)


def weakest_first(tree: Sequence[Split]) -> list[Split]:
    """Return the splits in the order in which pruning takes them away, with the evidence that this takes.

    Args:
        tree: splits, those of the parts of a group before that of the group.
    """
    m, evidence = len(tree) + 1, pruned_evidence(tree)
    order = np.argsort(evidence, kind="stable").tolist()  # parts stay before the group
    place = {m + i: m + new for new, i in enumerate(order)}
    return [
        tree[i]._replace(
            left=place.get(tree[i].left, tree[i].left),
            right=place.get(tree[i].right, tree[i].right),
            evidence=float(evidence[i]),
        )
        for i in order
    ]


def pruned_evidence(tree: Sequence[Split]) -> Floats:
    r"""Return for every split the least :math:`\theta` at which cost-complexity pruning takes it away.

    The branch with the least mean evidence is the weakest link: its splits are taken away together, then the
    weakest link of what is left, and so on. No split has more than the split of a group that contains it.

    Args:
        tree: splits, those of the parts of a group before that of the group.
    """
    m, found = len(tree) + 1, np.full(len(tree), np.nan)
    parent = {part: i for i, split in enumerate(tree) for part in (split.left, split.right)}
    total, count = np.array([split.evidence for split in tree]), np.ones(len(tree))
    for i in range(len(tree) - 1):  # sums over the branches
        total[parent[m + i]] += total[i]
        count[parent[m + i]] += count[i]
    least = 0.0
    while np.isnan(found).any():
        mean = np.where(np.isnan(found), total / np.maximum(count, 1), np.inf)
        link = int(mean.argmin())
        least, above, branch = max(least, float(mean[link])), parent.get(m + link), [link]
        while above is not None:
            total[above], count[above] = total[above] - total[link], count[above] - count[link]
            above = parent.get(m + above)
        while branch:
            i = branch.pop()
            if np.isnan(found[i]):
                found[i] = least
                branch += [part - m for part in (tree[i].left, tree[i].right) if part >= m]
    return found


def _merging(space: Space, groups: Labels) -> Merging:
    """Return the state of a merging before the first merge."""
    return Merging(total_votes(space.neighbors, groups), groups)


def _usual_separation(space: Space, groups: Labels) -> float:
    """Return the median separation of a community from the one with which it is confused most."""
    merging, found = _merging(space, groups), []
    for a, rows in merging.members.items():
        near = merging.nearest(a).tolist()
        if near:
            b = min(near, key=lambda c: merging.margin(a, c))
            found.append(mean_separation(space.views, rows, merging.members[b]))
    return float(np.median(found)) if found else 0.0


def evidence_paths(trees: Sequence[Sequence[Split]]) -> Floats:
    """Return the evidence of the splits that lead to 2, 3, ... groups in every tree, 0 beyond a tree."""
    paths = np.zeros((len(trees), max(len(tree) for tree in trees)))
    for row, tree in zip(paths, trees, strict=True):
        row[: len(tree)] = [split.evidence for split in reversed(tree)]
    return paths


def count_at(tree: Sequence[Split], evidence: float) -> int:
    """Return the number of groups if all splits of at least this evidence are made."""
    return 1 + sum(split.evidence >= evidence for split in tree)


def _levels(tree: Sequence[Split], evidence: Floats, n_samples: int, max_clusters: int) -> Iterator[Level]:
    """Yield the groups at 1, 2, ... clusters; the evidence is that of the splits that lead to 2, 3, ..."""
    m = len(tree) + 1
    groups = {m + len(tree) - 1: n_samples}
    yield Level(1, 1.0, (n_samples,), None)
    for k, i in enumerate(reversed(range(max(0, m - max_clusters), len(tree)))):
        split = tree[i]
        del groups[m + i]
        groups |= {split.left: split.n_left, split.right: split.n_right}
        yield Level(len(groups), float(evidence[k]), tuple(sorted(groups.values(), reverse=True)), i)


def _message(n_clusters: int, low: int, high: int, certain: int) -> str:
    """Return the suggestion in one sentence."""
    if high == 1:
        return "One group: nothing divides the samples."
    if n_clusters == 1:
        return f"One group, or up to {high} that overlap: no division is beyond doubt."
    if low == high:
        return f"{n_clusters} groups; {'all' if certain == n_clusters else certain} are beyond doubt."
    doubt = f"{certain} are beyond doubt" if certain > 1 else "no division is beyond doubt"
    return f"{low} to {high} groups, most likely {n_clusters}; {doubt}."
