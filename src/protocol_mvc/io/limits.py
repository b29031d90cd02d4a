"""Guards shared by all readers: regular files only, a limit of memory, and one type of error."""

import errno
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from protocol_mvc.exceptions import DataError, DataFileError

MAX_MEMORY = "PROTOCOL_MVC_MAX_MEMORY"  # environment variable: memory that the contents of a file may take
MAX_RATIO = 1000  # largest size of contents over their size in the file, unless the user sets a limit
SMALL = 2**26  # bytes; smaller arrays may have any ratio
SMALL_FILE = 2**30  # bytes that the contents of any file may take
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?", re.IGNORECASE)
NO_MEMORY = re.compile(r"out of memory|memory allocation|allocate memory", re.IGNORECASE)  # in other errors

_memory_lock = threading.Lock()  # held while the limit of this process is lowered


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Read a file: it must be a regular one, its contents must fit into the memory that they may take.

    Every error about the contents becomes a `DataFileError` of one sentence that names the file.

    Args:
        path: the file, or the folder of several files.
        kind: what it should contain, for the message.
    """
    check_regular(path)
    where = f"{'Folder' if path.is_dir() else 'File'} {path}"
    limit = _file_limit(path)
    try:
        with limited_memory(limit):
            yield
    except (DataFileError, FileNotFoundError, PermissionError, ImportError, AssertionError):
        raise
    except DataError as error:
        raise DataFileError(f"{where}: {error}") from None
    except Exception as error:  # numpy, scipy, h5py, pandas, pyarrow and anndata raise anything
        reason = str(error).partition("\n")[0].rstrip(".:") or type(error).__name__
        if isinstance(error, MemoryError) or NO_MEMORY.search(reason):
            raise DataFileError(f"{where} takes more than {_as_text(limit)} of memory: {REMEDY}.") from error
        raise DataFileError(
            f"{where} cannot be read as {kind} ({reason}): it is damaged or has another format."
        ) from error


REMEDY = f"choose fewer views, or allow more memory (--max-memory, or the variable {MAX_MEMORY})"


def check_regular(path: Path) -> None:
    """Raise `DataFileError` for a device or pipe, which may have no end; a missing path passes."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataFileError(f"{path} is a device or pipe: copy its contents to a file.")


def parse_size(text: str) -> int:
    """Return the number of bytes of a text such as "4G", or raise `ValueError`."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an amount of memory such as 500M or 4G")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def memory_limit() -> int:
    """Return the bytes that contents of files may take: those the user allows, or half of the free memory."""
    if given := os.environ.get(MAX_MEMORY):
        return parse_size(given)
    try:
        with Path("/proc/meminfo").open() as file:
            free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):  # not on Linux
        free = 2**36
    return free // 2


def _file_limit(path: Path) -> int:
    """Return the bytes that the contents of a file may take; a small file may not become very large."""
    limit = memory_limit()
    if not os.environ.get(MAX_MEMORY) and path.exists():
        files = [path] if path.is_file() else [part for part in path.iterdir() if part.is_file()]
        limit = min(limit, max(SMALL_FILE, MAX_RATIO * sum(part.stat().st_size for part in files)))
    return max(limit, SMALL)


@contextmanager
def limited_memory(n_bytes: int) -> Iterator[None]:
    """Limit the memory that this process may take in addition; what exceeds it raises `MemoryError`.

    Memory maps of files do not count. Only Linux has such a limit. Inside of another limit it does nothing.
    """
    if sys.platform != "linux" or not _memory_lock.acquire(blocking=False):
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [used_memory() + n_bytes, *(x for x in (soft, hard) if x != resource.RLIM_INFINITY)]
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        _memory_lock.release()


def used_memory() -> int:
    """Return the bytes of this process that count for `RLIMIT_DATA` (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")


def _as_text(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.3g} GiB"


@contextmanager
def data_errors() -> Iterator[None]:
    """Convert errors about the values of a file, as `as_views` raises them, to `DataError`."""
    try:
        yield
    except DataError:
        raise
    except (ValueError, TypeError) as error:
        raise DataError(str(error)) from error


def require_module(module: str, extra: str, path: Path) -> Any:
    """Return an optional module, or raise `ModuleNotFoundError` with the extra that `path` needs."""
    try:
        return import_module(module)
    except ImportError:
        package, remedy = module.partition(".")[0], f"pip install 'protocol-mvc[{extra}]'"
        raise ModuleNotFoundError(f"File {path} needs {package}: {remedy}.") from None


def check_size(n_bytes: int) -> None:
    """Raise `DataError` if contents of this size take more memory than they may."""
    if n_bytes > (limit := memory_limit()):
        raise DataError(
            f"its contents take {_as_text(n_bytes)} of memory, more than {_as_text(limit)}: {REMEDY}; "
            "a folder of .npy files is memory-mapped and may be larger."
        )


def check_ratio(name: str, n_bytes: int, n_stored: int) -> None:
    """Raise `DataError` if an array is far larger than its compressed form: a decompression bomb."""
    if n_bytes > max(SMALL, MAX_RATIO * n_stored):
        problem = f"{name!r} takes {n_bytes / 2**20:.0f} MiB but only {n_stored} bytes in the file"
        raise DataError(f"{problem}: store it uncompressed if the file can be trusted.")


def check_disk_space(target: Path, n_bytes: int) -> None:
    """Raise `OSError` if the disk has no room for a file; a full disk can crash the HDF5 library."""
    if n_bytes > shutil.disk_usage(target.parent).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))


def check_column(name: str, columns: Iterable[Any]) -> None:
    """Refuse the name of a column that a table lacks, with the nearest names it has."""
    known = [str(column) for column in columns]
    if name not in known:
        nearest = ", ".join(get_close_matches(name, known, n=10, cutoff=0.0)) or "ids"
        raise DataError(f"it has no column {name!r}; the nearest names are {nearest}.")
