"""What guards against damaged, hostile or oversized files: limits, and one sentence for every fault."""

import csv
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from protocol_mvc.exceptions import DataError, DataFileError
from protocol_mvc.io.matlab import DAMAGE

MAX_BYTES = 2**36  # of all arrays that are read from one file; maps of files take none
MAX_RATIO = 1000  # of an array to what it takes in the file; deflate itself cannot do much better
FAULTS: tuple[type[Exception], ...] = (*DAMAGE, BadZipFile, struct.error, csv.Error)  # what libraries raise
SMALL = 2**26  # bytes that may come from any little space


@contextmanager
def readable(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a library says of a file that it cannot read into one sentence that names the file.

    Raises:
        FileFault: If the file is damaged or its contents are refused.
    """
    where = f"{'Folder' if path.is_dir() else 'File'} {path}"
    try:
        yield
    except (DataFileError, FileNotFoundError, PermissionError, ImportError):
        raise
    except DataError as refusal:
        raise DataFileError(f"{where}: {refusal}") from None
    except MemoryError as error:
        raise DataFileError(
            f"{where} takes more memory than there is: choose fewer views, or a larger machine; or it is "
            "damaged, so fetch it again."
        ) from error
    except FAULTS as error:
        reason = str(error).partition("\n")[0].rstrip(".:") or type(error).__name__
        raise DataFileError(
            f"{where} cannot be read as {kind} ({reason}): it is damaged or something else, so fetch it "
            "again or save it anew."
        ) from error


def need(module: str, extra: str, path: Path) -> Any:
    """Return an optional module that the file `path` needs.

    Raises:
        ModuleNotFoundError: If it is not installed; the message tells how to install it.
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"File {path} needs {package}: pip install 'protocol-mvc[{extra}]'."
        ) from None


def check_size(n_bytes: int) -> None:
    """Refuse contents that would take more memory than allowed, or than there is."""
    limit = memory_limit()
    if n_bytes > limit:
        raise DataError(
            f"its arrays take {n_bytes / 2**30:.3g} GiB, more than the {limit / 2**30:.3g} GiB that can be "
            "read here: choose fewer views, or make it a folder of .npy files, which are mapped and not read."
        )


def memory_limit() -> int:
    """Return the bytes that the contents of a file may take."""
    return min(MAX_BYTES, _memory())


def _memory() -> int:
    """Return the bytes of memory of this machine, or the largest allowed where they are not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not everywhere
        return MAX_BYTES


def check_ratio(name: str, n_bytes: int, stored: int) -> None:
    """Refuse an array that takes far more memory than its compressed form would honestly tell."""
    if n_bytes > max(SMALL, MAX_RATIO * stored):
        raise DataError(
            f"{name!r} takes {n_bytes / 2**20:.0f} MiB but only {stored} bytes in the file, which is the "
            "mark of a file made to exhaust memory: save it uncompressed if it is not."
        )
