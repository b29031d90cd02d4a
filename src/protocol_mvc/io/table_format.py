"""How a text table is written: encoding, separator, decimal mark and quotes, found from the file itself."""

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field

from protocol_mvc.exceptions import DataError
from protocol_mvc.io.limits import check_size

SEPARATORS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}  # where the file does not show it
OTHER_SEPARATORS = (",", ";", "\t", "|")
NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", " ": "blanks"}
SEP_LINE = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)  # first line of some exports of Excel
CHUNK, HEAD, HEAD_ROWS = 2**20, 2**18, 200
MAX_CELL = 2**24  # characters; the limit of the csv module is smaller than a long text

WHOLE = re.compile(r"[-+]?\d+")
NUMBER = re.compile(r"[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?")
THOUSANDS = {mark: re.compile(rf"[-+]?\d{{1,3}}({re.escape(mark)}\d{{3}})+") for mark in ".,"}
FORMULA = re.compile(r"'*[=+\-@\t\r]")
NUL_SYMBOL, ESCAPE = "\u2400", "\u241b"


class TableOptions(BaseModel):
    """How tables are read; None means that the file shows it.

    Attributes:
        sep: separator of the cells.
        decimal: decimal mark.
        encoding: encoding of the text, such as "latin-1".
        missing: what becomes of empty cells: "impute" fills in the median of the column and adds a feature
            with their share in each row; "error" refuses them.
        drop: columns that are not used.
        features: columns that are used although their names look like labels or ids.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sep: str | None = Field(default=None, min_length=1, max_length=1)
    decimal: Literal[".", ","] | None = None
    encoding: str | None = None
    missing: Literal["impute", "error"] = "impute"
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] = ()


DEFAULTS = TableOptions()


class TableFormat(NamedTuple):
    """How the text of a table is written."""

    encoding: str
    sep: str
    decimal: str
    quotechar: str = '"'
    n_skipped: int = 0  # lines above the header

    def is_usual(self, suffix: str) -> bool:
        """Return whether a file with this suffix would be expected to have this format."""
        return self.encoding.startswith("utf-8") and self[1:] == (SEPARATORS[suffix], ".", '"', 0)

    def describe(self) -> str:
        """Return the format in words."""
        words = f"cells separated by {NAMES.get(self.sep, repr(self.sep))}, decimal mark {self.decimal!r}"
        quotes = "" if self.quotechar == '"' else f", quotes {self.quotechar}"
        return f"{words}, encoding {self.encoding.removesuffix('-sig')}{quotes}"


def split_name(path: Path) -> tuple[str, str]:
    """Return the stem and the suffix of a file name in lower case; ".csv.gz" is one suffix."""
    stem, suffix = path.stem, path.suffix.lower()
    if suffix == ".gz" and Path(stem).suffix:
        stem, suffix = Path(stem).stem, Path(stem).suffix.lower() + suffix
    return stem, suffix


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, or the contents of a `.gz` file, for reading."""
    with path.open("rb") as file:
        if path.suffix.lower() != ".gz":
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unzipped:
            yield cast(IO[bytes], unzipped)


@contextmanager
def open_text(path: Path, style: TableFormat) -> Iterator[IO[str]]:
    """Open a table at its header."""
    with open_bytes(path) as file:
        text = io.TextIOWrapper(file, encoding=style.encoding, newline="")
        for _ in range(style.n_skipped):
            text.readline()
        yield text


