"""All that decides a fit beside the data: a file, then `--set`, then flags, checked together."""

import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from protocol_mvc.cli.options import change, known
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.estimators.clusterers import ESTIMATORS

MOST_BYTES = 2**20  # of a config file
READERS = {".yaml": yaml.safe_load, ".yml": yaml.safe_load, ".toml": tomllib.loads}

Config = Annotated[Path | None, typer.Option("--config", help="Settings in a .yaml or .toml file.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, such as scaling=standard; may be repeated."),
]
Method = Annotated[
    str | None, typer.Option("--method", help=f"Among {', '.join(ESTIMATORS)}; protocol if nothing is said.")
]
Clusters = Annotated[int | None, typer.Option("-k", "--clusters", help="Number of clusters.", min=2)]
Seed = Annotated[int | None, typer.Option(help="Seed of all that is random; 0 if nothing is said.", min=0)]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, mps, ...")]


class Settings(BaseModel):
    """What the estimator wants to know; `settings_of` adds every field of a method's config."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    method: str = "protocol"
    preset: str = "default"  # gives the config fields that are not set
    n_clusters: Annotated[int, Field(ge=2)] | None = None
    scaling: str | list[str] | dict[str, str] = "auto"
    batch_size: Annotated[int, Field(ge=2)] | Literal["auto"] = "auto"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    device: str = "auto"


@cache
def settings_of(method: str) -> type[Settings]:
    """The settings for a method, with the fields of its config."""
    parts: Any = (Settings, type(ESTIMATORS[method]._presets["default"]))
    made: type[Settings] = create_model("Settings", __base__=parts)
    return made


def chosen_settings(file: Path | None, changes: Iterable[str] | None, **flags: Any) -> Settings:
    """The settings; flags go before `--set`, which goes before the file, and a flag of None says nothing.

    Raises:
        BadParameter: If a name is unknown or a value impossible.
        OSError: If the file cannot be read.
    """
    given = _read(file) if file is not None else {}
    given |= dict(map(change, changes or ()))
    given |= {name: value for name, value in flags.items() if value is not None}
    method = str(given.get("method", "protocol")).lower()
    known([method], ESTIMATORS, "method")
    kind, presets = settings_of(method), ESTIMATORS[method]._presets
    for name in given:
        _check_known(name, kind)
    preset = str(given.get("preset", "default"))
    known([preset], presets, "preset")
    try:
        return kind(**dict(presets[preset]) | given | {"method": method})
    except ValidationError as error:
        fault = error.errors()[0]
        name = ".".join(str(part) for part in fault["loc"][:1])
        culprit = f"setting {name!r} cannot be {given.get(name)!r}" if name else "the settings do not agree"
        raise typer.BadParameter(f"{culprit}: {fault['msg']}") from None


def make_model(settings: Settings, *, verbose: bool) -> MultiViewClusterer:
    """The estimator, not yet fitted."""
    if settings.n_clusters is None:
        raise typer.BadParameter("say how many clusters there are: -k 10, or n_clusters in the config file")
    estimator = ESTIMATORS[settings.method]
    config = type(estimator._presets["default"])
    return estimator(
        settings.n_clusters,
        config=config(**{name: getattr(settings, name) for name in config.model_fields}),
        scaling=settings.scaling,
        batch_size=settings.batch_size,
        device=settings.device,
        random_state=settings.seed,
        verbose=int(verbose),
    )


def _read(file: Path) -> dict[str, Any]:
    """The names and values of a config file, none of them nested deeper than a list of plain values."""
    read = READERS.get(file.suffix.lower())
    if read is None:
        raise typer.BadParameter(f"config file {file} must end in one of {', '.join(READERS)}")
    with file.open("rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise typer.BadParameter(f"config file {file} has more than {MOST_BYTES} bytes: is it the right one?")
    try:
        found = read(content.decode("utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise typer.BadParameter(f"config file {file} is not {file.suffix[1:].upper()}: {reason}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise typer.BadParameter(
            f"config file {file} must hold lines such as 'mix: 0.3', not a {type(found)}"
        )
    for name, value in found.items():
        # References in YAML make small files that are huge when written out.
        if not _is_flat(value):
            raise typer.BadParameter(f"config file {file}: {name!r} must be a value or a list of values")
    return {str(name): value for name, value in found.items()}


def _is_flat(value: Any) -> bool:
    parts = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return not any(isinstance(part, list | dict) for part in parts)


def _check_known(name: str, kind: type[Settings]) -> None:
    names = list(kind.model_fields)
    if name not in names:
        near = get_close_matches(name, names, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"choose among {', '.join(sorted(names))}"
        raise typer.BadParameter(f"unknown setting {name!r}: {advice}")
