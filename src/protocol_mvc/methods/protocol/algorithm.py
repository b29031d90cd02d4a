"""PROTOCOL (ICML 2025), Algorithm 1.

Letters as in the paper: Z^v latent codes, S^v structure-aware features, H^v projections, U consensus,
G attention between samples, P predictions, T pseudo-labels by partial optimal transport (POT), lambda
transported mass.
"""

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.methods.base import (
    DeepMethod,
    Inferred,
    concat_views,
    infer_all,
    log_mean,
    map_batches,
    reconstruction,
)
from protocol_mvc.methods.protocol.config import BatchTransport, ProtocolConfig
from protocol_mvc.methods.protocol.losses import (
    Outputs,
    contrastive_losses,
    gather_outputs,
    pseudo_label_loss,
)
from protocol_mvc.methods.protocol.pseudo_labels import (
    BatchPseudoLabels,
    InitializedPseudoLabels,
    PseudoLabels,
    transport,
)
from protocol_mvc.nn.layers import cluster_means, log_assignment
from protocol_mvc.nn.network import MultiViewNetwork
from protocol_mvc.partition.candidates import kmeans, principal_components
from protocol_mvc.partition.view_matching import group_information, shared_information
from protocol_mvc.training.stage import SKIP, Losses, Optimizer, Sampling, Signal, Stage
from protocol_mvc.transport import PotLabels
from protocol_mvc.utils.distributed import broadcast
from protocol_mvc.utils.random import draw_seed

MAX_ABS_VALUE = 1e15  # larger inputs overflow when squared; training then raises DivergenceError


