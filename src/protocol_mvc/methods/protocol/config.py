"""Every choice of PROTOCOL, and the presets."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from protocol_mvc.methods.base import (
    Fraction,
    MethodConfig,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)


class ProtocolConfig(MethodConfig):
    """Every choice of the method; the defaults are the default preset."""

    before: ClassVar = {"attention": None, "early_end": False}

    hidden: tuple[PositiveInt, ...] = (500, 500)  #: encoder layers between input and latent
    latent: PositiveInt = 256  #: of Z^v, S^v and U
    feature: PositiveInt = 128  #: of H^v
    feedforward: PositiveInt = 256  #: inside the attention block
    attention: PositiveInt | None = (
        128  #: of its queries, keys and values; None is that of all Z^v side by side
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1  #: of the attention block
    classifier_scale: PositiveFloat = 10.0  #: of the cosine logits
    #: what the classifier sees, H^v or, as in the paper, Z^v
    classify: Literal["feature", "latent"] = "feature"

    reconstruct_length: NonNegativeInt = 20  #: epochs before an alignment
    align_length: NonNegativeInt = 12  #: epochs; longer ones learn by heart which items were paired
    twins_length: NonNegativeInt = 60  #: epochs of reconstruction alone, in place of both; see `align_twins`
    align_twins: bool = False  #: also where the views show the same items; see `pairing`
    rounds: NonNegativeInt = 2  #: of perceiving and rebalancing
    rebalance_length: NonNegativeInt = 10  #: epochs of each round
    early_end: bool = True  #: of a round, once the classifier says what the transport of all says
    reconstruct_steps: PositiveInt = (
        8  #: least in an epoch of reconstruction, which sees small data several times
    )
    most_steps: PositiveInt | None = (
        16  #: in an epoch of stages 1 and 2, which then sees a part of large data
    )
    most_rebalance_steps: PositiveInt | None = 64  #: in an epoch of stage 3, which must learn the rare groups
    most_rows: PositiveInt | None = 20_000  #: of large data, drawn at random for each stage
    reconstruct_rate: PositiveFloat = 1e-3
    align_rate: PositiveFloat = 1e-3
    rebalance_rate: PositiveFloat = 3e-4

    temperature_feature: PositiveFloat = 0.5  #: tau_f of Eqs. 19-20
    temperature_class: PositiveFloat = 1.0  #: tau_l of Eqs. 21 and 28
    structure_weight: NonNegativeFloat = 0.0  #: of MSE(Z^v, S^v), which the released code adds

    mix: Fraction = 0.5  #: share of the consensus in the mixed prediction
    epsilon: PositiveFloat = 0.1  #: entropic regularisation of the transport
    kl_weight: Annotated[float, Field(gt=0, allow_inf_nan=True)] = 1.0  #: beta, strength of the prior
    mass_start: Annotated[float, Field(gt=0, le=1)] = 0.1  #: lambda base of Eq. 16
    mass_end: Annotated[float, Field(gt=0, le=1)] = 1.0  #: lambda max of Eq. 16
    prior: Literal["perceived", "uniform"] = "perceived"  #: class sizes the transport starts from
    trust: Fraction = 0.4  #: first part of a round, in which the perceived assignment itself is learned
    label_scope: Literal["all", "batch"] = "all"  #: samples that share one transport
    double_softmax: bool = False  #: feed softmax(P_hat) to the transport, as the released code does

    label_weight: NonNegativeFloat = 1.0  #: of the cross-entropy with the POT labels, Eq. 11
    label_loss: Literal["each", "mixed"] = (
        "each"  #: every prediction learns the labels, or their mixture does
    )
    label_shift: float = 1.0  #: times log class frequency, added to the logits that learn the labels
    twins_weight: NonNegativeFloat = 0.1  #: of both contrasts in stage 3, where the views show the same items
    rebalance: bool = True  #: Eqs. 20-24; off leaves the plain contrasts beside the POT labels
    logit_shift: float = (
        1.0  #: times log class frequency, added to a positive's logit; the paper's sign is -1
    )
    class_weight: NonNegativeFloat = 1.0  #: of the rebalanced class-level loss, Eqs. 21-24
    sample_weight: Fraction = 0.8  #: w_v of Eq. 22
    prototype_weight: Fraction = 0.2  #: w_t of Eq. 22
    readout: Literal["classifier", "kmeans"] = "classifier"  #: where the final labels come from

    @model_validator(mode="after")
    def _prototypes_fit(self) -> Self:
        """A perceived assignment is one of features, so its means can be prototypes of features alone."""
        if self.prior == "perceived" and self.classify == "latent":
            raise ValueError("prior='perceived' needs classify='feature'; use prior='uniform' with 'latent'")
        return self


PRESETS = {
    "default": ProtocolConfig(),
    "paper": ProtocolConfig(
        hidden=(500, 500, 2000),
        latent=512,
        attention=None,
        classify="latent",
        reconstruct_length=200,
        align_length=100,
        align_twins=True,
        twins_length=30,  # of no effect, since twins are aligned; as its records have it
        rounds=1,
        rebalance_length=100,
        early_end=False,
        reconstruct_steps=1,
        most_steps=None,
        most_rebalance_steps=None,
        most_rows=None,
        rebalance_rate=1e-3,
        kl_weight=0.1,
        prior="uniform",
        trust=0.0,
        label_scope="batch",
        label_loss="mixed",
        label_shift=0.0,
        twins_weight=1.0,
        readout="kmeans",
    ),
}
