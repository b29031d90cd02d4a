"""Communities of large graphs at several resolutions, in a fraction of the time of separate solutions.

The first level of the Louvain method, which moves single nodes, takes most of its time. Here it is solved
once for each graph, at a high resolution. Every other resolution starts from these small groups, and its
result is improved by moves of single nodes.
"""

from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from protocol_mvc.partition.graphs import Communities, Labels
from protocol_mvc.partition.louvain import Network, louvain

GROUP_RESOLUTION = 64.0  # of the small groups
MIN_SAMPLES_LARGE = 2000  # from which on communities start from small groups


class GroupedCommunities(Communities):
    """Communities that start from small groups of nodes; see the top of the module.

    Args:
        graph: symmetric adjacency matrix (n, n).
        seed: seed of the order in which nodes are visited.
    """

    @cached_property
    def _groups(self) -> Labels:
        """Small group of each node of the network (n,)."""
        return self._network.move(np.arange(len(self._network)), GROUP_RESOLUTION).labels

    @cached_property
    def _contracted(self) -> Network:
        return self._network.contract(self._groups)

    def find(self, resolution: float) -> Labels:
        """Return the communities (n,) at a resolution."""
        return self._unshuffled(louvain(self._contracted, resolution)[self._groups])

    def refine(self, labels: Labels, resolution: float) -> Labels:
        """Return the communities after moves of single nodes."""
        return self._unshuffled(self._network.move(labels[self._order], resolution).labels)


def find_communities(graph: csr_matrix, seed: int) -> Communities:
    """Return the communities of a graph (n, n), which start from small groups if the graph is large."""
    kind = GroupedCommunities if graph.shape[0] >= MIN_SAMPLES_LARGE else Communities
    return kind(graph, seed)
