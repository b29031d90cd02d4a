"""Configs by name, by fields, and with changes of nested fields."""

import pytest

from protocol_mvc.methods.protocol.config import DEFAULT, PAPER, PRESETS, BatchTransport, ProtocolConfig
from protocol_mvc.utils.config import (
    flatten_config,
    make_config,
    resolve_auto,
    resolve_config,
    update_config,
)


def test_resolve_config_takes_names_and_configs():
    assert resolve_config("paper", PRESETS) is PAPER
    assert resolve_config(PAPER, PRESETS) is PAPER


@pytest.mark.parametrize("config", ["papers", None, {}, 3, DEFAULT.network])
def test_resolve_config_refuses_anything_else(config: object):
    with pytest.raises(ValueError, match=rf"ProtocolConfig or one of .*{'.*'.join(sorted(PRESETS))}"):
        resolve_config(config, PRESETS)


def test_resolve_auto_leaves_other_values():
    assert resolve_auto("auto", 256) == 256
    assert resolve_auto(32, 256) == 32


def test_flatten_names_groups_and_their_fields():
    flat = dict(flatten_config(DEFAULT))
    assert flat["schedule"] is DEFAULT.schedule
    assert flat["structure__n_rounds"] == dict(DEFAULT.structure)["n_rounds"]


def test_update_replaces_nested_fields_and_whole_groups():
    changed = update_config(DEFAULT, {"structure__n_rounds": 1, "readout": "kmeans"})
    assert (dict(changed.structure)["n_rounds"], changed.readout) == (1, "kmeans")
    assert changed.schedule.n_epochs_align == DEFAULT.schedule.n_epochs_align
    batch = update_config(DEFAULT, {"pseudo_labels__epsilon": 0.2, "pseudo_labels": BatchTransport()})
    assert batch.pseudo_labels == BatchTransport(epsilon=0.2)


@pytest.mark.parametrize("name", ["structur__n_rounds", "structure__n_round", "structur"])
def test_unknown_names_suggest_the_nearest(name: str):
    with pytest.raises(ValueError, match=r"did you mean '(structure|n_rounds)'"):
        update_config(DEFAULT, {name: 1})


def test_field_without_subfields_is_named():
    with pytest.raises(ValueError, match="readout"):
        update_config(DEFAULT, {"readout__kind": 1})


def test_make_config_names_the_nested_field():
    with pytest.raises(ValueError, match=r"n_epochs_align.*-1"):
        make_config(ProtocolConfig, {"schedule": {"n_epochs_align": -1}})
    with pytest.raises(ValueError, match="did you mean 'schedule'"):
        make_config(ProtocolConfig, {"shedule": {}})
