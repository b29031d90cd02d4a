"""Arrays of `.npz` archives and `.npy` files, whose headers are checked before memory is taken."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from protocol_mvc.exceptions import DataError
from protocol_mvc.io.arrays import Stored
from protocol_mvc.io.limits import check_ratio, readable

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


@contextmanager
def open_archive(path: Path) -> Iterator[dict[str, Stored]]:
    """Yield the arrays of an `.npz` archive, in the order of the file.

    Raises:
        Refusal: If a member is no array, or is made to take more memory than it says.
    """
    with ZipFile(path) as archive:
        members = archive.infolist()
        if sum(member.compress_size for member in members) > path.stat().st_size:
            raise DataError("its members overlap, which is the mark of a file made to exhaust memory.")
        yield {member.filename.removesuffix(".npy"): _member(archive, member) for member in members}


def _member(archive: ZipFile, member: ZipInfo) -> Stored:
    name = member.filename.removesuffix(".npy")
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise DataError(f"its member {name!r} is compressed in a way that numpy never uses: save it anew.")
    with archive.open(member) as file:
        shape, dtype = _header(file, name)
        expected = file.tell() + prod(shape) * dtype.itemsize
    if member.file_size != expected:
        raise DataError(
            f"its member {name!r} has {member.file_size} bytes where its header asks for {expected}: it is "
            "damaged, so fetch it again."
        )
    check_ratio(name, expected, member.compress_size)
    return Stored(shape, dtype, partial(_load, archive, member))


def _header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    try:
        shape, _, dtype = _HEADERS[npy.read_magic(file)](file)
    except (ValueError, KeyError, SyntaxError, TokenError) as error:
        raise DataError(f"its part {name!r} is no array of numpy: leave it out, or save it anew.") from error
    if dtype.hasobject:
        raise DataError(
            f"{name!r} is an array of Python objects, which could run code when read: save it as numbers, "
            "or as text of a fixed length."
        )
    return shape, dtype


def _load(archive: ZipFile, member: ZipInfo) -> NDArray[Any]:
    with archive.open(member) as file:
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array


def map_files(paths: Sequence[Path]) -> dict[str, Stored]:
    """Return the arrays of `.npy` files by the stems of their names, as memory maps."""
    return {path.stem: _mapped(path) for path in paths}


def _mapped(path: Path) -> Stored:
    with readable(path, "an .npy array"):
        with path.open("rb") as file:
            shape, dtype = _header(file, path.stem)
        array = npy.open_memmap(path, mode="r")
    return Stored(shape, dtype, lambda: array, mapped=True)
