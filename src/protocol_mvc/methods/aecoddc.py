"""AECoDDC: autoencoders and contrast teach the codes first, then divergences cluster their mean too."""

from typing import ClassVar

import torch
from torch import nn

from protocol_mvc.data.batches import Batch
from protocol_mvc.losses.selective import mutual_contrast
from protocol_mvc.methods.base import reconstruction
from protocol_mvc.methods.ddc import DdcMethod, DeepDdcConfig
from protocol_mvc.nn.dense import Clustered, normed_layers
from protocol_mvc.nn.network import Codes
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.utils.config import NonNegativeFloat, NonNegativeInt, PositiveFloat


class AecoddcConfig(DeepDdcConfig):
    """Every choice of AECoDDC; the defaults are the published values."""

    reconstruct_length: NonNegativeInt = 50  #: epochs of reconstruction and contrast alone
    reconstruction_weight: NonNegativeFloat = 1.0
    contrast_weight: NonNegativeFloat = 0.1
    temperature: PositiveFloat = 0.1  #: of the contrast


PRESETS = {"default": AecoddcConfig()}


class Aecoddc(DdcMethod):
    """Autoencoders with contrast and DDC; the decoders see the codes of their own view."""

    scaling: ClassVar[str] = "range"  # a sigmoid ends the decoders

    def __init__(self, config: AecoddcConfig, dims: list[int], n_clusters: int) -> None:
        super().__init__(config, dims, n_clusters)
        widths = [config.latent, config.latent, *config.hidden[:0:-1]]
        self.decoders = nn.ModuleList(
            nn.Sequential(normed_layers([*widths, dim]), nn.Sigmoid()) for dim in dims
        )

    def run(self) -> list[Stage]:
        """Teach the codes, then cluster; Adam starts anew."""
        c = self.config
        return [Stage("reconstruct", c.reconstruct_length, self.teach, Optimizer(c.rate)), *super().run()]

    def teach(self, batch: Batch, progress: float, context: None) -> Losses:
        """Reconstruction and contrast alone."""
        return self.self_supervised(batch, self.network.encode(batch.views))

    def objective(self, batch: Batch, found: Clustered, generator: torch.Generator) -> Losses:
        """Divergences, beside reconstruction and contrast."""
        return super().objective(batch, found, generator) | self.self_supervised(batch, found.codes)

    def self_supervised(self, batch: Batch, codes: Codes) -> Losses:
        """What the codes learn without clusters."""
        c = self.config
        x_hat = [decode(z) for decode, z in zip(self.decoders, codes.z, strict=True)]
        return {
            "reconstruction": c.reconstruction_weight * reconstruction(batch, x_hat)["reconstruction"],
            "contrast": c.contrast_weight * mutual_contrast(codes.z, temperature=c.temperature),
        }
