"""AECoDDC (DeepMVC, CVPR 2023): autoencoders and contrast train the codes first, then DDC is added."""

from typing import ClassVar

import torch
from torch import nn

from protocol_mvc.data.batches import Batch
from protocol_mvc.losses.contrastive import mutual_contrast
from protocol_mvc.methods.base import reconstruction
from protocol_mvc.methods.ddc import ClusterOutputs, DdcMethod, DeepDdcConfig
from protocol_mvc.nn.layers import batch_norm_mlp
from protocol_mvc.nn.network import ViewOutputs
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.utils.config import NonNegativeFloat, NonNegativeInt, PositiveFloat


class AecoddcConfig(DeepDdcConfig):
    """Hyper-parameters of AECoDDC; the defaults are the published values."""

    n_epochs_reconstruct: NonNegativeInt = 50  #: epochs of reconstruction and contrast alone
    reconstruction_weight: NonNegativeFloat = 1.0  #: weight of the reconstruction
    contrast_weight: NonNegativeFloat = 0.1  #: weight of the contrast
    temperature: PositiveFloat = 0.1  #: temperature of the contrast


PRESETS = {"default": AecoddcConfig()}


class Aecoddc(DdcMethod):
    """Autoencoders, contrast and DDC; each decoder is applied to the code of its own view."""

    scaling: ClassVar[str] = "range"  # the decoders end with a sigmoid

    def __init__(self, config: AecoddcConfig, dims: list[int], n_clusters: int) -> None:
        super().__init__(config, dims, n_clusters)
        widths = [config.latent_dim, config.latent_dim, *config.hidden_dims[:0:-1]]
        self.decoders = nn.ModuleList(
            nn.Sequential(batch_norm_mlp([*widths, dim]), nn.Sigmoid()) for dim in dims
        )

    def run(self) -> list[Stage]:
        """Return the stages of one run: train the codes, then cluster."""
        c = self.config
        return [Stage("reconstruct", c.n_epochs_reconstruct, self.pretrain, Optimizer(c.lr)), *super().run()]

    def pretrain(self, batch: Batch, progress: float, context: None) -> Losses:
        """Return reconstruction and contrast of a batch."""
        return self.self_supervised(batch, self.network.encode(batch.views))

    def objective(self, batch: Batch, outputs: ClusterOutputs, generator: torch.Generator) -> Losses:
        """Return the terms of DDC, reconstruction and contrast."""
        return super().objective(batch, outputs, generator) | self.self_supervised(batch, outputs.views)

    def self_supervised(self, batch: Batch, outputs: ViewOutputs) -> Losses:
        """Return the terms without clusters: reconstruction and contrast of the codes."""
        c = self.config
        x_hat = [decode(z) for decode, z in zip(self.decoders, outputs.z, strict=True)]
        return {
            "reconstruction": c.reconstruction_weight * reconstruction(batch, x_hat)["reconstruction"],
            "contrast": c.contrast_weight * mutual_contrast(outputs.z, temperature=c.temperature),
        }
