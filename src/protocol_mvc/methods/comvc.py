"""CoMVC: SiMVC, and contrast that aligns the views as far as the weights say that this is wanted."""

import torch
from torch import Tensor

from protocol_mvc.losses.selective import selective_contrast
from protocol_mvc.methods.ddc import DEEP, AlignedMethod, DdcConfig
from protocol_mvc.nn.dense import Clustered
from protocol_mvc.utils.config import NonNegativeFloat, PositiveFloat


class ComvcConfig(DdcConfig):
    """Every choice of CoMVC; the defaults are the published values."""

    contrast_weight: NonNegativeFloat = 0.1  #: delta; 20 for CCV and COIL
    temperature: PositiveFloat = 0.1
    #: negatives of an anchor as a share of all rows of a batch; None takes all rows of the two views
    negatives: PositiveFloat | None = 0.25


PRESETS = {"default": ComvcConfig(), "deepmvc": ComvcConfig(**DEEP, negatives=None)}


class Comvc(AlignedMethod):
    """Contrastive multi-view clustering."""

    def contrast(self, found: Clustered, generator: torch.Generator) -> Tensor:
        """Views of a sample against others, or against samples that are in other clusters at present."""
        c = self.config
        if c.negatives is None:
            return super().contrast(found, generator)
        drawn = {"temperature": c.temperature, "ratio": c.negatives}
        return selective_contrast(found.codes.z, found.logits.argmax(1), **drawn, generator=generator)
