"""Console output, the JSON document and the exit codes of the command."""

import json
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from protocol_mvc.cli.signals import HINT, ignore_interrupts, signals_as_exceptions
from protocol_mvc.exceptions import DivergenceError, ModelFileError, UnreliableResultError

JsonDict = dict[str, Any]

UNEXPECTED, USAGE, BAD_DATA, WARNINGS, BAD_MODEL, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 5, 130, 143
HINTS = {
    UNEXPECTED: "This is a bug in protocol-mvc. Run again without --json for a traceback and report it.",
    USAGE: "Add --help for the options and examples of a command.",
    BAD_DATA: "`protocol-mvc info DATA` shows what is read from the files; docs/files.md lists the formats.",
    WARNINGS: "All output was written. Check the clusters named in the warnings, or try another -k.",
    BAD_MODEL: "Give the unchanged folder that `protocol-mvc fit` wrote, or fit again.",
    INTERRUPTED: HINT,
    TERMINATED: HINT,
}
PIPE_WIDTH = 130  # columns of a table if stdout is not a terminal
USAGE_ERROR: Any = typer.BadParameter.__base__  # typer bundles its own click
EXIT_CODES = {  # the first kind of error that fits
    USAGE_ERROR: USAGE,
    UnreliableResultError: WARNINGS,
    ModelFileError: BAD_MODEL,
    **dict.fromkeys((OSError, ValueError, ModuleNotFoundError, DivergenceError), BAD_DATA),
}


class Console(NamedTuple):
    """Prints results to stdout and messages to stderr, unless `--json` or `--quiet` was given."""

    json: bool = False
    quiet: bool = False

    def print(self, *parts: Any) -> None:
        """Print results: strings or rich tables."""
        if self.json or self.quiet:
            return
        from rich.console import Console as RichConsole

        stdout = RichConsole(width=None if sys.stdout.isatty() else PIPE_WIDTH)
        for part in parts:
            stdout.print(part, soft_wrap=isinstance(part, str), markup=False, highlight=False)

    def info(self, message: str) -> None:
        """Print a message."""
        if not self.quiet:
            typer.echo(message, err=True)

    def step(self, text: str) -> AbstractContextManager[Any]:
        """Show on stderr that something goes on until the block ends."""
        from protocol_mvc.utils.progress import progress

        return progress(text, visible=not self.quiet)

    @contextmanager
    def show_warnings(self, always: Sequence[type[Warning]] = ()) -> Iterator[list[warnings.WarningMessage]]:
        """Collect the warnings of a block, those of `always` despite filters, and print them at its end."""
        with warnings.catch_warnings(record=True) as caught:
            for category in always:
                warnings.simplefilter("always", category)
            yield caught
        for warning in caught:
            self.info(f"warning: {warning.message}")


@contextmanager
def plain_warnings(quiet: bool) -> Iterator[None]:
    """Print the warnings of a block as sentences, without the line of code that they come from.

    A `FutureWarning` of another library is for developers and is left out.
    """

    def show(message: Warning | str, *others: Any, **options: Any) -> None:
        Console(quiet=quiet).info(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.showwarning = show
        yield


def table(title: str, headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> Any:
    """Return a rich table with numbers aligned to the right; brackets are not interpreted as markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD)
    cells = [[str(cell) for cell in row] for row in rows]
    for i, header in enumerate(headers):
        is_text = i == 0 or any(row[i][:1].isalpha() for row in cells)
        grid.add_column(Text(header), justify="left" if is_text else "right")
    for row in cells:
        grid.add_row(*map(Text, row))
    return grid


class CommandGroup(TyperGroup):
    """Turns the return value of a command into the JSON document and its exceptions into exit codes."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **extra: Any) -> Any:
        """Run the command and exit the process."""
        words = list(sys.argv[1:] if args is None else args)
        extra |= {"standalone_mode": False, "obj": words}
        try:
            with plain_warnings(quiet=bool({"--quiet", "-q"} & set(words))):
                result = super().main(args, *others, **extra)
            if isinstance(result, int):  # typer.Exit, for example after --help
                sys.exit(result)
            code, document = 0, {"ok": True, **(result or {})}
        except Exception as error:
            found = error.__cause__ if isinstance(error.__cause__, KeyboardInterrupt) else error
            code, message = describe_error(found)
            if "--json" not in words and code == UNEXPECTED:
                raise
            if "--json" not in words and message:  # empty after the help of a bare command
                typer.echo(f"error: {message}", err=True)
            results = found.document if isinstance(found, UnreliableResultError) else {}
            details = {"code": code, "message": message, "hint": HINTS[code]}
            document = {**results, "ok": False, "error": details}
        ignore_interrupts()
        if "--json" in words:
            typer.echo(json.dumps(as_json(document), allow_nan=False, default=str))
        sys.exit(code)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; SIGINT and SIGTERM end it with exit codes 130 and 143."""
        try:
            with signals_as_exceptions():
                return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # typer would drop its message and its code
            raise RuntimeError("stopped") from stop


def describe_error(error: BaseException) -> tuple[int, str]:
    """Return the exit code of an exception and its message on one line; an OSError loses its errno."""
    text = " ".join((error.format_message() if isinstance(error, USAGE_ERROR) else str(error)).split())
    if isinstance(error, KeyboardInterrupt):
        return getattr(error, "code", INTERRUPTED), text or "Stopped"
    if isinstance(error, MemoryError):
        return BAD_DATA, f"Not enough memory ({error}): use fewer columns or fewer samples."
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    for kind, code in EXIT_CODES.items():
        if isinstance(error, kind):
            return code, text
    return UNEXPECTED, f"{type(error).__name__}: {text}"


def as_json(value: Any) -> Any:
    """Return a value as strict JSON: arrays become lists, NaN null, infinity and paths strings."""
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    if hasattr(value, "tolist"):  # numpy arrays and scalars
        return as_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return str(value) if isinstance(value, Path) else value
