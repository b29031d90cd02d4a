r"""The evidence that two groups differ, from 0 to 1.

.. math:: e = \max(m, 0) \cdot \min(v / 0.6, 1) \cdot \min(\max(1/2 + (s - s_0) / 3, 0), 1)

- m, the margin: whether the neighbours of their members tell the two groups apart (`Merging.margin`).
- v, the valley: whether there are fewer samples between the groups than in them (`separation.valley`).
- s, the separation in the single views (`mean_separation`), and :math:`s_0` of communities that are next to
  each other: views of one item depend on each other within a group as well, so the data themselves tell
  which separation means nothing.
"""

from typing import NamedTuple

import numpy as np

from protocol_mvc.partition.graphs import Features, Labels
from protocol_mvc.partition.separation import mean_separation, valley

CLEAR_VALLEY, SEPARATION_RANGE = 0.6, 3.0  # of the equation of the module


class Space(NamedTuple):
    """Features in which groups are compared."""

    views: list[Features]  #: the views (n, d_v), whitened within communities
    neighbors: list[Labels]  #: nearest neighbours (n, k) in every view
    whole: Features  #: all views side by side (n, d), likewise
    usual: float  #: separation of communities that are next to each other


def compare(space: Space, margin: float, a: Labels, b: Labels) -> tuple[float, float, float, float]:
    """Return evidence, margin, valley and separation of two groups in a space."""
    depth, apart = valley(space.whole, a, b), mean_separation(space.views, a, b)
    return evidence(margin, depth, apart - space.usual), margin, depth, apart


def evidence(margin: float, depth: float, separation: float) -> float:
    """Return the evidence that two groups differ, from 0 to 1: the equation of the module."""
    apart = float(np.clip(0.5 + separation / SEPARATION_RANGE, 0, 1))
    return max(margin, 0.0) * min(depth / CLEAR_VALLEY, 1.0) * apart
