"""Shared parts of the methods that fuse views and cluster by DDC: SiMVC, CoMVC, AECoDDC and AR-DMVC."""

from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.clustering import REL_SIGMA, ddc
from protocol_mvc.losses.contrastive import mutual_contrast
from protocol_mvc.methods.base import DeepMethod, Inferred, sum_of
from protocol_mvc.nn.network import ClusterOutputs, FusionNetwork
from protocol_mvc.nn.seeded import build, evaluating
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.utils.config import Config, NonNegativeInt, PositiveFloat, PositiveInt


class DdcConfig(Config):
    """Hyper-parameters that all share; the defaults are those of SiMVC and CoMVC."""

    hidden_dims: tuple[PositiveInt, ...] = (512, 512)  #: encoder layers between input and code
    latent_dim: PositiveInt = 256  #: dimension of the codes z^v
    #: batch normalization in the encoders and linear codes; else He's initialization and ReLU codes
    batch_norm: bool = False
    n_epochs: NonNegativeInt = 100  #: epochs of clustering
    lr: PositiveFloat = 1e-3  #: learning rate
    max_grad_norm: PositiveFloat | None = 5.0  #: bound on the norm of the gradient while clustering
    rel_sigma: PositiveFloat = REL_SIGMA  #: kernel width / median squared distance
    #: epochs between evaluations; the weights of the best one are used. None: those of the last epoch
    eval_interval: PositiveInt | None = 4
    monitor: Literal["ddc1", "total"] = "ddc1"  #: loss by which epochs and runs are compared
    n_init: PositiveInt = 1  #: runs from different initial weights; the best is used


class DeepDdcConfig(DdcConfig):
    """The values of DeepMVC, a later study by the authors, which the other methods use."""

    hidden_dims: tuple[PositiveInt, ...] = (1024, 1024, 1024, 1024)
    batch_norm: bool = True
    max_grad_norm: PositiveFloat | None = 10.0
    monitor: Literal["ddc1", "total"] = "total"


DEEP: dict[str, Any] = dict(DeepDdcConfig())


class DdcMethod(DeepMethod):
    """Encoders, weighted mean, clustering head; a subclass may add losses and stages."""

    batch_size: ClassVar[int] = 100

    def __init__(self, config: DdcConfig, dims: list[int], n_clusters: int) -> None:
        super().__init__(config, dims, n_clusters)
        self.dims = dims
        self.network = FusionNetwork(
            dims, n_clusters, config.hidden_dims, config.latent_dim, batch_norm=config.batch_norm
        )

    def stages(self) -> list[Stage]:
        """Return the stages of all runs; the loop keeps the weights with the best monitor."""
        runs = [self.run()] + [self._restarted_run(number) for number in range(2, self.config.n_init + 1)]
        return [*(stage for run in runs for stage in run), self.last_stage()]

    def run(self) -> list[Stage]:
        """Return the stages of one run; the context of every step is the random generator."""
        c = self.config
        adam = Optimizer(c.lr, max_grad_norm=c.max_grad_norm)
        context = lambda source, generator, progress, start_value: generator
        stage = Stage("cluster", c.n_epochs, self.step, adam, on_epoch_start=context)
        return [stage._replace(monitor=self.evaluate, eval_interval=c.eval_interval)]

    def _restarted_run(self, number: int) -> list[Stage]:
        first, *others = (stage._replace(name=f"{stage.name} {number}") for stage in self.run())
        return [first._replace(on_start=self.reinitialize, reinitialize=True), *others]

    def reinitialize(self, source: Source, generator: torch.Generator) -> None:
        """Draw new weights."""
        make = partial(type(self), self.config, self.dims, self.n_clusters)
        self.load_state_dict(build(make, generator).state_dict())

    def step(self, batch: Batch, progress: float, generator: torch.Generator) -> Losses:
        """Return the losses of a batch while clustering."""
        return self.objective(batch, self.network(batch.views), generator)

    def objective(self, batch: Batch, outputs: ClusterOutputs, generator: torch.Generator) -> Losses:
        """Return the three terms of DDC; a subclass adds its own."""
        return ddc(outputs.hidden, outputs.logits.softmax(1), self.config.rel_sigma)

    @torch.no_grad()
    def evaluate(self, source: Source, generator: torch.Generator) -> float:
        """Return the mean of the monitored loss over all batches, in evaluation mode."""
        values = []
        with evaluating(self):
            for batch in source.shuffled(generator):
                losses = self.objective(batch, self.network(batch.views), generator)
                values.append(losses["ddc1"] if self.config.monitor == "ddc1" else sum_of(losses.values()))
        return float(torch.stack(values).mean())

    def infer(self, batch: Batch) -> Inferred:
        """Return the normalized codes of all views, and the prediction of their weighted mean."""
        outputs = self.network(batch.views)
        return Inferred(torch.cat(outputs.views.h, dim=1), outputs.logits.log_softmax(1))

    def view_weights(self) -> Tensor:
        """Return the weights w (V,) of the weighted mean."""
        return self.network.fusion.weights()


class ContrastiveDdcMethod(DdcMethod):
    r"""DDC and contrast between views: ddc1 + ddc2 + ddc3 + \delta min_v w_v contrast.

    No gradient flows through the smallest weight: the contrast vanishes if a view is switched off.
    """

    def objective(self, batch: Batch, outputs: ClusterOutputs, generator: torch.Generator) -> Losses:
        """Return the terms of DDC and the contrast."""
        weight = self.config.contrast_weight * self.view_weights().detach().min()
        losses = super().objective(batch, outputs, generator)
        return losses | {"contrast": weight * self.contrast(outputs, generator)}

    def contrast(self, outputs: ClusterOutputs, generator: torch.Generator) -> Tensor:
        """Return the contrast of all pairs of views, with all samples as negatives."""
        return mutual_contrast(outputs.views.z, temperature=self.config.temperature)