class Protocol(DeepMethod):
    """The method of the paper; the config decides between its composition and the default one."""

    incomplete, divisible = True, True
    config: ProtocolConfig
    paired: Tensor
    centers: Tensor

    def __init__(self, config: ProtocolConfig, dims: list[int], n_clusters: int) -> None:
        """Build the networks.

        Args:
            config: hyper-parameters.
            dims: number of features of each view.
            n_clusters: number of clusters K.
        """
        super().__init__(config, dims, n_clusters)
        c, max_samples = config.network, config.schedule.max_samples
        if max_samples is not None and max_samples < n_clusters:
            raise ValueError(f"max_samples must be at least n_clusters ({n_clusters}), got {max_samples}")
        self.network = MultiViewNetwork(dims, n_clusters, **dict(c))
        self.register_buffer("paired", torch.tensor(False))  # whether the views show the same items
        self.register_buffer("centers", torch.empty(n_clusters, len(dims) * c.projection_dim))  # K-means on H

    def stages(self) -> list[Stage]:
        """Return the stages of Algorithm 1; paired views replace alignment by longer reconstruction."""
        c, paired = self.config.schedule, self.config.paired_views
        sampling = Sampling(max_steps=c.max_steps_per_epoch, max_samples=c.max_samples)
        repeated = sampling._replace(min_steps=c.min_steps_per_epoch)
        adam = Optimizer(c.lr_reconstruct)
        reconstruct = Stage("reconstruct", c.n_epochs_reconstruct, self.reconstruct, adam, repeated)
        align = Stage("align", c.n_epochs_align, self.align, Optimizer(c.lr_align), sampling)
        rounds = [self._rebalance_stage(number) for number in range(c.n_rounds)]
        if paired is None:
            return [reconstruct, align, *rounds, self.last_stage()]
        longer = reconstruct._replace(name="reconstruct paired", n_epochs=paired.n_epochs_reconstruct)
        return [
            reconstruct._replace(on_start=self.match_views),
            longer._replace(on_start=lambda *_: None if self.paired else SKIP),
            align._replace(on_start=lambda *_: SKIP if self.paired else None),
            *rounds,
            self.last_stage(),
        ]

    def _rebalance_stage(self, number: int) -> Stage:
        """Return one round of stage 3."""
        c = self.config.schedule
        sampling = Sampling(max_steps=c.max_steps_per_epoch_rebalance, max_samples=c.max_samples)
        name = f"rebalance {number + 1}" if c.n_rounds > 1 else "rebalance"
        stage = Stage(name, c.n_epochs_rebalance, self.rebalance, Optimizer(c.lr_rebalance), sampling)
        labels = self.pseudo_labels
        return stage._replace(
            on_start=partial(labels.start, number=number),
            on_epoch_start=partial(labels.on_epoch_start, number=number),
        )

    def reconstruct(self, batch: Batch, progress: float, context: None) -> Losses:
        """Stage 1, view-specific representation learning: L_rec (Eq. 26)."""
        return reconstruction(batch, self.network.reconstruct(batch.views))

    def align(self, batch: Batch, progress: float, context: None) -> Losses:
        """Stage 2, multi-view alignment: sum_v w_v (L_fea(H^v, U) + L_sem(P^v, P)) + L_rec (Eq. 27)."""
        out, x_hat = self(batch)
        contrast = contrastive_losses(self.config.losses, self.view_weights(), out)
        return contrast | reconstruction(batch, x_hat)

    def rebalance(self, batch: Batch, progress: float, context: PotLabels | float) -> Losses:
        """Stage 3, imbalanced learning with the pseudo-labels T (Eqs. 11-25)."""
        c = self.config.losses
        out, x_hat = self(batch)
        t = self.pseudo_labels.labels(out, context)
        loss = pseudo_label_loss(c, self.config.pseudo_labels.consensus_weight, out, t)
        contrast = contrastive_losses(c, self.view_weights(), out, t if c.rebalanced else None)
        if self.paired and self.config.paired_views:
            weight = self.config.paired_views.contrast_weight
            contrast = {name: weight * value for name, value in contrast.items()}
        return {"label": c.pseudo_label_weight * loss} | contrast | reconstruction(batch, x_hat)

    def forward(self, batch: Batch) -> tuple[Outputs, list[Tensor]]:
        """Return Z, H, P^v, S, U, G and P of the batch of all processes, and the reconstructions."""
        codes, x_hat = self.network(batch.views)
        batch, codes = gather_outputs(batch, codes)
        return Outputs(batch, codes, self.network.fuse(codes.z, batch.present)), x_hat

    @property
    def pseudo_labels(self) -> PseudoLabels:
        """The source of the pseudo-labels that the config asks for."""
        batch = isinstance(self.config.pseudo_labels, BatchTransport)
        return BatchPseudoLabels(self) if batch else InitializedPseudoLabels(self)

    @torch.no_grad()
    def match_views(self, source: Source, generator: torch.Generator) -> Signal | None:
        """Test whether the views show the same items; if so, skip the alignment and what precedes it.

        The raw data are compared, because learned features differ from run to run.
        """
        assert self.config.paired_views is not None
        options, seed = self.config.paired_views.matching, draw_seed(generator)
        rows, views = source.sample(options.max_samples, seed)
        if max(abs(x).max() for x in views) <= MAX_ABS_VALUE:
            mask = source.views.mask[rows]
            shared = shared_information(principal_components(views, mask, seed), mask, seed, options)
            shared = float(broadcast(torch.tensor(shared)))
            self.paired.fill_(shared > group_information(self.n_clusters))
        return SKIP if self.paired else None

    def latent_codes(self, source: Source) -> Tensor:
        """Return the centred unit Z^v of all samples side by side (n, V d); 0 for absent views."""
        encode = lambda batch: (torch.stack(self.network.encode(batch.views).z, dim=1),)
        (z,) = map_batches(self, source, encode)  # (n, V, latent_dim)
        present = torch.from_numpy(source.views.mask)[:, :, None]
        center = (z * present).sum(0) / present.sum(0).clamp_min(1)
        return functional.normalize((z - center) * present, dim=2).flatten(1)

    @torch.no_grad()
    def read_out(self, source: Source, generator: torch.Generator) -> None:
        """Prepare the final labels, of the classifier or of K-means on H, and estimate the class prior."""
        if self.config.schedule.n_rounds == 0:
            self.pseudo_labels.start(source, generator)
        if self.config.readout == "kmeans":
            h = infer_all(self, source).embedding
            labels = torch.from_numpy(kmeans(h.numpy(), self.n_clusters, draw_seed(generator)))
            self.centers.copy_(cluster_means(h, broadcast(labels), self.n_clusters))
        log_proba = infer_all(self, source, features=False).log_proba
        plan = transport(log_proba, 1.0, self.prior, self.config.pseudo_labels)
        self.prior.copy_(plan.column_mass)

    def infer(self, batch: Batch) -> Inferred:
        """Return H and the log-probabilities of each sample, from the views it has."""
        codes = self.network.encode(batch.views)
        embedding = concat_views(codes.h, batch.present)
        if self.config.readout == "classifier":
            return Inferred(embedding, log_mean(codes.logits, batch.present))
        scale = self.config.network.logit_scale
        return Inferred(embedding, log_assignment(embedding, self.centers, scale))

    def view_weights(self) -> Tensor:
        """Return the weights w_v of the consensus (V,)."""
        return self.network.consensus.weights()
