"""The settings of a command: a config file, then `--set`, then the flags."""

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
)

from protocol_mvc.cli.output import JsonDict
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.cluster_count import Bounds, parse_auto
from protocol_mvc.estimators.clusterers import ESTIMATORS
from protocol_mvc.utils.config import flatten_config, update_config
from protocol_mvc.utils.files import read_regular
from protocol_mvc.utils.text import short_repr

MAX_CONFIG = 2**20  # bytes of a config file


class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads YAML without aliases, by which a small file can become very large."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Read a value, or refuse an alias."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(
                None, None, f"write out the alias *{event.anchor}", event.start_mark
            )
        return super().compose_node(parent, index)


def load_yaml(text: str) -> Any:
    """Return the contents of a YAML text without aliases."""
    return yaml.load(text, PlainLoader)


LOADERS: dict[str, Callable[[str], Any]] = {
    ".yaml": load_yaml,
    ".yml": load_yaml,
    ".toml": tomllib.loads,
    ".json": json.loads,
}


def check_auto(n_clusters: str) -> str:
    """Refuse a text that does not ask for a number of clusters."""
    if parse_auto(n_clusters) is None:
        raise ValueError("it must be 'auto', 'auto:LOW-HIGH' or a number of at least 2")
    return n_clusters


class Settings(BaseModel):
    """The method, the estimator's parameters and the method's config."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    method: str = "protocol"
    preset: str = "default"
    n_clusters: Annotated[int, Field(ge=2)] | Annotated[str, AfterValidator(check_auto)] | None = None
    scaling: str | list[str] | dict[str, str] = "auto"
    batch_size: Annotated[int, Field(ge=2)] | Literal["auto"] = "auto"
    random_state: Annotated[int, Field(ge=0, lt=2**63)] = 0
    device: str = "auto"
    n_jobs: Annotated[int, Field(ge=-1)] | None = None
    config: Any = None

    def record(self) -> JsonDict:
        """Return all settings by name, as `--config` reads them."""
        return {**self.model_dump(exclude={"config"}), **self.config.model_dump()}


PARAMETERS = [name for name in Settings.model_fields if name != "config"]


def read_settings(file: Path | None, changes: Iterable[str] | None, **flags: Any) -> Settings:
    """Return the validated settings.

    Args:
        file: config file, or None.
        changes: `NAME=VALUE` texts, which override the file.
        flags: values of command-line flags, which override both; None means that a flag was not given.

    Raises:
        BadParameter: if a name is unknown or a value is invalid.
        OSError: if the file cannot be read.
    """
    in_file = {} if file is None else read_config_file(file)
    given = dict(map(parse_change, changes or ()))
    given |= {name: value for name, value in flags.items() if value is not None}
    method = str(given.get("method", in_file.get("method", "protocol"))).lower()
    check_choice(method, ESTIMATORS, "method")
    presets = ESTIMATORS[method]._presets
    preset = str(given.get("preset", in_file.get("preset", "default")))
    check_choice(preset, presets, "preset")
    fields = {name.replace("__", "."): value for name, value in flatten_config(presets[preset])}
    given = _flatten(in_file, fields) | given | {"method": method, "preset": preset}
    for name in given:
        check_choice(name, [*PARAMETERS, *fields], "setting")
    config = {name.replace(".", "__"): given.pop(name) for name in fields if name in given}
    try:
        return Settings(config=update_config(presets[preset], config), **given)
    except ValidationError as error:
        first = error.errors()[0]
        culprit = f"setting {first['loc'][0]!r} cannot be {short_repr(first['input'])}"
        raise typer.BadParameter(f"{culprit}: {first['msg']}") from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def check_choice(name: str, choices: Iterable[str], kind: str) -> None:
    """Raise a usage error that suggests the nearest choice if the name is not among the choices.

    The last component of a dotted choice counts as well: "rounds" is near to "structure.n_rounds".
    """
    choices = sorted(choices)
    if name in choices:
        return
    by_name = {choice.rpartition(".")[2]: choice for choice in choices}
    by_name |= {choice: choice for choice in choices}
    nearest = get_close_matches(name, by_name, n=1)
    advice = f"did you mean {by_name[nearest[0]]!r}?" if nearest else f"choose from {', '.join(choices)}"
    raise typer.BadParameter(f"unknown {kind} {name!r}: {advice}")


def make_model(settings: Settings, *, verbose: bool = False) -> MultiViewClusterer:
    """Return the unfitted estimator, which finds the number of clusters if none is given."""
    parameters = settings.model_dump(exclude={"method", "preset", "config"})
    parameters["n_clusters"] = "auto" if settings.n_clusters is None else settings.n_clusters
    return ESTIMATORS[settings.method](config=settings.config, verbose=int(verbose), **parameters)


def parse_bounds(n_clusters: str) -> Bounds:
    """Return the bounds of ``auto`` or ``auto:LOW-HIGH``.

    Raises:
        BadParameter: if the text is something else.
    """
    try:
        check_auto(n_clusters)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return parse_auto(n_clusters) or Bounds()


def parse_change(text: str) -> tuple[str, Any]:
    """Return name and value of `NAME=VALUE`; the value is read as JSON if possible, else as a string."""
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--set takes NAME=VALUE, such as scaling=standard, not {text!r}")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def read_config_file(file: Path) -> dict[str, Any]:
    """Return the contents of a config file, not yet validated."""
    load = LOADERS.get(file.suffix.lower())
    if load is None:
        raise typer.BadParameter(f"config file {file} must end in one of {', '.join(LOADERS)}")
    try:
        found = load(read_regular(file.resolve(), MAX_CONFIG).decode("utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise typer.BadParameter(f"config file {file} is not valid: {' '.join(str(error).split())}") from None
    if found is not None and not isinstance(found, dict):
        raise typer.BadParameter(f"config file {file} must hold names and values, such as 'n_clusters: 10'")
    return {str(name): value for name, value in (found or {}).items()}


def _flatten(given: Mapping[str, Any], fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the fields of config groups by dotted names: {"a": {"b": 1}} becomes {"a.b": 1}.

    A group of another kind than in the preset is not flattened, because it replaces the group.
    """
    flat: dict[str, Any] = {}
    for key, value in given.items():
        name = f"{prefix}{key}"
        kind, is_group = fields.get(f"{name}.kind"), isinstance(fields.get(name), BaseModel)
        if is_group and isinstance(value, Mapping) and value.get("kind", kind) == kind:
            flat |= _flatten(value, fields, f"{name}.")
        else:
            flat[name] = value
    return flat
