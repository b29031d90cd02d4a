"""PROTOCOL (ICML 2025), Algorithm 1.

Letters as in the paper: Z^v latent codes, S^v structure-aware features, H^v projections, U consensus,
G attention between samples, P predictions, T pseudo-labels by partial optimal transport (POT), lambda
transported mass.
"""

import math
from typing import Any, NamedTuple

import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.methods.base import DeepMethod, Inferred, concat_views, infer_all, log_mean, reconstruction
from protocol_mvc.methods.protocol.config import AttentionStructure, InitializedTransport, ProtocolConfig
from protocol_mvc.methods.protocol.losses import (
    Outputs,
    contrastive_losses,
    gather_outputs,
    pseudo_label_loss,
)
from protocol_mvc.methods.protocol.pseudo_labels import (
    PSEUDO_LABELS,
    PseudoLabels,
    calibrated_temperature,
    complete_views,
    transport,
)
from protocol_mvc.nn.layers import cluster_means, log_assignment
from protocol_mvc.nn.network import MeanConsensusNetwork, MultiViewNetwork, ViewOutputs
from protocol_mvc.partition.graphs import ViewSpace, compact, directed_graph, kmeans, modularity
from protocol_mvc.training.stage import Losses, Optimizer, Sampling, Stage
from protocol_mvc.transport import PotLabels
from protocol_mvc.utils.distributed import broadcast
from protocol_mvc.utils.random import draw_seed


class Context(NamedTuple):
    """What the steps of an epoch need.

    Attributes:
        source: the samples of the stage.
        generator: source of the random choice of neighbours, the same in all processes.
        neighbors: neighbours of every sample (n, m); None with attention.
        labels: what `PseudoLabels.labels` needs; None before stage 3.
    """

    source: Source
    generator: torch.Generator
    neighbors: Tensor | None
    labels: Any = None

    def draw_neighbors(self, rows: Tensor) -> Batch | None:
        """Return a random neighbour of each of the given samples."""
        if self.neighbors is None:
            return None
        n_neighbors = self.neighbors.shape[1]
        choice = torch.randint(n_neighbors, (len(self.source),), generator=self.generator)
        return self.source.take(self.neighbors.take(rows * n_neighbors + choice.index_select(0, rows)))


