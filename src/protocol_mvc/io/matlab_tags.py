"""Look over `.mat` files of v5 to v7 before scipy, which follows what they say without a look and may crash.

A variable is a matrix: flags, sizes and name, then its numbers or, in a cell array, further matrices.
"""

import struct
import zlib
from collections.abc import Collection
from math import prod
from pathlib import Path
from typing import IO, NamedTuple

from protocol_mvc.exceptions import DataError

MATRIX, COMPRESSED = 14, 15  # kinds of elements
# Kinds of elements that are numbers, with their bytes.
NUMBERS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
CELL, CHAR, SPARSE, FULL = 1, 4, 5, range(6, 16)  # classes of matrices
OTHERS = {2: "struct", 3: "object", 16: "function"}
HEADER, TAG = 128, 8  # bytes
LONGEST = 4096  # bytes of a name, or of sizes
DEEPEST = 32  # of cells in cells
CHUNK = 2**16


class _Bytes:
    """The next bytes of a file, or of a compressed part of it, of which some are left to be read."""

    def __init__(self, file: IO[bytes], order: str, left: int) -> None:
        self.file, self.order, self.left = file, order, left

    def read(self, size: int) -> bytes:
        """Return so many bytes.

        Raises:
            ValueError: If there are fewer.
        """
        self._take(size)
        found = self._next(size)
        if len(found) < size:
            raise ValueError("it ends in the middle of an element")
        return found

    def _take(self, size: int) -> None:
        if size > self.left:
            raise ValueError(f"an element of {size} bytes does not fit into {self.left}")
        self.left -= size

    def _next(self, size: int) -> bytes:
        return self.file.read(size)

    def skip(self, size: int) -> None:
        """Leave so many bytes out."""
        self._take(size)
        self.file.seek(size, 1)

    def numbers(self, content: bytes) -> tuple[int, ...]:
        """Return bytes as whole numbers."""
        return struct.unpack(f"{self.order}{len(content) // 4}I", content[: len(content) // 4 * 4])

    def tag(self) -> tuple[int, int, bytes]:
        """Return kind and length of the next element, and what it holds if that is in the tag itself."""
        raw = self.read(TAG)
        first, length = self.numbers(raw)
        if first >> 16 == 0:
            return first, length, b""
        return first & 0xFFFF, min(first >> 16, 4), raw[4:]

    def element(self, most: int) -> tuple[int, bytes]:
        """Return kind and content of the next element, of not too many bytes."""
        kind, length, content = self.tag()
        if length > most:
            raise ValueError(f"an element of {length} bytes is too long")
        if not content:
            content = self.read(length)
            self.skip(min(-length % TAG, self.left))  # tags begin at multiples of eight
        return kind, content[:length]


class _Inflated(_Bytes):
    """Bytes that are compressed."""

    def __init__(self, file: IO[bytes], order: str, packed: int) -> None:
        super().__init__(file, order, TAG)
        self.packed, self.zip = packed, zlib.decompressobj()

    def _next(self, size: int) -> bytes:
        found = b""
        while len(found) < size and not self.zip.eof:
            packed = self.zip.unconsumed_tail
            if not packed:
                packed = self.file.read(min(self.packed, CHUNK))
                self.packed -= len(packed)
            if not packed:
                break
            found += self.zip.decompress(packed, size - len(found))
        return found

    def skip(self, size: int) -> None:
        """Unpack so many bytes, a few at a time, and forget them."""
        while size:
            size -= len(self.read(min(size, CHUNK)))


class _Head(NamedTuple):
    """How a matrix begins."""

    kind: int
    dims: tuple[int, ...]
    parts: int  # elements of numbers that follow, or cells
    name: str


def check_variables(path: Path, names: Collection[str]) -> int:
    """Return the bytes that the named variables of a file will take; those of v4 are not looked at.

    Raises:
        Refusal: If one holds anything but numbers and cells of these.
        ValueError: If one is not built as it says.
        zlib.error: If a compressed part is damaged.
    """
    with path.open("rb") as file:
        header = file.read(HEADER)
        if len(header) < HEADER or 0 in header[:4]:
            return 0
        order, size, total = "<" if header.endswith(b"IM") else ">", path.stat().st_size, 0
        while (left := size - file.tell()) >= TAG:
            kind, length, _ = _Bytes(file, order, left).tag()
            end = file.tell() + length
            if kind not in (MATRIX, COMPRESSED) or end > size:
                raise ValueError(f"an element of kind {kind} and {length} bytes is no variable")
            total += _variable(file, order, kind, length, names)
            file.seek(end)
        return total


def _variable(file: IO[bytes], order: str, kind: int, length: int, names: Collection[str]) -> int:
    part = _Bytes(file, order, length)
    if kind == COMPRESSED:
        part = _Inflated(file, order, length)
        kind, part.left, _ = part.tag()
    if kind != MATRIX:
        raise ValueError(f"a compressed element of kind {kind} is no variable")
    head = _head(part) if part.left else None
    return _matrix(part, head, head.name, 0) if head and head.name in names else 0


def _head(part: _Bytes) -> _Head:
    (_, flags), (_, sizes), (_, name) = (part.element(LONGEST) for _ in range(3))
    word = part.numbers(flags.ljust(4, b"\0"))[0]
    kind, is_complex, dims = word & 0xFF, word >> 11 & 1, part.numbers(sizes)
    known = {CELL: prod(dims), CHAR: 1, SPARSE: 3 + is_complex, **dict.fromkeys(FULL, 1 + is_complex)}
    return _Head(kind, dims, known.get(kind, -1), name.decode("latin-1"))


def _matrix(part: _Bytes, head: _Head, name: str, depth: int) -> int:
    """Look at all parts of a matrix; returns the bytes that it takes as doubles."""
    if head.parts < 0:
        what = OTHERS.get(head.kind, "unknown")
        raise DataError(f"the variable {name} holds {what} values: store matrices of real numbers.")
    if depth > DEEPEST or head.parts * TAG > part.left:
        raise ValueError(f"{head.parts} parts do not fit into {part.left} bytes")
    if head.kind == CELL:
        return sum(_cell(part, name, depth) for _ in range(head.parts))
    lengths = [_numbers(part, head) for _ in range(head.parts)]
    return sum(lengths) if head.kind == SPARSE else 8 * prod(head.dims)


def _cell(part: _Bytes, name: str, depth: int) -> int:
    kind, length, _ = part.tag()
    if kind != MATRIX or length > part.left:
        raise ValueError(f"an element of kind {kind} and {length} bytes is no cell")
    behind = part.left - length
    part.left = length
    total = _matrix(part, _head(part), name, depth + 1) if length else 0
    part.skip(part.left)
    part.left = behind
    return total


def _numbers(part: _Bytes, head: _Head) -> int:
    """Return the bytes of an element of numbers, which must be as many as the sizes say."""
    kind, length, content = part.tag()
    if kind not in NUMBERS or (head.kind in FULL and length != NUMBERS[kind] * prod(head.dims)):
        raise ValueError(f"an element of kind {kind} and {length} bytes does not make {head.dims} numbers")
    if not content:
        part.skip(length)
        part.skip(min(-length % TAG, part.left))
    return length
