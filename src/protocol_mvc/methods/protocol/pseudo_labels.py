"""The pseudo-labels T of stage 3: partial optimal transport of the predictions (Eqs. 12-18).

`BatchPseudoLabels` is the step of the paper. `InitializedPseudoLabels` starts from a partition of all samples
and transports the whole data set once per epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.data.batches import Source
from protocol_mvc.exceptions import DivergenceError
from protocol_mvc.methods.base import infer_all, log_mean
from protocol_mvc.methods.protocol.config import InitializedTransport, PotOptions
from protocol_mvc.methods.protocol.losses import Outputs, gather_outputs, log_mixed
from protocol_mvc.partition.candidates import Features, Labels
from protocol_mvc.partition.codebook import select_partition
from protocol_mvc.partition.consensus import consensus_partition, same_partition
from protocol_mvc.training.stage import SKIP, STOP, Signal
from protocol_mvc.transport import PotLabels, Transport, mass_schedule, pot_labels, solve
from protocol_mvc.utils.distributed import all_reduce_sum, broadcast, local_shard
from protocol_mvc.utils.random import draw_seed

if TYPE_CHECKING:
    from protocol_mvc.methods.protocol.algorithm import Protocol


class PseudoLabels:
    """A source of pseudo-labels for the rounds of stage 3."""

    def __init__(self, method: Protocol) -> None:
        """Keep the method, whose network and class prior are used."""
        self.method, self.options = method, method.config.pseudo_labels

    def start(self, source: Source, generator: torch.Generator, number: int = 0) -> Tensor | Signal | None:
        """Set prior and prototypes before a round; return the labels (n,) to start from, None or `SKIP`."""
        raise NotImplementedError

    def on_epoch_start(
        self, source: Source, generator: torch.Generator, progress: float, start: Tensor | None, number: int
    ) -> Any:
        """Return what `labels` needs in this epoch, or `STOP` to end the round."""
        raise NotImplementedError

    def labels(self, out: Outputs, context: Any) -> PotLabels:
        """Return the pseudo-labels of a batch."""
        raise NotImplementedError

    def mass(self, progress: float, number: int) -> float:
        """Return lambda: it grows during the first round (Eq. 16) and stays at its maximum afterwards."""
        o = self.options
        return mass_schedule(progress, o.min_mass, o.max_mass) if number == 0 else o.max_mass

    def transport_labels(self, log_p: Tensor, mass: float) -> PotLabels:
        """Return the labels of a transport of log P_hat (n, K) (Eqs. 13-15)."""
        if not log_p.isfinite().all():
            raise DivergenceError("the predictions are no longer finite numbers")
        if self.options.double_softmax:
            log_p = log_p.exp().log_softmax(1)
        return pot_labels(log_p, transport(log_p, mass, self.method.prior, self.options))


class BatchPseudoLabels(PseudoLabels):
    """One transport per batch with a uniform class prior, as in the paper."""

    def start(self, source: Source, generator: torch.Generator, number: int = 0) -> None:
        """Set a uniform prior; the prototypes stay as they are."""
        self.method.prior.fill_(1 / self.method.n_clusters)

    def on_epoch_start(
        self, source: Source, generator: torch.Generator, progress: float, start: Tensor | None, number: int
    ) -> float:
        """Return the mass lambda of the transports of this epoch."""
        return self.mass(progress, number)

    def labels(self, out: Outputs, context: float) -> PotLabels:
        """Transport the mixed predictions of the batch."""
        log_p = log_mixed(self.options.consensus_weight, out)
        return self.transport_labels(log_p.detach(), context)


class InitializedPseudoLabels(PseudoLabels):
    """Labels of a starting partition during a warm-up, then of one transport of all samples per epoch."""

    options: InitializedTransport

    @torch.no_grad()
    def start(self, source: Source, generator: torch.Generator, number: int = 0) -> Tensor | Signal:
        """Set prior and prototypes from a new partition of all samples, and return its labels (n,).

        A later round is skipped if the classifier predicts that partition already.
        """
        m = self.method
        h, log_proba = infer_all(m, source)
        trained = number > 0 or not m.paired  # H is trained by the alignment, or by an earlier round
        x = (h if trained else m.latent_codes(source)).numpy()
        predicted = log_proba.argmax(1)
        seed = draw_seed(generator)
        if m.paired:
            candidates = self.options.partition.candidates
            found = consensus_partition(x, m.n_clusters, seed, m.n_views, candidates)
        else:
            found = self._select(source, x, seed, predicted.numpy() if number else None)
        labels = broadcast(torch.from_numpy(found))
        if number > 0 and self._is_predicted(labels, predicted):
            return SKIP
        member = functional.one_hot(labels, m.n_clusters).to(h)  # (n, K)
        m.prior.copy_((member.sum(0) + 1) / (member.sum() + m.n_clusters))
        mean = (member.T @ h).unflatten(1, (m.n_views, -1)).mean(1)  # over members and views
        m.network.classifier.prototypes.copy_(functional.normalize(mean))
        return labels

    @torch.no_grad()
    def on_epoch_start(
        self, source: Source, generator: torch.Generator, progress: float, start: Tensor | None, number: int
    ) -> PotLabels | Signal:
        """Return the labels of all samples, or `STOP` if the classifier predicts those of lambda max."""
        if start is not None and progress < self.options.warmup_fraction:
            return self._one_hot(start)
        log_p, predicted = self._predict(source, generator)
        if self.options.early_stopping and progress > 0:
            full = self.transport_labels(log_p, self.options.max_mass)
            if self._is_predicted(full.hard, predicted):
                return STOP
        return self.transport_labels(log_p, self.mass(progress, number))

    def labels(self, out: Outputs, context: PotLabels) -> PotLabels:
        """Return the rows of the batch."""
        return context.rows(out.batch.rows)

    def _select(self, source: Source, x: Features, seed: int, predicted: Labels | None) -> Labels:
        """Return the partition that explains best what views of different items have in common."""
        m, options = self.method, self.options.partition
        rows, views = source.sample(options.codebook.max_samples, seed)
        return select_partition(
            np.split(x, m.n_views, axis=1),
            views,
            source.views.mask,
            rows,
            m.n_clusters,
            seed,
            use_raw_views=predicted is None or source.is_subsample,
            current_labels=predicted if source.is_subsample else None,  # learned from other samples
            options=options,
        )

    def _predict(self, source: Source, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return log P_hat (n, K) and the labels (n,) that the classifier gives to single samples."""
        m = self.method
        m.eval()
        log_p = m.prior.new_empty(len(source), m.n_clusters)
        predicted = torch.empty(len(source), dtype=torch.int64)
        for batch in source.shuffled(generator):  # the attention needs batches as mixed as in training
            batch, codes = gather_outputs(batch, m.network.encode(batch.views))
            out = Outputs(batch, codes, m.network.fuse(codes.z, batch.present))
            log_p[batch.rows] = log_mixed(self.options.consensus_weight, out)
            predicted[batch.rows] = log_mean(codes.logits, batch.present).argmax(1).cpu()
        m.train()
        return log_p, predicted

    def _one_hot(self, labels: Tensor) -> PotLabels:
        """Return a partition as pseudo-labels; the prior still holds its class frequencies."""
        prior = self.method.prior
        labels = labels.to(prior.device)
        member = functional.one_hot(labels, self.method.n_clusters).to(prior)
        return PotLabels(member, labels, prior.log())

    def _is_predicted(self, labels: Tensor, predicted: Tensor) -> bool:
        """Return whether the classifier predicts this partition already."""
        fraction = self.options.partition.max_changed_fraction
        k = self.method.n_clusters
        same = same_partition(labels.cpu().numpy(), predicted.cpu().numpy(), k, fraction)
        return bool(broadcast(torch.tensor(same)))


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
