"""A small model folder made by hand, and folders as a stranger could make them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from protocol_mvc.io.model_schema import (
    ARRAYS,
    LISTED,
    MANIFEST,
    Arrays,
    Facts,
    FileFacts,
    Settings,
    ViewFacts,
    digest_of,
)
from protocol_mvc.io.model_writer import write_model

HISTORY = [
    {"stage": "reconstruct", "epoch": 0, "seconds": 0.1, "reconstruction": 1 / 3},
    {"stage": "re, balance\n2", "epoch": 1, "seconds": 2e-300, "label": -1e300, "class": float("inf")},
]
ARRAYS_OF_THREE: Arrays = {
    "cluster_sizes": np.array([2, 1]),
    "labels": np.array([0, 1, 0]),
    "weights": np.arange(6, dtype=np.float32).reshape(2, 3).T,  # not contiguous
    "flag": np.array(True),  # without a dimension
    "nothing": np.empty((0, 3)),
}
SHAPES = {name: (array.dtype.name, array.shape) for name, array in ARRAYS_OF_THREE.items()}


def settings(**changes: Any) -> Settings:
    given: dict[str, Any] = {
        "estimator": "PROTOCOL",
        "parameters": {"n_clusters": 2, "views": [{"tuple": [0, 2]}]},
        "config": "default",
        "fitted": {"hidden": [4, 2], "kl_weight": "inf", "mix": 0.5},
    }
    return Settings(**given | changes)


def facts(**changes: Any) -> Facts:
    given: dict[str, Any] = {
        "library": "0.1.0",
        "environment": {"torch": "2"},
        "seed": 3,
        "data_sha256": "a" * 64,
        "samples": 3,
        "features": 2,
        "feature_names": None,
        "views": (ViewFacts(name="a|b<script>", features=2, columns=("x", "y"), scaling="none"),),
        "label_order": (1, 0),
        "ids": "int64",
        "ids_length": 3,
    }
    return Facts(**given | changes)


def write(folder: Path, **changes: Any) -> Path:
    """A folder with a small model."""
    given: dict[str, Any] = {
        "settings": settings(),
        "facts": facts(),
        "arrays": ARRAYS_OF_THREE,
        "history": HISTORY,
    }
    write_model(folder, **given | changes)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of all files."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def forge(folder: Path, name: str, content: bytes) -> None:
    """Replace a file, and make the manifest agree as a stranger would."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / MANIFEST).read_text())
    files = {
        name: FileFacts(
            bytes=(folder / name).stat().st_size,
            sha256=hashlib.sha256((folder / name).read_bytes()).hexdigest(),
        )
        for name in LISTED
    }
    facts = Facts.model_validate_json(json.dumps(manifest["facts"]))
    said = {"facts": manifest["facts"], "files": {n: file.model_dump() for n, file in files.items()}}
    (folder / MANIFEST).write_text(json.dumps(said | {"sha256": digest_of(facts, files)}))


def forge_json(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change what a JSON file says in place, and make the manifest agree."""
    said = json.loads((folder / name).read_text())
    change(said)
    forge(folder, name, json.dumps(said).encode())


def forge_facts(folder: Path, **changes: Any) -> None:
    """Change facts, and make the manifest agree."""
    path = folder / MANIFEST
    path.write_text(json.dumps((said := json.loads(path.read_text())) | {"facts": said["facts"] | changes}))
    forge(folder, LISTED[-1], (folder / LISTED[-1]).read_bytes())


def forge_arrays(folder: Path, arrays: Arrays) -> None:
    """Replace the arrays, and make the manifest agree."""
    forge(folder, ARRAYS, save({name: np.asarray(x, order="C") for name, x in arrays.items()}))
