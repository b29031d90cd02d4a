"""Pseudo-labels from a transport plan, and the schedule of the transported mass."""

import math
from typing import NamedTuple

from torch import Tensor

from protocol_mvc.transport.solver import Transport


def mass_schedule(progress: float, min_mass: float, max_mass: float) -> float:
    r"""Return the mass to transport at a progress in [0, 1] (Eq. 16).

    .. math:: \lambda_{base} + (\lambda_{max} - \lambda_{base}) \exp(-5 (1 - progress)^2)
    """
    return min_mass + (max_mass - min_mass) * math.exp(-5 * (1 - progress) ** 2)


class PotLabels(NamedTuple):
    """Labels of the samples by partial optimal transport (POT)."""

    #: T (n, k), the part of each sample that each cluster gets; rows sum to 1, or less if mass is left behind
    soft: Tensor
    hard: Tensor  #: (n,) the cluster that gets the largest part of a sample
    log_frequency: Tensor  #: (k,) log of the class frequencies of the plan

    def rows(self, index: Tensor) -> "PotLabels":
        """Return the labels of some samples; the frequencies stay those of all samples."""
        return self._replace(soft=self.soft[index], hard=self.hard[index])


def pot_labels(log_p: Tensor, transport: Transport) -> PotLabels:
    """Return the labels of a plan.

    Args:
        log_p: log-probabilities (n, k) that the plan was solved for.
        transport: the plan.

    Returns:
        The labels, in the dtype of `log_p`; the frequency of an empty cluster is that of half a sample.
    """
    n, dtype = len(log_p), log_p.dtype
    frequency = transport.column_mass / transport.column_mass.sum()
    log_frequency = frequency.clamp_min(0.5 / n).log()
    soft = transport.row_probabilities(log_p)
    return PotLabels(soft.to(dtype), soft.argmax(1), log_frequency.to(dtype))
