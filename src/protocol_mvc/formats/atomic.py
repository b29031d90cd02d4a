"""Files and folders that are written whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

__all__ = ["replacing"]


@contextmanager
def replacing(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a path beside `target`, where a file or folder is to be written, which then takes its place.

    Raises:
        FileExistsError: If `target` is there and may not be overwritten, or is a folder of other things.
        FileNotFoundError: If the folder of `target` is not there.
    """
    _check_place(target, overwrite)
    temporary = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
    try:
        yield temporary
        _sync(temporary)
        _put(temporary, target)
    finally:
        _remove(temporary)


def _check_place(target: Path, overwrite: bool) -> None:
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {target.parent} to write {target.name} into: make it first."
        )
    if not target.exists():
        return
    if not overwrite:
        raise FileExistsError(
            f"{target} is there already: choose another name, or allow it to be overwritten."
        )
    if target.is_dir() and any(path.suffix != ".npy" or path.is_dir() for path in target.iterdir()):
        raise FileExistsError(f"The folder {target} holds more than .npy files, so it is not replaced.")


def _sync(path: Path) -> None:
    """Make sure that the contents are on the disk before they get their name."""
    for file in path.iterdir() if path.is_dir() else [path]:
        with file.open("rb+") as handle:
            os.fsync(handle.fileno())


def _put(temporary: Path, target: Path) -> None:
    if not target.is_dir():
        os.replace(temporary, target)
        return
    old = temporary.with_suffix(".old")  # folders are not replaced by folders in one step
    target.rename(old)
    try:
        temporary.rename(target)
    except OSError:
        old.rename(target)
        raise
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
