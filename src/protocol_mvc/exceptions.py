"""Errors and warnings of the library."""

from collections.abc import Mapping, Sequence
from typing import Any

from protocol_mvc.utils.text import sanitize

__all__ = [
    "CheckpointError",
    "CheckpointWarning",
    "ConstantViewWarning",
    "DataError",
    "DataFileError",
    "DataWarning",
    "DivergenceError",
    "DivergenceWarning",
    "ModelFileError",
    "RunLockedError",
    "UnreliableClusterWarning",
    "UnreliableResultError",
]


class DataError(ValueError):
    """The contents of a data file are invalid; the message does not name the file."""


class DataFileError(ValueError):
    """A data file cannot be read or written; the message names the file and the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(sanitize(message))  # names inside a file are untrusted


class DataWarning(UserWarning):
    """Data may not be what the user believes: the message names the view and the remedy."""


class ModelFileError(ValueError):
    """A saved model cannot be written or read; the message names the file and the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(sanitize(message))


class CheckpointError(ValueError):
    """A checkpoint belongs to another fit."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or read; the fit continues without it."""


class RunLockedError(OSError):
    """Another process is writing to the same folder."""


class DivergenceError(RuntimeError):
    """A loss or a weight is no longer finite, or the loss exploded."""


class DivergenceWarning(UserWarning):
    """An epoch diverged and is repeated at a lower learning rate."""


class ConstantViewWarning(UserWarning):
    """A view has no variation, so it does not contribute to the clustering."""


class UnreliableClusterWarning(UserWarning):
    """A cluster, or the number of clusters, is not supported by the data."""


class UnreliableResultError(Exception):
    """A result has warnings and `--fail-on-warning` was given; all output was written.

    Args:
        messages: the warnings.
        document: the result, as the command would print it.
    """

    def __init__(self, messages: Sequence[str], document: Mapping[str, Any]) -> None:
        super().__init__(" ".join(messages))
        self.document = dict(document)
