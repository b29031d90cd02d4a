"""Flags go before `--set`, which goes before the file; what is unknown or impossible is a usage error."""

import json
import re

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st

from protocol_mvc.cli import settings
from protocol_mvc.cli.settings import chosen_settings, make_model, settings_of
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.methods.protocol.config import PRESETS, ProtocolConfig


def file(tmp_path, text: str, name: str = "c.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_nothing_said_is_the_default_preset():
    found = chosen_settings(None, None)
    assert make_model(found.model_copy(update={"n_clusters": 3}), verbose=False).config == PRESETS["default"]
    assert (found.seed, found.device, found.scaling, found.batch_size) == (0, "auto", "auto", "auto")


@given(*[st.none() | st.integers(0, 99)] * 3)
def test_flags_go_before_changes_before_the_file(tmp_path_factory, in_file, in_set, flag):
    path = file(tmp_path_factory.mktemp("c"), "" if in_file is None else f"seed: {in_file}\n")
    found = chosen_settings(path, [] if in_set is None else [f"seed={in_set}"], seed=flag)
    said = [value for value in (flag, in_set, in_file) if value is not None]
    assert found.seed == (said[0] if said else 0)


@pytest.mark.parametrize("name", settings_of("protocol").model_fields)
def test_every_field_can_be_set(name: str):
    value = getattr(chosen_settings(None, ["n_clusters=4"]), name)
    assert getattr(chosen_settings(None, [f"{name}={json.dumps(value)}"]), name) == value


def test_yaml_and_toml_say_the_same(tmp_path):
    given = {"preset": "paper", "n_clusters": 4, "hidden": [16, 8], "mix": 0.25, "scale": {"a": "l2"}}
    toml = 'preset = "paper"\nn_clusters = 4\nhidden = [16, 8]\nmix = 0.25\nscale = {a = "l2"}\n'
    first = chosen_settings(file(tmp_path, yaml.safe_dump(given)), None)
    assert chosen_settings(file(tmp_path, toml, "c.toml"), None) == first
    model = make_model(first, verbose=True)
    expected = PRESETS["paper"].model_copy(update={"hidden": (16, 8), "mix": 0.25})
    assert (model.config, model.n_clusters, model.scaling, model.verbose) == (expected, 4, {"a": "l2"}, 1)


def test_an_empty_file_says_nothing(tmp_path):
    assert chosen_settings(file(tmp_path, "# nothing\n"), None) == chosen_settings(None, None)


def test_a_preset_gives_the_fields_that_are_not_set():
    found = chosen_settings(None, ["preset=paper", "mix=0.25"])
    fields = {name: getattr(found, name) for name in ProtocolConfig.model_fields}
    assert ProtocolConfig(**fields) == PRESETS["paper"].model_copy(update={"mix": 0.25})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["mixx=1"], "unknown setting 'mixx': did you mean 'mix'?"),
        (["n_cluster=3"], "did you mean 'n_clusters'?"),
        (["zzz=1"], "choose among align_length"),
        (["mix=3"], "setting 'mix' cannot be 3"),
        (["preset=best"], "unknown preset 'best': choose among default, paper"),
        (["seed=-1"], "setting 'seed' cannot be -1"),
        (["seed=one"], "setting 'seed' cannot be 'one'"),
        (["n_clusters=1"], "setting 'n_clusters' cannot be 1"),
        (["scale=3"], "setting 'scale' cannot be 3"),
        (["classify=latent"], "the settings do not agree"),
        (["mix"], "takes field=value"),
        (["method=magic"], "unknown method 'magic': choose among protocol, mflvc"),
        (["method=mflvc", "mix=0.3"], "unknown setting 'mix'"),
        (["method=mflvc", "preset=paper"], "unknown preset 'paper': choose among default"),
    ],
)
def test_impossible_settings_are_usage_errors(changes: list[str], says: str):
    with pytest.raises(typer.BadParameter, match=re.escape(says)):
        chosen_settings(None, changes)


BOMB = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("c.json", "{}", "must end in one of .yaml, .yml, .toml"),
        ("c.yaml", "mix: [", "is not YAML"),
        ("c.toml", "mix = ", "is not TOML"),
        ("c.yaml", "- mix", "must hold lines such as"),
        ("c.yaml", "!!python/object/apply:os.system [true]", "is not YAML"),
        ("c.yaml", "hidden: [[1], [2]]", "must be a value or a list of values"),
        ("c.yaml", BOMB, "must be a value or a list of values"),
        ("c.yaml", "[" * 5000, "is not YAML"),
        ("c.yaml", "colour: red", "unknown setting 'colour'"),
    ],
)
def test_a_bad_config_file_is_a_usage_error(tmp_path, name: str, text: str, says: str):
    with pytest.raises(typer.BadParameter, match=re.escape(says)):
        chosen_settings(file(tmp_path, text, name), None)


def test_a_config_file_has_a_limit_and_must_be_there(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "MOST_BYTES", 10)
    with pytest.raises(typer.BadParameter, match="more than 10 bytes"):
        chosen_settings(file(tmp_path, "mix: 0.300000"), None)
    with pytest.raises(FileNotFoundError):
        chosen_settings(tmp_path / "no.yaml", None)


def test_the_number_of_clusters_must_be_said():
    with pytest.raises(typer.BadParameter, match="-k 10"):
        make_model(chosen_settings(None, None), verbose=False)


@pytest.mark.parametrize("method", ESTIMATORS)
def test_every_method_has_its_settings(method: str):
    found = chosen_settings(None, ["n_clusters=4", "batch_size=32"], method=method.upper())
    model = make_model(found, verbose=False)
    assert type(model) is ESTIMATORS[method]
    assert model.config == ESTIMATORS[method]._presets["default"]
    assert (model.n_clusters, model.batch_size, found.method) == (4, 32, method)


def test_a_preset_is_of_the_method():
    found = chosen_settings(None, ["method=csot", "preset=published", "n_clusters=4", "epsilon=0.1"])
    config = make_model(found, verbose=False).config
    assert (config.kmeans_starts, config.epsilon) == (100, 0.1)
