"""Files and folders that are written whole or not at all: a crash at any moment leaves the old or the new.

Everything is written under another name beside the target, brought to the disk, and then takes its place in
one step. Only where the system cannot exchange two folders (Linux can) a folder is replaced in two: what a
crash between them leaves, `sweep` puts back.
"""

import ctypes
import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LEFTOVER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.(?P<kind>tmp|old)", re.DOTALL)
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
HERE, EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


@contextmanager
def atomic_write(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a path beside `target`, where a file is to be written, which then takes its place.

    Whatever goes wrong, the target stays as it was and nothing is left beside it.

    Raises:
        FileExistsError: If `target` is there and may not be overwritten, or is a folder.
        FileNotFoundError: If the folder of `target` is not there.
        OSError: If there is no room, or nothing may be written there.
    """
    with _beside(target, overwrite) as temporary:
        if target.is_dir():
            raise FileExistsError(f"{target} is a folder: name a file in it.")
        yield temporary
        _sync(temporary, os.O_RDWR)
        os.replace(temporary, target)


@contextmanager
def atomic_write_folder(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a new folder beside `target`, to be filled, which then takes its place.

    All that a folder in its place holds is lost, so look at it before you overwrite it.

    Raises:
        FileExistsError: If `target` is there and may not be overwritten, or is a file.
        FileNotFoundError: If the folder of `target` is not there.
        OSError: If there is no room, or nothing may be written there.
    """
    with _beside(target, overwrite) as temporary:
        if os.path.lexists(target) and not target.is_dir():
            raise FileExistsError(f"{target} is a file: choose another name for the folder.")
        temporary.mkdir()
        yield temporary
        _sync_tree(temporary)
        _put(temporary, target)


def is_temporary(name: str) -> bool:
    """Tell whether a file or folder has the name of something that a killed process has not finished."""
    return LEFTOVER.fullmatch(name) is not None


def remove_temporary(folder: Path) -> None:
    """Remove what a killed process left half written in a folder; nobody else may be writing there."""
    for path in list(folder.iterdir()):
        if match := LEFTOVER.fullmatch(path.name):
            lost = match["kind"] == "old" and not os.path.lexists(folder / match["name"])
            path.rename(folder / match["name"]) if lost else _remove(path)


@contextmanager
def _beside(target: Path, overwrite: bool) -> Iterator[Path]:
    """Yield a free name beside the target; whatever has it in the end is removed."""
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {target.parent} to write {target.name} into: make it first."
        )
    if os.path.lexists(target) and not overwrite:
        raise FileExistsError(
            f"{target} is there already: choose another name, or allow it to be overwritten."
        )
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with _telling(target, temporary):
            yield temporary
            _sync(target.parent)
    finally:
        _remove(temporary)


@contextmanager
def _telling(target: Path, temporary: Path) -> Iterator[None]:
    """Turn the faults of a disk into a sentence about the target, whose temporary name nobody knows."""
    try:
        yield
    except OSError as error:
        code, own = error.errno, str(error.filename).startswith(str(temporary))
        if code is None or not (code in FULL or own):
            raise
        remedy = "free some room or write elsewhere" if code in FULL else "write elsewhere"
        text = f"{os.strerror(code)}; nothing was changed, so {remedy}"
        raise OSError(code, text, str(target)) from error


def _sync(path: Path, flags: int = os.O_RDONLY) -> None:
    """Make sure that a file, or the names in a folder, are on the disk; for folders Windows offers no way."""
    if os.name != "posix" and flags == os.O_RDONLY:
        return
    number = os.open(path, flags)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _sync_tree(folder: Path) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            _sync(Path(place, name), os.O_RDWR)
        _sync(Path(place))


def _put(temporary: Path, target: Path) -> None:
    """Give a folder the name of another, which gets the temporary one."""
    if not os.path.lexists(target):
        temporary.rename(target)
    elif not _exchange(temporary, target):
        old = temporary.with_suffix(".old")
        target.rename(old)
        try:
            temporary.rename(target)
        except BaseException:
            old.rename(target)
            raise
        old.rename(temporary)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step; tells whether the system can."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    return rename is not None and rename(HERE, os.fsencode(first), HERE, os.fsencode(second), EXCHANGE) == 0


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
