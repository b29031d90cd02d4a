"""Model folders without pickle, written whole or not at all, and read as if a stranger had made them."""

from protocol_mvc.storage.reading import SavedModel, open_model, read_arrays
from protocol_mvc.storage.schema import (
    AGAIN,
    ARRAYS,
    CONFIG,
    Arrays,
    Facts,
    ModelFileError,
    Settings,
    Shapes,
    ViewFacts,
    refusing,
)
from protocol_mvc.storage.writing import write_model

__all__ = [
    "AGAIN",
    "ARRAYS",
    "CONFIG",
    "Arrays",
    "Facts",
    "ModelFileError",
    "SavedModel",
    "Settings",
    "Shapes",
    "ViewFacts",
    "open_model",
    "read_arrays",
    "refusing",
    "write_model",
]
