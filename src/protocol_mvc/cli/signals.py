"""What SIGINT (Ctrl-C) and SIGTERM do to the command; it ends with 128 + the number of the signal.

Within a verb the first signal raises `StoppedError`, so that locks are released and files cleaned up. The
process ends at once before and after a verb, where there is nothing to clean up, and while modules are
imported, where an exception can be lost.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 1.0  # seconds after which another signal ends the process at once
HINT = "Run the same command again; add --resume to continue a fit."
MESSAGE = "error: Stopped\n"
DOCUMENT = '{{"ok": false, "error": {{"code": {code}, "message": "Stopped", "hint": "{hint}"}}}}\n'
IMPORTER = "<frozen importlib._bootstrap>"


class StoppedError(KeyboardInterrupt):
    """SIGINT or SIGTERM; the exit code is 128 + the number of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__("Stopped")
        self.code = 128 + number


def handle_signals() -> None:
    """Let signals end the process at once; call this before any large module is imported."""
    for number in SIGNALS:
        signal.signal(number, _end_process)


def ignore_interrupts() -> None:
    """Ignore SIGINT if `handle_signals` was called: the work is done, and only its result is printed."""
    if signal.getsignal(signal.SIGINT) is _end_process:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end_process(number: int, frame: FrameType | None) -> None:
    code = 128 + number
    as_json = "--json" in sys.argv
    text = DOCUMENT.format(code=code, hint=HINT) if as_json else MESSAGE
    os.write(1 if as_json else 2, text.encode())
    os._exit(code)


class _Stop:
    """The handler of signals within a verb, which raises `StoppedError` at the first one."""

    def __init__(self) -> None:
        self.number, self.since = 0, 0.0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if _is_importing(frame) or (self.number and time.monotonic() - self.since > PATIENCE):
            _end_process(number, frame)
        if not self.number:
            self.number, self.since = number, time.monotonic()
            raise StoppedError(number)

    def on_lost_exception(self, lost: Any) -> None:
        """End the process if the exception was raised in a finalizer, from which none can leave."""
        if isinstance(lost.exc_value, StoppedError):
            _end_process(self.number, None)
        sys.__unraisablehook__(lost)


@contextmanager
def signals_as_exceptions() -> Iterator[None]:
    """Raise StoppedError on SIGINT and SIGTERM.

    Of several processes (torchrun) only the first one does: the others wait inside collective operations and
    have nothing to clean up.
    """
    if os.environ.get("RANK", "0") != "0":
        yield
        return
    stop = _Stop()
    hook, sys.unraisablehook = sys.unraisablehook, stop.on_lost_exception
    previous = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    except Exception as error:
        if stop.number:  # a library has turned the interrupt into an error of its own
            raise StoppedError(stop.number) from error
        raise
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORTER:
            return True
        frame = frame.f_back
    return False
