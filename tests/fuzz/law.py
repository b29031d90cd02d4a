"""The law of all input: it works, or one of the documented errors tells in one sentence why not.

`docs/reliability.md` lists these errors for users; here is what a test may see.
"""

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import protocol_mvc
from protocol_mvc.exceptions import DivergenceError

# A fault of the data or of a parameter; FileFault, ModelFileError and NotFittedError are among these.
OF_INPUT: tuple[type[Exception], ...] = (ValueError, TypeError)
# Rows that are not there, which numpy words; and faults of the machine, which the system words: a file that
# is not there, a full disk, too little memory.
OF_MACHINE: tuple[type[Exception], ...] = (IndexError, OSError, MemoryError, ModuleNotFoundError)
DOCUMENTED: tuple[type[Exception], ...] = (*OF_INPUT, *OF_MACHINE, DivergenceError)

OURS = str(Path(protocol_mvc.__file__).parent)
# Those who raise in our name: scikit-learn checks names of columns and whether there was a fit.
DEPUTIES = ("sklearn/utils/validation.py", "sklearn/utils/_metadata_requests.py", "sklearn/base.py")
LONGEST = 1000  # characters of a sentence
MOST_WARNINGS = 3  # of libraries; we may tell of every stage
# What no input may cause: code that runs, other programs, network access, files that are written or removed.
# A temporary file without a name is opened by the path of its folder.
FORBIDDEN = {"pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen"}
FORBIDDEN |= {"socket.connect", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_seen: list[str] | None = None


class HangError(BaseException):
    """A case that takes too long; no handler of ours may catch it."""


def outcome(call: Callable[[], Any], *, seconds: float = 20) -> tuple[Any, Exception | None]:
    """The result of a call, or the error that it may raise; anything else is a defect."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with deadline(seconds):
                result, refused = call(), None
        except DOCUMENTED as error:
            result, refused = None, error
    if refused is not None:
        check_error(refused)
    check_warnings(
        [warning for warning in caught if not warning.category.__module__.startswith("protocol_mvc")]
    )
    assert len(caught) <= 4 * MOST_WARNINGS
    return result, refused


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """End what takes longer."""

    def ring(*args: Any) -> None:
        raise HangError(f"more than {seconds} seconds")

    former = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def check_error(error: Exception) -> None:
    """It is a sentence that we wrote ourselves, not what a library happened to say."""
    check_sentence(str(error))
    if isinstance(error, OF_INPUT):
        last = traceback.extract_tb(error.__traceback__)[-1]
        meant = last.filename.startswith(OURS) and (last.line or "").startswith("raise ")
        if not meant and not last.filename.endswith(DEPUTIES):
            raise AssertionError(f"others speak for us: {last.filename}:{last.lineno}") from error


def check_sentence(text: str) -> None:
    assert text.strip(), "an error says nothing"
    assert len(text.splitlines()) == 1, f"more than a line: {text!r}"
    assert len(text) <= LONGEST, f"{len(text)} characters: {text[:100]}..."


def check_warnings(caught: list[warnings.WarningMessage]) -> None:
    """A few warnings of libraries may pass, but no numerical accidents of ours, and no flood."""
    assert len(caught) <= MOST_WARNINGS, f"{len(caught)} warnings, the first {caught[0].message}"
    for warning in caught:
        assert not issubclass(warning.category, RuntimeWarning), f"{warning.filename}: {warning.message}"


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    if event in FORBIDDEN:
        _seen.append(f"{event} {args}")
    elif event == "open" and isinstance(args[2], int) and args[2] & WRITING and args[0] != gettempdir():
        _seen.append(f"open for writing {args[0]}")


sys.addaudithook(_hook)


@contextmanager
def harmless() -> Iterator[None]:
    """Fail if anything is run, sent, written or removed meanwhile."""
    global _seen
    _seen = []
    try:
        yield
        assert _seen == []
    finally:
        _seen = None
