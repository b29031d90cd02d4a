"""The files of a model folder: what they contain, and how they are written and read.

The folder has `model.safetensors` (arrays), `config.json` (a `ModelRecord`), `history.csv` (one row per
epoch), `README.md` (a description) and `manifest.json` (sha256 of the other files). No file can run code, and
everything read is validated before it is used.
"""

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.nn.seeded import MAX_MODULE_BYTES
from protocol_mvc.utils.files import atomic_write_folder, read_regular, watch_folder

SCHEMA_VERSION = 1  # increase it when earlier versions of the library cannot read the folder any more
ARRAYS, CONFIG, HISTORY = "model.safetensors", "config.json", "history.csv"
CARD, MANIFEST = "README.md", "manifest.json"
FILES = (ARRAYS, CONFIG, HISTORY, CARD, MANIFEST)
MAX_BYTES = {name: MAX_MODULE_BYTES if name == ARRAYS else 2**28 for name in FILES}  # of files that are read
MAY_BE_INFINITE = ("outliers.distances", "outliers.levels")  # where a view is missing
RESTORE = "save the model again, or restore the folder from a copy"

Arrays: TypeAlias = dict[str, NDArray[Any]]
History: TypeAlias = list[dict[str, Any]]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ViewRecord(_Record):
    """One view of the training data."""

    name: str
    n_features: Annotated[int, Field(ge=1)]
    columns: tuple[str, ...] | None  # column names, if the view was a data frame
    scaling: str


class EditRecord(_Record):
    """A change of the clusters by hand; the classifier of a split is among the arrays."""

    kind: Literal["merge", "split"]
    clusters: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]


class ModelRecord(_Record):
    """Contents of `config.json`: everything but the arrays and the history."""

    schema_version: int = SCHEMA_VERSION
    library_version: str
    estimator: str  # class name
    parameters: dict[str, JsonValue]  # constructor parameters except the config
    config: str | dict[str, JsonValue]  # the constructor parameter: name of a preset, or fields
    fitted_config: dict[str, JsonValue]  # fields of the config at the time of the fit
    seed: int
    data_hash: str
    environment: dict[str, str]
    n_features_in: int
    feature_names_in: tuple[str, ...] | None
    views: Annotated[tuple[ViewRecord, ...], Field(min_length=1)]
    label_order: Annotated[tuple[int, ...], Field(min_length=1)]  # output of the network for each label
    id_dtype: str
    edits: tuple[EditRecord, ...] = ()  # applied in this order to the labels of `label_order`
    cluster_names: tuple[str | None, ...] | None = None


class SavedModel(NamedTuple):
    """Contents of a model folder."""

    record: ModelRecord
    arrays: Arrays
    history: History


@contextmanager
def model_errors(path: Path, remedy: str = RESTORE) -> Iterator[None]:
    """Convert every error about the file `path` to a `ModelFileError` of one sentence with a remedy."""
    try:
        yield
    except ModelFileError:
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            reason = f"{'.'.join(map(str, first['loc'])) or 'the text'} is not valid ({first['msg']})"
        elif isinstance(error, OSError) and error.strerror:
            reason = error.strerror.partition(";")[0]
        reason = reason.partition("\n")[0].rstrip(".:")
        raise ModelFileError(f"{path}: {reason}: {remedy}.") from error


def write_model(path: Path, record: ModelRecord, arrays: Arrays, history: History) -> None:
    """Write a model folder, replacing an old model but no other files; equal models give equal bytes."""
    with model_errors(path, "use text without surrogates as names of views and samples"):
        contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        files = {
            ARRAYS: safetensors.numpy.save(contiguous),
            CONFIG: (record.model_dump_json(indent=1) + "\n").encode(),
            HISTORY: _format_history(history).encode(),
            CARD: _format_card(record, arrays).encode(),
        }
        manifest = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        files[MANIFEST] = (json.dumps(manifest, indent=1) + "\n").encode()
    with model_errors(path, "choose a new or an empty folder that can be written"):
        path = path.resolve()
        check_replaceable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write_folder(path, overwrite=True) as new:
            for name, content in files.items():
                (new / name).write_bytes(content)


def check_replaceable(path: Path) -> None:
    """Raise `FileExistsError` if a folder has other files than those of a model."""
    entries = sorted(path.iterdir()) if path.is_dir() else []
    others = [entry.name for entry in entries if entry.name not in FILES or not entry.is_file()]
    if entries and (others or not (path / MANIFEST).is_file()):
        raise FileExistsError(f"it contains {(others or [entries[0].name])[0]!r}, so it is not replaced")


def read_model(folder: Path) -> SavedModel:
    """Read a folder, and refuse files that are missing, altered, too large, links, or of a newer version.

    If another process replaces the folder meanwhile, the new one is read.
    """
    while True:
        with watch_folder(folder) as is_replaced:
            try:
                return _read_once(folder)
            except ModelFileError:
                if not is_replaced():
                    raise


