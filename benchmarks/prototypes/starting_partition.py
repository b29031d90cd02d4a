"""A starting partition from raw views, without labels: `partition(prepare(views), k, seed)`.

Needs numpy, scipy, scikit-learn and scikit-network (its Louvain: its Leiden draws from C rand() and cannot be
seeded). Constants: 50 components; 15 neighbours to compare preparations on at most 1000 rows, margin 3 %; graphs
of 10 and 15 neighbours; 3, 6, 4, 4 over-clusters per cluster to sharpen with, shrinkage 0.1; over-clustering to
1.5 k and 2 k before merging; 5 k and 20 k micro-centres; the judge adds three ranks with equal weight.
"""

from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import eigsh, svds
from scipy.stats import rankdata
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.cluster._spectral import cluster_qr
from sklearn.neighbors import NearestNeighbors
from sknetwork.clustering import Louvain

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

WIDTH = 50  # components kept of a view
CAP = 1000  # rows on which preparations are compared
MARGIN = 1.03  # a preparation must be this much better confirmed to replace the default
SPACES = ((3, "all", 10), (6, "all", 15), (4, "all", 10), (4, "cat", 15))  # over-clusters per k, graph, neighbours
OVER = (1.5, 2.0)  # groups per cluster before merging

def _unit(x: Floats) -> Floats:
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norm > 0, norm, 1)


def _standard(x: Floats) -> Floats:
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)


def _clr(x: Floats) -> Floats:
    logs = np.log1p(x)
    return logs - logs.mean(axis=1, keepdims=True)


def _tfidf(x: Floats) -> Floats:
    share = np.maximum((x > 0).mean(axis=0), 1 / len(x))
    return _unit(np.log1p(x) * (1 - np.log(share)))


PREPARATIONS: dict[str, Callable[[Floats], Floats]] = {
    "none": lambda x: x,
    "standard": _standard,
    "l2": lambda x: _unit(x - x.mean(axis=0) if x.min() < 0 else x),
    "hellinger": lambda x: _unit(np.sqrt(x)),
    "clr": _clr,
    "tfidf": _tfidf,
}


def default_kind(x: Floats) -> str:
    """The preparation that the values alone suggest: kind of number, sparsity, library sizes, units."""
    spread, top = x.std(axis=0), np.abs(x).max(axis=0)
    filled = x[x != 0]
    zeros = 1 - filled.size / x.size
    counts = x.min() >= 0 and np.abs(x - np.round(x)).max() < 1e-3
    if counts:
        if filled.max() == filled.min():
            return "l2"  # yes / no
        if zeros >= 0.5 and np.median(filled) <= 3:
            return "tfidf"  # words, peaks, RNA
        sums = x.sum(axis=1)
        heavy = np.percentile(filled, 99) >= 10 * np.median(filled)
        if x.shape[1] <= 250 and sums.std() > 0.2 * sums.mean() and heavy:
            return "clr"  # a small panel of counts, such as antibody tags
    one_unit = x.min() >= 0 and np.percentile(top, 90) <= 2 * np.median(top)  # pixels, histograms, flags
    components = np.mean(np.diff(spread) <= 1e-9) >= 0.9  # spreads decrease: never whiten them
    if not one_unit and not components and np.percentile(spread, 90) > 10 * np.percentile(spread, 10):
        return "standard"
    return "hellinger" if x.min() >= 0 and zeros >= 0.5 else "none"


