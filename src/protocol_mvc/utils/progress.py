"""A progress bar on the terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

Advance: TypeAlias = Callable[..., None]  # advance(text, steps=1) moves the bar by `steps` and shows `text`


@contextmanager
def progress_bar(total: int, *, visible: bool) -> Iterator[Advance]:
    """Yield a function that moves a bar on stderr; nothing is printed if stderr is not a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    disable = not (visible and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=disable) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda text, steps=1: bar.update(task, advance=steps, description=text)
