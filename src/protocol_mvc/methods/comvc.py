"""CoMVC (CVPR 2021): SiMVC with a contrast that aligns the views, scaled by the smallest view weight."""

import torch
from torch import Tensor

from protocol_mvc.losses.contrastive import selective_contrast
from protocol_mvc.methods.ddc import DEEP, ClusterOutputs, ContrastiveDdcMethod, DdcConfig
from protocol_mvc.utils.config import NonNegativeFloat, PositiveFloat


class ComvcConfig(DdcConfig):
    """Hyper-parameters of CoMVC; the defaults are the published values."""

    contrast_weight: NonNegativeFloat = 0.1  #: delta; 20 for CCV and COIL
    temperature: PositiveFloat = 0.1  #: temperature of the contrast
    #: negatives of an anchor / rows of all views of a batch; None: all rows of the two views
    negative_samples_ratio: PositiveFloat | None = 0.25


PRESETS = {"default": ComvcConfig(), "deepmvc": ComvcConfig(**DEEP, negative_samples_ratio=None)}


class Comvc(ContrastiveDdcMethod):
    """Contrastive multi-view clustering."""

    def contrast(self, outputs: ClusterOutputs, generator: torch.Generator) -> Tensor:
        """Return the contrast with negatives from other current clusters, or with all samples."""
        c = self.config
        if c.negative_samples_ratio is None:
            return super().contrast(outputs, generator)
        labels = outputs.logits.argmax(1)
        options = {"temperature": c.temperature, "ratio": c.negative_samples_ratio}
        return selective_contrast(outputs.views.z, labels, **options, generator=generator)
