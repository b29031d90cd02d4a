"""The transport problem seen from its K + 1 potentials: everything that needs no look at the samples."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

RIDGE = 1e-12  # of the curvature, relative, for directions that are flat to the last digit
WHOLE_MASS = 1.0 - 1e-12  # a larger mass leaves the virtual column empty, so the column is dropped

Merge = Callable[[Tensor], Tensor]


class Sums(NamedTuple):
    """What one pass over the samples adds up; columns are the clusters and, if partial, the virtual one."""

    mass: Tensor  # (c,) column mass m
    log_mass: Tensor  # (c,) its log, exact also where the mass itself underflows
    lse: float  # sum_i r_i LSE_i over all columns
    real_lse: Tensor  # (n,) LSE_i over the clusters alone
    gram: Tensor | None  # (c, c) sum_i r_i p_i p_i^T


@dataclass(frozen=True)
class Problem:
    """Prescribed masses and regularisation. Potentials g have as many entries as there are columns."""

    target: Tensor  # (k,) lambda c, sums to the transported mass
    mass: float  # lambda; 1 drops the virtual column
    epsilon: float
    prior_strength: float  # beta; infinite makes the target a hard constraint

    @property
    def rest(self) -> float:
        """Mass of the virtual column, 1 - lambda; 0 where there is none."""
        return 0.0 if self.mass > WHOLE_MASS else 1.0 - self.mass

    @property
    def hard(self) -> bool:
        """Whether cluster sizes are prescribed exactly."""
        return math.isinf(self.prior_strength)

    @property
    def goal(self) -> Tensor:
        """Column masses (c,) in the limit of an infinite KL weight."""
        return torch.cat([self.target, self.target.new_full((int(self.rest > 0),), self.rest)])

    def wanted(self, g: Tensor) -> Tensor:
        """Column masses (c,) that the potentials ask for; the plan is optimal where it has them."""
        return self.goal * self._tilt(g)

    def shifted(self, g: Tensor) -> Tensor:
        """Add the constant to g that maximises the dual; it leaves the plan as it is."""
        if self.hard:
            return g - g[: len(self.target)].mean()
        log_tilted = self.target.log() - g[: len(self.target)] / self.prior_strength
        return g + self.prior_strength * (torch.logsumexp(log_tilted, 0) - math.log(self.mass))

    def step(self, g: Tensor, log_mass: Tensor) -> Tensor:
        """One scaling of the columns, b <- (c / (M^T a))^f with f = beta / (beta + epsilon) (Eqs. 18, 48)."""
        f = torch.ones_like(g)
        f[: len(self.target)] = 1 / (1 + self.epsilon / self.prior_strength)
        return f * (g + self.epsilon * (self.goal.log() - log_mass))

    def value(self, g: Tensor, lse: float) -> float:
        """The dual function without constants, for potentials shifted to their best constant."""
        real = g[: len(self.target)]
        if self.hard:
            return float(self.goal @ g) - self.epsilon * lse
        penalty = self.prior_strength * float(self.target @ torch.expm1(-real / self.prior_strength))
        return self.rest * float(g[-1]) - self.epsilon * lse - penalty

    def curvature(self, g: Tensor, sums: Sums) -> Tensor:
        """Minus the Hessian of the dual along which the common constant is free, pinned there (c, c)."""
        assert sums.gram is not None
        # Rows of diag(m) - Gram sum to 0, so the diagonal follows without cancellation from the rest.
        apart = sums.gram - torch.diag(sums.gram.diagonal())
        matrix = (torch.diag(apart.sum(1)) - apart) / self.epsilon
        if not self.hard:
            k = len(self.target)
            w = self.wanted(g)[:k] / self.mass
            matrix[:k, :k] += self.mass / self.prior_strength * (torch.diag(w) - torch.outer(w, w))
        scale = sums.mass / self.epsilon  # the curvature if every sample were undecided
        return matrix + scale.mean() / len(g) + torch.diag(RIDGE * scale)

    def _tilt(self, g: Tensor) -> Tensor:
        tilt = torch.ones_like(g)
        tilt[: len(self.target)] = torch.exp(-g[: len(self.target)] / self.prior_strength)
        return tilt
