"""The dual of the transport problem as a function of the K + 1 potentials: everything that needs no samples.

Columns are the K clusters and, if only part of the mass is transported, the virtual column.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

RIDGE = 1e-12  # relative ridge of the Hessian, for directions that are flat to the last digit
MAX_PARTIAL_MASS = 1.0 - 1e-12  # with a larger mass there is no virtual column

AllReduce = Callable[[Tensor], Tensor]  # sums a tensor over all processes


class SampleSums(NamedTuple):
    """Sums over all samples at given potentials; c is the number of columns."""

    mass: Tensor  #: column masses m (c,)
    log_mass: Tensor  #: their logs (c,), exact also where the mass underflows
    lse: float  #: sum_i r_i LSE_i, the log-sum-exp over all columns
    cluster_lse: Tensor  #: LSE_i over the clusters alone (n,), of the samples of this process
    gram: Tensor | None  #: sum_i r_i p_i p_i^T (c, c), with p_i the row probabilities


@dataclass(frozen=True)
class Problem:
    """Prescribed masses and regularization; potentials g have one entry per column.

    Args:
        target: target masses lambda c_j of the clusters (k,); they sum to the transported mass.
        mass: lambda, the transported mass.
        epsilon: entropic regularization.
        prior_strength: beta; infinite makes the target a hard constraint.
    """

    target: Tensor
    mass: float
    epsilon: float
    prior_strength: float

    @property
    def virtual_mass(self) -> float:
        """Mass 1 - lambda of the virtual column; 0 without one."""
        return 0.0 if self.mass > MAX_PARTIAL_MASS else 1.0 - self.mass

    @property
    def is_hard(self) -> bool:
        """Whether cluster sizes are a hard constraint."""
        return math.isinf(self.prior_strength)

    @property
    def column_target(self) -> Tensor:
        """Target masses of all columns (c,)."""
        virtual = self.target.new_full((int(self.virtual_mass > 0),), self.virtual_mass)
        return torch.cat([self.target, virtual])

    def required_mass(self, g: Tensor) -> Tensor:
        r"""Return the column masses (c,) for which g is optimal (Eqs. 42-45).

        They are :math:`\lambda c_j e^{-g_j / \beta}` for the clusters and :math:`1 - \lambda` for the virtual
        column.
        """
        tilt = torch.ones_like(g)
        tilt[: len(self.target)] = torch.exp(-g[: len(self.target)] / self.prior_strength)
        return self.column_target * tilt

    def best_shift(self, g: Tensor) -> Tensor:
        """Return g plus the constant that maximizes the dual; the constant does not change the plan."""
        if self.is_hard:
            return g - g[: len(self.target)].mean()
        log_tilted = self.target.log() - g[: len(self.target)] / self.prior_strength
        return g + self.prior_strength * (torch.logsumexp(log_tilted, 0) - math.log(self.mass))

    def scaling_step(self, g: Tensor, log_mass: Tensor) -> Tensor:
        r"""Return the potentials after one scaling of all columns (Eqs. 18 and 48).

        It is :math:`b \leftarrow (c / (M^\top a))^f` with :math:`f = \beta / (\beta + \epsilon)`, in logs.
        """
        f = torch.ones_like(g)
        f[: len(self.target)] = 1 / (1 + self.epsilon / self.prior_strength)
        return f * (g + self.epsilon * (self.column_target.log() - log_mass))

    def dual_value(self, g: Tensor, lse: float) -> float:
        """Return the dual function, without constants, at potentials with their best shift."""
        clusters = g[: len(self.target)]
        if self.is_hard:
            return float(self.column_target @ g) - self.epsilon * lse
        penalty = self.prior_strength * float(self.target @ torch.expm1(-clusters / self.prior_strength))
        return self.virtual_mass * float(g[-1]) - self.epsilon * lse - penalty

    def negative_hessian(self, g: Tensor, sums: SampleSums) -> Tensor:
        """Return minus the Hessian (c, c) of the dual with its best shift, definite in all directions."""
        assert sums.gram is not None
        # Rows of diag(m) - Gram sum to 0: the diagonal follows from the other entries without cancellation.
        off_diagonal = sums.gram - torch.diag(sums.gram.diagonal())
        matrix = (torch.diag(off_diagonal.sum(1)) - off_diagonal) / self.epsilon
        if not self.is_hard:
            k = len(self.target)
            w = self.required_mass(g)[:k] / self.mass
            matrix[:k, :k] += self.mass / self.prior_strength * (torch.diag(w) - torch.outer(w, w))
        scale = sums.mass / self.epsilon  # the diagonal if all row probabilities were equal
        return matrix + scale.mean() / len(g) + torch.diag(RIDGE * scale)
