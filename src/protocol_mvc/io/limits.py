"""Guards shared by all readers: size limits before memory is taken, and one type of error."""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from protocol_mvc.exceptions import DataError, DataFileError

MAX_BYTES = 2**36  # memory of all arrays that are read from one file; memory maps do not count
MAX_RATIO = 1000  # largest size of an array over its size in the file
SMALL = 2**26  # bytes; smaller arrays may have any ratio


@contextmanager
def file_errors(path: Path, kind: str) -> Iterator[None]:
    """Convert every error about the contents of a file to a `DataFileError` of one sentence that names it."""
    where = f"{'Folder' if path.is_dir() else 'File'} {path}"
    try:
        yield
    except (DataFileError, FileNotFoundError, PermissionError, ImportError, AssertionError):
        raise
    except DataError as error:
        raise DataFileError(f"{where}: {error}") from None
    except MemoryError as error:
        raise DataFileError(f"{where} does not fit into memory: choose fewer views.") from error
    except Exception as error:  # numpy, scipy, h5py, pandas, pyarrow and anndata raise anything
        reason = str(error).partition("\n")[0].rstrip(".:") or type(error).__name__
        raise DataFileError(
            f"{where} cannot be read as {kind} ({reason}): it is damaged or has another format."
        ) from error


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
    """Raise `DataError` if contents of this size do not fit into memory."""
    if n_bytes > (limit := memory_limit()):
        raise DataError(
            f"its arrays take {n_bytes / 2**30:.3g} GiB, more than the {limit / 2**30:.3g} GiB allowed: "
            "choose fewer views, or convert it to a folder of .npy files, which are memory-mapped."
        )


def memory_limit() -> int:
    """Return the number of bytes that the contents of a file may take."""
    try:
        return min(MAX_BYTES, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows
        return MAX_BYTES


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