def _read_once(folder: Path) -> SavedModel:
    with model_errors(folder / CONFIG):
        schema = json.loads(_read_file(folder / CONFIG))["schema_version"]
        if type(schema) is not int or schema < 1:
            raise ValueError(f"there is no schema version {schema!r}")
        if schema > SCHEMA_VERSION:
            newer = f"a newer version (schema {schema}, this is {SCHEMA_VERSION})"
            raise ValueError(f"it was written by {newer}, so upgrade protocol-mvc")
    with model_errors(folder / MANIFEST):
        manifest = json.loads(_read_file(folder / MANIFEST))
    contents = {}
    for name in (CONFIG, ARRAYS, HISTORY, CARD):
        with model_errors(folder / name):
            contents[name] = _read_file(folder / name)
            if hashlib.sha256(contents[name]).hexdigest() != manifest[name]:
                raise ValueError("its sha256 differs from the manifest")
    with model_errors(folder / CONFIG):
        record = ModelRecord.model_validate_json(contents[CONFIG])
    with model_errors(folder / ARRAYS):
        arrays = safetensors.numpy.load(contents[ARRAYS])
        _refuse_not_finite(arrays)
    with model_errors(folder / HISTORY):
        return SavedModel(record, arrays, _parse_history(contents[HISTORY]))


def _refuse_not_finite(arrays: Arrays) -> None:
    """Raise ValueError if an array has NaN or infinity where no fit produces it."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and name != "sample_ids":
            bad = np.isnan(array) if name in MAY_BE_INFINITE else ~np.isfinite(array)
            if bad.any():
                raise ValueError(f"{name} has the value {array[bad][0]}")


def _read_file(path: Path) -> bytes:
    return read_regular(path, MAX_BYTES[path.name])


def _format_history(history: History) -> str:
    """Return the epochs as CSV with all digits; missing values are empty."""
    text = io.StringIO()
    columns = dict.fromkeys(name for epoch in history for name in epoch)
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return text.getvalue()


def _parse_history(content: bytes) -> History:
    types: dict[str, Callable[[Any], Any]] = {"stage": str, "epoch": int}
    rows = csv.DictReader(io.StringIO(content.decode()))
    return [{name: types.get(name, float)(x) for name, x in row.items() if x != ""} for row in rows]


def _format_card(record: ModelRecord, arrays: Arrays) -> str:
    """Return a description of the model in Markdown."""
    views = [f"| {_cell(view.name)} | {view.n_features} | {view.scaling} |" for view in record.views]
    sizes = arrays["cluster_sizes_"].tolist()
    names = [name or "" for name in record.cluster_names or [""] * len(sizes)]
    clusters = [
        f"| {label} {_cell(name)} | {size} |" if name else f"| {label} | {size} |"
        for label, (name, size) in enumerate(zip(names, sizes, strict=True))
    ]
    versions = ", ".join(f"{name} {_cell(value)}" for name, value in record.environment.items())
    return f"""# {record.estimator} model

It puts samples of {len(views)} views into {len(clusters)} clusters.
It was fitted to {len(arrays["labels_"])} samples.

```python
from protocol_mvc import {record.estimator}

model = {record.estimator}.load("path/of/this/folder")
labels = model.predict(X)
```

| view | features | scaling |
|---|---|---|
{chr(10).join(views)}

| cluster | samples |
|---|---|
{chr(10).join(clusters)}

Seed {record.seed}; sha256 of the data {record.data_hash}; {versions}.

Do not edit the files: their sha256 are checked when the model is loaded.
"""


def _cell(text: str) -> str:
    """Escape an untrusted name for a Markdown table."""
    return " ".join(escape(text).replace("|", "&#124;").replace("`", "&#96;").split())


def to_json(value: Any) -> Any:
    """Return a parameter as a JSON value.

    Tuples, slices and infinity become objects such as `{"$tuple": [0, 2]}`. Arrays, ranges, indexes and sets
    become lists, and the keys of dicts become texts. Other objects raise `TypeError`.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, slice):
        return {"$slice": [to_json(part) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, Mapping):
        return {str(key): to_json(part) for key, part in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        items = [to_json(part) for part in value]
        return {"$tuple": items} if isinstance(value, tuple) else items
    raise TypeError(f"{value!r} cannot be stored as JSON")


def from_json(value: Any) -> Any:
    """Return the value that `to_json` encoded."""
    match value:
        case list():
            return [from_json(part) for part in value]
        case {"$tuple": parts} if len(value) == 1:
            return tuple(from_json(parts))
        case {"$slice": parts} if len(value) == 1:
            return slice(*from_json(parts))
        case {"$float": text} if len(value) == 1:
            return float(text)
        case dict():
            return {key: from_json(part) for key, part in value.items()}
    return value
