"""Shared parts of the methods that fuse views and cluster by DDC: SiMVC, CoMVC, AECoDDC and AR-DMVC."""

from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.losses.clustering import REL_SIGMA, ddc
from protocol_mvc.losses.contrastive import mutual_contrast
from protocol_mvc.methods.base import DeepMethod, Inferred, sum_of
from protocol_mvc.nn.fusion import WeightedMean
from protocol_mvc.nn.layers import BatchNorm, HeLinear, batch_norm_mlp, he_relu_mlp
from protocol_mvc.nn.network import ViewOutputs
from protocol_mvc.nn.seeded import build, evaluating
from protocol_mvc.training.stage import Losses, Optimizer, Stage
from protocol_mvc.utils.config import Config, LayerSizes, NonNegativeInt, PositiveFloat, PositiveInt

HEAD_DIM = 100  # width of the hidden layer of the clustering head


class DdcConfig(Config):
    """Hyper-parameters that all share; the defaults are those of SiMVC and CoMVC."""

    hidden_dims: LayerSizes = (512, 512)  #: encoder layers between input and code
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

    hidden_dims: LayerSizes = (1024, 1024, 1024, 1024)
    batch_norm: bool = True
    max_grad_norm: PositiveFloat | None = 10.0
    monitor: Literal["ddc1", "total"] = "total"


DEEP: dict[str, Any] = dict(DeepDdcConfig())


class ClusterOutputs(NamedTuple):
    """Outputs of `FusionNetwork`; in training, batch normalization makes them depend on the batch."""

    views: ViewOutputs  #: h are the codes z with rows of unit norm; there are no logits of a view
    hidden: Tensor  #: hidden features (n, HEAD_DIM) of the fused views
    logits: Tensor  #: logits of the clusters (n, k)


class FusionNetwork(nn.Module):
    """Encoders, the weighted mean z of their codes, and a clustering head on z.

    The hidden features of the head are batch_norm(ReLU(linear(z))); the logits are linear in them.
    """

    def __init__(self, config: DdcConfig, dims: list[int], n_clusters: int) -> None:
        super().__init__()
        encoder, linear = (batch_norm_mlp, nn.Linear) if config.batch_norm else (he_relu_mlp, HeLinear)
        self.encoders = nn.ModuleList(encoder([dim, *config.hidden_dims, config.latent_dim]) for dim in dims)
        self.fusion = WeightedMean(len(dims))
        self.head = nn.Sequential(linear(config.latent_dim, HEAD_DIM), nn.ReLU(), BatchNorm(HEAD_DIM))
        self.output = linear(HEAD_DIM, n_clusters)

    def encode(self, views: list[Tensor]) -> ViewOutputs:
        """Return the codes of each view (n, D_v)."""
        z = [f(x) for f, x in zip(self.encoders, views, strict=True)]
        return ViewOutputs(z, [functional.normalize(x) for x in z], [])

    def forward(self, views: list[Tensor]) -> ClusterOutputs:
        """Return the codes of each view, and hidden features and logits of their weighted mean."""
        outputs = self.encode(views)
        hidden = self.head(self.fusion(outputs.z))
        return ClusterOutputs(outputs, hidden, self.output(hidden))


class DdcMethod(DeepMethod):
    """Encoders, weighted mean, clustering head; a subclass may add losses and stages."""

    batch_size: ClassVar[int] = 100

    def __init__(self, config: DdcConfig, dims: list[int], n_clusters: int) -> None:
        super().__init__(config, dims, n_clusters)
        self.dims = dims
        self.network = FusionNetwork(config, dims, n_clusters)

    def stages(self) -> list[Stage]:
        """Return the stages of all runs; the loop keeps the weights with the best monitor."""
        stages = self.run()
        for number in range(2, self.config.n_init + 1):
            first, *others = (stage._replace(name=f"{stage.name} {number}") for stage in self.run())
            stages += [first._replace(on_start=self.reinitialize, reinitialize=True), *others]
        return [*stages, self.last_stage()]

    def run(self) -> list[Stage]:
        """Return the stages of one run; the context of every step is the random generator."""
        c = self.config
        adam = Optimizer(c.lr, max_grad_norm=c.max_grad_norm)
        context = lambda source, generator, progress, start_value: generator
        stage = Stage("cluster", c.n_epochs, self.step, adam, on_epoch_start=context)
        return [stage._replace(monitor=self.evaluate, eval_interval=c.eval_interval)]

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
    def evaluate(self, source: Source, generator: torch.Generator, start: Tensor | None = None) -> float:
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
