"""Run a reader in a forked process, so that a crafted file cannot crash this one."""

import faulthandler
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol_mvc.exceptions import DataError
from protocol_mvc.io.limits import memory_limit

Arrays: TypeAlias = dict[str, NDArray[Any]]

OK, DATA_ERROR, OTHER_ERROR = range(3)  # exit codes of the child


def run_forked(function: Callable[[], Arrays]) -> Arrays:
    """Call a function in a forked process with limited memory, and return its arrays.

    The arrays come back through a temporary file. Processes are forked on Linux alone; on other systems the
    function is called directly.

    Raises:
        DataError: If the function raises it, or the process crashes.
        ValueError: If the function raises any other error; the message is the same.
    """
    if sys.platform != "linux":
        return function()
    with tempfile.TemporaryFile() as file:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads: the child needs none
            child = os.fork()
        if child == 0:
            _run_child(function, file)
        status = None
        try:
            status = os.waitpid(child, 0)[1]
        finally:
            if status is None:  # interrupted
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        file.seek(0)
        code = os.waitstatus_to_exitcode(status)
        if code == OK:
            with np.load(file, allow_pickle=False) as arrays:
                return dict(arrays)
        if code in (DATA_ERROR, OTHER_ERROR):
            raise (DataError if code == DATA_ERROR else ValueError)(file.read().decode(errors="replace"))
    raise DataError("its reader crashes or runs out of memory: the file is damaged or malicious.")


def _run_child(function: Callable[[], Arrays], file: IO[bytes]) -> NoReturn:
    """Write the arrays of a function, or the text of its error, and exit."""
    code = -1
    try:
        with suppress(OSError, ValueError):
            _limit_child()
        try:
            arrays: Any = function()
            np.savez(file, **arrays)
            code = OK
        except Exception as error:  # noqa: BLE001 - the parent raises it
            code = DATA_ERROR if isinstance(error, DataError) else OTHER_ERROR
            file.seek(0)
            file.truncate()
            file.write((str(error) or type(error).__name__).encode(errors="replace"))
        file.flush()
    finally:
        os._exit(code & 0xFF)


def _limit_child() -> None:
    """Print and dump nothing in a crash, and use no more memory than the contents of a file may take."""
    import resource

    faulthandler.disable()
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    data_pages = int(Path("/proc/self/statm").read_text().split()[5])
    limit = data_pages * os.sysconf("SC_PAGE_SIZE") + memory_limit()
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
