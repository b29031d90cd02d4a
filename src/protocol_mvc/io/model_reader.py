"""Read a model folder that anybody may have made: everything is checked before it is used."""

import csv
import hashlib
import io
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel
from safetensors import safe_open

from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.model_schema import (
    AGAIN,
    ARRAYS,
    CARD,
    CONFIG,
    HISTORY,
    LARGEST,
    MANIFEST,
    SCHEMA,
    Arrays,
    Facts,
    FileFacts,
    History,
    Manifest,
    Settings,
    Shapes,
    refusing,
)

DTYPES = {"BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64"}
DTYPES |= {"I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64"}
DTYPES |= {"F16": "float16", "F32": "float32", "F64": "float64"}


class SavedModel(NamedTuple):
    """What a folder says; its arrays are read by `read_arrays`."""

    folder: Path
    settings: Settings
    facts: Facts
    history: History
    arrays: FileFacts


class _Version(BaseModel):
    schema_version: int = 0


def open_model(folder: str | os.PathLike[str]) -> SavedModel:
    """Read all but the arrays of a model folder.

    Raises:
        ModelFileError: If the folder is no model, of a newer schema, damaged or altered.
    """
    path = Path(folder)
    with refusing(path, "give a folder that can be read"):
        if not path.is_dir():
            raise ModelFileError(f"{path}: there is no such folder: give the one that `save` has written.")
    raw = _read(path / CONFIG)
    _check_version(path / CONFIG, raw)
    with refusing(path / MANIFEST, AGAIN):
        manifest = Manifest.model_validate_json(_read(path / MANIFEST))
    texts = {name: _verified(path / name, manifest.files[name]) for name in (CONFIG, HISTORY, CARD)}
    with refusing(path / CONFIG, AGAIN):
        settings = Settings.model_validate_json(texts[CONFIG])
    with refusing(path / HISTORY, AGAIN):
        history = _records(texts[HISTORY].decode())
    return SavedModel(path, settings, manifest.facts, history, manifest.files[ARRAYS])


def read_arrays(model: SavedModel, expected: Shapes) -> Arrays:
    """Read the arrays of a model folder, if they are of the expected dtypes and shapes and no others.

    Raises:
        ModelFileError: If they are not, or the file is damaged or altered.
    """
    path = model.folder / ARRAYS
    size = _size(path)
    with refusing(path, AGAIN):
        with path.open("rb") as file:
            _compare(path, size, hashlib.file_digest(file, "sha256").hexdigest(), model.arrays)
        with safe_open(path, framework="numpy") as arrays:
            names = arrays.keys()
            _check_shapes(path, {name: _shape(arrays.get_slice(name)) for name in names}, expected)
            return {name: arrays.get_tensor(name) for name in expected}


def _shape(entry: Any) -> tuple[str, tuple[int, ...]]:
    """The dtype and the shape that the header tells of an array."""
    return DTYPES.get(entry.get_dtype(), entry.get_dtype()), tuple(entry.get_shape())


def _check_shapes(path: Path, found: Shapes, expected: Shapes) -> None:
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            is_, should = (_phrase(shapes.get(name)) for shapes in (found, expected))
            raise ModelFileError(f"{path}: array {name!r} is {is_}, but {should} is expected: {AGAIN}.")


def _phrase(entry: tuple[str, tuple[int, ...]] | None) -> str:
    return "absent" if entry is None else f"{entry[0]} of shape {entry[1]}"


def _size(path: Path) -> int:
    """The size of a file, if it is one, here, and not too large to be read."""
    try:
        found = path.lstat()
    except OSError:
        raise ModelFileError(
            f"{path}: the file is missing: give a folder that `save` has written, or {AGAIN}."
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise ModelFileError(f"{path}: it is a link or no file at all: put the file itself there.")
    if found.st_size > LARGEST[path.name]:
        raise ModelFileError(
            f"{path}: it has {found.st_size} bytes, but at most {LARGEST[path.name]} are read: {AGAIN}."
        )
    return found.st_size


def _read(path: Path) -> bytes:
    size = _size(path)
    with refusing(path, "make the file readable"), path.open("rb") as file:
        return file.read(size)


def _verified(path: Path, expected: FileFacts) -> bytes:
    content = _read(path)
    _compare(path, len(content), hashlib.sha256(content).hexdigest(), expected)
    return content


def _compare(path: Path, size: int, sha256: str, expected: FileFacts) -> None:
    if (size, sha256) != (expected.bytes, expected.sha256):
        raise ModelFileError(f"{path}: it is not the file that the manifest describes: {AGAIN}.")


def _check_version(path: Path, raw: bytes) -> None:
    with refusing(path, AGAIN):
        version = _Version.model_validate_json(raw).schema_version
    if version > SCHEMA:
        raise ModelFileError(
            f"{path}: written by a newer version (schema {version}, this is {SCHEMA}): upgrade protocol-mvc."
        )
    if version < 1:
        raise ModelFileError(f"{path}: there is no schema {version}: {AGAIN}.")


def _records(text: str) -> History:
    kinds: dict[str, Any] = {"stage": str, "epoch": int}
    rows = csv.DictReader(io.StringIO(text))
    return [
        {name: kinds.get(name, float)(value) for name, value in row.items() if value != ""} for row in rows
    ]
