"""A small model folder, and tools to forge one."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from protocol_mvc.io.model_folder import (
    ARRAYS,
    CONFIG,
    MANIFEST,
    Arrays,
    ModelRecord,
    ViewRecord,
    write_model,
)

HISTORY = [
    {"stage": "reconstruct", "epoch": 0, "seconds": 0.1, "reconstruction": 1 / 3},
    {"stage": "re, balance\n2", "epoch": 1, "seconds": 2e-300, "label": -1e300, "class": float("inf")},
]
ARRAYS_OF_THREE: Arrays = {
    "cluster_sizes_": np.array([2, 1]),
    "labels_": np.array([0, 1, 0]),
    "weights": np.arange(6, dtype=np.float32).reshape(2, 3).T,  # not contiguous
    "flag": np.array(True),  # without a dimension
    "nothing": np.empty((0, 3)),
}


def record(**changes: Any) -> ModelRecord:
    fields: dict[str, Any] = {
        "library_version": "0.1.0",
        "estimator": "PROTOCOL",
        "parameters": {"n_clusters": 2, "view_columns": [{"$tuple": [0, 2]}]},
        "config": "default",
        "fitted_config": {"network": {"hidden_dims": [4, 2]}},
        "seed": 3,
        "data_hash": "a" * 64,
        "environment": {"torch": "2"},
        "n_features_in": 2,
        "feature_names_in": None,
        "views": (ViewRecord(name="a|b<script>", n_features=2, columns=("x", "y"), scaling="none"),),
        "label_order": (1, 0),
        "id_dtype": "int64",
    }
    return ModelRecord(**fields | changes)


def write(folder: Path, **changes: Any) -> Path:
    """Write a folder with a small model."""
    write_model(folder, record(**changes), ARRAYS_OF_THREE, HISTORY)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def forge(folder: Path, name: str, content: bytes) -> None:
    """Replace a file, and make the manifest agree."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {name: hashlib.sha256(content).hexdigest()}))


def forge_record(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change `config.json` in place, and make the manifest agree."""
    fields = json.loads((folder / CONFIG).read_text())
    change(fields)
    forge(folder, CONFIG, json.dumps(fields).encode())


def forge_arrays(folder: Path, arrays: Arrays) -> None:
    """Replace the arrays, and make the manifest agree."""
    forge(folder, ARRAYS, save({name: np.asarray(x, order="C") for name, x in arrays.items()}))
