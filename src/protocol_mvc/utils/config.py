"""Base class of all configs, and how configs are found, changed and flattened."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from protocol_mvc.utils.text import short_repr, suggest_name

NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveInt = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
LayerSizes = Annotated[tuple[PositiveInt, ...], Field(max_length=100)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Config(BaseModel):
    """An immutable group of hyper-parameters; unknown fields, infinity and NaN are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


C = TypeVar("C", bound=BaseModel)


def is_config(config: Any, presets: Mapping[str, BaseModel]) -> bool:
    """Return whether `config` is the name of a preset, or a config of the same class."""
    return isinstance(config, type(presets["default"])) or (isinstance(config, str) and config in presets)


def resolve_config(config: Any, presets: Mapping[str, C]) -> C:
    """Return the preset of that name, or the config itself, or raise `ValueError` if it is neither."""
    if not is_config(config, presets):
        kind = type(presets["default"]).__name__
        raise ValueError(f"config must be a {kind} or one of {sorted(presets)}, got {short_repr(config)}")
    return presets[config] if isinstance(config, str) else config


def resolve_auto(value: Any, default: Any) -> Any:
    """Return the default of a method where the user passed ``"auto"``, else the value."""
    return default if isinstance(value, str) and value == "auto" else value


def flatten_config(config: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all fields, those of nested groups as ``group__field`` after the group itself."""
    for name, value in config:
        yield prefix + name, value
        if isinstance(value, BaseModel):
            yield from flatten_config(value, f"{prefix}{name}__")


def update_config(config: C, changes: Mapping[str, Any]) -> C:
    """Return a config with some fields replaced.

    Args:
        config: the config.
        changes: new values by name; ``group__field`` names a field of a nested group. Changes of a whole
            group are applied before those of its fields.

    Raises:
        ValueError: If a name is unknown or a value is invalid.
    """
    fields: dict[str, Any] = dict(config)
    nested: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        group, separator, rest = name.partition("__")
        if group not in fields:
            advice = suggest_name(group, [known for known, _ in flatten_config(config)])
            raise ValueError(f"{type(config).__name__} has no field {group!r}{advice}")
        if separator:
            nested.setdefault(group, {})[rest] = value
        else:
            fields[group] = value
    for group, inner in nested.items():
        if not isinstance(fields[group], BaseModel):
            raise ValueError(f"field {group!r} of {type(config).__name__} has no field {next(iter(inner))!r}")
        fields[group] = update_config(fields[group], inner)
    return make_config(type(config), fields)


def make_config(kind: type[C], fields: Mapping[str, Any]) -> C:
    """Make a config of its fields, groups as configs or dicts; a `ValueError` describes the first error."""
    try:
        return kind(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        reason = f"config field {name!r} cannot be {short_repr(first['input'])}: {first['msg']}"
        if not name:
            reason = f"invalid config: {first['msg']}"
        elif first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            reason = f"{kind.__name__} has no field {name!r}{suggest_name(name, kind.model_fields)}"
        raise ValueError(reason) from None
