"""Run a reader in a forked process, so that a crafted file cannot crash this one."""

import faulthandler
import os
import pickle
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

from protocol_mvc.exceptions import DataError
from protocol_mvc.io.limits import memory_limit

T = TypeVar("T")


def run_forked(function: Callable[[], T]) -> T:
    """Call a function in a forked process with limited memory, and return its result or raise its error.

    The result comes back through a temporary file. Processes are forked on Linux alone; on other systems the
    function is called directly.

    Raises:
        DataError: If the function raises it, or the process crashes.
    """
    if sys.platform != "linux":
        return function()
    with tempfile.TemporaryFile() as file:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads: the child needs none
            child = os.fork()
        if child == 0:
            _run_child(function, file)
        try:
            status = os.waitpid(child, 0)[1]
        except BaseException:  # interrupted
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        if status != 0:
            raise DataError("its reader crashes or runs out of memory: the file is damaged or malicious.")
        file.seek(0)
        result, error = pickle.load(file)  # the child is a copy of this process: it has the same rights
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _run_child(function: Callable[[], Any], file: IO[bytes]) -> NoReturn:
    """Write the result of a function, or its error, and exit; print and dump nothing in a crash."""
    import resource

    code = 1
    try:
        faulthandler.disable()
        with suppress(OSError, ValueError):
            silence = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(silence, stream)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            data_pages = int(Path("/proc/self/statm").read_text().split()[5])
            limit = data_pages * os.sysconf("SC_PAGE_SIZE") + memory_limit()
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        outcome: tuple[Any, Exception | None]
        try:
            outcome = function(), None
        except Exception as error:  # noqa: BLE001 - the parent raises it
            outcome = None, error
        pickle.dump(outcome, file, pickle.HIGHEST_PROTOCOL)  # which copies no array
        file.flush()
        code = 0
    finally:
        os._exit(code)
