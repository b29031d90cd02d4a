"""How a verb ends: text or one JSON document on stdout, messages on stderr, and a telling exit code."""

import json
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from protocol_mvc.cli.options import out, tell
from protocol_mvc.exceptions import DivergenceError, ModelFileError, UnreliableResultError
from protocol_mvc.utils.distributed import is_main_process

JsonDict = dict[str, Any]

UNEXPECTED, USAGE, BAD_DATA, DOUBTFUL, BAD_MODEL, STOPPED, TERMINATED = 1, 2, 3, 4, 5, 130, 143
HINTS = {
    UNEXPECTED: "This is a fault of protocol-mvc: run again without --json to see where, and report it.",
    USAGE: "Add --help to see the options of a verb, with examples.",
    BAD_DATA: "protocol-mvc info DATA shows what is read from files; docs/files.md tells what they may hold.",
    DOUBTFUL: "Everything was written; look at the small or doubtful clusters, or try another -k.",
    BAD_MODEL: "Name the folder that protocol-mvc fit wrote, whole and unchanged, or fit again.",
    STOPPED: "Run the same command again; a fit goes on with --resume.",
    TERMINATED: "Run the same command again; a fit goes on with --resume.",
}
PATIENCE = 5.0  # seconds after which a stop that nobody has met is raised again,
AGAIN = (signal.SIGALRM,) if hasattr(signal, "SIGALRM") else ()  # by this
USAGE_ERROR: Any = typer.BadParameter.__base__  # typer brings its own click, or uses click itself

Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document, also on error.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no messages.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]


class StoppedError(KeyboardInterrupt):
    """Ctrl-C; Python would not exit with our code if one of its own kind had passed an `exec` anywhere."""


class TerminatedError(StoppedError):
    """SIGTERM, which is to be met like Ctrl-C."""


@contextmanager
def _heeding_signals() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into exceptions, so that everything is left in order; only a main thread can.

    What a signal raises while a destructor or a callback runs is lost, so it is raised again until it is met.
    """
    wanted = StoppedError

    def stop(number: int, frame: Any) -> None:
        nonlocal wanted
        wanted = {signal.SIGINT: StoppedError, signal.SIGTERM: TerminatedError}.get(
            signal.Signals(number), wanted
        )
        if AGAIN:
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        raise wanted

    # What waits for other processes hears of no exception; only the first has things to leave in order.
    if threading.current_thread() is not threading.main_thread() or not is_main_process():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, *AGAIN)}
    try:
        yield
    finally:
        if AGAIN:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


class Console(NamedTuple):
    """What a verb says, and to whom."""

    json: bool = False
    quiet: bool = False

    def show(self, *parts: Any) -> None:
        """Results for people; where a document is wanted it is printed at the end, by `Verbs`."""
        for part in () if self.json else parts:
            out.print(part, soft_wrap=isinstance(part, str), markup=False, highlight=False)

    def tell(self, text: str) -> None:
        """A message."""
        if not self.quiet:
            tell(text)


def table(title: str, headers: Sequence[object], rows: Iterable[Sequence[Any]]) -> Table:
    """A table with numbers on the right of their column and words on the left; brackets are no markup."""
    grid = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD)
    cells = [[str(cell) for cell in row] for row in rows]
    for i, header in enumerate(headers):
        words = i == 0 or any(row[i][:1].isalpha() for row in cells)
        grid.add_column(Text(str(header)), justify="left" if words else "right")
    for row in cells:
        grid.add_row(*map(Text, row))
    return grid


class CommandGroup(TyperGroup):
    """The command: what a verb returns becomes the document, what it raises an exit code and a sentence."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, and end the process."""
        words = list(sys.argv[1:] if args is None else args)
        run = partial(
            super().main, args, prog_name, complete_var, windows_expand_args=windows_expand_args, **extra
        )
        if "--json" in words:
            document, code = outcome(partial(run, standalone_mode=False, obj=words))
            if document is not None:
                typer.echo(json.dumps(as_json(document), allow_nan=False, default=str))
            sys.exit(code)
        try:
            return run(standalone_mode=standalone_mode, obj=words)
        except Exception as error:
            if exit_code(error) == UNEXPECTED:
                raise
            tell(f"error: {sentence(error)}")
            sys.exit(exit_code(error))

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; Ctrl-C and SIGTERM end it with the codes that shells expect."""
        try:
            with _heeding_signals():
                return super().invoke(ctx)
        except TerminatedError:
            raise typer.Exit(TERMINATED) from None
        except KeyboardInterrupt:
            raise typer.Exit(STOPPED) from None


def outcome(run: Callable[[], Any]) -> tuple[JsonDict | None, int]:
    """The document and the exit code of a run; no document after --help, which has spoken for itself."""
    try:
        result = run()
    except USAGE_ERROR as error:
        return failure(USAGE, error.format_message()), USAGE
    except UnreliableResultError as error:
        return error.document | failure(DOUBTFUL, str(error)), DOUBTFUL
    except Exception as error:  # noqa: BLE001 - whatever happens, a document is what was asked for
        code = exit_code(error)
        return failure(code, sentence(error)), code
    if isinstance(result, int):  # an exit on the way
        return (failure(result, "stopped"), result) if result else (None, 0)
    return {"ok": True, **(result or {})}, 0


def failure(code: int, message: str) -> JsonDict:
    """The document of an error."""
    error = {"code": code, "message": " ".join(message.split()), "hint": HINTS.get(code, "")}
    return {"ok": False, "error": error}


def exit_code(error: BaseException) -> int:
    """What an exception means to the shell."""
    if isinstance(error, UnreliableResultError):
        return DOUBTFUL
    if isinstance(error, ModelFileError):
        return BAD_MODEL
    bad_data = (OSError, ValueError, ModuleNotFoundError, MemoryError, DivergenceError)
    return BAD_DATA if isinstance(error, bad_data) else UNEXPECTED


def sentence(error: BaseException) -> str:
    """An exception in words, without the numbers that only the system understands."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return f"There is not enough memory ({error}): take fewer columns, or fewer samples."
    text = " ".join(str(error).split())
    return text if exit_code(error) != UNEXPECTED else f"{type(error).__name__}: {text}"


def as_json(value: Any) -> Any:
    """A value as strict JSON has it: no types of numpy, no paths, NaN as null and infinity as a word."""
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return as_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return str(value) if isinstance(value, Path) else value
