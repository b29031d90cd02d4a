"""The pseudo-labels T of stage 3: partial optimal transport of the predictions (Eqs. 12-18).

`BatchPseudoLabels` is the step of the paper. `InitializedPseudoLabels` starts from a partition of all samples
and transports the whole data set once per epoch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.data.batches import Source
from protocol_mvc.exceptions import DivergenceError
from protocol_mvc.methods.base import infer_all
from protocol_mvc.methods.protocol.config import InitializedTransport, PotOptions
from protocol_mvc.methods.protocol.losses import Outputs, log_mixed
from protocol_mvc.partition.graphs import Features, impute
from protocol_mvc.partition.selection import find_partition
from protocol_mvc.transport import PotLabels, Transport, mass_schedule, pot_labels, solve
from protocol_mvc.utils.distributed import all_reduce_sum, broadcast, local_shard
from protocol_mvc.utils.random import draw_seed

if TYPE_CHECKING:
    from protocol_mvc.methods.protocol.algorithm import Protocol

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.5, 20.0  # candidates that all agree do not make labels certain


class PseudoLabels:
    """A source of pseudo-labels for stage 3."""

    def __init__(self, method: Protocol) -> None:
        """Keep the method, whose network and class prior are used."""
        self.method, self.options = method, method.config.pseudo_labels

    def start(self, source: Source, generator: torch.Generator) -> Tensor:
        """Set prior and prototypes before stage 3, and return the labels (n,) to start from."""
        raise NotImplementedError

    def on_epoch_start(
        self, source: Source, generator: torch.Generator, progress: float, start: Tensor
    ) -> Any:
        """Return what `labels` needs in this epoch."""
        raise NotImplementedError

    def labels(self, out: Outputs, context: Any) -> PotLabels:
        """Return the pseudo-labels of a batch."""
        raise NotImplementedError

    def transport_labels(self, log_p: Tensor, mass: float) -> PotLabels:
        """Return the labels of a transport of log P_hat (n, K) (Eqs. 13-15)."""
        if not log_p.isfinite().all():
            raise DivergenceError("the predictions are no longer finite numbers")
        if self.options.double_softmax:
            log_p = log_p.exp().log_softmax(1)
        return pot_labels(log_p, transport(log_p, mass, self.method.prior, self.options))


class BatchPseudoLabels(PseudoLabels):
    """One transport per batch with a uniform class prior, as in the paper."""

    def start(self, source: Source, generator: torch.Generator) -> Tensor:
        """Set a uniform prior; the prototypes stay as they are, and all labels are 0."""
        self.method.prior.fill_(1 / self.method.n_clusters)
        return torch.zeros(len(source), dtype=torch.int64)

    def on_epoch_start(
        self, source: Source, generator: torch.Generator, progress: float, start: Tensor
    ) -> float:
        """Return the mass lambda of the transports of this epoch (Eq. 16)."""
        return mass_schedule(progress, self.options.min_mass, self.options.max_mass)

    def labels(self, out: Outputs, context: float) -> PotLabels:
        """Transport the mixed predictions of the batch."""
        log_p = log_mixed(self.options.consensus_weight, out)
        return self.transport_labels(log_p.detach(), context)


class InitializedPseudoLabels(PseudoLabels):
    """Labels of a starting partition during a warm-up, then of one transport of all samples per epoch."""

    options: InitializedTransport

    @torch.no_grad()
    def start(self, source: Source, generator: torch.Generator) -> Tensor:
        """Set prior and prototypes from a partition of all samples, and return its labels (n,)."""
        m, seed = self.method, draw_seed(generator)
        h = infer_all(m, source).embedding
        learned = np.split(h.numpy(), m.n_views, axis=1)
        found = find_partition(complete_views(source), learned, m.n_clusters, seed, self.options.partition)
        labels = broadcast(torch.from_numpy(found.labels))
        accuracy = float(found.agreement.mean()) ** self.options.agreement_power
        m.expected_accuracy.copy_(broadcast(torch.tensor(accuracy)))
        member = functional.one_hot(labels, m.n_clusters).to(h)  # (n, K)
        m.prior.copy_((member.sum(0) + 1) / (member.sum() + m.n_clusters))
        mean = (member.T @ h).unflatten(1, (m.n_views, -1)).mean(1)  # over members and views
        m.network.classifier.prototypes.copy_(functional.normalize(mean))
        return labels

    @torch.no_grad()
    def on_epoch_start(
        self, source: Source, generator: torch.Generator, progress: float, start: Tensor
    ) -> PotLabels:
        """Return the labels of all samples: those of the partition at first, then those of a transport."""
        o = self.options
        if progress < o.warmup_fraction:
            return self._one_hot(start)
        after = (progress - o.warmup_fraction) / max(1 - o.warmup_fraction, 1e-9)
        mass = mass_schedule(after, o.min_mass, o.max_mass)
        return self.transport_labels(self._predict(source, generator), mass)

    def labels(self, out: Outputs, context: PotLabels) -> PotLabels:
        """Return the rows of the batch."""
        return context.rows(out.batch.rows)

    def _predict(self, source: Source, generator: torch.Generator) -> Tensor:
        """Return log P_hat (n, K)."""
        m = self.method
        m.eval()
        log_p = m.prior.new_empty(len(source), m.n_clusters)
        for batch in source.shuffled(generator):  # attention needs batches as mixed as in training
            out = m.fuse(batch, m.network.encode(batch.views))
            log_p[out.batch.rows] = log_mixed(self.options.consensus_weight, out)
        m.train()
        return log_p

    def _one_hot(self, labels: Tensor) -> PotLabels:
        """Return a partition as pseudo-labels; the prior still holds its class frequencies."""
        prior = self.method.prior
        labels = labels.to(prior.device)
        member = functional.one_hot(labels, self.method.n_clusters).to(prior)
        return PotLabels(member, labels, prior.log())


def complete_views(source: Source) -> list[Features]:
    """Return the prepared views (n, d_v) of all samples; absent rows are imputed."""
    views: list[Features] = [view.cpu().numpy() for view in source.take(torch.arange(len(source))).views]
    return views if source.views.is_complete else [*impute(views, source.views.mask)]


def calibrated_temperature(log_proba: Tensor, accuracy: float) -> float:
    """Return the temperature at which the mean largest probability equals an expected accuracy.

    Args:
        log_proba: log-probabilities (n, K) at temperature 1.
        accuracy: expected fraction of correct labels.
    """
    low, high = math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE)
    for _ in range(30):
        middle = (low + high) / 2
        confidence = float((log_proba / math.exp(middle)).softmax(1).amax(1).mean())
        low, high = (middle, high) if confidence > accuracy else (low, middle)
    return math.exp((low + high) / 2)


def transport(log_p: Tensor, mass: float, prior: Tensor, options: PotOptions) -> Transport:
    """Solve the transport of log-probabilities (n, K); each process handles its share of the rows."""
    return solve(
        local_shard(log_p),
        mass=mass,
        epsilon=options.epsilon,
        prior_strength=options.prior_strength,
        prior=prior,
        all_reduce=all_reduce_sum,
    )
