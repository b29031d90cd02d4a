"""The machine: device, seeds, versions, progress on the terminal."""

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Protocol

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from protocol_mvc.utils.text import sanitize, short_repr

Seed = int | np.random.RandomState | np.random.Generator | None


class Advance(Protocol):
    """What moves a progress bar."""

    def __call__(self, text: str, steps: int = 1) -> None:
        """Move by so many steps and show the text."""


def resolve_device(device: str | torch.device) -> torch.device:
    """The device asked for; "auto" prefers cuda, then mps, then the cpu."""
    if not isinstance(device, str) or device != "auto":
        return _usable(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def _usable(device: str | torch.device) -> torch.device:
    """The device, if this machine has it; torch says the opposite in many kinds of errors."""
    try:
        found = torch.empty(0, device=device).device
        if found.type == "meta":
            raise TypeError("it keeps no values")
        return found
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = sanitize(str(error).partition(". ")[0].partition("\n")[0], 200)
        raise ValueError(f"device {short_repr(device)} cannot be used on this machine: {reason}") from error


def fresh_seed(random_state: Seed) -> int:
    """One integer that decides everything; no global random state is read or moved."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, (int, np.integer)) and 0 <= random_state < 2**63:
        return int(random_state)
    raise ValueError(
        "random_state must be None, a whole number >= 0, a RandomState or a Generator, "
        f"got {short_repr(random_state)}"
    )


def draw_seed(generator: torch.Generator) -> int:
    """An integer from a torch generator, to seed what is not torch."""
    return int(torch.randint(2**31 - 1, (), generator=generator))


def environment(device: torch.device) -> dict[str, str]:
    """What a result may depend on besides data, parameters and seed."""
    packages = ("protocol_mvc", "torch", "numpy", "scipy", "scikit-learn")
    return {
        **{name: version(name) for name in packages},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "device": str(device),
        "threads": str(torch.get_num_threads()),
    }


@contextmanager
def progress_bar(total: int, *, visible: bool) -> Iterator[Advance]:
    """A bar on stderr that moves with every call and shows its text; silent when piped."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    with Progress(
        *columns, console=console, transient=True, disable=not (visible and console.is_terminal)
    ) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda text, steps=1: bar.update(task, advance=steps, description=text)
