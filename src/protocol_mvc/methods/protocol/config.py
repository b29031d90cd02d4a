"""Config of PROTOCOL in nested groups, and its compositions `DEFAULT`, `PAPER` and `RELEASED`.

The compositions differ at four seams: the structure that guides the contrast (neighbours or attention), the
schedule, the pseudo-labels with their loss, and the read-out of the final labels.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from protocol_mvc.partition.config import PartitionOptions
from protocol_mvc.utils.config import (
    Config,
    Fraction,
    LayerSizes,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    update_config,
)

Mass = Annotated[float, Field(gt=0, le=1)]
N_STEPS_LARGE = 40  # of an epoch of data whose steps are larger than n_samples_per_step, if they may be


class Network(Config):
    """Sizes of the networks."""

    hidden_dims: LayerSizes = (128,)  #: encoder layers before the latent code or projection
    projection_dim: PositiveInt = 64  #: of H^v and U
    logit_scale: PositiveFloat = 10.0  #: of the cosine classifier


class NeighborStructure(Config):
    """Neighbours guide the contrast: the positive of a sample is the consensus of one of its neighbours.

    The neighbours are those of the prepared data at first, and those of the learned features in later rounds.
    """

    kind: Literal["neighbors"] = "neighbors"
    n_neighbors: PositiveInt = 10  #: in every view, and in all views together
    n_rounds: PositiveInt = 3  #: of the alignment; each starts with new neighbours


class AttentionStructure(Config):
    """Attention between the samples of a batch guides the contrast, as in the paper."""

    kind: Literal["attention"] = "attention"
    latent_dim: PositiveInt = 512  #: of Z^v, S^v and U before its projection
    dim_feedforward: PositiveInt = 256  #: of the attention block
    attention_dim: PositiveInt | None = None  #: of queries, keys and values; None: that of all Z^v together
    #: width of all Z^v together up to which the learning rates of stages 2 and 3 hold; a wider attention
    #: learns at rates that are lower in proportion (maximal update parametrization). None: at the same rates
    base_width: PositiveInt | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1  #: of the attention block
    #: input of the classifier: the projections H^v or, as in the paper, the latent codes Z^v
    classifier_input: Literal["projection", "latent"] = "latent"
    #: factor of the logits in the class contrast of stage 2 (Eq. 28); below 1 the predictions are softer
    alignment_sharpness: PositiveFloat = 1.0
    #: in stage 3, the G that guides the feature contrast: the attention weights, or the probability that two
    #: samples have the same pseudo-label
    guidance: Literal["attention", "labels"] = "attention"
    #: one cosine classifier (paper), or two linear layers, of Z^v and of U, as in the released code
    heads: Literal["cosine", "linear"] = "cosine"
    #: of the matrix products of the training; weights, losses and inference are in float32, and so are all
    #: products on devices without native bfloat16, where float32 is faster
    precision: Literal["float32", "bfloat16"] = "float32"


class Schedule(Config):
    """Lengths and learning rates of the stages."""

    n_epochs_reconstruct: NonNegativeInt = 0
    n_epochs_align: NonNegativeInt = 4  #: of each round, for at most two views; see `Protocol.alignment`
    n_epochs_rebalance: NonNegativeInt = 4
    n_samples_per_step: Annotated[int, Field(ge=2)] = 128  #: if the estimator's batch_size is "auto"
    #: of large data, whose steps grow with the number of samples; then the learning rates hold for
    #: `n_samples_per_step` and grow in proportion. None: all steps have the same size and learning rate
    max_samples_per_step: Annotated[int, Field(ge=2)] | None = 512
    min_steps_per_epoch: PositiveInt = 20  #: small data are repeated
    max_steps_per_epoch: PositiveInt | None = None  #: of larger data an epoch uses a random part
    max_samples: PositiveInt | None = 20_000  #: random subsample of large data, drawn for each stage
    lr_reconstruct: PositiveFloat = 1e-3
    lr_align: PositiveFloat = 2e-3  #: decays by a cosine over the rounds
    lr_rebalance: PositiveFloat = 5e-4
    #: of stage 3, and of stage 2 with attention: a constant learning rate, or one that falls to 0 by a cosine
    lr_scheduler: Literal["constant", "cosine"] = "constant"

    def samples_per_step(self, n_samples: int) -> int:
        """Return the size of the steps of data with n samples."""
        least, most = self.n_samples_per_step, self.max_samples_per_step or self.n_samples_per_step
        return max(least, min(min(n_samples, self.max_samples or n_samples) // N_STEPS_LARGE, most))


class PotOptions(Config):
    """Options of the partial optimal transport that makes the pseudo-labels (Eqs. 12-18)."""

    epsilon: PositiveFloat = 0.1  #: entropic regularisation
    prior_strength: Annotated[float, Field(gt=0, allow_inf_nan=True)] = 1.0  #: beta, weight of the KL term
    min_mass: Mass = 0.1  #: lambda base of Eq. 16
    max_mass: Mass = 1.0  #: lambda max of Eq. 16
    consensus_weight: Fraction = 0.5  #: alpha, weight of P in the mixed prediction P_hat
    double_softmax: bool = False  #: transport softmax(P_hat), as the released code does


class BatchTransport(PotOptions):
    """Pseudo-labels by one transport per batch with a uniform class prior, as in the released code."""

    kind: Literal["batch"] = "batch"


class DatasetTransport(PotOptions):
    """Pseudo-labels by one transport of all samples per epoch, with a uniform class prior."""

    kind: Literal["dataset"] = "dataset"
    #: search for clusters, the means of whose features are the first prototypes; None keeps the prototypes
    #: of stage 2
    partition: PartitionOptions | None = PartitionOptions()


class InitializedTransport(PotOptions):
    """Pseudo-labels from a starting partition, then from one transport of the data set per epoch.

    The partition initialises the prototypes and the class prior, and its labels are learned during a warm-up.
    """

    kind: Literal["initialized"] = "initialized"
    min_mass: Mass = 0.5
    warmup_fraction: Fraction = 0.4  #: of the epochs, in which the partition itself is learned
    #: the expected accuracy is this power of the agreement of candidates, because they share mistakes
    agreement_power: PositiveFloat = 2.0
    partition: PartitionOptions = PartitionOptions()


class Losses(Config):
    """Temperatures and weights of the losses."""

    temperature_feature: PositiveFloat = 0.5  #: tau_f of Eqs. 19-20
    temperature_class: PositiveFloat = 1.0  #: tau_l of Eqs. 21 and 28
    structure_weight: NonNegativeFloat = 0.0  #: of MSE(Z^v, S^v), which the released code adds
    pseudo_label_weight: NonNegativeFloat = 1.0  #: of the cross-entropy of Eq. 11
    #: which prediction learns the pseudo-labels: the mixture P_hat (paper), or P and every P^v
    pseudo_label_loss: Literal["per_head", "mixture"] = "per_head"
    pseudo_label_logit_adjustment: float = 0.0  #: times log class frequency, added to the logits of Eq. 11
    rebalanced: bool = True  #: Eqs. 20-24; False keeps the contrastive losses of stage 2
    logit_adjustment: float = 1.0  #: times log class frequency, added to positive logits; paper: -1
    class_loss_weight: NonNegativeFloat = 0.1  #: of the class-level loss, Eqs. 21-24
    positive_sample_weight: Fraction = 0.8  #: w_v of Eq. 22
    positive_prototype_weight: Fraction = 0.2  #: w_t of Eq. 22


class ProtocolConfig(Config):
    """All hyper-parameters of PROTOCOL; the defaults are the preset ``"default"``."""

    n_components: PositiveInt | None = 50  #: principal components of a view; None keeps all features
    network: Network = Network()
    structure: Annotated[NeighborStructure | AttentionStructure, Field(discriminator="kind")] = (
        NeighborStructure()
    )
    schedule: Schedule = Schedule()
    pseudo_labels: Annotated[
        BatchTransport | DatasetTransport | InitializedTransport, Field(discriminator="kind")
    ] = InitializedTransport()
    losses: Losses = Losses()
    readout: Literal["classifier", "kmeans"] = (
        "classifier"  #: source of the final labels; paper: K-means on H
    )

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        """Refuse parts that do not fit together."""
        attention = self.structure if isinstance(self.structure, AttentionStructure) else None
        initialized = self.pseudo_labels.kind == "initialized"
        if initialized and attention and attention.classifier_input == "latent":
            raise ValueError(
                "classifier_input='latent' needs pseudo_labels=DatasetTransport() or BatchTransport()"
            )
        if attention and attention.heads == "linear" and self.pseudo_labels.kind != "batch":
            raise ValueError("heads='linear' has no prototypes: use pseudo_labels=BatchTransport()")
        if self.schedule.n_epochs_reconstruct and not attention:
            raise ValueError("n_epochs_reconstruct needs structure=AttentionStructure()")
        return self


DEFAULT = ProtocolConfig()
#: fewer rounds of the alignment, and the starting partition from fewer candidates
QUICK = update_config(
    DEFAULT,
    {
        "structure__n_rounds": 2,
        "pseudo_labels__partition__over_clustering": (2.0,),
        "pseudo_labels__partition__groups_per_cluster_data": (),
    },
)
#: Algorithm 1 as the text has it; where it is silent, what makes stage 3 improve on stage 2
PAPER = ProtocolConfig(
    n_components=None,
    network=Network(hidden_dims=(500, 500, 2000), projection_dim=128),
    structure=AttentionStructure(
        base_width=1024, alignment_sharpness=0.1, guidance="labels", precision="bfloat16"
    ),
    schedule=Schedule(
        n_epochs_reconstruct=200,
        n_epochs_align=50,
        n_epochs_rebalance=50,
        n_samples_per_step=256,
        max_samples_per_step=None,
        min_steps_per_epoch=1,
        max_samples=None,
        lr_align=1e-3,
        lr_rebalance=1e-3,
        lr_scheduler="cosine",
    ),
    pseudo_labels=DatasetTransport(),
    losses=Losses(pseudo_label_loss="mixture", class_loss_weight=1.0),
    readout="kmeans",
)
#: what the released code does where it differs from the text
RELEASED = update_config(
    PAPER,
    {
        "structure__base_width": None,
        "structure__alignment_sharpness": 1.0,
        "structure__guidance": "attention",
        "structure__heads": "linear",
        "structure__precision": "float32",
        "schedule__n_epochs_align": 100,
        "schedule__n_epochs_rebalance": 100,
        "schedule__lr_reconstruct": 3e-4,
        "schedule__lr_align": 3e-4,
        "schedule__lr_rebalance": 3e-4,
        "schedule__lr_scheduler": "constant",
        "pseudo_labels": BatchTransport(prior_strength=0.1),
        "pseudo_labels__double_softmax": True,
        "losses__pseudo_label_weight": 0.0,
        "losses__structure_weight": 1.0,
    },
)
PRESETS = {"default": DEFAULT, "quick": QUICK, "paper": PAPER, "released": RELEASED}
