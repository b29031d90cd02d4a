"""The pseudo-labels T of stage 3: partial optimal transport of the predictions (Eqs. 12-18).

`BatchPseudoLabels` transports every batch, `DatasetPseudoLabels` all samples once per epoch, with a uniform
class prior. `InitializedPseudoLabels` starts from a partition of all samples, which also gives the prior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.data.batches import Source
from protocol_mvc.exceptions import DivergenceError
from protocol_mvc.methods.base import infer_all, view_mean
from protocol_mvc.methods.protocol.config import DatasetTransport, InitializedTransport, PotOptions
from protocol_mvc.methods.protocol.losses import Outputs, log_mixed
from protocol_mvc.nn.layers import cluster_means
from protocol_mvc.partition.graphs import Features, impute
from protocol_mvc.partition.selection import find_partition
from protocol_mvc.transport import PotLabels, Transport, mass_schedule, pot_labels, solve
from protocol_mvc.utils.distributed import all_reduce_sum, broadcast, local_shard
from protocol_mvc.utils.random import draw_seed

if TYPE_CHECKING:
    from protocol_mvc.methods.protocol.algorithm import Protocol

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.5, 20.0  # candidates that all agree do not make labels certain
MAX_CALIBRATED = 20_000  # of larger data, the temperature is computed from some rows


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

    def mass(self, progress: float) -> float:
        """Return the mass lambda of the transports of an epoch (Eq. 16)."""
        return mass_schedule(progress, self.options.min_mass, self.options.max_mass)

    def transport_labels(self, log_p: Tensor, mass: float) -> PotLabels:
        """Return the labels of a transport of log P_hat (n, K) (Eqs. 13-15)."""
        if not log_p.isfinite().all():
            raise DivergenceError("the predictions are no longer finite numbers")
        if self.options.double_softmax:
            log_p = log_p.exp().log_softmax(1)
        return pot_labels(log_p, transport(log_p, mass, self.method.prior, self.options))


class BatchPseudoLabels(PseudoLabels):
    """One transport per batch with a uniform class prior."""

    def start(self, source: Source, generator: torch.Generator) -> Tensor:
        """Set a uniform prior; the prototypes stay as they are, and all labels are 0."""
        self.method.prior.fill_(1 / self.method.n_clusters)
        return torch.zeros(len(source), dtype=torch.int64)

    def on_epoch_start(
        self, source: Source, generator: torch.Generator, progress: float, start: Tensor
    ) -> float:
        """Return the mass lambda of the transports of this epoch."""
        return self.mass(progress)

    def labels(self, out: Outputs, context: float) -> PotLabels:
        """Transport the mixed predictions of the batch."""
        log_p = log_mixed(self.options.consensus_weight, out)
        return self.transport_labels(log_p.detach(), context)


class EpochPseudoLabels(PseudoLabels):
    """One transport of all samples per epoch."""

    @torch.no_grad()
    def on_epoch_start(
        self, source: Source, generator: torch.Generator, progress: float, start: Tensor
    ) -> PotLabels:
        """Return the labels of all samples."""
        return self.transport_labels(self.predict(source, generator), self.mass(progress))

    def labels(self, out: Outputs, context: PotLabels) -> PotLabels:
        """Return the rows of the batch."""
        return context.rows(out.batch.rows)

    def predict(self, source: Source, generator: torch.Generator) -> Tensor:
        """Return log P_hat (n, K)."""
        share = self.options.consensus_weight
        return self.map_shuffled(source, generator, lambda out: log_mixed(share, out))

    def map_shuffled(
        self, source: Source, generator: torch.Generator, give: Callable[[Outputs], Tensor]
    ) -> Tensor:
        """Return what a function gives for the outputs of all samples (n, ...), without dropout."""
        m, rows, parts = self.method, list[Tensor](), list[Tensor]()
        m.eval()
        for batch in source.shuffled(generator):  # attention needs batches as mixed as in training
            out = m.fuse(batch, m.network.encode(batch.views))
            rows.append(out.batch.rows)
            parts.append(give(out))
        m.train()
        return torch.cat(parts)[torch.cat(rows).argsort()]


class DatasetPseudoLabels(EpochPseudoLabels):
    """One transport of all samples per epoch with a uniform class prior, from prototypes of the features."""

    options: DatasetTransport

    @torch.no_grad()
    def start(self, source: Source, generator: torch.Generator) -> Tensor:
        """Set a uniform prior and, as prototypes, the mean features of clusters, whose labels are returned.

        The clusters are one of several partitions of U and of the data, the one on which the neighbours in
        the data and the other partitions agree most. The neighbours in the H^v would not do: stage 2 aligns
        the views, so that they agree on nearly any partition.
        """
        m, options = self.method, self.options.partition
        m.prior.fill_(1 / m.n_clusters)
        if options is None:
            return torch.zeros(len(source), dtype=torch.int64)
        consensus, mixed = self.features(source, generator)
        learned, seed = [consensus.cpu().numpy()], draw_seed(generator)
        found = find_partition(complete_views(source), learned, m.n_clusters, seed, options)
        labels = broadcast(torch.from_numpy(found.labels))
        m.network.classifier.prototypes.copy_(cluster_means(mixed, labels.to(mixed.device), m.n_clusters))
        return labels

    def features(self, source: Source, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the consensus (n, width), and its mean with the views, weighted as in P_hat; unit rows."""
        m, share = self.method, self.options.consensus_weight

        def both(out: Outputs) -> Tensor:
            u = functional.normalize(out.fused.features)
            views = torch.stack([functional.normalize(x) for x in m.network.view_features(out.codes)], dim=1)
            return torch.stack([u, share * u + (1 - share) * view_mean(views, out.batch.present)], dim=1)

        found = self.map_shuffled(source, generator, both)
        return found[:, 0], found[:, 1]


class InitializedPseudoLabels(EpochPseudoLabels):
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
        return super().on_epoch_start(source, generator, after, start)

    def _one_hot(self, labels: Tensor) -> PotLabels:
        """Return a partition as pseudo-labels; the prior still holds its class frequencies."""
        prior = self.method.prior
        labels = labels.to(prior.device)
        member = functional.one_hot(labels, self.method.n_clusters).to(prior)
        return PotLabels(member, labels, prior.log())


PSEUDO_LABELS: dict[str, type[PseudoLabels]] = {
    "batch": BatchPseudoLabels,
    "dataset": DatasetPseudoLabels,
    "initialized": InitializedPseudoLabels,
}


def complete_views(source: Source) -> list[Features]:
    """Return the prepared views (n, d_v) of all samples, see `compact_views`; absent rows are imputed."""
    views: list[Features] = [*source.compact_views()]
    return views if source.views.is_complete else [*impute(views, source.views.mask)]


def calibrated_temperature(log_proba: Tensor, accuracy: float) -> float:
    """Return the temperature at which the mean largest probability equals an expected accuracy.

    Args:
        log_proba: log-probabilities (n, K) at temperature 1.
        accuracy: expected fraction of correct labels.
    """
    log_proba = log_proba[:: max(1, len(log_proba) // MAX_CALIBRATED)]
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
