"""Progress on stderr: a bar on a terminal, a line now and then elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

Advance: TypeAlias = Callable[..., None]
"""``advance(text, steps=1, total=None)`` shows `text`, adds `steps`, and sets the number of all steps."""

INTERVAL = 15.0  # seconds between two lines if nothing else happens


@contextmanager
def progress(text: str, *, visible: bool = True) -> Iterator[Advance]:
    """Show on stderr that something goes on until the block ends.

    On a terminal this is a bar. Elsewhere it is a line for every new text, and one every `INTERVAL` seconds.

    Args:
        text: what goes on.
        visible: whether anything is shown.

    Yields:
        An `Advance`; without calls of it, the bar and the lines tell only that time passes.
    """
    console = Console(file=sys.stderr)
    if not visible:
        yield lambda text, steps=1, total=None: None
    elif console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(text, total=None)
            yield lambda text, steps=1, total=None: bar.update(
                task, advance=steps, description=text, total=total
            )
    else:
        lines = _Lines(text)
        with _repeat(lines.show_if_silent, INTERVAL / 5):
            yield lines.advance


class _Lines:
    """Prints what goes on, how much of it is done, and since when."""

    def __init__(self, text: str) -> None:
        self.text, self.n_steps, self.total, self.started = text, 0, 0, time.monotonic()
        self.write(text)

    def write(self, line: str) -> None:
        self.written = time.monotonic()
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def advance(self, text: str, steps: int = 1, total: int | None = None) -> None:
        is_new, self.text = text != self.text, text
        self.n_steps, self.total = self.n_steps + steps, total or self.total
        if is_new:
            self.show()

    def show(self) -> None:
        share = f"{self.n_steps / self.total:.0%}, " if self.total else ""
        self.write(f"  {self.text}: {share}{time.monotonic() - self.started:.0f} s")

    def show_if_silent(self) -> None:
        if time.monotonic() - self.written >= INTERVAL:
            self.show()


@contextmanager
def _repeat(function: Callable[[], None], interval: float) -> Iterator[None]:
    """Call a function every `interval` seconds, in a thread, until the block ends."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(interval):
            function()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
