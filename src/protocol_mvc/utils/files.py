"""Atomic replacement of files and folders.

Data are written under a temporary name beside the target, flushed to the disk and then renamed, so that after
a crash the target is the old or the new one. A folder is replaced by two renames; if a process is killed
between them, `remove_temporary` puts the old folder back.
"""

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.(?P<kind>tmp|old)", re.DOTALL)
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


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
        if not target.exists():
            temporary.rename(target)
            return
        old = temporary.with_suffix(".old")
        target.rename(old)
        try:
            temporary.rename(target)
        except BaseException:
            old.rename(target)
            raise
        _remove(old)


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
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        _fsync(target.parent)
    except OSError as error:
        is_full = error.errno in DISK_FULL
        if error.errno is None or not (is_full or str(error.filename).startswith(str(temporary))):
            raise
        remedy = "free some space or write elsewhere" if is_full else "write elsewhere"
        text = f"{os.strerror(error.errno)}; nothing was changed, so {remedy}"
        raise OSError(error.errno, text, str(target)) from error
    finally:
        _remove(temporary)


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
