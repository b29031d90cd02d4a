"""AR-DMVC: clusters that stay what they are when someone perturbs the views; with a mitigator, AR-DMVC-AM."""

from copy import deepcopy
from typing import ClassVar

import torch
from torch import Tensor

from protocol_mvc.data.batches import Batch
from protocol_mvc.losses.adversarial import Box, projected_ascent, smoothed_divergence
from protocol_mvc.losses.selective import mutual_contrast
from protocol_mvc.methods.ddc import AlignedMethod, DeepDdcConfig
from protocol_mvc.training.stage import Losses, Stage
from protocol_mvc.utils.config import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt


class ArdmvcConfig(DeepDdcConfig):
    """Every choice of AR-DMVC; the defaults are those of the published code."""

    cluster_length: NonNegativeInt = 30  #: epochs
    clip: PositiveFloat | None = None
    evaluate_every: PositiveInt | None = None
    contrast_weight: NonNegativeFloat = 0.1
    temperature: PositiveFloat = 0.1  #: of the contrast
    #: epsilon, largest change of an entry, in deviations of its column unless the view is scaled to [0, 1]
    attack_size: PositiveFloat = 0.2
    attack_step: PositiveFloat = 0.1  #: as a share of the size
    attack_steps: PositiveInt = 10
    attack_weight: NonNegativeFloat = 1.0  #: of the loss on attacked views
    mitigator: bool = False  #: whether predictions for attacked views must stay near those for clean ones
    mitigator_weight: NonNegativeFloat = 0.1
    #: whether the batch-norms remember what they see during an attack, as in the published code
    attack_statistics: bool = False


PRESETS = {"default": ArdmvcConfig(), "am": ArdmvcConfig(mitigator=True)}


class Ardmvc(AlignedMethod):
    """Adversarially robust deep multi-view clustering: CoMVC on views and on attacked views."""

    scaling: ClassVar[str] = "range"  # as published; the attack then stays in [0, 1]

    def run(self) -> list[Stage]:
        """One stage, whose steps are told where the views live."""
        context = lambda source, generator, progress, begun: (generator, [s.box for s in source.scalings])
        return [stage._replace(step=self.defend, on_epoch_start=context) for stage in super().run()]

    def defend(
        self, batch: Batch, progress: float, context: tuple[torch.Generator, list[Box | None]]
    ) -> Losses:
        """Clean loss, loss of attacked views and, with the mitigator, how far apart their predictions are."""
        c, generator = self.config, context[0]
        clean, attacked = self.network(batch.views), self.network(self.attack(batch.views, *context))
        losses = self.objective(batch, clean, generator)
        for name, value in self.objective(batch, attacked, generator).items():
            losses[f"attacked {name}"] = c.attack_weight * value
        if c.mitigator:
            apart = smoothed_divergence(clean.logits.softmax(1), attacked.logits.softmax(1))
            losses["mitigator"] = c.mitigator_weight * apart
        return losses

    def attack(
        self, views: list[Tensor], generator: torch.Generator, boxes: list[Box | None]
    ) -> list[Tensor]:
        """Views near the given ones at which the views of a sample seem to have little in common."""
        c = self.config
        victim = self.network if c.attack_statistics else deepcopy(self.network)
        climbed = lambda moved: mutual_contrast(victim(moved).codes.z, temperature=c.temperature)
        size = {"eps": c.attack_size, "step_size": c.attack_step, "n_steps": c.attack_steps}
        return projected_ascent(climbed, views, **size, boxes=boxes, generator=generator)
