"""A first reading in a process of its own, with limits, of files that may bring their library to a crash.

The libraries that decode HDF5, Arrow and MATLAB files are written in C; bytes altered at random, or on
purpose, make them crash, hang or take all memory now and then. The child is a fork, whose memory is that of
its parent to the bit: what it survives its parent does too.
"""

import faulthandler
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from protocol_mvc.exceptions import DataFileError
from protocol_mvc.io.limits import memory_limit

RISKY = (".mat",)
SECONDS = 60.0  # that any file may take
BYTES_PER_SECOND = 2e6  # beyond these; even compressed files on slow disks are read faster
ALIVE = b"."  # what the child says first


def check_survival(read: Callable[[], object], path: Path, size: int) -> None:
    """Refuse a file of so many bytes that its reader refuses or does not survive.

    Only where processes can be forked safely, which is Linux; elsewhere nothing is done.

    Raises:
        FileFault: If reading crashes, takes too much time or memory, or raises this itself.
    """
    if sys.platform != "linux":
        return
    limit = SECONDS + size / BYTES_PER_SECOND
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child waits for none
        child = os.fork()
    if child == 0:
        _try(read, theirs)
    os.close(theirs)
    try:
        answer = _answer(ours, limit)
    finally:
        os.kill(child, signal.SIGKILL)  # without effect if it has ended
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(ours)
    if answer != ALIVE:
        said = answer.removeprefix(ALIVE).decode(errors="replace")
        raise DataFileError(said or _cause(code, path, limit))


def _answer(end: int, limit: float) -> bytes:
    """Return all that the child says before it ends or the time is over."""
    answer, until = b"", time.monotonic() + limit
    while select.select([end], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(end, 2**16)
        if not part:
            break
        answer += part
    return answer


def _cause(code: int, path: Path, limit: float) -> str:
    what = f"takes more memory than there is, or more than {limit:.0f} seconds, to be read"
    if code < 0 and code != -signal.SIGKILL:
        what = f"crashes its reader ({signal.Signals(-code).name})"
    return f"File {path} {what}: it is damaged or made to do harm, so fetch it again or save it anew."


def _try(read: Callable[[], object], end: int) -> NoReturn:
    """What the child does: nothing but reading, without a word, and none of the duties of its parent."""
    try:
        with suppress(OSError, ValueError):  # limits that may not be set do not speak against a file
            _limit()
        said = ALIVE
        try:
            read()
        except DataFileError as fault:
            said += str(fault).encode(errors="replace")
        except Exception:  # noqa: BLE001 - the parent will meet it too
            said = ALIVE
        os.write(end, said)  # a line, which a pipe takes at once
    finally:
        os._exit(0)


def _limit() -> None:
    """Leave no traces of a crash, and take no more memory than a file may; maps of files take none."""
    import resource

    faulthandler.disable()
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[5])  # of data, which are in use already
    most = pages * os.sysconf("SC_PAGE_SIZE") + memory_limit()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    known = [limit for limit in (most, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(known), hard))
