"""What a model folder says, and the one error when it does not."""

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from safetensors import SafetensorError

from protocol_mvc.exceptions import ModelFileError

SCHEMA = 1  # to be raised when a version that knows the former number could not read a folder any more
MANIFEST, ARRAYS, CONFIG = "manifest.json", "model.safetensors", "config.json"
HISTORY, CARD = "history.csv", "README.md"
LISTED = (ARRAYS, CONFIG, HISTORY, CARD)  # in the manifest
NAMES = (MANIFEST, *LISTED)
LARGEST = {name: 2**33 if name == ARRAYS else 2**26 for name in NAMES}  # bytes

AGAIN = "save the model again, or take the folder from a copy"

Arrays: TypeAlias = dict[str, NDArray[Any]]
Shapes: TypeAlias = Mapping[str, tuple[str, tuple[int, ...]]]  # dtype and shape of each array
History: TypeAlias = list[dict[str, Any]]  # one record per epoch
Scalar: TypeAlias = bool | int | float | str | None
# A config of endless lists would make a network of endless layers.
Fields: TypeAlias = dict[str, Scalar | Annotated[list[Scalar], Field(max_length=64)]]
Digest: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count: TypeAlias = Annotated[int, Field(ge=0)]

FAULTS: tuple[type[Exception], ...] = (OSError, ValueError, TypeError, LookupError, ArithmeticError)
FAULTS += (RuntimeError, MemoryError, SafetensorError, csv.Error)


@contextmanager
def refusing(path: Path, remedy: str) -> Iterator[None]:
    """Turn whatever goes wrong with a file into one sentence about it."""
    try:
        yield
    except ModelFileError:
        raise
    except FAULTS as error:
        raise ModelFileError(f"{path}: {_reason(error)}: {remedy}.") from error


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, fault['loc'])) or 'the text'} is not valid ({fault['msg']})"
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror.partition(";")[0]  # behind it `atomic` gives the advice that is given here too
    return (text or type(error).__name__).partition("\n")[0].rstrip(".:")


class _Checked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Settings(_Checked):
    """config.json: what the user chose."""

    schema_version: int = SCHEMA
    estimator: str
    parameters: dict[str, JsonValue]  # all but the config
    config: str | Fields  # the parameter: the name of a preset, or fields
    fitted: Fields  # of the config that was trained, whatever a preset of that name is today


class ViewFacts(_Checked):
    """One view of the training data."""

    name: str
    features: Annotated[int, Field(ge=1)]
    columns: tuple[str, ...] | None  # names, if it was a data frame
    scaling: str


class Facts(_Checked):
    """What is known of the fit."""

    library: str  # version that wrote the folder
    environment: dict[str, str]  # of the fit
    seed: int
    data_sha256: Digest
    samples: Count
    features: Count  # of X as it was given
    feature_names: tuple[str, ...] | None
    views: Annotated[tuple[ViewFacts, ...], Field(min_length=1, max_length=1024)]
    label_order: Annotated[tuple[int, ...], Field(min_length=2)]  # output of the network for each label
    ids: str  # what the ids of the samples were before they became numbers
    ids_length: Count

    @model_validator(mode="after")
    def _is_order(self) -> Self:
        if sorted(self.label_order) != list(range(len(self.label_order))):
            raise ValueError("label_order is no order of the clusters")
        return self


class FileFacts(_Checked):
    """What a file must be."""

    bytes: Count
    sha256: Digest


class Manifest(_Checked):
    """manifest.json: the facts, and the digests of all files."""

    facts: Facts
    files: dict[str, FileFacts]
    sha256: Digest  # of the facts and the files above

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.files.keys() != set(LISTED):
            raise ValueError(f"files must be {', '.join(LISTED)}")
        if self.sha256 != digest_of(self.facts, self.files):
            raise ValueError("the sha256 is of other facts")
        return self


def digest_of(facts: Facts, files: Mapping[str, FileFacts]) -> str:
    """The sha256 of what a manifest says."""
    said = {
        "facts": facts.model_dump(mode="json"),
        "files": {name: file.model_dump(mode="json") for name, file in files.items()},
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
