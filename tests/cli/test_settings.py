"""Flags override `--set`, which overrides the config file; unknown or invalid settings are usage errors."""

import json

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from protocol_mvc.cli.output import as_json
from protocol_mvc.cli.settings import PARAMETERS, Settings, check_choice, make_model, read_settings
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.methods.protocol.config import PRESETS, BatchTransport
from protocol_mvc.utils.config import flatten_config, update_config

SCALE, EPSILON = "network.logit_scale", "pseudo_labels.epsilon"


def config_fields(config):
    """Return all fields of a config by their dotted names."""
    return {name.replace("__", "."): value for name, value in flatten_config(config)}


def write(tmp_path, text: str, name: str = "c.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def value_of(found: Settings, name: str):
    return config_fields(found.config)[name]


def test_without_options_the_settings_are_the_default_preset():
    found = read_settings(None, None)
    assert found.config == PRESETS["default"]
    assert (found.random_state, found.device, found.scaling, found.batch_size) == (0, "auto", "auto", "auto")


@given(*[st.none() | st.integers(0, 99)] * 3)
def test_flags_override_changes_and_changes_the_file(tmp_path_factory, in_file, in_set, flag):
    text = "" if in_file is None else f"random_state: {in_file}\n"
    path = write(tmp_path_factory.mktemp("c"), text)
    changes = [] if in_set is None else [f"random_state={in_set}"]
    found = read_settings(path, changes, random_state=flag)
    given = [value for value in (flag, in_set, in_file) if value is not None]
    assert found.random_state == (given[0] if given else 0)


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_parameter_can_be_set(name: str):
    value = getattr(read_settings(None, ["n_clusters=4"]), name)
    assert getattr(read_settings(None, [f"{name}={json.dumps(value)}"]), name) == value


@pytest.mark.parametrize("name", config_fields(PRESETS["default"]))
def test_every_config_field_can_be_set(name: str):
    value = value_of(read_settings(None, None), name)
    text = json.dumps(value.model_dump() if isinstance(value, BaseModel) else value)
    assert value_of(read_settings(None, [f"{name}={text}"]), name) == value


@pytest.mark.parametrize("preset", PRESETS)
def test_the_record_of_settings_is_a_config_file_that_gives_them_again(tmp_path, preset: str):
    found = read_settings(None, [f"{SCALE}=0.25", "n_clusters=4"], preset=preset)
    path = write(tmp_path, json.dumps(as_json(found.record())), "c.json")
    assert read_settings(path, None) == found


def test_yaml_toml_and_json_are_equivalent(tmp_path):
    given = {"preset": "paper", "n_clusters": 4, SCALE: 0.25, "scaling": {"a": "l2"}}
    toml = f'preset = "paper"\nn_clusters = 4\n"{SCALE}" = 0.25\nscaling = {{a = "l2"}}\n'
    first = read_settings(write(tmp_path, yaml.safe_dump(given)), None)
    assert read_settings(write(tmp_path, toml, "c.toml"), None) == first
    assert read_settings(write(tmp_path, json.dumps(given), "c.json"), None) == first
    assert (value_of(first, SCALE), first.preset) == (0.25, "paper")
    model = make_model(first, verbose=True)
    assert (model.config, model.n_clusters, model.scaling, model.verbose) == (first.config, 4, {"a": "l2"}, 1)


def test_groups_of_fields_may_be_nested_or_replaced(tmp_path):
    nested = {"network": {"logit_scale": 0.25}, "pseudo_labels": {"kind": "batch", "epsilon": 0.2}}
    found = read_settings(write(tmp_path, yaml.safe_dump(nested)), None).config
    pseudo_labels = BatchTransport(epsilon=0.2)
    changes = {"network__logit_scale": 0.25, "pseudo_labels": pseudo_labels}
    assert found == update_config(PRESETS["default"], changes)
    assert read_settings(None, ['pseudo_labels={"kind": "batch"}']).config.pseudo_labels == BatchTransport()
    assert read_settings(None, ["n_components=null"]).config.n_components is None


def test_an_empty_file_changes_nothing(tmp_path):
    assert read_settings(write(tmp_path, "# nothing\n"), None) == read_settings(None, None)


def test_a_preset_gives_the_fields_that_are_not_set():
    found = read_settings(None, [f"{SCALE}=0.25"], preset="paper").config
    assert found == update_config(PRESETS["paper"], {"network__logit_scale": 0.25})


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ([f"{EPSILON}x=1"], EPSILON),
        (["epsilonn=1"], EPSILON),
        (["n_cluster=3"], "n_clusters"),
        (["zzz=1"], "batch_size"),
        ([f"{SCALE}=-3"], "logit_scale"),
        (["preset=papers"], "'paper'"),
        (["random_state=-1"], "random_state"),
        (["random_state=one"], "'one'"),
        (["n_clusters=1"], "n_clusters"),
        (["scaling=3"], "scaling"),
        (["scaling"], "NAME=VALUE"),
        (["method=mflv"], "'mflvc'"),
        (["method=mflvc", f"{SCALE}=0.3"], SCALE),
        (['structure={"kind": "attention"}'], "classifier_input"),
        (["method=mflvc", "preset=paper"], "preset"),
    ],
)
def test_invalid_settings_are_usage_errors(changes: list[str], culprit: str):
    with pytest.raises(typer.BadParameter, match=culprit):
        read_settings(None, changes)


def test_the_nearest_choice_is_suggested():
    choices = ("structure.n_rounds", "schedule.n_epochs_align", "scaling")
    for name in ("rounds", "n_rounds", "struct.n_rounds"):
        with pytest.raises(typer.BadParameter, match=r"structure\.n_rounds"):
            check_choice(name, choices, "setting")
    check_choice("scaling", choices, "setting")


NESTED_ALIASES = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.ini", "n_clusters=3"),
        ("c.yaml", "scaling: ["),
        ("c.toml", "scaling = "),
        ("c.json", "{"),
        ("c.yaml", "- scaling"),
        ("c.yaml", "!!python/object/apply:os.system [true]"),
        ("c.yaml", f"{SCALE}: [[1], [2]]"),
        ("c.yaml", NESTED_ALIASES),
        ("c.yaml", "[" * 5000),
        ("c.yaml", "colour: red"),
        ("c.yaml", "n_clusters: {colour: red}"),
    ],
)
def test_an_invalid_config_file_is_a_usage_error(tmp_path, name: str, text: str):
    with pytest.raises(typer.BadParameter):
        read_settings(write(tmp_path, text, name), None)


def test_a_config_file_must_exist(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_settings(tmp_path / "no.yaml", None)


def test_without_a_number_of_clusters_it_is_found():
    assert make_model(read_settings(None, None)).n_clusters == "auto"
    assert make_model(read_settings(None, None, n_clusters="7")).n_clusters == 7


@pytest.mark.parametrize("method", ESTIMATORS)
def test_every_method_has_its_settings(method: str):
    found = read_settings(None, ["n_clusters=4", "batch_size=32"], method=method.upper())
    model = make_model(found)
    assert type(model) is ESTIMATORS[method]
    assert model.config == ESTIMATORS[method]._presets["default"]
    assert (model.n_clusters, model.batch_size, found.method) == (4, 32, method)


def test_presets_belong_to_a_method():
    found = read_settings(None, ["method=csot", "n_clusters=4", "epsilon=0.1"], preset="published")
    assert found.config == ESTIMATORS["csot"]._presets["published"].model_copy(update={"epsilon": 0.1})
