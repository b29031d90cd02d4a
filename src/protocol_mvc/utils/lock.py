"""One writer at a time: the lock of a folder, which the system frees when the process that has it is gone."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from protocol_mvc.exceptions import RunLockedError
from protocol_mvc.utils.files import is_temporary, remove_temporary

NAME = ".lock"
FAR = 2**20  # Windows locks bytes, here one behind all that is written, so that others can read
FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # a link could lead to a file of somebody


def is_lock_file(name: str) -> bool:
    """Tell whether a file in a folder is the lock, or something that a killed process has not finished."""
    return name == NAME or is_temporary(name)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made if it is not there, against all others that would hold it.

    What a process that was killed left half written in it is removed first. Where a file system knows no
    locks, nothing is refused.

    Raises:
        FolderInUseError: If another process, or this one, holds the folder.
        OSError: If the folder cannot be made or written.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    number = _acquire(folder)
    try:
        remove_temporary(folder)
        yield
    finally:
        with suppress(OSError):  # Windows keeps a file that is open; it does no harm
            (folder / NAME).unlink()
        os.close(number)
        _remove_empty(made)


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):  # the first that holds something stays, and so do those above it
        for folder in folders:
            folder.rmdir()


def _acquire(folder: Path) -> int:
    """Return the open lock file of a folder."""
    path = folder / NAME
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        number = os.open(path, FLAGS, 0o644)
        try:
            if not _claim(number):
                raise RunLockedError(_refusal(folder, number))
            if _is_current(number, path):
                _sign(number)
                return number
        except BaseException:
            os.close(number)
            raise
        os.close(number)  # its former holder has removed it meanwhile


def _claim(number: int) -> bool:
    """Take the lock of an open file, if nobody has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(number, FAR, os.SEEK_SET)
            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except (OSError, ImportError):  # no locks here: they guard against accidents only, so go on
        return True
    return True


def _is_current(number: int, path: Path) -> bool:
    """Tell whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(number), os.stat(path))
    except FileNotFoundError:
        return False


def _sign(number: int) -> None:
    """Tell others who it is; a lock without a name, on a full disk, is still a lock."""
    with suppress(OSError):
        os.ftruncate(number, 0)
        os.lseek(number, 0, os.SEEK_SET)
        os.write(number, f"{os.getpid()} {socket.gethostname()}\n".encode())


def _refusal(folder: Path, number: int) -> str:
    os.lseek(number, 0, os.SEEK_SET)
    pid, _, host = os.read(number, 300).decode(errors="replace").strip().partition(" ")
    holder = f"process {pid} on {host}" if pid.isdigit() and host.isprintable() else "another process"
    return f"Folder {folder} is being written by {holder}: wait until that is done, or choose another folder."
