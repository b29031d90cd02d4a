"""Allow one writer per folder."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from protocol_mvc.exceptions import RunLockedError
from protocol_mvc.utils.files import is_temporary, remove_temporary

LOCK_NAME = ".lock"


def is_lock_file(name: str) -> bool:
    """Return whether a file in a folder is the lock file, or was left unfinished by a killed process."""
    return name == LOCK_NAME or is_temporary(name)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`, which is created if necessary; the system frees it if the process dies.

    Unfinished files of killed processes in the folder are removed first. A new folder that stays empty is
    removed at the end.

    Raises:
        RunLockedError: If another process, or this one, holds the lock.
        OSError: If the folder cannot be created or written.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_NAME
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        holder = "another process"
        with suppress(OSError, UnicodeDecodeError):
            match path.read_text().split():
                case [pid, host] if pid.isdigit() and host.isprintable():
                    holder = f"process {pid} on {host}"
        text = f"Folder {folder} is being written by {holder}: wait until it has finished"
        raise RunLockedError(f"{text}, or choose another folder.") from None
    try:
        with suppress(OSError):  # the holder's name is only for messages
            path.write_text(f"{os.getpid()} {socket.gethostname()}\n")
        remove_temporary(folder)
        yield
    finally:
        with suppress(OSError):  # Windows cannot delete an open file
            path.unlink()
        lock.release()
        if is_new:
            with suppress(OSError):
                folder.rmdir()
