"""Atomic replacement of files and folders.

Data are written under a temporary name beside the target, flushed to the disk and then renamed, so that after
a crash the target is the old or the new one. Folders exchange their names in one step. Where the system
cannot do this, a folder is replaced by two renames; if a process is killed between them, `remove_temporary`
puts the old folder back.
"""

import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.(?P<kind>tmp|old)", re.DOTALL)
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NO_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux, see renameat2(2)


@contextmanager
def atomic_write(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary path; the file that the caller writes there then replaces `target`.

    If anything fails, `target` stays as it was and the temporary file is removed.

    Raises:
        FileExistsError: If `target` exists and `overwrite` is False, or `target` is a folder.
        FileNotFoundError: If the folder of `target` does not exist.
        OSError: If the disk is full or the place is not writable; the message names `target`.
    """
    if target.is_dir():
        raise FileExistsError(f"{target} is a folder: name a file in it.")
    with _temporary_path(target, overwrite) as temporary:
        yield temporary
        _fsync(temporary)
        os.replace(temporary, target)


@contextmanager
def atomic_write_folder(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a new, empty folder; what the caller puts into it then replaces the folder `target`.

    Everything in an old folder `target` is deleted, so check its contents before overwriting it. Errors are
    those of `atomic_write`; a file `target` is not replaced.
    """
    if os.path.lexists(target) and not target.is_dir():
        raise FileExistsError(f"{target} is a file: choose another name for the folder.")
    with _temporary_path(target, overwrite) as temporary:
        temporary.mkdir()
        yield temporary
        for path in (*temporary.rglob("*"), temporary):
            _fsync(path)
        _replace_folder(temporary, target)


def _replace_folder(new: Path, target: Path) -> None:
    """Give the folder `new` the name `target`; an old folder `target` is removed or has the name `new`."""
    try:
        _exchange(new, target)
    except FileNotFoundError:
        new.rename(target)
    except OSError as error:
        if error.errno not in NO_EXCHANGE:
            raise
        old = new.with_suffix(".old")
        with set_aside(target, old):
            new.rename(target)


def _exchange(first: Path, second: Path) -> None:
    """Exchange two names in one step, or raise `OSError`; an errno of `NO_EXCHANGE` if this is impossible."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(first))
    names = os.fsencode(first), os.fsencode(second)
    if rename(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(first), None, str(second))


@contextmanager
def set_aside(path: Path, hidden: Path | None = None) -> Iterator[None]:
    """Hide a file or folder, and remove it at the end of the block.

    If the block fails, it gets its name back, unless something new has that name. After a kill,
    `remove_temporary` does the same.

    Args:
        path: the file or folder; nothing happens if it does not exist.
        hidden: its temporary name in the same folder, by default a new one.
    """
    hidden = hidden or _temporary_name(path, "old")
    with suppress(FileNotFoundError):
        path.rename(hidden)
    try:
        yield
    except BaseException:
        if os.path.lexists(hidden) and not os.path.lexists(path):
            hidden.rename(path)
        raise
    finally:
        _remove(hidden)


@contextmanager
def watch_folder(folder: Path) -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether another folder has the name `folder` by now."""
    descriptor = -1
    with suppress(OSError, ValueError, AttributeError):  # Windows cannot open folders
        descriptor = os.open(folder, os.O_DIRECTORY)  # while it is open, no new folder gets its number
    before = _identity(folder)
    try:
        yield lambda: _identity(folder) != before
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        info = path.stat()
    except (OSError, ValueError):
        return None
    return info.st_dev, info.st_ino


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the contents of a regular file; reading a device or pipe may never end.

    Raises:
        ValueError: If it is a link or no file, or larger than `max_bytes`.
    """
    info = path.lstat()
    if not stat.S_ISREG(info.st_mode):
        raise ValueError("it is a link or not a file")
    if info.st_size > max_bytes:
        raise ValueError(f"it has {info.st_size} bytes, more than {max_bytes}")
    return path.read_bytes()


def is_temporary(name: str) -> bool:
    """Return whether a file or folder has a temporary name of `atomic_write` or `atomic_write_folder`."""
    return TEMPORARY.fullmatch(name) is not None


def remove_temporary(folder: Path) -> None:
    """Remove what killed processes left in `folder`; no other process may be writing there."""
    for path in list(folder.iterdir()):
        if match := TEMPORARY.fullmatch(path.name):
            target = folder / match["name"]
            if match["kind"] == "old" and not os.path.lexists(target):
                path.rename(target)
            else:
                _remove(path)


@contextmanager
def _temporary_path(target: Path, overwrite: bool) -> Iterator[Path]:
    """Yield an unused name beside `target`, and remove whatever has it at the end."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"Cannot write {target.name}: the folder {target.parent} does not exist.")
    if os.path.lexists(target) and not overwrite:
        raise FileExistsError(f"{target} exists already: choose another name, or allow it to be overwritten.")
    temporary = _temporary_name(target, "tmp")
    try:
        yield temporary
        _fsync(target.parent)
    except OSError as error:
        is_full = error.errno in DISK_FULL
        is_own = str(error.filename).startswith(str(temporary)) or temporary.name in str(error)
        if error.errno is None or not (is_full or is_own):
            raise
        remedy = "free some space or write elsewhere" if is_full else "write elsewhere"
        text = f"{os.strerror(error.errno)}; nothing was changed, so {remedy}"
        raise OSError(error.errno, text, str(target)) from error
    finally:
        _remove(temporary)


def _temporary_name(target: Path, kind: str) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.{kind}")


def _fsync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk; Windows cannot do this for folders."""
    if os.name != "posix" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