def reduce(x: Floats, width: int = WIDTH) -> Floats:
    """Centred values, turned to their leading principal components if there are more columns than `width`."""
    x = x - x.mean(axis=0)
    if x.shape[1] <= width:
        return x
    if x.shape[1] <= max(1000, len(x) // 2):
        return x @ np.linalg.eigh(x.T @ x)[1][:, ::-1][:, :width]
    if len(x) <= 1500:
        values, vectors = np.linalg.eigh(x @ x.T)
        return (vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1][:, :width]
    u, s, _ = svds(x, k=width, random_state=0)
    return (u * s)[:, np.argsort(-s)]


def _clean(view: ArrayLike) -> Floats:
    x = np.asarray(view, dtype=np.float64)
    if np.isnan(x).any():
        x = np.where(np.isnan(x), np.nan_to_num(np.nanmean(x, axis=0)), x)
    kept = x.std(axis=0) > 1e-10 * max(np.abs(x).max(), 1e-300)
    return x[:, kept]


def prepare(views: Sequence[ArrayLike]) -> list[Floats]:
    """Components of every view that varies, prepared as the neighbours in the other views confirm most."""
    arrays = [x for x in map(_clean, views) if x.shape[1]]
    kinds = choose_kinds(arrays)
    return [reduce(PREPARATIONS[kind](x)) for kind, x in zip(kinds, arrays, strict=True)]


def choose_kinds(arrays: Sequence[Floats], k: int = 15) -> list[str]:
    """The default of each view, unless another kind shares over 3 % more neighbours with the other views."""
    kinds = [default_kind(x) for x in arrays]
    if len(arrays) < 2:
        return kinds
    rows = np.random.default_rng(0).permutation(len(arrays[0]))[:CAP]
    k = min(k, len(rows) - 1)
    graphs = []
    for x in arrays:
        names = list(PREPARATIONS) if x.min() >= 0 else ["none", "standard", "l2"]
        graphs.append({n: links(neighbours(reduce(PREPARATIONS[n](x[rows])), k), k) for n in names})
    chosen = []
    for v, kind in enumerate(kinds):
        others = [g for w, g in enumerate(graphs) if w != v]
        shared = {
            name: float(np.mean([np.mean([a.multiply(b).sum() for b in g.values()]) for g in others]))
            for name, a in graphs[v].items()
        }
        best = max(shared, key=lambda name: shared[name])
        chosen.append(best if shared[best] > MARGIN * shared[kind] else kind)
    return chosen


def neighbours(x: Floats, k: int) -> NDArray[np.int64]:
    """The k nearest other rows of each row, nearest first."""
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(x.astype(np.float32))
    return search.kneighbors(return_distance=False)


def links(nearest: NDArray[np.int64], k: int) -> sp.csr_array:
    """Directed 0/1 graph of the first k neighbours."""
    n = len(nearest)
    ends = nearest[:, :k].astype(np.int32).ravel()
    return sp.csr_array((np.ones(n * k), ends, np.arange(0, n * k + 1, k, dtype=np.int32)), shape=(n, n))


class Space:
    """Views side by side with their neighbour graphs, each computed once."""

    def __init__(self, components: Sequence[Floats]) -> None:
        """Keep the views and find their neighbours."""
        self.components = [x for x in components]
        self.joined = np.hstack([x / max(np.sqrt((x**2).sum() / len(x)), 1e-300) for x in components])
        self.k = min(15, len(self.joined) - 1)
        self.of_views = [neighbours(x, self.k) for x in components]
        self.of_joined = neighbours(self.joined, self.k) if len(components) > 1 else self.of_views[0]

    def graph(self, kind: str, k: int) -> sp.csr_matrix:
        """Symmetric graph: the views' graphs added ("sum"), that of joined views ("cat"), or both ("all")."""
        k = min(k, self.k)
        parts = [links(i, k) for i in self.of_views] if kind != "cat" else []
        parts += [links(self.of_joined, k)] if kind != "sum" else []
        total = sum(parts[1:], start=parts[0])
        return sp.csr_matrix(total + total.T)

    def votes(self, labels: Labels) -> list[Floats]:
        """For each view, how many of a sample's 15 neighbours are in each group."""
        member = _one_hot(labels)
        return [links(i, self.k) @ member for i in self.of_views]


def _one_hot(labels: Labels) -> Floats:
    return np.eye(labels.max() + 1)[labels]


def between(graph: sp.csr_matrix, labels: Labels) -> Floats:
    """Weight of links between each two groups."""
    member = sp.csr_array((np.ones(len(labels)), (np.arange(len(labels)), labels)))
    return (member.T @ (sp.csr_array(graph) @ member)).toarray()


def _compact(labels: NDArray[np.generic]) -> Labels:
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def louvain(graph: sp.csr_matrix, resolution: float, seed: int) -> Labels:
    """Communities, reproducible for a seed."""
    return _compact(Louvain(resolution, shuffle_nodes=True, random_state=seed).fit_predict(graph))


def communities(graph: sp.csr_matrix, k: int, seed: int, slack: float = 0.0) -> Labels:
    """Louvain with its resolution bisected to k communities, within a relative slack; at least k if it can."""
    low, high, x = np.log(0.02), np.log(100.0), (0.0 if slack == 0 else np.log(2.0))
    found: list[Labels] = []
    for _ in range(16 if slack == 0 else 8):
        found.append(louvain(graph, float(np.exp(x)), seed))
        size = found[-1].max() + 1
        if abs(size - k) <= (max(1, slack * k) if slack else 0):
            break
        low, high = (low, x) if size > k else (x, high)
        x = (low + high) / 2
    labels = min(found, key=lambda z: abs(np.log((z.max() + 1) / k)))
    if slack:
        return labels
    if labels.max() + 1 < k:  # nearest count from above, then join
        labels = min(found, key=lambda z: z.max() if z.max() + 1 >= k else 1e9)
    return join(between(graph, labels), k, "modularity")[labels]


def join(weights: Floats, k: int, by: str) -> Labels:
    """Join groups two at a time until k are left; returns the new group of each.

    `by`: "inner": links over the geometric mean of inner links; "smaller": links over those of the smaller
    group; "modularity": the gain of modularity.
    """
    weights, group = weights.copy(), np.arange(len(weights))
    alive = list(range(len(weights)))
    while len(alive) > k:
        part = weights[np.ix_(alive, alive)]
        volume = part.sum(axis=1)
        if by == "inner":
            inner = np.diag(part) + 1e-9
            score = part / np.sqrt(np.outer(inner, inner))
        elif by == "smaller":
            score = part / np.maximum(np.minimum.outer(volume, volume), 1e-9)
        else:
            score = part / volume.sum() - np.outer(volume, volume) / volume.sum() ** 2
        np.fill_diagonal(score, -np.inf)
        i, j = np.unravel_index(score.argmax(), score.shape)
        a, b = alive[i], alive[j]
        weights[a] += weights[b]
        weights[:, a] += weights[:, b]
        group[group == b] = a
        alive.remove(b)
    return _compact(group)


def join_confused(space: Space, labels: Labels, k: int, near: int = 6) -> Labels:
    """Join the two groups whose members' neighbours tell them apart least, every group counting alike."""
    votes = np.sum(space.votes(labels), axis=0)
    members = {c: np.flatnonzero(labels == c) for c in range(labels.max() + 1)}
    links_ = np.stack([votes[rows].sum(axis=0) for rows in members.values()])
    links_ = links_ + links_.T
    apart: dict[tuple[int, int], float] = {}

    def margin(a: int, b: int) -> float:
        mine, other = votes[members[a], a], votes[members[a], b]
        return float(np.mean((mine - other) / (mine + other + 1)))

    def look(a: int) -> None:
        alive = np.array([c for c in members if c != a])
        strength = links_[a, alive] / np.sqrt(np.maximum(links_[alive].sum(axis=1), 1e-9))
        for b in alive[np.argsort(-strength, kind="stable")[:near]]:
            pair = (min(a, int(b)), max(a, int(b)))
            if pair not in apart and links_[pair] > 0:
                apart[pair] = (margin(*pair) + margin(*pair[::-1])) / 2

    for c in members:
        look(c)
    while len(members) > k and apart:
        a, b = min(apart, key=lambda pair: (apart[pair], pair))
        votes[:, a] += votes[:, b]
        links_[a] += links_[b]
        links_[:, a] += links_[:, b]
        members[a] = np.concatenate([members[a], members.pop(b)])
        for pair in [pair for pair in apart if a in pair or b in pair]:
            del apart[pair]
        look(a)
    joined = np.zeros(len(labels), dtype=np.int64)
    for c, rows in enumerate(members.values()):
        joined[rows] = c
    return joined


def spectral(graph: sp.csr_matrix, k: int) -> Labels:
    """Normalised cut by the leading eigenvectors and pivoted QR."""
    scale = 1 / np.sqrt(np.maximum(np.asarray(graph.sum(axis=1)).ravel(), 1e-12))
    operator = sp.diags_array(scale) @ graph @ sp.diags_array(scale)
    start = np.random.default_rng(0).uniform(0.5, 1.5, len(scale))
    vectors = eigsh(operator, k=k, which="LA", v0=start, tol=1e-4)[1]
    return _compact(cluster_qr(vectors * scale[:, None]))


def micro_linkage(x: Floats, m: int, k: int, linkage: str, seed: int) -> Labels:
    """K-means to m centres, the centres linked ("average", or "ward" with their sizes)."""
    fit = KMeans(max(k, min(m, len(x) // 3)), n_init=1, random_state=seed).fit(x)
    if linkage == "ward":
        sizes = np.bincount(fit.labels_, minlength=fit.n_clusters)
        return _compact(_weighted_ward(fit.cluster_centers_, sizes, k)[fit.labels_])
    return _compact(AgglomerativeClustering(k, linkage=linkage).fit_predict(fit.cluster_centers_)[fit.labels_])


def _weighted_ward(centres: Floats, sizes: NDArray[np.int64], k: int) -> Labels:
    centres, n, group = centres.astype(np.float64), np.maximum(sizes, 1e-9), np.arange(len(centres))
    square = ((centres[:, None] - centres[None]) ** 2).sum(axis=-1)
    cost = square * np.outer(n, n) / np.add.outer(n, n)
    np.fill_diagonal(cost, np.inf)
    gone = np.zeros(len(n), dtype=bool)
    for _ in range(len(n) - k):
        a, b = np.unravel_index(cost.argmin(), cost.shape)
        centres[a] = (centres[a] * n[a] + centres[b] * n[b]) / (n[a] + n[b])
        n[a] += n[b]
        gone[b] = True
        group[group == b] = a
        cost[b] = cost[:, b] = np.inf
        row = ((centres - centres[a]) ** 2).sum(axis=1) * n * n[a] / (n + n[a])
        row[gone] = row[a] = np.inf
        cost[a] = cost[:, a] = row
    return _compact(group)


def sharpen(x: Floats, groups: Labels, shrinkage: float = 0.1) -> Floats:
    """Discriminant coordinates of many small groups: spread within groups made 1, every group weighing alike."""
    x, member = x - x.mean(axis=0), _one_hot(groups)
    means = (member.T @ x) / np.maximum(member.sum(axis=0), 1)[:, None]
    rest, width = x - means[groups], x.shape[1]
    within = rest.T @ rest / len(x)
    ridge = (shrinkage * np.trace(within) + 1e-6 * (x**2).sum() / len(x)) / width + 1e-30
    values, vectors = np.linalg.eigh((1 - shrinkage) * within + ridge * np.eye(width))
    whiten = (vectors / np.sqrt(values)) @ vectors.T
    spread = (means - means.mean(axis=0)) @ whiten
    directions = np.linalg.eigh(spread.T @ spread)[1][:, ::-1][:, : min(len(means) - 1, width)]
    return x @ whiten @ directions


def candidates(space: Space, k: int, seed: int) -> dict[str, Labels]:
    """Partitions of several kinds, on the components and in spaces sharpened by over-clusterings."""
    base = space.graph("all", 10)
    found = {
        "raw.sum15": communities(space.graph("sum", 15), k, seed),
        "raw.all10": communities(base, k, seed),
        "raw.cat15": communities(space.graph("cat", 15), k, seed),
        "raw.spectral15": spectral(space.graph("sum", 15), k),
    }
    for r, (times, kind, width) in enumerate(SPACES):
        own = 1000 * seed + r  # seed of this space
        groups = communities(base, max(k + 2, min(times * k, len(space.joined) // 5)), own, slack=0.08)
        sharp = Space([sharpen(x, groups) for x in space.components])
        graph = sharp.graph(kind, width)
        found[f"{r}.communities"] = communities(graph, k, own)
        for over in OVER:
            parts = communities(graph, max(k + 1, round(over * k)), own, slack=0.08)
            weights = between(graph, parts)
            found[f"{r}.confused{over}"] = join_confused(sharp, parts, k)
            found[f"{r}.inner{over}"] = join(weights, k, "inner")[parts]
            found[f"{r}.smaller{over}"] = join(weights, k, "smaller")[parts]
        found[f"{r}.average"] = micro_linkage(sharp.joined, 5 * k, k, "average", own)
        found[f"{r}.ward"] = micro_linkage(sharp.joined, min(20 * k, len(space.joined) // 5), k, "ward", own)
    return {name: z for name, z in found.items() if z.max() + 1 == k} or {"raw": found["raw.sum15"]}


def modularity(graph: sp.csr_matrix, labels: Labels) -> float:
    """Share of links within groups beyond chance."""
    weights = between(graph, labels)
    total, volume = weights.sum(), weights.sum(axis=1)
    return float(np.trace(weights) / total - ((volume / total) ** 2).sum())


def cross_view(space: Space, labels: Labels) -> float:
    """Agreement (Jaccard, weighed by group size) of what a view's neighbours vote and what the others' vote."""
    votes, sizes = space.votes(labels), np.bincount(labels)
    if len(votes) < 2:
        return 0.0
    total, scores = np.sum(votes, axis=0), []
    for own in votes:
        mine, theirs = (own / sizes).argmax(axis=1), ((total - own) / sizes).argmax(axis=1)
        table = np.zeros((len(sizes), len(sizes)))
        np.add.at(table, (mine, theirs), 1)
        both = np.diag(table)
        scores.append(both / np.maximum(table.sum(axis=0) + table.sum(axis=1) - both, 1))
    return float((np.mean(scores, axis=0) * sizes).sum() / sizes.sum())


def agreement(partitions: Sequence[Labels]) -> Floats:
    """For each partition the mean over its groups, small ones alike, of their best Jaccard index elsewhere."""
    members = [_one_hot(z).astype(np.float32) for z in partitions]
    score = np.zeros((len(members), len(members)))
    for i, a in enumerate(members):
        for j, b in enumerate(members[:i]):
            common = a.T @ b
            jaccard = common / (a.sum(axis=0)[:, None] + b.sum(axis=0) - common)
            score[i, j], score[j, i] = jaccard.max(axis=1).mean(), jaccard.max(axis=0).mean()
    return score.sum(axis=1) / max(len(members) - 1, 1)


def judge(space: Space, partitions: Sequence[Labels]) -> Floats:
    """Sum of three ranks (0 to 1 each): separation, confirmation by other views, agreement of candidates."""
    graph = space.graph("sum", 15)
    separation = [modularity(graph, z) for z in partitions]
    confirmation = [cross_view(space, z) for z in partitions]
    return sum(rankdata(s) / len(partitions) for s in (separation, confirmation, agreement(partitions)))


def partition(components: Sequence[Floats], k: int, seed: int = 0) -> Labels:
    """The candidate that the judge ranks highest."""
    if k < 2 or len(components[0]) <= k + 2:
        return np.arange(len(components[0])) % max(k, 1)
    space = Space(components)
    found = list(candidates(space, k, seed).values())
    return found[int(np.argmax(judge(space, found)))]
