"""The Louvain method, whose graph is prepared once for many resolutions.

The moves of nodes are those of scikit-network; its own class spends most of its time on small graphs with the
preparation of sparse matrices.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, csr_matrix

Labels = npt.NDArray[np.int64]
MIN_GAIN = 1e-3  # of the modularity, for another pass or level


class Level(NamedTuple):
    """Communities (n,) after moves of nodes, and the modularity that was gained."""

    labels: Labels
    gain: float


class Network:
    """A symmetric graph (n, n) whose nodes move between communities.

    Args:
        graph: adjacency matrix.
    """

    def __init__(self, graph: csr_matrix) -> None:
        self.graph, total = graph, graph.data.sum()
        self._indices, self._indptr = graph.indices.astype(np.int32), graph.indptr.astype(np.int32)
        self._edges = (graph.data / total).astype(np.float32)
        self._loops = (graph.diagonal() / total).astype(np.float32)
        volumes = np.add.reduceat(graph.data, graph.indptr[:-1]) * (np.diff(graph.indptr) > 0)
        self._volumes = (volumes / total).astype(np.float32)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self._volumes)

    def move(self, labels: Labels, resolution: float) -> Level:
        """Move nodes to neighbouring communities, in their order, as long as it raises the modularity."""
        from sknetwork.clustering.louvain_core import optimize_core  # type: ignore[import-untyped]

        volumes = np.bincount(labels, self._volumes, minlength=len(self)).astype(np.float32)
        found, gain = optimize_core(
            labels.astype(np.int32),
            self._indices,
            self._indptr,
            self._edges,
            self._volumes,
            self._volumes,
            volumes,
            volumes.copy(),
            np.zeros_like(volumes),
            self._loops,
            resolution,
            MIN_GAIN,
        )
        return Level(np.unique(np.asarray(found), return_inverse=True)[1], gain)

    def contract(self, labels: Labels) -> "Network":
        """Return the network whose nodes are the communities (n,)."""
        member = csr_array((np.ones(len(labels)), labels, np.arange(len(labels) + 1)))
        return Network(csr_matrix(member.T @ (csr_array(self.graph) @ member)))


def louvain(network: Network, resolution: float) -> Labels:
    """Return the communities (n,) that the Louvain method finds, from the largest to the smallest."""
    labels = np.arange(len(network))
    while len(network) > 1:
        level = network.move(np.arange(len(network)), resolution)
        labels = level.labels[labels]
        if level.gain <= MIN_GAIN:
            break
        network = network.contract(level.labels)
    rank = np.argsort(np.argsort(-np.bincount(labels)))
    return rank[labels]
