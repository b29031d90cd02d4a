"""Commands in forked processes, which can be killed, interrupted or measured, or have a full disk."""

import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from protocol_mvc.cli.main import app
from protocol_mvc.cli.signals import handle_signals

# Audit events of changes in the file system; `ctypes.dlsym` comes before two folders exchange their names.
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "ctypes.dlsym"}
WRITING = os.O_WRONLY | os.O_RDWR
SECONDS = 300  # that a command may take
MIB = 2**20


class Ended(NamedTuple):
    """What is left of a process."""

    code: int  # exit code, or minus the number of the signal
    output: str
    growth: float  # MiB by which its memory grew at most, that of its own children included


def run_command(
    words: list[str],
    *,
    kill_at: int | None = None,
    room: int | None = None,
    interrupts: tuple[float, ...] = (),
) -> Ended:
    """Run the command in a fork of this process.

    Args:
        words: the command line.
        kill_at: number of the change in the file system at which the process is killed.
        room: size that no file may exceed, as on a full disk.
        interrupts: seconds before each SIGINT.
    """
    source, sink = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until the child handles it
    child = os.fork()
    if child == 0:
        _child(words, sink, kill_at, room)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    os.close(sink)
    reader = threading.Thread(target=lambda: parts.extend(iter(lambda: os.read(source, 2**16), b"")))
    parts: list[bytes] = []
    reader.start()
    for moment in interrupts:
        time.sleep(moment)
        os.kill(child, signal.SIGINT)
    code = _wait(child)
    reader.join(SECONDS)
    os.close(source)
    text, _, growth = b"".join(parts).decode(errors="replace").partition("\x04")
    return Ended(code, text, float(growth or 0))


def _wait(child: int) -> int:
    """Return the exit code of a child, which is killed if it takes too long."""
    until = time.monotonic() + SECONDS
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"more than {SECONDS} seconds")
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(found[1])


def _child(words: list[str], output: int, kill_at: int | None, room: int | None) -> NoReturn:
    code = 1
    try:
        for stream in (1, 2):
            os.dup2(output, stream)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = ["protocol-mvc", *words]
        signal.setitimer(signal.ITIMER_REAL, 0)
        handle_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        if kill_at is not None:
            sys.addaudithook(_killer(kill_at))
        if room is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of the memory
        before = _memory("VmRSS")
        code = _exit_code(lambda: app(words))
        others = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        growth = max(_memory("VmHWM"), others) - before
        os.write(output, f"\x04{growth}".encode())
    finally:
        os._exit(code)


def _exit_code(call: Callable[[], Any]) -> int:
    try:
        call()
    except SystemExit as end:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return int(end.code or 0)
    except BaseException:  # noqa: BLE001 - what Python itself would print
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        return 1
    return 0


def _memory(field: str) -> float:
    """Return a field of the status of this process in MiB."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def _killer(at: int) -> Callable[[str, tuple[Any, ...]], None]:
    count = 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        writes = event == "open" and isinstance(args[2], int) and args[2] & WRITING
        if writes or event in CHANGES:
            count += 1
            if count >= at:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook
