"""PROTOCOL: partial optimal transport perceives the imbalance, rebalanced contrast protects the minority."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.exceptions import DivergenceError
from protocol_mvc.methods.base import Inferred, concat_views, infer_all, log_mean, map_batches, reconstruction
from protocol_mvc.methods.protocol import losses as losses
from protocol_mvc.methods.protocol.config import ProtocolConfig
from protocol_mvc.nn.heads import cluster_means, log_assignment
from protocol_mvc.nn.network import MultiViewNetwork, Widths
from protocol_mvc.partition import codebook, consensus, view_matching
from protocol_mvc.training.stage import SKIP, STOP, Losses, Optimizer, Sampling, Signal, Stage
from protocol_mvc.transport import PotLabels, Transport, mass_schedule, pot_labels, solve
from protocol_mvc.utils.distributed import all_reduce_sum, broadcast, local_shard
from protocol_mvc.utils.runtime import draw_seed

Labels = PotLabels | Signal
LARGEST = 1e15  # numbers whose squares can be added up


class Protocol(nn.Module):
    """Algorithm 1."""

    incomplete, divisible, batch_size, scaling = True, True, 256, "auto"
    twins: Tensor
    prior: Tensor
    centers: Tensor

    def __init__(self, config: ProtocolConfig, dims: list[int], n_clusters: int) -> None:
        """Make the networks."""
        super().__init__()
        if config.most_rows is not None and config.most_rows < n_clusters:
            raise ValueError(f"most_rows must be at least n_clusters ({n_clusters}), got {config.most_rows}")
        self.config, self.n_clusters, self.n_views = config, n_clusters, len(dims)
        self.network = MultiViewNetwork(
            dims,
            n_clusters,
            Widths(config.hidden, config.latent, config.feature, config.feedforward, config.attention),
            dropout=config.dropout,
            scale=config.classifier_scale,
            classify_latent=config.classify == "latent",
        )
        self.register_buffer("twins", torch.tensor(False))  # whether the views show the same items
        self.register_buffer("prior", torch.empty(n_clusters))  # class frequencies perceived so far
        self.register_buffer("centers", torch.empty(n_clusters, len(dims) * config.feature))  # of K-means

    def stages(self) -> list[Stage]:
        """Algorithm 1; the last stage has rounds, each perceiving anew, and over when there is no news."""
        c = self.config
        repeated = Sampling(c.reconstruct_steps, c.most_steps, c.most_rows)
        once = Sampling(max_steps=c.most_steps, max_samples=c.most_rows)
        adam = Optimizer(c.reconstruct_rate)
        reconstruct = Stage("reconstruct", c.reconstruct_length, self.reconstruct, adam, repeated)
        align = Stage("align", c.align_length, self.align, Optimizer(c.align_rate), once)
        differ = lambda *_: None if self.aligned else SKIP
        match = lambda *_: SKIP if self.aligned else None
        return [
            reconstruct._replace(on_start=self.compare_views),
            reconstruct._replace(name="reconstruct twins", n_epochs=c.twins_length, on_start=match),
            align._replace(on_start=differ),
            *(self._round(number) for number in range(c.rounds)),
            Stage("read out", on_start=self.read_out),
        ]

    def _round(self, number: int) -> Stage:
        """Stage 3; the mass grows in the first round (Eq. 16) and stays at its end in the following ones."""
        c = self.config

        def label(
            source: Source, generator: torch.Generator, progress: float, perceived: Tensor | None
        ) -> Any:
            if perceived is not None and progress < c.trust:
                return self._trusted(perceived)
            mass = mass_schedule(progress, c.mass_start, c.mass_end) if number == 0 else c.mass_end
            may_end = c.early_end and progress > 0
            return self.label(source, generator, mass, may_end) if c.label_scope == "all" else mass

        name = f"rebalance {number + 1}" if c.rounds > 1 else "rebalance"
        sampling = Sampling(max_steps=c.most_rebalance_steps, max_samples=c.most_rows)
        stage = Stage(name, c.rebalance_length, self.rebalance, Optimizer(c.rebalance_rate), sampling)
        return stage._replace(on_start=partial(self.perceive, number=number), on_epoch_start=label)

    def reconstruct(self, batch: Batch, progress: float, context: None) -> Losses:
        """Stage 1, view-specific representation."""
        return reconstruction(batch, self.network.reconstruct(batch.views))

    def align(self, batch: Batch, progress: float, context: None) -> Losses:
        """Stage 2, multi-view alignment (Eq. 27)."""
        codes, x_hat = self.network(batch.views)
        whole, codes = losses.all_gather_outputs(batch, codes)
        fused = self.network.fuse(codes.z, whole.present)
        contrast = losses.contrast(self.config, self.view_weights(), whole, codes, fused)
        return contrast | reconstruction(batch, x_hat)

    def rebalance(self, batch: Batch, progress: float, labels: PotLabels | float) -> Losses:
        """Stage 3, imbalanced learning (Eqs. 11, 25); a number instead of labels is the mass of a batch."""
        c = self.config
        codes, x_hat = self.network(batch.views)
        whole, codes = losses.all_gather_outputs(batch, codes)
        fused = self.network.fuse(codes.z, whole.present)
        if isinstance(labels, PotLabels):
            t = labels.rows(whole.rows)
        else:
            t = self._pot_labels(losses.log_mixed(c.mix, whole, codes, fused).detach(), labels)
        learned = {"label": c.label_weight * losses.label_loss(c, whole, codes, fused, t)}
        contrast = losses.contrast(c, self.view_weights(), whole, codes, fused, t if c.rebalance else None)
        if self.twins:
            contrast = {name: c.twins_weight * value for name, value in contrast.items()}
        return learned | contrast | reconstruction(batch, x_hat)

    @torch.no_grad()
    def compare_views(self, source: Source, generator: torch.Generator) -> Signal | None:
        """Whether the views are to be aligned; not if they show the same items, which are aligned by nature.

        Contrast between items could then only drive the members of a group apart. The data themselves are
        compared: what has been learned of them differs from run to run.
        """
        seed = draw_seed(generator)
        rows, views = source.sample(view_matching.MAX_SAMPLES, seed)
        if max(np.abs(x).max() for x in views) > LARGEST:  # the training will say so
            return None if self.aligned else SKIP
        mask = source.views.mask[rows]
        shared = view_matching.shared_information(
            consensus.principal_components(views, mask, seed), mask, seed
        )
        shared = float(broadcast(torch.tensor(shared)))
        self.twins.fill_(shared > view_matching.group_information(self.n_clusters))
        return None if self.aligned else SKIP

    @property
    def aligned(self) -> bool:
        """Whether the views are reconstructed and aligned, or reconstructed for longer instead."""
        return self.config.align_twins or not bool(self.twins)

    @torch.no_grad()
    def perceive(self, source: Source, generator: torch.Generator, number: int = 0) -> Tensor | Signal | None:
        """Start prototypes and prior of a round from an assignment of all samples, and return it.

        A later round is left out if its assignment is what the classifier says already.
        """
        if self.config.prior == "uniform":
            self.prior.fill_(1 / self.n_clusters)
            return None
        h, log_proba = infer_all(self, source)
        x = (h if number > 0 or self.aligned else self._codes(source)).numpy()  # H, once it is trained
        seed = draw_seed(generator)
        if self.twins:
            found = consensus.consensus_partition(x, self.n_clusters, seed, self.n_views)
        else:
            found = self._explain_views(source, x, seed, log_proba.argmax(1).numpy() if number else None)
        label = broadcast(torch.from_numpy(found))
        if number > 0 and self._known(label, log_proba.argmax(1)):
            return SKIP
        member = functional.one_hot(label, self.n_clusters).to(h)  # (n, k)
        self.prior.copy_((member.sum(0) + 1) / (member.sum() + self.n_clusters))
        mean = (member.T @ h).unflatten(1, (-1, self.config.feature)).mean(1)  # over members and views
        self.network.classifier.prototypes.copy_(functional.normalize(mean))
        return label

    def _trusted(self, label: Tensor) -> PotLabels:
        """The perceived assignment as labels to learn; the prior is still the one that came with it."""
        label = label.to(self.prior.device)
        member = functional.one_hot(label, self.n_clusters).to(self.prior)
        return PotLabels(member, label, self.prior.log())

    def _explain_views(
        self, source: Source, x: consensus.Features, seed: int, said: consensus.Labels | None = None
    ) -> consensus.Labels:
        """The assignment that explains best what views of different items have in common."""
        rows, views = source.sample(codebook.MAX_SAMPLES, seed)
        every = (np.split(x, self.n_views, axis=1), views, source.views.mask, rows, self.n_clusters, seed)
        known = said if source.is_subsample else None  # what was learned of other samples
        return codebook.select_partition(*every, plain=said is None or source.is_subsample, known=known)

    def _codes(self, source: Source) -> Tensor:
        """The Z^v (n, V latent) of all samples, centred and of unit norm; an absent view is all zeros."""
        codes = lambda batch: (torch.stack(self.network.encode(batch.views).z, dim=1),)
        (z,) = map_batches(self, source, codes)  # (n, V, latent)
        here = torch.from_numpy(source.views.mask)[:, :, None]
        center = (z * here).sum(0) / here.sum(0).clamp_min(1)
        return functional.normalize((z - center) * here, dim=2).flatten(1)

    def _known(self, label: Tensor, said: Tensor) -> bool:
        """Whether an assignment is what the classifier says already, so that there is nothing to learn."""
        same = consensus.same_partition(label.cpu().numpy(), said.cpu().numpy(), self.n_clusters)
        return bool(broadcast(torch.tensor(same)))

    @torch.no_grad()
    def label(self, source: Source, generator: torch.Generator, mass: float, may_end: bool = False) -> Labels:
        """POT labels of all samples; False to end a round, if those of the whole mass are known already."""
        self.eval()
        log_p = self.prior.new_empty(len(source), self.n_clusters)
        said = torch.empty(len(source), dtype=torch.int64)
        for batch in source.shuffled(generator):  # the consensus needs company as mixed as in training
            whole, codes = losses.all_gather_outputs(batch, self.network.encode(batch.views))
            fused = self.network.fuse(codes.z, whole.present)
            log_p[whole.rows] = losses.log_mixed(self.config.mix, whole, codes, fused)
            said[whole.rows] = log_mean(codes.logits, whole.present).argmax(1).cpu()
        self.train()
        if may_end and self._known(self._pot_labels(log_p, self.config.mass_end).hard, said):
            return STOP
        return self._pot_labels(log_p, mass)

    @torch.no_grad()
    def read_out(self, source: Source, generator: torch.Generator) -> None:
        """Make the final labels: from the classifier, or by K-means on the features as the paper does."""
        c = self.config
        if c.rounds == 0:
            self.perceive(source, generator)
        if c.readout == "kmeans":
            h = infer_all(self, source).embedding
            found = consensus.kmeans(h.numpy(), self.n_clusters, draw_seed(generator))
            self.centers.copy_(cluster_means(h, broadcast(torch.from_numpy(found)), self.n_clusters))
        log_proba = infer_all(self, source, features=False).log_proba
        self.prior.copy_(self._transport(log_proba, 1.0).column_mass)

    def infer(self, batch: Batch) -> Inferred:
        """Features and probabilities of each sample, from the views it has."""
        codes = self.network.encode(batch.views)
        embedding = concat_views(codes.h, batch.present)
        if self.config.readout == "classifier":
            return Inferred(embedding, log_mean(codes.logits, batch.present))
        return Inferred(embedding, log_assignment(embedding, self.centers, self.config.classifier_scale))

    def class_prior(self) -> Tensor:
        """Cluster sizes that the last transport of all samples gave."""
        return self.prior

    def view_weights(self) -> Tensor:
        """The consensus weights w."""
        return self.network.consensus.weights()

    def _pot_labels(self, log_p: Tensor, mass: float) -> PotLabels:
        """Eqs. 13-15: clusters as large as the prior says, unless the predictions insist."""
        c = self.config
        if not log_p.isfinite().all():
            raise DivergenceError("the predictions became other than finite numbers")
        if c.double_softmax:
            log_p = log_p.exp().log_softmax(1)
        return pot_labels(log_p, self._transport(log_p, mass))

    def _transport(self, log_p: Tensor, mass: float) -> Transport:
        """Of several processes, each passes over its share of the rows."""
        c, prior = self.config, self.prior
        return solve(
            local_shard(log_p),
            mass=mass,
            epsilon=c.epsilon,
            prior_strength=c.kl_weight,
            prior=prior,
            all_reduce=all_reduce_sum,
        )
