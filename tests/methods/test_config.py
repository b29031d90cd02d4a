"""A config is known by its name or its fields, and everything else is told in one sentence."""

import pytest

from protocol_mvc.methods.protocol.config import PRESETS, ProtocolConfig
from protocol_mvc.utils.config import is_config, make_config, resolve_auto, resolve_config


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_known_by_name_by_fields_and_as_it_is(name: str):
    preset = PRESETS[name]
    assert resolve_config(name, PRESETS) is preset
    assert resolve_config(preset, PRESETS) is preset
    assert make_config(ProtocolConfig, dict(preset)) == preset


@pytest.mark.parametrize("other", ["papper", None, 5, [], {}, ("default",)], ids=repr)
def test_nothing_else_is_a_config(other):
    assert not is_config(other, PRESETS)
    with pytest.raises(ValueError, match=r"config must be a ProtocolConfig or one of \['default', 'paper'\]"):
        resolve_config(other, PRESETS)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"mix": 2}, "config field 'mix' cannot be 2: .* less than or equal to 1"),
        ({"hidden": (3, 0)}, r"config field 'hidden\.1' cannot be 0"),
        ({"mixx": 1}, "config field 'mixx'"),
        ({"classify": "latent"}, "the config is not valid: .* needs classify='feature'"),
    ],
    ids=str,
)
def test_the_first_fault_is_named(fields, says: str):
    with pytest.raises(ValueError, match=says):
        make_config(ProtocolConfig, fields)


def test_what_is_left_to_the_method_is_the_methods_own():
    assert resolve_auto("auto", 100) == 100
    assert resolve_auto(7, 100) == 7
    assert resolve_auto(["auto", "l2"], "range") == ["auto", "l2"]