def read_rows(path: Path, style: TableFormat) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with the number of its first line, from 1."""
    with open_text(path, style) as text:
        reader = _csv_rows(text, style.sep, style.quotechar)
        line = 1
        for row in reader:
            if row:
                yield line + style.n_skipped, row
            line = reader.line_num + 1


def _csv_rows(text: IO[str], sep: str, quotechar: str) -> Any:
    csv.field_size_limit(MAX_CELL)
    return csv.reader(text, delimiter=sep, quotechar=quotechar)


def detect_format(path: Path, options: TableOptions) -> TableFormat:
    """Find the format of a text table, except for what the options say.

    Raises:
        DataError: If the text has NUL characters, or does not fit into memory.
    """
    encoding = _find_encoding(path, options.encoding)
    with open_bytes(path) as file:
        head = codecs.getincrementaldecoder(encoding)(errors="replace").decode(file.read(HEAD))
    hint = SEP_LINE.match(head)
    head = head[hint.end() :] if hint else head
    quotechar = "'" if re.match(r"'[^'\r\n]*'(\W'[^'\r\n]*')*\r?\n?", head) else '"'
    sep = options.sep or (hint[1] if hint else _detect_separator(head, quotechar, split_name(path)[1]))
    decimal = options.decimal or _detect_decimal(_parse(head, sep, quotechar))
    return TableFormat(encoding, sep, decimal, quotechar, int(hint is not None))


def _find_encoding(path: Path, given: str | None) -> str:
    """Return the first encoding in which the whole file can be read; cp1252 contains Latin-1."""
    with open_bytes(path) as file:
        head = file.read(HEAD)
    marked = "utf-8-sig" if head.startswith(codecs.BOM_UTF8) else _detect_wide(head)
    for encoding in (given or marked or "utf-8", "cp1252"):
        try:
            _check_text(path, encoding)
        except UnicodeDecodeError:
            if given:
                raise DataError(f"its encoding is not {given}: leave the encoding out.") from None
        else:
            return encoding
    return "latin-1"  # has a character for every byte


def _check_text(path: Path, encoding: str) -> None:
    """Decode a whole file; refuse NUL characters, at which parsers cut a cell, and more than the memory."""
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
    except LookupError:
        raise DataError(f"there is no encoding {encoding!r}: use one such as utf-8 or cp1252.") from None
    size, line = 0, 1
    with open_bytes(path) as file:
        while chunk := file.read(CHUNK):
            check_size(size := size + len(chunk))
            text = decoder.decode(chunk)
            before, nul, _ = text.partition("\0")
            line += before.count("\n")
            if nul:
                raise DataError(f"line {line} has a NUL character: it is damaged or has another encoding.")
    decoder.decode(b"", final=True)


def _detect_wide(chunk: bytes) -> str | None:
    """Return the UTF-16 encoding of a text, by its mark or by its zeros."""
    if chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd, half = chunk[0::2].count(0), chunk[1::2].count(0), len(chunk) / 2
    if max(even, odd) > 0.7 * half and min(even, odd) < 0.1 * half:
        return "utf-16-le" if odd > even else "utf-16-be"
    return None


def _parse(head: str, sep: str, quotechar: str) -> list[list[str]]:
    """Return the first rows; the last one may be cut off and is left out of a long text."""
    try:
        rows = [
            row for row in islice(_csv_rows(io.StringIO(head, newline=""), sep, quotechar), HEAD_ROWS) if row
        ]
    except csv.Error:
        return []
    return rows[:-1] if len(head) >= HEAD and len(rows) > 2 else rows


def _detect_separator(head: str, quotechar: str, suffix: str) -> str:
    """Return the separator that gives rows of one length with the most numbers in them."""
    default = SEPARATORS.get(suffix, ",")

    def score(sep: str) -> tuple[float, float, int]:
        rows = _parse(head, sep, quotechar)
        width = len(rows[0]) if rows else 0
        if width < 2:
            return 0.0, 0.0, 0
        cells = [cell for row in rows[1:] for cell in row]
        regular = sum(len(row) == width for row in rows) / len(rows)
        numeric = sum(bool(NUMBER.fullmatch(cell.strip())) for cell in cells) / max(len(cells), 1)
        return round(regular, 1), numeric, width

    candidates = [default, *(sep for sep in OTHER_SEPARATORS if sep != default)]
    best = max(candidates, key=score)
    return best if score(best)[2] else default


def _detect_decimal(rows: Sequence[Sequence[str]]) -> str:
    """Return "," if cells have decimal commas and none has a decimal point."""
    cells = [cell.strip() for row in rows[1:] for cell in row]
    numbers = [cell for cell in cells if NUMBER.fullmatch(cell) and not WHOLE.fullmatch(cell)]
    grouped = [cell for cell in cells if re.fullmatch(r"[-+]?\d{1,3}(\.\d{3})+,\d+", cell)]
    points = [cell for cell in numbers if "." in cell and not THOUSANDS["."].fullmatch(cell)]
    commas = any("," in cell for cell in numbers)
    return "," if (commas or grouped) and not points else "."


def escape_cell(text: str) -> str:
    """Return a text that spreadsheets do not take for a formula: `=`, `+`, `-`, `@` get an apostrophe before.

    Numbers stay as they are. NUL, at which many readers cut a cell, becomes its visible symbol; the symbol
    itself gets an escape before.
    """
    text = re.sub(f"[{NUL_SYMBOL}{ESCAPE}]", rf"{ESCAPE}\g<0>", text).replace("\0", NUL_SYMBOL)
    return f"'{text}" if FORMULA.match(text) and parse_number(text) is None else text


def unescape_cell(text: str) -> str:
    """Undo `escape_cell`."""
    text = text[1:] if text.startswith("'") and FORMULA.match(text) else text
    symbols = rf"{ESCAPE}([{NUL_SYMBOL}{ESCAPE}])|{NUL_SYMBOL}"
    return re.sub(symbols, lambda found: found[1] or "\0", text)


def parse_number(text: str, decimal: str = ".") -> float | None:
    """Return the number that a text shows, with or without marks of thousands, or None."""
    thousands = "," if decimal == "." else "."
    whole, mark, fraction = text.strip().partition(decimal)
    if THOUSANDS[thousands].fullmatch(whole):
        whole = whole.replace(thousands, "")
    if thousands in f"{whole}{fraction}":
        return None
    try:
        return float(f"{whole}.{fraction}" if mark else whole)
    except ValueError:
        return None
