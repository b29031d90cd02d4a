"""The config: valid presets, named changes, nothing unknown, nothing out of range."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from protocol_mvc.methods.protocol.config import (
    DEFAULT,
    PAPER,
    PRESETS,
    RELEASED,
    AttentionStructure,
    BatchTransport,
    DatasetTransport,
    InitializedTransport,
    ProtocolConfig,
)
from protocol_mvc.utils.config import flatten_config, update_config


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json(name: str):
    preset = PRESETS[name]
    assert ProtocolConfig.model_validate_json(preset.model_dump_json()) == preset
    assert ProtocolConfig.model_validate(preset.model_dump()) == preset
    assert hash(preset) == hash(preset.model_copy())


def test_default_preset_is_the_default_config():
    assert PRESETS["default"] is DEFAULT
    assert ProtocolConfig() == DEFAULT


def test_paper_preset_has_the_values_of_the_paper():
    assert isinstance(PAPER.pseudo_labels, DatasetTransport)
    assert (PAPER.pseudo_labels.min_mass, PAPER.pseudo_labels.max_mass) == (0.1, 1.0)
    assert PAPER.pseudo_labels.consensus_weight == 0.5
    assert (PAPER.losses.temperature_feature, PAPER.losses.temperature_class) == (0.5, 1.0)
    assert (PAPER.losses.positive_sample_weight, PAPER.losses.positive_prototype_weight) == (0.8, 0.2)
    assert PAPER.losses.pseudo_label_loss == "mixture"
    assert isinstance(PAPER.structure, AttentionStructure)
    assert (PAPER.structure.classifier_input, PAPER.readout) == ("latent", "kmeans")


def test_released_preset_differs_from_the_paper_as_its_code_does():
    assert isinstance(RELEASED.pseudo_labels, BatchTransport)
    assert RELEASED.pseudo_labels.double_softmax
    assert isinstance(RELEASED.structure, AttentionStructure)
    assert RELEASED.structure.heads == "linear"
    assert (RELEASED.losses.pseudo_label_weight, RELEASED.losses.structure_weight) == (0, 1)
    assert (RELEASED.network, RELEASED.readout) == (PAPER.network, PAPER.readout)


def test_linear_heads_have_no_prototypes_to_start():
    with pytest.raises(ValueError, match="heads"):
        update_config(PAPER, {"structure__heads": "linear"})


def test_paper_preset_uses_all_data_and_features_in_one_pass_per_epoch():
    schedule = PAPER.schedule
    assert schedule.min_steps_per_epoch == 1
    assert schedule.max_steps_per_epoch is schedule.max_samples is PAPER.n_components is None


def test_config_is_immutable():
    with pytest.raises(ValidationError, match="frozen"):
        DEFAULT.readout = "kmeans"


def test_constants_of_the_partition_search_are_fields():
    assert isinstance(DEFAULT.pseudo_labels, InitializedTransport)
    names = dict(flatten_config(DEFAULT))
    assert names["pseudo_labels__partition__n_neighbors"] == 15
    assert names["structure__n_rounds"] == 3


def test_partition_cannot_start_a_classifier_of_latent_codes():
    with pytest.raises(ValidationError, match="classifier_input"):
        ProtocolConfig(structure=AttentionStructure())
    ProtocolConfig(structure=AttentionStructure(classifier_input="projection"))


def test_reconstruction_needs_decoders():
    with pytest.raises(ValueError, match="AttentionStructure"):
        update_config(DEFAULT, {"schedule__n_epochs_reconstruct": 1})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("network__hidden_dims", (0,)),
        ("structure__n_neighbors", 0),
        ("structure__n_rounds", 0),
        ("n_components", 0),
        ("network__logit_scale", 0),
        ("pseudo_labels__partition__n_neighbors", 1),
        ("schedule__n_epochs_reconstruct", -1),
        ("schedule__max_steps_per_epoch", 0),
        ("schedule__lr_align", 0),
        ("pseudo_labels__partition__shrinkage", 1.5),
        ("pseudo_labels__consensus_weight", 1.1),
        ("pseudo_labels__consensus_weight", float("nan")),
        ("pseudo_labels__epsilon", 0),
        ("pseudo_labels__prior_strength", 0),
        ("pseudo_labels__min_mass", 0),
        ("pseudo_labels__max_mass", 1.1),
        ("pseudo_labels__warmup_fraction", 1.1),
        ("losses__temperature_feature", 0),
        ("losses__pseudo_label_loss", "none"),
        ("losses__class_loss_weight", -0.1),
        ("losses__positive_sample_weight", 1.5),
        ("readout", "labels"),
    ],
)
def test_invalid_values_are_refused_by_name(field: str, value: object):
    with pytest.raises(ValueError, match=field.rpartition("__")[2]):
        update_config(DEFAULT, {field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [("latent_dim", 0), ("dim_feedforward", 2.5), ("dropout", 1.0), ("classifier_input", "view")],
)
def test_invalid_values_of_attention_are_refused_by_name(field: str, value: object):
    with pytest.raises(ValueError, match=field):
        update_config(PAPER, {f"structure__{field}": value})


@given(st.sampled_from(sorted(name for name, _ in flatten_config(DEFAULT))))
def test_update_with_its_own_value_changes_nothing(name: str):
    assert update_config(DEFAULT, {name: dict(flatten_config(DEFAULT))[name]}) == DEFAULT


@pytest.mark.parametrize(("n", "expected"), [(2, 128), (5120, 128), (8000, 200), (20_480, 500), (10**7, 500)])
def test_steps_of_the_default_grow_with_the_samples_of_a_stage(n: int, expected: int):
    assert DEFAULT.schedule.samples_per_step(n) == expected
    assert PAPER.schedule.samples_per_step(n) == 256
