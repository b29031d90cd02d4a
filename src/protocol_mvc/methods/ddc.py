"""What the methods that fuse views and cluster by divergences share (DDC)."""

from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.ddc import RELATIVE_WIDTH, ddc
from protocol_mvc.losses.selective import mutual_contrast
from protocol_mvc.methods.base import DeepMethod, Inferred, sum_of
from protocol_mvc.nn.dense import Clustered, FusionNetwork
from protocol_mvc.nn.seeded import build, evaluating
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.utils.config import Config, NonNegativeInt, PositiveFloat, PositiveInt


class DdcConfig(Config):
    """The choices that all have; the defaults are those of SiMVC and CoMVC."""

    hidden: tuple[PositiveInt, ...] = (512, 512)  #: encoder layers between input and latent
    latent: PositiveInt = 256  #: of the codes z^v
    batch_norm: bool = False  #: in the encoders, whose codes are then linear; else ReLU codes and He's start
    cluster_length: NonNegativeInt = 100  #: epochs
    rate: PositiveFloat = 1e-3  #: of learning
    clip: PositiveFloat | None = 5.0  #: largest norm of the gradient while clustering
    kernel_width: PositiveFloat = RELATIVE_WIDTH  #: rho, of the median squared distance
    #: epochs between two evaluations, of which the best gives the weights; None takes the last weights
    evaluate_every: PositiveInt | None = 4
    monitor: Literal["ddc1", "total"] = "ddc1"  #: the loss by which epochs and restarts are chosen
    n_restarts: PositiveInt = 1  #: runs from new weights; the best is kept


class DeepDdcConfig(DdcConfig):
    """The same as the authors' later study of such methods has it, DeepMVC, which the others follow."""

    hidden: tuple[PositiveInt, ...] = (1024, 1024, 1024, 1024)
    batch_norm: bool = True
    clip: PositiveFloat | None = 10.0
    monitor: Literal["ddc1", "total"] = "total"


DEEP: dict[str, Any] = dict(DeepDdcConfig())


class DdcMethod(DeepMethod):
    """Encoders, weighted mean, clustering head; a subclass says what is minimised and may add stages."""

    batch_size: ClassVar[int] = 100

    def __init__(self, config: DdcConfig, dims: list[int], n_clusters: int) -> None:
        super().__init__(config, dims, n_clusters)
        self.dims = dims
        self.network = FusionNetwork(
            dims, n_clusters, config.hidden, config.latent, batch_norm=config.batch_norm
        )

    def stages(self) -> list[Stage]:
        """The stages of every run, then the class sizes of the best."""
        runs = [self.run()] + [self._again(number) for number in range(2, self.config.n_restarts + 1)]
        return [*(stage for run in runs for stage in run), self.last_stage()]

    def run(self) -> list[Stage]:
        """The stages of one run from new weights; every step gets the generator for its draws."""
        c = self.config
        draws = lambda source, generator, progress, begun: generator
        adam = Optimizer(c.rate, max_grad_norm=c.clip)
        stage = Stage("cluster", c.cluster_length, self.step, adam, on_epoch_start=draws)
        return [stage._replace(monitor=self.evaluate, eval_interval=c.evaluate_every)]

    def _again(self, number: int) -> list[Stage]:
        first, *others = (stage._replace(name=f"{stage.name} {number}") for stage in self.run())
        return [first._replace(on_start=self.restart, reinitialize=True), *others]

    def restart(self, source: Source, generator: torch.Generator) -> None:
        """Take new weights."""
        make = partial(type(self), self.config, self.dims, self.n_clusters)
        self.load_state_dict(build(make, generator).state_dict())

    def step(self, batch: Batch, progress: float, generator: torch.Generator) -> Losses:
        """What is minimised while clustering."""
        return self.objective(batch, self.network(batch.views), generator)

    def objective(self, batch: Batch, found: Clustered, generator: torch.Generator) -> Losses:
        """The three terms of DDC; a subclass adds its own."""
        return ddc(found.hidden, found.logits.softmax(1), self.config.kernel_width)

    @torch.no_grad()
    def evaluate(self, source: Source, generator: torch.Generator) -> float:
        """Mean of the monitored loss over batches, with the batch-norms as in prediction; no labels."""
        values = []
        with evaluating(self):
            for batch in source.shuffled(generator):
                losses = self.objective(batch, self.network(batch.views), generator)
                values.append(losses["ddc1"] if self.config.monitor == "ddc1" else sum_of(losses.values()))
        return float(torch.stack(values).mean())

    def infer(self, batch: Batch) -> Inferred:
        """The codes of all views, and the prediction of their weighted mean."""
        found = self.network(batch.views)
        return Inferred(torch.cat(found.codes.h, dim=1), found.logits.log_softmax(1))

    def view_weights(self) -> Tensor:
        """The weights w of the mean."""
        return self.network.fusion.weights()


class AlignedMethod(DdcMethod):
    r"""DDC and contrast between views: ddc1 + ddc2 + ddc3 + \delta min_v w_v contrast.

    No gradient flows through the least weight: the contrast fades out as a view is switched off.
    """

    def objective(self, batch: Batch, found: Clustered, generator: torch.Generator) -> Losses:
        """Divergences, and the contrast."""
        weight = self.config.contrast_weight * self.view_weights().detach().min()
        losses = super().objective(batch, found, generator)
        return losses | {"contrast": weight * self.contrast(found, generator)}

    def contrast(self, found: Clustered, generator: torch.Generator) -> Tensor:
        """Every view of a sample finds the others among all samples."""
        return mutual_contrast(found.codes.z, temperature=self.config.temperature)
