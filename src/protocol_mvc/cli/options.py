"""What the commands share: consoles, options of several words, and pictures."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from protocol_mvc.report import figures

WIDTH = 130  # of tables where no terminal tells how wide it is
out = Console() if Console().is_terminal else Console(width=WIDTH)
err = Console(stderr=True)


def change(text: str) -> tuple[str, Any]:
    """The field and the value, read as JSON or else as a word, of `field=value`."""
    field, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--set takes field=value, such as mix=0.3, not {text!r}")
    try:
        return field, json.loads(value)
    except json.JSONDecodeError:
        return field, value


def tell(text: str) -> None:
    """A message on stderr, as it is."""
    err.print(text, markup=False, highlight=False, soft_wrap=True)


def draw_if_possible(draw: Callable[[], None], picture: Path, tell: Callable[[str], None] = tell) -> None:
    """Draw, or say how pictures can be had."""
    if figures.can_draw():
        draw()
        tell(f"Picture: {picture}")
    else:
        tell("No picture: pip install 'protocol-mvc[viz]' to get one.")


def known(chosen: list[str], choices: Iterable[str], kind: str) -> None:
    """Refuse a name that is not among the choices."""
    for name in chosen:
        if name not in choices:
            raise typer.BadParameter(f"unknown {kind} {name!r}: choose among {', '.join(choices)}")
