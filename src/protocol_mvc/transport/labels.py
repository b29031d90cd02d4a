"""From predictions to POT labels: how much mass to transport when, and what the plan says of each sample."""

import math
from typing import NamedTuple

from torch import Tensor

from protocol_mvc.transport.solver import Transport


def mass_schedule(progress: float, start: float, end: float) -> float:
    """Mass transported at a progress in [0, 1]: start + (end - start) exp(-5 (1 - progress)^2) (Eq. 16)."""
    return start + (end - start) * math.exp(-5 * (1 - progress) ** 2)


class PotLabels(NamedTuple):
    """What the transport plan says of the samples it was solved for."""

    #: (n, k) split of each sample; rows sum to at most 1, to less where a sample is left for later
    soft: Tensor
    hard: Tensor  #: (n,) the cluster that gets most of a sample
    log_frequency: Tensor  #: (k,) log of the class frequencies that the plan perceives

    def rows(self, index: Tensor) -> "PotLabels":
        """The labels of some samples; frequencies stay those of the whole."""
        return self._replace(soft=self.soft[index], hard=self.hard[index])


def pot_labels(log_p: Tensor, transport: Transport) -> PotLabels:
    """Read labels off a plan; an empty cluster counts as half a sample, so that its log is finite."""
    n, dtype = len(log_p), log_p.dtype
    frequency = transport.column_mass / transport.column_mass.sum()
    log_frequency = frequency.clamp_min(0.5 / n).log()
    soft = transport.row_probabilities(log_p)
    return PotLabels(soft.to(dtype), soft.argmax(1), log_frequency.to(dtype))
