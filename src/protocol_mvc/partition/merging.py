"""Groups that are merged two at a time, least distinguishable first."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from protocol_mvc.partition.graphs import Floats, Labels

N_NEAREST_GROUPS = 6  # groups with which a group is compared before a merge


class Merge(NamedTuple):
    """A merge of group b into group a, and what the score of the pair was."""

    a: int
    b: int
    score: Any


class Merging:
    """Groups of samples, and how many neighbours of every sample are in each group.

    Args:
        votes: number of neighbours of each sample in each group (n, m).
        groups: group of each sample (n,).

    Attributes:
        members: samples of each group that is left.
        edges: number of neighbours of one group's members in another group, in both directions (m, m).
    """

    def __init__(self, votes: Floats, groups: Labels) -> None:
        self.votes = votes.copy()
        self.members = {c: np.flatnonzero(groups == c) for c in range(int(groups.max()) + 1)}
        edges = np.stack([votes[rows].sum(axis=0) for rows in self.members.values()])
        self.edges: Floats = edges + edges.T

    def margin(self, a: int, b: int) -> float:
        """Return how well the neighbours of their members tell two groups apart, at most 1.

        The margin of group a against group b is the mean over the members of a of
        ``(own - other) / (own + other + 1)``, with the numbers of neighbours in a and in b. A pair is judged
        by the mean of its two margins, so a small group counts as much as a large one.
        """
        return (self._margin(a, b) + self._margin(b, a)) / 2

    def _margin(self, a: int, b: int) -> float:
        own, other = self.votes[self.members[a], a], self.votes[self.members[a], b]
        return float(np.mean((own - other) / (own + other + 1)))

    def nearest(self, a: int) -> Labels:
        """Return the groups with the most edges to group a, in relation to the edges that they have."""
        rest = np.array([c for c in self.members if c != a], dtype=np.int64)
        strength = self.edges[a, rest] / np.sqrt(np.maximum(self.edges[rest].sum(axis=1), 1e-9))
        near = rest[np.argsort(-strength, kind="stable")[:N_NEAREST_GROUPS]]
        connected: Labels = near[self.edges[a, near] > 0]
        return connected

    def merge(self, a: int, b: int) -> None:
        """Add the members of group b to group a."""
        self.votes[:, a] += self.votes[:, b]
        self.edges[a] += self.edges[b]
        self.edges[:, a] += self.edges[:, b]
        self.members[a] = np.concatenate([self.members[a], self.members.pop(b)])

    def labels(self) -> Labels:
        """Return the number of the group of each sample (n,), without gaps."""
        found = np.zeros(len(self.votes), dtype=np.int64)
        for c, rows in enumerate(self.members.values()):
            found[rows] = c
        return found


def merge_by(merging: Merging, score: Callable[[int, int], Any]) -> Iterator[Merge]:
    """Merge the pair of groups with the least score, until no edges connect the groups that are left.

    Args:
        merging: the groups.
        score: called with two groups a < b; a number, or a tuple that is compared from its first number on.

    Yields:
        Each merge, before it is made.
    """
    scores: dict[tuple[int, int], Any] = {}

    def compare(a: int) -> None:
        for b in merging.nearest(a).tolist():
            pair = (min(a, b), max(a, b))
            if pair not in scores:
                scores[pair] = score(*pair)

    for c in merging.members:
        compare(c)
    while scores:
        a, b = min(scores, key=lambda pair: (scores[pair], pair))
        yield Merge(a, b, scores[a, b])
        merging.merge(a, b)
        scores = {pair: value for pair, value in scores.items() if not {a, b} & {*pair}}
        compare(a)
