"""PROTOCOL: partial optimal transport perceives the imbalance, rebalanced contrast protects the minority."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc import assignment
from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.clustering import soft_cross_entropy
from protocol_mvc.losses.contrastive import class_contrast, feature_contrast
from protocol_mvc.losses.rebalanced import class_sensitive_contrast
from protocol_mvc.losses.reconstruction import squared_error
from protocol_mvc.methods.base import Inferred, infer_all
from protocol_mvc.methods.protocol_config import ProtocolConfig
from protocol_mvc.nn.network import Codes, Fused, MultiViewNetwork, Pair, Widths, pairs, rows_of
from protocol_mvc.runtime import draw_seed
from protocol_mvc.training import Duration, Losses, Stage
from protocol_mvc.transport import PotLabels, Transport, pot_labels, ramp, solve

NOWHERE = 1e3  # coordinates of an empty cluster's centre, far from all features


class Protocol(nn.Module):
    """Algorithm 1."""

    prior: Tensor
    centers: Tensor

    def __init__(self, config: ProtocolConfig, dims: list[int], n_clusters: int) -> None:
        """Make the networks."""
        super().__init__()
        self.config = config
        self.n_clusters = n_clusters
        self.network = MultiViewNetwork(
            dims,
            n_clusters,
            Widths(config.hidden, config.latent, config.feature, config.feedforward),
            dropout=config.dropout,
            scale=config.classifier_scale,
            classify_latent=config.classify == "latent",
        )
        self.register_buffer("prior", torch.empty(n_clusters))  # class frequencies perceived so far
        self.register_buffer("centers", torch.empty(n_clusters, len(dims) * config.feature))  # of K-means

    def stages(self) -> list[Stage]:
        """Algorithm 1; the last stage may be repeated in rounds, each perceiving anew."""
        c = self.config
        return [
            Stage(
                "reconstruct", Duration(c.reconstruct_length, c.unit), self.reconstruct, c.reconstruct_rate
            ),
            Stage("align", Duration(c.align_length, c.unit), self.align, c.align_rate),
            *(self._round(number) for number in range(c.rounds)),
            Stage("read out", begin=self.read_out),
        ]

    def _round(self, number: int) -> Stage:
        """Stage 3; the mass grows in the first round (Eq. 16) and stays at its end in the following ones."""
        c = self.config

        def label(source: Source, generator: torch.Generator, progress: float) -> PotLabels | float:
            mass = ramp(progress, c.mass_start, c.mass_end) if number == 0 else c.mass_end
            return self.label(source, generator, mass) if c.label_scope == "all" else mass

        name = f"rebalance {number + 1}" if c.rounds > 1 else "rebalance"
        duration = Duration(c.rebalance_length, c.unit)
        return Stage(name, duration, self.rebalance, c.rebalance_rate, self.perceive, label)

    def reconstruct(self, batch: Batch, progress: float, context: None) -> Losses:
        """Stage 1, view-specific representation."""
        return self._reconstruction(batch, self.network.reconstruct(batch.views))

    def align(self, batch: Batch, progress: float, context: None) -> Losses:
        """Stage 2, multi-view alignment (Eq. 27)."""
        codes, x_hat = self.network(batch.views)
        fused = self.network.fuse(codes.z, batch.present)
        return self._contrast(batch, codes, fused) | self._reconstruction(batch, x_hat)

    def rebalance(self, batch: Batch, progress: float, labels: PotLabels | float) -> Losses:
        """Stage 3, imbalanced learning (Eqs. 11, 25); a number instead of labels is the mass of a batch."""
        c = self.config
        codes, x_hat = self.network(batch.views)
        fused = self.network.fuse(codes.z, batch.present)
        if isinstance(labels, PotLabels):
            t = labels.rows(batch.rows)
        else:
            t = self._pot_labels(self._log_mixed(batch, codes, fused).detach(), labels)
        learned = {"label": c.label_weight * self._label_loss(batch, codes, fused, t)}
        contrast = self._contrast(batch, codes, fused, t if c.rebalance else None)
        return learned | contrast | self._reconstruction(batch, x_hat)

    @torch.no_grad()
    def perceive(self, source: Source, generator: torch.Generator) -> None:
        """Start prototypes and prior of a round from an assignment of all samples."""
        if self.config.prior == "uniform":
            self.prior.fill_(1 / self.n_clusters)
            return
        h = infer_all(self, source).embedding
        label = torch.from_numpy(assignment.perceive(h.numpy(), self.n_clusters, draw_seed(generator)))
        member = functional.one_hot(label, self.n_clusters).to(h)  # (n, k)
        self.prior.copy_((member.sum(0) + 1) / (member.sum() + self.n_clusters))
        mean = (member.T @ h).unflatten(1, (-1, self.config.feature)).mean(1)  # over members and views
        self.network.classifier.prototypes.copy_(functional.normalize(mean))

    @torch.no_grad()
    def label(self, source: Source, generator: torch.Generator, mass: float) -> PotLabels:
        """POT labels of all samples; the consensus needs company, so batches are as mixed as in training."""
        self.eval()
        log_p = self.prior.new_empty(len(source), self.n_clusters)
        for batch in source.shuffled(generator):
            codes = self.network.encode(batch.views)
            fused = self.network.fuse(codes.z, batch.present)
            log_p[batch.rows] = self._log_mixed(batch, codes, fused)
        self.train()
        return self._pot_labels(log_p, mass)

    @torch.no_grad()
    def read_out(self, source: Source, generator: torch.Generator) -> None:
        """Make the final labels: from the classifier, or by K-means on the features as the paper does."""
        c = self.config
        if c.rounds == 0 and c.readout == "classifier":
            self.perceive(source, generator)
        inferred = infer_all(self, source)
        if c.readout == "kmeans":
            h = inferred.embedding
            label = torch.from_numpy(assignment.kmeans(h.numpy(), self.n_clusters, draw_seed(generator)))
            member = functional.one_hot(label, self.n_clusters).to(h)
            size = member.sum(0)[:, None]
            self.centers.copy_(torch.where(size > 0, member.T @ h / size.clamp_min(1), NOWHERE))
            inferred = infer_all(self, source)
        self.prior.copy_(self._transport(inferred.log_proba, 1.0).column_mass)

    def infer(self, batch: Batch) -> Inferred:
        """Features and probabilities of each sample, from the views it has."""
        codes = self.network.encode(batch.views)
        h = torch.stack(codes.h, dim=1)  # (n, V, d)
        if batch.present is not None:  # an absent view is represented by the mean of the others
            here = batch.present[:, :, None]
            h = torch.where(here, h, (h * here).sum(1, keepdim=True) / here.sum(1, keepdim=True))
        embedding = h.flatten(1)
        if self.config.readout == "classifier":
            return Inferred(embedding, self._log_mean(batch, codes))
        closeness = embedding @ self.centers.T - self.centers.square().sum(1) / 2  # -|h - c|^2 / 2 + const
        return Inferred(embedding, torch.log_softmax(self.config.classifier_scale * closeness, dim=1))

    def class_prior(self) -> Tensor:
        """Cluster sizes that the last transport of all samples gave."""
        return self.prior

    def view_weights(self) -> Tensor:
        """The consensus weights w."""
        return self.network.consensus.weights()

    def _reconstruction(self, batch: Batch, x_hat: list[Tensor]) -> Losses:
        """Eq. 26, over the views that are there."""
        views = rows_of(batch.present, len(x_hat))
        return {
            "reconstruction": sum_of(squared_error(batch.views[v][rows], x_hat[v][rows]) for v, rows in views)
        }

    def _contrast(self, batch: Batch, codes: Codes, fused: Fused, t: PotLabels | None = None) -> Losses:
        """Contrast of every view with the consensus at both levels; rebalanced where labels are given."""
        weight = self.view_weights().detach() * len(codes.z)  # their mean is 1
        views = list(pairs(codes, fused, batch.present))
        return {
            "feature": sum_of(weight[x.view] * self._feature_level(x, t) for x in views),
            "class": sum_of(weight[x.view] * self._class_level(x, t) for x in views),
        }

    def _feature_level(self, x: Pair, t: PotLabels | None) -> Tensor:
        """Eq. 19, or Eq. 20 with labels; the released code adds that codes and structure stay close."""
        c = self.config
        shift = None if t is None else c.logit_shift * t.log_frequency[t.hard[x.rows]]
        contrast = feature_contrast(x.h, x.u, x.g, temperature=c.temperature_feature, shift=shift)
        return contrast + c.structure_weight * squared_error(x.z, x.s) if c.structure_weight else contrast

    def _class_level(self, x: Pair, t: PotLabels | None) -> Tensor:
        """Eq. 28, or Eqs. 21-24 with labels."""
        c = self.config
        p = x.logits.softmax(1)
        if t is None:
            return class_contrast(p, x.consensus_logits.softmax(1), temperature=c.temperature_class)
        return c.class_weight * class_sensitive_contrast(
            p,
            t.hard[x.rows],
            t.soft[x.rows],
            t.log_frequency,
            temperature=c.temperature_class,
            sample_weight=c.sample_weight,
            prototype_weight=c.prototype_weight,
        )

    def _label_loss(self, batch: Batch, codes: Codes, fused: Fused, t: PotLabels) -> Tensor:
        """Eq. 11: the labels are learned by the mixed prediction, or by each of its parts."""
        shift = self.config.label_shift * t.log_frequency
        codes = codes._replace(logits=[x + shift for x in codes.logits])
        fused = fused._replace(logits=fused.logits + shift)
        if self.config.label_loss == "mixed":
            return soft_cross_entropy(self._log_mixed(batch, codes, fused), t.soft)
        views = rows_of(batch.present, len(codes.z))
        own = [soft_cross_entropy(codes.logits[v][rows].log_softmax(1), t.soft[rows]) for v, rows in views]
        return sum_of([soft_cross_entropy(fused.logits.log_softmax(1), t.soft), *own])

    def _log_mixed(self, batch: Batch, codes: Codes, fused: Fused) -> Tensor:
        """Log of the mixed prediction, P_hat = mix P + (1 - mix) / V sum_v P^v."""
        parts = torch.stack([fused.logits.log_softmax(1), self._log_mean(batch, codes)])
        share = parts.new_tensor([self.config.mix, 1 - self.config.mix])
        return torch.logsumexp(parts + share.log()[:, None, None], dim=0)

    def _log_mean(self, batch: Batch, codes: Codes) -> Tensor:
        """Log of the mean of the P^v over the views that a sample has."""
        log_p = torch.stack(codes.logits, dim=1).log_softmax(2)  # (n, V, k)
        here = torch.ones_like(log_p[:, :, 0]) if batch.present is None else batch.present.to(log_p)
        return torch.logsumexp(log_p + (here / here.sum(1, keepdim=True)).log()[:, :, None], dim=1)

    def _pot_labels(self, log_p: Tensor, mass: float) -> PotLabels:
        """Eqs. 13-15: clusters as large as the prior says, unless the predictions insist."""
        c = self.config
        if c.double_softmax:
            log_p = log_p.exp().log_softmax(1)
        return pot_labels(log_p, self._transport(log_p, mass))

    def _transport(self, log_p: Tensor, mass: float) -> Transport:
        c = self.config
        return solve(log_p, mass=mass, epsilon=c.epsilon, kl_weight=c.kl_weight, prior=self.prior)


def sum_of(terms: Iterable[Tensor]) -> Tensor:
    """The sum of scalar tensors."""
    return torch.stack(list(terms)).sum()
