"""Write a model folder so that at every moment it is complete, or not there."""

import csv
import hashlib
import io
import os
from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.model_schema import (
    ARRAYS,
    CARD,
    CONFIG,
    HISTORY,
    LARGEST,
    MANIFEST,
    NAMES,
    Arrays,
    Facts,
    FileFacts,
    History,
    Manifest,
    Settings,
    digest_of,
    refusing,
)
from protocol_mvc.utils.files import atomic_write_folder


def write_model(
    folder: str | os.PathLike[str], settings: Settings, facts: Facts, arrays: Arrays, history: History
) -> None:
    """Write a model folder; the same model gives the same bytes.

    A model that is there is replaced, and stays as it was if anything goes wrong.

    Raises:
        ModelFileError: If the folder holds anything else, or cannot be written.
    """
    path = Path(folder)
    with refusing(path, "choose a folder that can be written"):
        path = path.resolve()
        _check_replaceable(path)
    with refusing(path, "give the views and the ids names that are text"):
        files = {
            ARRAYS: save({name: np.asarray(array, order="C") for name, array in arrays.items()}),
            CONFIG: _json(settings),
            HISTORY: _table(history).encode(),
            CARD: _card(settings, facts, arrays).encode(),
        }
        files[MANIFEST] = _json(_manifest(facts, files))
        _check_sizes(path, files)
    with refusing(path, "choose a folder that can be written"):
        _replace(path, files)


def _json(model: Settings | Manifest) -> bytes:
    return (model.model_dump_json(indent=1) + "\n").encode()


def _manifest(facts: Facts, files: Mapping[str, bytes]) -> Manifest:
    listed = {
        name: FileFacts(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        for name, content in files.items()
    }
    return Manifest.model_validate({"facts": facts, "files": listed, "sha256": digest_of(facts, listed)})


def _table(history: History) -> str:
    """The records as CSV; floats are written with all their digits, and what a record lacks is left empty."""
    text = io.StringIO()
    columns = list(dict.fromkeys(name for record in history for name in record))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return text.getvalue()


def _card(settings: Settings, facts: Facts, arrays: Arrays) -> str:
    """A page for people who find the folder."""
    kind, environment = settings.estimator, facts.environment
    views = [f"| {_cell(view.name)} | {view.features} | {view.scaling} |" for view in facts.views]
    clusters = [f"| {label} | {size} |" for label, size in enumerate(arrays["cluster_sizes"].tolist())]
    versions = ", ".join(f"{name} {_cell(version)}" for name, version in environment.items())
    return "\n".join(
        [
            f"# A {kind} model",
            "",
            f"It puts samples into {len(clusters)} clusters by {len(views)} views, and was fitted to "
            f"{facts.samples} samples without labels.",
            "",
            "```python",
            f"from protocol_mvc import {kind}",
            "",
            f'model = {kind}.load("this folder")',
            "labels = model.predict(X)",
            "```",
            "",
            *("| view | features | scaling |", "|---|---|---|", *views, ""),
            *("| cluster | samples |", "|---|---|", *clusters, ""),
            f"Seed {facts.seed}; sha256 of the data {facts.data_sha256}; {versions}.",
            "",
            "The files are checked when the model is loaded. Notes belong into a file of their own.",
            "",
        ]
    )


def _cell(text: str) -> str:
    """A name from the data as text of a table, whatever is in it."""
    return " ".join(escape(text).replace("|", "&#124;").replace("`", "&#96;").split())


def _check_replaceable(folder: Path) -> None:
    """Refuse to replace what is not a model: it would be lost."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ModelFileError(f"{folder}: a file has this name: choose another name for the model folder.")
    entries = sorted(folder.iterdir())
    own = {path for path in entries if path.name in NAMES and path.is_file() and not path.is_symlink()}
    others = [path.name for path in entries if path not in own]
    if entries and (others or folder / MANIFEST not in own):
        found = (others or [entries[0].name])[0]
        raise ModelFileError(
            f"{folder}: it holds {found!r} and is not a model alone, so it is not replaced: "
            "choose a new or an empty folder."
        )


def _check_sizes(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        if len(content) > LARGEST[name]:
            raise ModelFileError(
                f"{folder / name}: {len(content)} bytes are more than the {LARGEST[name]} that are ever "
                "read: use shorter names, or fewer samples."
            )


def _replace(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write_folder(folder, overwrite=True) as new:
        for name, content in files.items():
            (new / name).write_bytes(content)
