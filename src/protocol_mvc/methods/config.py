"""Configs by name, by fields or as they are, for any method."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from protocol_mvc.utils.text import short_repr

C = TypeVar("C", bound=BaseModel)


def is_config(config: Any, presets: Mapping[str, BaseModel]) -> bool:
    """Whether this is the name of a preset, or a config of the same kind."""
    return isinstance(config, type(presets["default"])) or (isinstance(config, str) and config in presets)


def resolve_config(config: Any, presets: Mapping[str, C]) -> C:
    """The preset of that name, or the config itself.

    Raises:
        ValueError: If it is neither.
    """
    if not is_config(config, presets):
        kind = type(presets["default"]).__name__
        raise ValueError(f"config must be a {kind} or one of {sorted(presets)}, got {short_repr(config)}")
    found: C = presets[config] if isinstance(config, str) else config
    return found


def resolve_auto(given: Any, own: Any) -> Any:
    """What a method has of its own, where the user leaves that to it."""
    return own if isinstance(given, str) and given == "auto" else given


def make_config(kind: type[C], fields: Mapping[str, Any]) -> C:
    """A config from its fields.

    Raises:
        ValueError: If there is no such config; the first fault is told in one sentence.
    """
    try:
        return kind(**fields)
    except ValidationError as error:
        fault = error.errors()[0]
        name = ".".join(str(part) for part in fault["loc"])
        culprit = (
            f"config field {name!r} cannot be {short_repr(fault['input'])}"
            if name
            else "the config is not valid"
        )
        raise ValueError(f"{culprit}: {fault['msg']}") from None
