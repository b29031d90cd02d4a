"""Config of PROTOCOL in nested groups, and its two compositions `DEFAULT` and `PAPER`.

The compositions differ at four seams: the schedule, the treatment of paired views, the pseudo-labels with
their loss, and the read-out of the final labels.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from protocol_mvc.partition.config import MatchingOptions, PartitionOptions
from protocol_mvc.utils.config import (
    Config,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)

Mass = Annotated[float, Field(gt=0, le=1)]


class Network(Config):
    """Sizes of the networks."""

    hidden_dims: tuple[PositiveInt, ...] = (500, 500)  #: encoder layers between input and latent code
    latent_dim: PositiveInt = 256  #: of Z^v, S^v and U
    projection_dim: PositiveInt = 128  #: of H^v
    dim_feedforward: PositiveInt = 256  #: of the attention block
    attention_dim: PositiveInt | None = 128  #: of queries, keys and values; None: that of all Z^v together
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1  #: of the attention block
    logit_scale: PositiveFloat = 10.0  #: of the cosine classifier
    #: input of the classifier: the projections H^v or, as in the paper, the latent codes Z^v
    classifier_input: Literal["projection", "latent"] = "projection"


class Schedule(Config):
    """Lengths and learning rates of the stages."""

    n_epochs_reconstruct: NonNegativeInt = 20
    n_epochs_align: NonNegativeInt = 12
    n_epochs_rebalance: NonNegativeInt = 10  #: of each round
    n_rounds: NonNegativeInt = 2  #: of stage 3; each starts from a new partition
    min_steps_per_epoch: PositiveInt = 8  #: of stage 1; small data are repeated
    max_steps_per_epoch: PositiveInt | None = 16  #: of stages 1 and 2
    max_steps_per_epoch_rebalance: PositiveInt | None = 64  #: of stage 3
    max_samples: PositiveInt | None = 20_000  #: random subsample of large data, drawn for each stage
    lr_reconstruct: PositiveFloat = 1e-3
    lr_align: PositiveFloat = 1e-3
    lr_rebalance: PositiveFloat = 3e-4


class PairedViews(Config):
    """Treatment of views that show the same items, found by `partition.view_matching`.

    Such views are not aligned: recognising an item in another view is trivial there, and the contrastive loss
    only pushes the members of a cluster apart.
    """

    n_epochs_reconstruct: NonNegativeInt = 60  #: instead of both reconstruction and alignment
    contrast_weight: NonNegativeFloat = 0.1  #: of both contrastive losses in stage 3
    matching: MatchingOptions = MatchingOptions()


class PotOptions(Config):
    """Options of the partial optimal transport that makes the pseudo-labels (Eqs. 12-18)."""

    epsilon: PositiveFloat = 0.1  #: entropic regularisation
    prior_strength: Annotated[float, Field(gt=0, allow_inf_nan=True)] = 1.0  #: beta, weight of the KL term
    min_mass: Mass = 0.1  #: lambda base of Eq. 16
    max_mass: Mass = 1.0  #: lambda max of Eq. 16
    consensus_weight: Fraction = 0.5  #: alpha, weight of P in the mixed prediction P_hat
    double_softmax: bool = False  #: transport softmax(P_hat), as the released code does


class BatchTransport(PotOptions):
    """Pseudo-labels of the paper: one transport per batch with a uniform class prior."""

    kind: Literal["batch"] = "batch"


class InitializedTransport(PotOptions):
    """Pseudo-labels from a starting partition, then from one transport of the data set per epoch.

    The partition initialises the prototypes and the class prior, and its labels are learned during a warm-up.
    """

    kind: Literal["initialized"] = "initialized"
    warmup_fraction: Fraction = 0.4  #: of the epochs of a round, in which the partition itself is learned
    early_stopping: bool = True  #: stop a round when the classifier agrees with the transport of all mass
    partition: PartitionOptions = PartitionOptions()


class Losses(Config):
    """Temperatures and weights of the losses."""

    temperature_feature: PositiveFloat = 0.5  #: tau_f of Eqs. 19-20
    temperature_class: PositiveFloat = 1.0  #: tau_l of Eqs. 21 and 28
    structure_weight: NonNegativeFloat = 0.0  #: of MSE(Z^v, S^v), which the released code adds
    pseudo_label_weight: NonNegativeFloat = 1.0  #: of the cross-entropy of Eq. 11
    #: which prediction learns the pseudo-labels: the mixture P_hat (paper), or P and every P^v
    pseudo_label_loss: Literal["per_head", "mixture"] = "per_head"
    pseudo_label_logit_adjustment: float = 1.0  #: times log class frequency, added to the logits of Eq. 11
    rebalanced: bool = True  #: Eqs. 20-24; False keeps the contrastive losses of stage 2
    logit_adjustment: float = 1.0  #: times log class frequency, added to positive logits; paper: -1
    class_loss_weight: NonNegativeFloat = 1.0  #: of the class-level loss, Eqs. 21-24
    positive_sample_weight: Fraction = 0.8  #: w_v of Eq. 22
    positive_prototype_weight: Fraction = 0.2  #: w_t of Eq. 22


class ProtocolConfig(Config):
    """All hyper-parameters of PROTOCOL; the defaults are the preset ``"default"``."""

    network: Network = Network()
    schedule: Schedule = Schedule()
    paired_views: PairedViews | None = PairedViews()  #: None aligns all views, as the paper does
    pseudo_labels: Annotated[BatchTransport | InitializedTransport, Field(discriminator="kind")] = (
        InitializedTransport()
    )
    losses: Losses = Losses()
    readout: Literal["classifier", "kmeans"] = (
        "classifier"  #: source of the final labels; paper: K-means on H
    )

    @model_validator(mode="after")
    def _check_prototypes(self) -> Self:
        """The means of a partition are projections, so they cannot be prototypes of latent codes."""
        initialized = isinstance(self.pseudo_labels, InitializedTransport)
        if initialized and self.network.classifier_input == "latent":
            raise ValueError("classifier_input='latent' needs pseudo_labels=BatchTransport()")
        return self


DEFAULT = ProtocolConfig()
PAPER = ProtocolConfig(
    network=Network(
        hidden_dims=(500, 500, 2000), latent_dim=512, attention_dim=None, classifier_input="latent"
    ),
    schedule=Schedule(
        n_epochs_reconstruct=200,
        n_epochs_align=100,
        n_epochs_rebalance=100,
        n_rounds=1,
        min_steps_per_epoch=1,
        max_steps_per_epoch=None,
        max_steps_per_epoch_rebalance=None,
        max_samples=None,
        lr_rebalance=1e-3,
    ),
    paired_views=None,
    pseudo_labels=BatchTransport(prior_strength=0.1),
    losses=Losses(pseudo_label_loss="mixture", pseudo_label_logit_adjustment=0.0),
    readout="kmeans",
)
PRESETS = {"default": DEFAULT, "paper": PAPER}
