"""SiMVC and CoMVC (CVPR 2021, one paper): views are fused by trainable weights and clustered by DDC."""

import torch
from torch import Tensor

from protocol_mvc.losses.contrastive import selective_contrast
from protocol_mvc.methods.ddc import DEEP, ClusterOutputs, ContrastiveDdcMethod, DdcConfig, DdcMethod
from protocol_mvc.utils.config import NonNegativeFloat, PositiveFloat


class SimvcConfig(DdcConfig):
    """Hyper-parameters of SiMVC; the defaults are the published values."""


class ComvcConfig(DdcConfig):
    """Hyper-parameters of CoMVC; the defaults are the published values."""

    contrast_weight: NonNegativeFloat = 0.1  #: delta; 20 for CCV and COIL
    temperature: PositiveFloat = 0.1  #: temperature of the contrast
    #: negatives of an anchor / rows of all views of a batch; None: all rows of the two views
    negative_samples_ratio: PositiveFloat | None = 0.25


SIMVC_PRESETS = {"default": SimvcConfig(), "deepmvc": SimvcConfig(**DEEP)}
COMVC_PRESETS = {"default": ComvcConfig(), "deepmvc": ComvcConfig(**DEEP, negative_samples_ratio=None)}


class Simvc(DdcMethod):
    r"""Simple multi-view clustering: the loss is ddc1 + ddc2 + ddc3 of the fused \sum_v w_v z^v."""


class Comvc(ContrastiveDdcMethod):
    """Contrastive multi-view clustering: SiMVC with a contrast that aligns the views."""

    def contrast(self, outputs: ClusterOutputs, generator: torch.Generator) -> Tensor:
        """Return the contrast with negatives from other current clusters, or with all samples."""
        c = self.config
        if c.negative_samples_ratio is None:
            return super().contrast(outputs, generator)
        labels = outputs.logits.argmax(1)
        options = {"temperature": c.temperature, "ratio": c.negative_samples_ratio}
        return selective_contrast(outputs.views.z, labels, **options, generator=generator)
