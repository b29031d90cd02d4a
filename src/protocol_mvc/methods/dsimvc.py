"""DSIMVC (ICML 2022): missing views are imputed, and a network learns how much imputed samples count."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.contrastive import spectral_contrast
from protocol_mvc.methods.autoencoder import (
    AutoencoderConfig,
    LabelMethod,
    SharedHeadsNetwork,
    label_agreement,
)
from protocol_mvc.methods.base import map_batches, reconstruction, sum_of
from protocol_mvc.nn.layers import mlp
from protocol_mvc.nn.network import ViewOutputs
from protocol_mvc.training.stage import SKIP, Losses, Optimizer, Sampling, Signal, Stage
from protocol_mvc.utils.config import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

NO_DONOR = -1
CHUNK = 1024  # rows compared at once


class DsimvcConfig(AutoencoderConfig):
    """Hyper-parameters of DSIMVC; the defaults are the published values."""

    n_epochs_reconstruct: NonNegativeInt = 100  #: epochs of reconstruction
    n_epochs_imputer_reconstruct: NonNegativeInt = 200  #: the same of the network that finds donors
    n_epochs_imputer_contrast: NonNegativeInt = 100  #: epochs of contrast of that network
    n_steps: NonNegativeInt = 200  #: steps of the main training
    temperature: PositiveFloat = 1.0  #: temperature of the contrast of labels
    cluster_entropy_weight: NonNegativeFloat = 1.0  #: weight of the term that favours clusters of equal size
    weight_net_dim: PositiveInt = 100  #: hidden layer of the network that weighs imputed samples
    inner_lr: PositiveFloat = 1e-3  #: learning rate of the inner step of the bilevel optimization
    n_neighbors: PositiveInt = 3  #: samples from which a missing view is imputed


PRESETS = {"default": DsimvcConfig()}


class Dsimvc(LabelMethod):
    """Deep safe incomplete multi-view clustering."""

    incomplete = True

    def __init__(self, config: DsimvcConfig, dims: list[int], n_clusters: int) -> None:
        hidden = (config.latent_dim,)
        super().__init__(config, dims, n_clusters, head_hidden_dims=hidden, normalize=False)
        self.imputer = SharedHeadsNetwork(config, dims, n_clusters, head_hidden_dims=hidden)
        self.weight_net = nn.Sequential(mlp([n_clusters, config.weight_net_dim, 1]), nn.Sigmoid())

    def forward(self, views: list[Tensor]) -> ViewOutputs:
        """Return the outputs of each view; `functional_call` needs this to replace the weights."""
        return self.network.encode(views)

    def stages(self) -> list[Stage]:
        """Return the stages: reconstruct, train the imputer if views are missing, and the main training."""
        c = self.config
        adam, continued = Optimizer(c.lr), Optimizer(c.lr, reset="never")
        skip = lambda source, generator: SKIP if source.views.is_complete else None
        error = lambda batch, *_: reconstruction(batch, self.imputer.reconstruct(batch.views))
        impute = Stage("imputer reconstruct", c.n_epochs_imputer_reconstruct, error, adam)
        contrast = Stage("imputer contrast", c.n_epochs_imputer_contrast, self.imputer_contrast, continued)
        safe = Stage("safe", c.n_steps, self.safe, adam, Sampling(max_steps=1))
        return [
            self.reconstruction_stage()._replace(on_start=_require_complete_samples),
            impute._replace(on_start=skip),
            contrast._replace(on_start=skip, on_epoch_start=self.complete_batches),
            safe._replace(on_start=self.find_donors, on_epoch_start=self.draw),
            self.last_stage(),
        ]

    def complete_batches(self, source: Source, generator: torch.Generator, *_: Any) -> Iterator[Batch]:
        """Return endless batches of samples that have all views."""
        return source.cycle(torch.from_numpy(source.views.mask.all(1)).nonzero()[:, 0], generator)

    def imputer_contrast(self, batch: Batch, progress: float, complete: Iterator[Batch]) -> Losses:
        """Return the agreement of the imputer's views on complete samples."""
        return self.agreement(self.imputer.encode(next(complete).views))

    def agreement(self, outputs: ViewOutputs, weight: Tensor | None = None) -> Losses:
        """Return the spectral contrast of features and the agreement of labels between all pairs of views.

        Args:
            outputs: outputs of each view.
            weight: weight (n,) of each sample in the contrast; their sum is scaled to one, as in the released
                code, so that this contrast is 1 / n of that without weights.
        """
        c = self.config
        terms = [spectral_contrast(a, b) for a, b in combinations(outputs.h, 2)]
        if weight is not None:
            share = weight / weight.sum().clamp_min(torch.finfo(weight.dtype).tiny)
            terms = [share * term for term in terms]
        p = [x.softmax(1) for x in outputs.logits]
        labels = label_agreement(p, c.temperature, c.cluster_entropy_weight, own_negatives=True)
        return {"feature": sum_of(x.sum() for x in terms)} | labels

    def find_donors(self, source: Source, generator: torch.Generator) -> Tensor | Signal | None:
        """Return the donors of missing views; None if there are none, SKIP if there is a single view."""
        if source.views.is_complete:
            return None if self.n_views > 1 else SKIP
        features = map_batches(
            self, source, lambda batch: map(functional.normalize, self.imputer.encode(batch.views).h)
        )
        return nearest_donors(features, torch.from_numpy(source.views.mask), self.config.n_neighbors)

    def draw(
        self, source: Source, generator: torch.Generator, progress: float, donors: Tensor | None
    ) -> tuple[Batch, Batch | None]:
        """Return a batch of complete samples, and one of imputed samples if views are missing."""
        complete = next(self.complete_batches(source, generator))
        if donors is None:
            return complete, None
        rows = torch.from_numpy(~source.views.mask.all(1)).nonzero()[:, 0]
        incomplete = next(source.cycle(rows, generator))
        return complete, impute_from_donors(source, incomplete, donors)

    def safe(self, batch: Batch, progress: float, context: tuple[Batch, Batch | None]) -> Losses:
        """Return the losses of complete and of weighted imputed samples, and the loss of the weights."""
        complete, imputed = context
        losses = self.agreement(self(complete.views))
        if imputed is None:
            return losses
        outputs = self(imputed.views)
        weight = self.weight_net(torch.stack([x.softmax(1) for x in outputs.logits]).mean(0))[:, 0]
        inner = sum_of([*losses.values(), *self.agreement(outputs, weight).values()])
        weighted = {f"imputed {name}": x for name, x in self.agreement(outputs, weight.detach()).items()}
        return losses | weighted | {"weights": self._outer_loss(inner, complete)}

    def _outer_loss(self, inner: Tensor, complete: Batch) -> Tensor:
        """Return the loss of complete samples after one gradient step on the inner loss.

        Only the weight network receives its gradient.
        """
        names, weights = zip(*self.network.named_parameters(prefix="network"), strict=True)
        slopes = torch.autograd.grad(inner, weights, create_graph=True, allow_unused=True)
        lr, used = self.config.inner_lr, zip(names, weights, slopes, strict=True)
        stepped = {name: x.detach() - lr * slope for name, x, slope in used if slope is not None}
        loss = sum_of(self.agreement(functional_call(self, stepped, (complete.views,))).values())
        parameters = list(self.weight_net.parameters())
        slopes = torch.autograd.grad(loss, parameters, retain_graph=True)
        linear = sum_of((x * slope).sum() for x, slope in zip(parameters, slopes, strict=True))
        return linear + (loss - linear).detach()  # value of the loss, gradient of the linear term


