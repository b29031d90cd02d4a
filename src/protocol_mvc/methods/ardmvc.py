"""AR-DMVC (ICML 2024): clustering that is robust to perturbed views; with the mitigator, AR-DMVC-AM."""

from copy import deepcopy
from typing import ClassVar

import torch
from torch import Tensor

from protocol_mvc.data.batches import Batch
from protocol_mvc.losses.adversarial import Bounds, projected_ascent, smoothed_divergence
from protocol_mvc.losses.contrastive import mutual_contrast
from protocol_mvc.methods.ddc import ContrastiveDdcMethod, DeepDdcConfig
from protocol_mvc.training.stage import Losses, Stage
from protocol_mvc.utils.config import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt


class ArdmvcConfig(DeepDdcConfig):
    """Hyper-parameters of AR-DMVC; the defaults are those of the released code."""

    n_epochs: NonNegativeInt = 30  #: epochs of clustering
    max_grad_norm: PositiveFloat | None = None
    eval_interval: PositiveInt | None = None
    contrast_weight: NonNegativeFloat = 0.1  #: delta
    temperature: PositiveFloat = 0.1  #: temperature of the contrast
    #: largest change of an entry; in standard deviations of its column unless the view is scaled to [0, 1]
    attack_eps: PositiveFloat = 0.2
    attack_step_size: PositiveFloat = 0.1  #: length of a step / attack_eps
    n_attack_steps: PositiveInt = 10  #: steps of the attack
    attack_weight: NonNegativeFloat = 1.0  #: weight of the losses of attacked views
    mitigator: bool = False  #: add the divergence between predictions for clean and for attacked views
    mitigator_weight: NonNegativeFloat = 0.1  #: weight of that divergence


PRESETS = {"default": ArdmvcConfig(), "am": ArdmvcConfig(mitigator=True)}


class Ardmvc(ContrastiveDdcMethod):
    """Adversarially robust deep multi-view clustering: the losses of CoMVC on clean and on attacked views."""

    scaling: ClassVar[str] = "range"  # as published; attacked views then stay in [0, 1]

    def run(self) -> list[Stage]:
        """Return the stage; the context of its steps is the generator and the bounds of each view."""
        context = lambda source, generator, progress, start: (generator, [s.bounds for s in source.scalers])
        return [stage._replace(step=self.robust_step, on_epoch_start=context) for stage in super().run()]

    def robust_step(
        self, batch: Batch, progress: float, context: tuple[torch.Generator, list[Bounds | None]]
    ) -> Losses:
        """Return the losses of clean and of attacked views and, with the mitigator, their divergence."""
        c, generator = self.config, context[0]
        clean, attacked = self.network(batch.views), self.network(self.attack(batch.views, *context))
        losses = self.objective(batch, clean, generator)
        for name, value in self.objective(batch, attacked, generator).items():
            losses[f"attacked {name}"] = c.attack_weight * value
        if c.mitigator:
            divergence = smoothed_divergence(clean.logits.softmax(1), attacked.logits.softmax(1))
            losses["mitigator"] = c.mitigator_weight * divergence
        return losses

    def attack(
        self, views: list[Tensor], generator: torch.Generator, bounds: list[Bounds | None]
    ) -> list[Tensor]:
        """Return perturbed views with a high contrast; the copy keeps the batch statistics of the network."""
        c, network = self.config, deepcopy(self.network)
        contrast = lambda moved: mutual_contrast(network(moved).views.z, temperature=c.temperature)
        size = {"eps": c.attack_eps, "step_size": c.attack_step_size, "n_steps": c.n_attack_steps}
        return projected_ascent(contrast, views, **size, bounds=bounds, generator=generator)
