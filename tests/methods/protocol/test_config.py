"""The choices: valid presets, nothing unknown, nothing out of range, nothing changed in place."""

import pytest
from pydantic import ValidationError

from protocol_mvc.methods.protocol.config import PRESETS, ProtocolConfig


def test_the_defaults_are_the_default_preset():
    assert PRESETS["default"] == ProtocolConfig()
    assert PRESETS.keys() == {"default", "paper"}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_valid_and_survive_json(name: str):
    preset = PRESETS[name]
    assert ProtocolConfig(**dict(preset)) == preset
    assert ProtocolConfig.model_validate_json(preset.model_dump_json()) == preset
    assert hash(preset) == hash(preset.model_copy())


def test_the_paper_preset_says_what_the_paper_says():
    paper = PRESETS["paper"]
    assert (paper.prior, paper.classify, paper.readout) == ("uniform", "latent", "kmeans")
    assert (paper.mass_start, paper.mass_end, paper.rounds) == (0.1, 1.0, 1)
    assert (paper.sample_weight, paper.prototype_weight) == (0.8, 0.2)


def test_the_paper_preset_has_nothing_that_the_paper_has_not():
    paper = PRESETS["paper"]
    assert paper.align_twins
    assert (paper.twins_weight, paper.trust) == (1.0, 0.0)
    assert paper.reconstruct_steps == 1  # an epoch is one pass
    assert paper.most_steps is paper.most_rebalance_steps is paper.most_rows is None


def test_a_config_cannot_be_changed_in_place():
    with pytest.raises(ValidationError, match="frozen"):
        ProtocolConfig().mix = 0.3


def test_unknown_fields_are_refused_by_name():
    with pytest.raises(ValidationError, match="mixx"):
        ProtocolConfig(mixx=0.3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden", (0,)),
        ("latent", 0),
        ("feature", -1),
        ("feedforward", 2.5),
        ("dropout", 1.0),
        ("classifier_scale", 0),
        ("classify", "view"),
        ("reconstruct_length", -1),
        ("reconstruct_steps", 0),
        ("most_steps", 0),
        ("most_rebalance_steps", 0),
        ("align_twins", "sometimes"),
        ("rounds", -1),
        ("align_rate", 0),
        ("temperature_feature", 0),
        ("temperature_class", -1),
        ("structure_weight", -1),
        ("mix", 1.1),
        ("mix", float("nan")),
        ("epsilon", 0),
        ("kl_weight", 0),
        ("mass_start", 0),
        ("mass_end", 1.1),
        ("prior", "true"),
        ("trust", 1.1),
        ("label_scope", "none"),
        ("label_weight", -1),
        ("label_loss", "none"),
        ("twins_weight", -1),
        ("class_weight", -0.1),
        ("sample_weight", 1.5),
        ("prototype_weight", -0.5),
        ("readout", "truth"),
    ],
)
def test_values_out_of_range_are_refused_by_field(field: str, value):
    with pytest.raises(ValidationError, match=field):
        ProtocolConfig(**{field: value})
