"""DSIMVC: missing views are filled in, and filled-in samples count only as far as they do no harm."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.pairwise import spectral_contrast
from protocol_mvc.methods import base
from protocol_mvc.methods.base import sum_of
from protocol_mvc.methods.imputation import impute_from_donors, nearest_donors
from protocol_mvc.nn.autoencoder import mlp
from protocol_mvc.nn.network import CodeNetwork, Codes, SharedHeads
from protocol_mvc.training.stage import SKIP, Losses, Optimizer, Sampling, Signal, Stage
from protocol_mvc.utils.config import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt


class DsimvcConfig(base.AutoencoderConfig):
    """Every choice of DSIMVC; the defaults are the published values."""

    reconstruct_length: NonNegativeInt = 100  #: epochs
    helper_reconstruct_length: NonNegativeInt = 200  #: epochs of the network that finds neighbours
    helper_contrast_length: NonNegativeInt = 100
    iterations: NonNegativeInt = 200  #: steps of the main training
    temperature: PositiveFloat = 1.0  #: of the contrast of labels
    balance_weight: NonNegativeFloat = 1.0  #: of the wish for clusters of one size
    weigher: PositiveInt = 100  #: hidden layer of the network that weighs samples
    virtual_rate: PositiveFloat = 1e-3  #: of the step that is only tried
    neighbours: PositiveInt = 3  #: samples that a missing view is filled in from
    rescale_incomplete: bool = False  #: features of filled-in samples count as others do, not 1 / n of it
    dynamic_imputation: bool = False  #: neighbours by the present features, found anew in every step


PRESETS = {"default": DsimvcConfig()}


class Dsimvc(base.LabelMethod):
    """Deep safe incomplete multi-view clustering."""

    incomplete = True

    def __init__(self, config: DsimvcConfig, dims: list[int], n_clusters: int) -> None:
        between = (config.latent,)
        super().__init__(config, dims, n_clusters, between=between, unit=False)
        widths = (config.hidden, config.latent, config.feature)
        self.helper = SharedHeads(dims, n_clusters, widths, between=between)  # finds neighbours
        self.weigher = nn.Sequential(mlp([n_clusters, config.weigher, 1]), nn.Sigmoid())  # weighs samples

    def forward(self, views: list[Tensor]) -> Codes:
        """Features and logits, as a function of the weights."""
        return self.network.encode(views)

    def stages(self) -> list[Stage]:
        """Reconstruct, find neighbours if there are gaps, and train on complete and filled-in samples."""
        c = self.config
        adam, kept = Optimizer(c.rate), Optimizer(c.rate, reset="never")
        skip = lambda source, generator: SKIP if source.views.is_complete else None
        helper = Stage("helper reconstruct", c.helper_reconstruct_length, self.help_reconstruct, adam)
        contrast = Stage("helper contrast", c.helper_contrast_length, self.help_agree, kept)
        safe = Stage("safe", c.iterations, self.safe, adam, Sampling(max_steps=1))
        return [
            self.first_stage()._replace(on_start=_check),
            helper._replace(on_start=skip),
            contrast._replace(on_start=skip, on_epoch_start=self.complete),
            safe._replace(on_start=self.find_donors, on_epoch_start=self.draw),
            self.last_stage(),
        ]

    def help_reconstruct(self, batch: Batch, progress: float, context: None) -> Losses:
        """The autoencoders of the helper."""
        return base.reconstruction(batch, self.helper.reconstruct(batch.views))

    def complete(self, source: Source, generator: torch.Generator, *_: Any) -> Iterator[Batch]:
        """Samples that have all views."""
        return source.cycle(_is_complete(source).nonzero()[:, 0], generator)

    def help_agree(self, batch: Batch, progress: float, complete: Iterator[Batch]) -> Losses:
        """The views of complete samples agree, for the helper."""
        return self._agree(self.helper.encode(next(complete).views))

    def _agree(self, codes: Codes, weight: Tensor | None = None) -> Losses:
        """Spectral contrast of the features, of each sample by its weight, and agreement of the labels."""
        c, n = self.config, len(codes.z[0])
        parts = [spectral_contrast(a, b) for a, b in combinations(codes.h, 2)]
        if weight is not None:
            share = weight / weight.sum().clamp_min(torch.finfo(weight.dtype).tiny)
            parts = [share * part * (n if c.rescale_incomplete else 1) for part in parts]
        p, chosen = [x.softmax(1) for x in codes.logits], (c.temperature, c.balance_weight)
        label = base.label_agreement(p, *chosen, own_negatives=True)
        return {"feature": sum_of(x.sum() for x in parts)} | label

    def find_donors(self, source: Source, generator: torch.Generator) -> Tensor | Signal | None:
        """Who gives each missing view; nothing where all are there, and no training of a single view."""
        if source.views.is_complete:
            return None if self.n_views > 1 else SKIP
        return self._donors(source, self.helper)

    def _donors(self, source: Source, network: CodeNetwork) -> Tensor:
        h = base.map_batches(
            self, source, lambda batch: map(functional.normalize, network.encode(batch.views).h)
        )
        return nearest_donors(h, torch.from_numpy(source.views.mask), self.config.neighbours)

    def draw(
        self, source: Source, generator: torch.Generator, progress: float, donors: Tensor | None
    ) -> tuple[Batch, Batch | None]:
        """Complete samples and filled-in ones for one step."""
        complete = next(self.complete(source, generator))
        if donors is None:
            return complete, None
        if self.config.dynamic_imputation:
            donors = self._donors(source, self.network)
        incomplete = next(source.cycle((~_is_complete(source)).nonzero()[:, 0], generator))
        return complete, impute_from_donors(source, incomplete, donors)

    def safe(self, batch: Batch, progress: float, context: tuple[Batch, Batch | None]) -> Losses:
        """The complete samples, the filled-in ones by their weights, and how good these weights are."""
        complete, filled_in = context
        losses = self._agree(self(complete.views))
        if filled_in is None:
            return losses
        codes = self(filled_in.views)
        weight = self.weigher(torch.stack([x.softmax(1) for x in codes.logits]).mean(0))[:, 0]
        tried = sum_of([*losses.values(), *self._agree(codes, weight).values()])
        others = {f"filled {name}": x for name, x in self._agree(codes, weight.detach()).items()}
        return losses | others | {"weights": self._judged(tried, complete)}

    def _judged(self, tried: Tensor, complete: Batch) -> Tensor:
        """The loss of complete samples after a step along a loss; only the weigher gets its gradient."""
        names, weights = zip(*self.network.named_parameters(prefix="network"), strict=True)
        slopes = torch.autograd.grad(tried, weights, create_graph=True, allow_unused=True)
        rate, used = self.config.virtual_rate, zip(names, weights, slopes, strict=True)
        moved = {name: x.detach() - rate * slope for name, x, slope in used if slope is not None}
        after = sum_of(self._agree(functional_call(self, moved, (complete.views,))).values())
        own = list(self.weigher.parameters())
        slopes = torch.autograd.grad(after, own, retain_graph=True)
        pull = sum_of((x * slope).sum() for x, slope in zip(own, slopes, strict=True))
        return pull + (after - pull).detach()  # the value is that of the loss, the slope is its own


def _is_complete(source: Source) -> Tensor:
    return torch.from_numpy(source.views.mask).all(1)


def _check(source: Source, generator: torch.Generator) -> None:
    if not _is_complete(source).any():
        raise ValueError("DSIMVC learns from samples that have all views, but there is none: use PROTOCOL.")