class Protocol(DeepMethod):
    """The method of the paper; the config decides between its composition and the default one.

    Attributes:
        centers: centres of K-means on H (K, V d), if the labels come from it.
        log_temperature: log of the number that divides the logits of the classifier.
        expected_accuracy: from the agreement of the candidate partitions; 0 if it is not known.
    """

    incomplete, divisible = True, True
    config: ProtocolConfig
    centers: Tensor
    log_temperature: Tensor
    expected_accuracy: Tensor

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
        self.network: MultiViewNetwork | MeanConsensusNetwork
        if isinstance(config.structure, AttentionStructure):
            structure = config.structure.model_dump(
                exclude={"kind", "base_width", "alignment_sharpness", "guidance"}
            )
            self.network = MultiViewNetwork(dims, n_clusters, **dict(c), **structure)
        else:
            self.network = MeanConsensusNetwork(dims, n_clusters, **dict(c))
        self.register_buffer("centers", torch.empty(n_clusters, len(dims) * c.projection_dim))
        self.register_buffer("log_temperature", torch.tensor(0.0))
        self.register_buffer("expected_accuracy", torch.tensor(0.0))

    def stages(self) -> list[Stage]:
        """Return the stages of Algorithm 1."""
        c, sampling = self.config.schedule, self._sampling()
        reconstruct = Stage(
            "reconstruct", c.n_epochs_reconstruct, self.reconstruct, Optimizer(c.lr_reconstruct), sampling
        )
        rebalance = Stage(
            "rebalance",
            c.n_epochs_rebalance,
            self.rebalance,
            self._optimizer(self.scaled_lr(c.lr_rebalance), scheduler=c.lr_scheduler),
            sampling,
        )._replace(on_start=self.start_rebalancing, on_epoch_start=self.label_samples)
        if self.config.structure.kind == "neighbors":
            rebalance = rebalance._replace(monitor=self.lost_modularity, eval_interval=self._warmup_epochs())
        return [
            *([reconstruct] if c.n_epochs_reconstruct else []),
            *self.alignment(),
            rebalance,
            self.last_stage()._replace(sampling=sampling),
        ]

    def _sampling(self) -> Sampling:
        """Return the samples that an epoch of a stage sees."""
        c = self.config.schedule
        return Sampling(c.min_steps_per_epoch, c.max_steps_per_epoch, c.max_samples)

    def _optimizer(self, lr: float, **options: Any) -> Optimizer:
        """Return Adam for the stages whose steps grow with the data."""
        c = self.config.schedule
        return Optimizer(lr, batch_size=c.n_samples_per_step if c.max_samples_per_step else None, **options)

    def alignment(self) -> list[Stage]:
        """Return the rounds of stage 2; their learning rates decay by a cosine."""
        c, structure, sampling = self.config.schedule, self.config.structure, self._sampling()
        if isinstance(structure, AttentionStructure):
            adam = Optimizer(self.scaled_lr(c.lr_align), scheduler=c.lr_scheduler)
            return [Stage("align", c.n_epochs_align, self.align, adam, sampling)]
        # a step trains the encoders of all views, so that more views need fewer steps
        n_epochs = min(c.n_epochs_align, max(2, round(2 * c.n_epochs_align / self.n_views)))
        rounds = []
        for number in range(structure.n_rounds):
            lr = c.lr_align * (1 + math.cos(math.pi * (number + 0.5) / structure.n_rounds)) / 2
            adam = self._optimizer(lr, reset="never" if number else "stage")
            stage = Stage(f"align {number + 1}", n_epochs, self.align, adam, sampling)
            find = self.find_neighbors if number else self.find_neighbors_in_data
            rounds.append(stage._replace(on_start=find, on_epoch_start=self.use_neighbors))
        return rounds

    def scaled_lr(self, lr: float) -> float:
        r"""Return the learning rate for the width of the attention, :math:`lr \min(1, w_{base} / w)`."""
        structure = self.config.structure
        if not isinstance(structure, AttentionStructure) or structure.base_width is None:
            return lr
        return lr * min(1.0, structure.base_width / (structure.latent_dim * self.n_views))

    def reconstruct(self, batch: Batch, progress: float, context: None) -> Losses:
        """Stage 1, view-specific representation learning: L_rec (Eq. 26)."""
        assert isinstance(self.network, MultiViewNetwork)
        return reconstruction(batch, self.network.reconstruct(batch.views))

    def align(self, batch: Batch, progress: float, context: Context | None) -> Losses:
        """Stage 2, multi-view alignment: sum_v w_v (L_fea(H^v, U) + L_sem(P^v, P)) + L_rec (Eq. 27)."""
        out, x_hat = self(batch, context)
        contrast = self.contrast(out)
        return contrast | (reconstruction(batch, x_hat) if x_hat else {})

    def rebalance(self, batch: Batch, progress: float, context: Context) -> Losses:
        """Stage 3, imbalanced learning with the pseudo-labels T (Eqs. 11-25)."""
        c = self.config.losses
        out, x_hat = self(batch, context)
        t = self.pseudo_labels.labels(out, context.labels)
        loss = pseudo_label_loss(c, self.config.pseudo_labels.consensus_weight, out, t)
        contrast = self.contrast(out, t)
        terms = {"label": c.pseudo_label_weight * loss} | contrast
        return terms | (reconstruction(batch, x_hat) if x_hat else {})

    def contrast(self, out: Outputs, t: PotLabels | None = None) -> Losses:
        """Return the contrastive losses, with pseudo-labels those of stage 3."""
        structure = self.config.structure
        attention = structure if isinstance(structure, AttentionStructure) else AttentionStructure()
        return contrastive_losses(self.config.losses, self.view_weights(), out, t, attention)

    def forward(self, batch: Batch, context: Context | None = None) -> tuple[Outputs, list[Tensor]]:
        """Return the outputs for the batch of all processes and its neighbours, and the reconstructions."""
        neighbors = None if context is None else context.draw_neighbors(batch.rows)
        if context is None or neighbors is None:
            codes, x_hat = self.network(batch.views)
            return self.fuse(batch, codes), x_hat
        assert isinstance(self.network, MeanConsensusNetwork)
        pairs = zip(batch.views, neighbors.views, strict=True)
        h = self.network.project([torch.cat(pair) for pair in pairs])  # one pass is faster than two
        own, other = (list(part) for part in zip(*(x.chunk(2) for x in h), strict=True))
        # logits are needed with pseudo-labels only, and those of the neighbours never
        labelled = context.labels is not None
        codes = self.network.view_outputs(own) if labelled else ViewOutputs(own, own, [])
        around = self.fuse(neighbors, ViewOutputs(other, other, []), classify=False)
        return self.fuse(batch, codes, classify=labelled)._replace(neighbors=around), []

    def fuse(self, batch: Batch, codes: ViewOutputs, *, classify: bool = True) -> Outputs:
        """Gather the codes of a batch from all processes, and add the consensus, with or without logits."""
        batch, codes = gather_outputs(batch, codes)
        if isinstance(self.network, MeanConsensusNetwork):
            return Outputs(batch, codes, self.network.fuse(codes.z, batch.present, classify=classify))
        return Outputs(batch, codes, self.network.fuse(codes.z, batch.present))

    @property
    def pseudo_labels(self) -> PseudoLabels:
        """The source of the pseudo-labels that the config asks for."""
        return PSEUDO_LABELS[self.config.pseudo_labels.kind](self)

    def find_neighbors_in_data(self, source: Source, generator: torch.Generator) -> Tensor:
        """Return the nearest neighbours (n, m) of all samples in the prepared data."""
        return self._neighbors(complete_views(source))

    def find_neighbors(self, source: Source, generator: torch.Generator) -> Tensor:
        """Return the nearest neighbours (n, m) of all samples in the learned features of all views."""
        return self._neighbors([infer_all(self, source).embedding.numpy()])

    def _neighbors(self, views: list[Any]) -> Tensor:
        assert self.config.structure.kind == "neighbors"
        k = self.config.structure.n_neighbors
        space = ViewSpace(views, k)
        return broadcast(torch.from_numpy(space.neighbor_table(k)))

    def use_neighbors(
        self, source: Source, generator: torch.Generator, progress: float, neighbors: Tensor
    ) -> Context:
        """Return the context of an epoch of stage 2 with neighbours (n, m)."""
        return Context(source, generator, neighbors)

    @torch.no_grad()
    def start_rebalancing(self, source: Source, generator: torch.Generator) -> Tensor:
        """Return the labels to start from (n, 1), and the neighbours (n, m) if the structure needs them."""
        labels = self.pseudo_labels.start(source, generator)
        if self.config.structure.kind == "attention":
            return labels[:, None]
        return torch.cat([labels[:, None], self.find_neighbors(source, generator)], dim=1)

    def label_samples(
        self, source: Source, generator: torch.Generator, progress: float, start: Tensor
    ) -> Context:
        """Return the pseudo-labels and the neighbours of an epoch of stage 3."""
        labels = self.pseudo_labels.on_epoch_start(source, generator, progress, start[:, 0])
        neighbors = start[:, 1:] if self.config.structure.kind == "neighbors" else None
        return Context(source, generator, neighbors, labels)

    def _warmup_epochs(self) -> int:
        """Return the number of epochs of stage 3 in which the starting partition is learned, at least 1."""
        pseudo_labels, n_epochs = self.config.pseudo_labels, self.config.schedule.n_epochs_rebalance
        if not isinstance(pseudo_labels, InitializedTransport):
            return 1
        return max(1, math.ceil(pseudo_labels.warmup_fraction * (n_epochs - 1)))

    @torch.no_grad()
    def lost_modularity(self, source: Source, generator: torch.Generator, start: Tensor | None) -> float:
        """Return 1 - modularity of the labels on the graph of the neighbours with which stage 3 started.

        It is computed after the warm-up, when the starting partition is learned, and later: pseudo-labels
        that lower the modularity are undone.
        """
        assert start is not None
        labels = infer_all(self, source, features=False).log_proba.argmax(1)
        graph = directed_graph(start[:, 1:].numpy(), start.shape[1])
        return 1 - modularity(csr_matrix(graph + graph.T), compact(labels.numpy()))

    @torch.no_grad()
    def read_out(self, source: Source, generator: torch.Generator) -> None:
        """Prepare the final labels, of the classifier or of K-means on H, and estimate the class prior."""
        if self.config.schedule.n_epochs_rebalance == 0:
            self.pseudo_labels.start(source, generator)
        if self.config.readout == "kmeans":
            h = infer_all(self, source).embedding
            labels = torch.from_numpy(kmeans(h.numpy(), self.n_clusters, draw_seed(generator)))
            self.centers.copy_(cluster_means(h, broadcast(labels), self.n_clusters))
        log_proba = infer_all(self, source, features=False).log_proba
        if self.expected_accuracy > 0:
            temperature = calibrated_temperature(log_proba, float(self.expected_accuracy))
            self.log_temperature.fill_(math.log(temperature))
        plan = transport(log_proba, 1.0, self.prior, self.config.pseudo_labels)
        self.prior.copy_(plan.column_mass)

    def infer(self, batch: Batch) -> Inferred:
        """Return H and the log-probabilities of each sample, from the views it has."""
        codes = self.network.encode(batch.views)
        embedding = concat_views(codes.h, batch.present)
        if self.config.readout == "kmeans":
            scale = self.config.network.logit_scale
            return Inferred(embedding, log_assignment(embedding, self.centers, scale))
        if isinstance(self.network, MeanConsensusNetwork):
            logits = self.network.fuse(codes.z, batch.present).logits
            return Inferred(embedding, (logits / self.log_temperature.exp()).log_softmax(1))
        return Inferred(embedding, log_mean(codes.logits, batch.present))

    def view_weights(self) -> Tensor:
        """Return the weights w_v of the consensus (V,)."""
        if isinstance(self.network, MultiViewNetwork):
            return self.network.consensus.weights()
        return super().view_weights()
