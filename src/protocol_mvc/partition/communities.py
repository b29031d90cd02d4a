"""Communities of a graph at several resolutions, in a fraction of the time of separate solutions.

The first level of the Louvain method, which moves single nodes, takes most of its time. Here it is solved once
for each graph, at a high resolution. Every other resolution starts from these small groups, and its result is
improved by moves of single nodes.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, csr_matrix

from protocol_mvc.partition.graphs import Communities, Labels, compact

GROUP_RESOLUTION = 64.0  # of the small groups
MIN_GAIN = 1e-3  # of the modularity, for another pass or level of the Louvain method


class Level(NamedTuple):
    """Communities after some moves, and the modularity that was gained."""

    labels: Labels
    gain: float


class Network:
    """A symmetric graph (n, n), as the core of the Louvain method takes it."""

    def __init__(self, graph: csr_matrix) -> None:
        total = graph.data.sum()
        self.indices, self.indptr = graph.indices.astype(np.int32), graph.indptr.astype(np.int32)
        self.edges = (graph.data / total).astype(np.float32)
        self.loops = (graph.diagonal() / total).astype(np.float32)
        self.volumes = (np.asarray(graph.sum(axis=1)).ravel() / total).astype(np.float32)

    def move(self, labels: Labels, resolution: float) -> Level:
        """Move nodes to neighbouring communities as long as it raises the modularity."""
        from sknetwork.clustering.louvain_core import optimize_core  # type: ignore[import-untyped]

        n = len(self.volumes)
        volumes = np.bincount(labels, self.volumes, minlength=n).astype(np.float32)
        own, out = (self.volumes, self.volumes), (volumes, volumes.copy())
        work = np.zeros(n, dtype=np.float32)
        found, gain = optimize_core(
            labels.astype(np.int32),
            self.indices,
            self.indptr,
            self.edges,
            *own,
            *out,
            work,
            self.loops,
            resolution,
            MIN_GAIN,
        )
        return Level(compact(np.asarray(found)), gain)


def contract(graph: csr_matrix, labels: Labels) -> csr_matrix:
    """Return the graph (m, m) whose nodes are the communities of another."""
    member = csr_array((np.ones(len(labels)), labels, np.arange(len(labels) + 1)))
    return csr_matrix(member.T @ (csr_array(graph) @ member))


def communities(graph: csr_matrix, resolution: float) -> Labels:
    """Return the communities (n,) that the Louvain method finds if it visits the nodes in their order."""
    labels = np.arange(graph.shape[0])
    while graph.shape[0] > 1:
        level = Network(graph).move(np.arange(graph.shape[0]), resolution)
        labels = level.labels[labels]
        if level.gain <= MIN_GAIN:
            break
        graph = contract(graph, level.labels)
    return labels


class GroupedCommunities(Communities):
    """Communities that start from small groups of nodes; see the top of the module.

    Args:
        graph: symmetric adjacency matrix (n, n).
        seed: seed of the order in which nodes are visited.
    """

    @cached_property
    def _order(self) -> Labels:
        order: Labels = np.random.default_rng(self.seed).permutation(self.graph.shape[0])
        return order

    @cached_property
    def _network(self) -> Network:
        return Network(self.graph[self._order][:, self._order])

    @cached_property
    def _groups(self) -> Labels:
        """Small group of each node (n,)."""
        level = self._network.move(np.arange(len(self._order)), GROUP_RESOLUTION)
        return level.labels[np.argsort(self._order)]

    @cached_property
    def _contracted(self) -> csr_matrix:
        return contract(self.graph, self._groups)

    def find(self, resolution: float) -> Labels:
        """Return the communities (n,) at a resolution."""
        found: Labels = communities(self._contracted, resolution)[self._groups]
        return found

    def refine(self, labels: Labels, resolution: float) -> Labels:
        """Return the communities after moves of single nodes."""
        level = self._network.move(labels[self._order], resolution)
        return level.labels[np.argsort(self._order)]