def nearest_donors(features: list[Tensor], mask: Tensor, n_neighbors: int) -> Tensor:
    """Return the samples from which each missing view is imputed.

    A sample that lacks a view gets the `n_neighbors` most similar samples in the first view that it has, and
    the most similar one in each further view that it has, among the samples that have both views.

    Args:
        features: features (n, d) of each view, compared by their inner products.
        mask: (n, V), True where the sample has the view.
        n_neighbors: donors by the first view.

    Returns:
        Row numbers (n, V, n_neighbors + V - 2), filled up with `NO_DONOR`.
    """
    n, n_views = mask.shape
    donors = torch.full((n, n_views, n_neighbors + max(n_views - 2, 0)), NO_DONOR)
    rank = mask.cumsum(1) - 1  # number of the view among those that the sample has
    for missing in range(n_views):
        for present in range(n_views):
            candidates = (mask[:, missing] & mask[:, present]).nonzero()[:, 0]
            rows = (~mask[:, missing] & mask[:, present]).nonzero()[:, 0]
            if len(candidates) == 0 or len(rows) == 0:
                continue
            x, count = features[present], min(n_neighbors, len(candidates))
            nearest = [(x[part] @ x[candidates].T).topk(count, dim=1).indices for part in rows.split(CHUNK)]
            found = candidates[torch.cat(nearest)]
            first = rank[rows, present] == 0
            donors[rows[first], missing, : found.shape[1]] = found[first]
            donors[rows[~first], missing, n_neighbors - 1 + rank[rows[~first], present]] = found[~first, 0]
    return donors


def impute_from_donors(source: Source, batch: Batch, donors: Tensor) -> Batch:
    """Return the batch with missing views replaced by the mean of their donors (n, V, m)."""
    views = []
    for v, x in enumerate(batch.views):
        own = donors[batch.rows, v]
        exists = (own != NO_DONOR).to(x)[:, :, None]
        values = source.take(own.clamp_min(0).flatten()).views[v].unflatten(0, own.shape)
        mean = (values * exists).sum(1) / exists.sum(1).clamp_min(1)
        views.append(x if batch.present is None else torch.where(batch.present[:, [v]], x, mean))
    return Batch(views, batch.rows, None)


def _require_complete_samples(source: Source, generator: torch.Generator) -> None:
    if not source.views.mask.all(1).any():
        raise ValueError("DSIMVC needs some samples that have all views, but there are none: use PROTOCOL.")
