"""States of a training on the disk, so that a fit that was stopped, at whatever moment, can go on.

Two files take turns: while one is written the other is whole. Each ends with the sha256 of its content, so
that one that was cut or altered is never used.
"""

import hashlib
import json
import os
import time
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from protocol_mvc.exceptions import CheckpointError, CheckpointWarning
from protocol_mvc.training.stage import EpochRecord, TrainingState
from protocol_mvc.utils.distributed import rank, require_equal
from protocol_mvc.utils.files import atomic_write
from protocol_mvc.utils.runtime import Seed, fresh_seed, resolve_device

SAVE_INTERVAL = 5.0  # seconds between two states
NAMES = ("checkpoint-a.state", "checkpoint-b.state")
SCHEMA = 1
DIGEST = hashlib.sha256().digest_size
MOST_BYTES = 2**36
BEGUN, FACTS = "begun", "facts"


class _Facts(BaseModel):
    """What is no tensor."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: int
    count: int  # states before this one
    fit: dict[str, JsonValue]  # what the fit is of
    seed: int
    stage: int
    epoch: int
    begun: bool | None
    slowness: float
    finished: bool
    history: list[EpochRecord]


class Checkpoint:
    """The states of one fit in a folder.

    Args:
        folder: where they are kept; it is made if it is not there.
        fit: what the fit is of, as JSON has it; a state of another fit is refused, unless that is finished.

    Raises:
        CheckpointError: If the folder holds the state of another fit that is not finished.
        OSError: If the folder cannot be read.
    """

    def __init__(self, folder: str | os.PathLike[str], fit: Mapping[str, Any]) -> None:
        """Look for the last whole state."""
        self.folder, self.fit = Path(folder), dict(fit)
        self.seed = 0
        self._last, self._count = time.monotonic(), 0
        found = [state for name in NAMES if (state := self._read(self.folder / name))]
        newest = max(found, key=lambda state: state[0].count, default=None)
        self._found = self._accepted(*newest) if newest else None
        require_equal("checkpoints", self._found and self._found[:2])

    def seed_or(self, random_state: Seed) -> int:
        """The seed of the fit to go on with, else a new one, which the states will tell."""
        if self._found is None:
            self.seed = fresh_seed(random_state)
        return self.seed

    def load(self) -> TrainingState | None:
        """The state to go on from, if there is one."""
        return self._found

    def keep(self, state: TrainingState, *, final: bool = False) -> None:
        """Write the state, unless the last one is of a moment ago; if that fails, warn and go on.

        Of several processes, whose states are the same, the first one writes.
        """
        if rank() > 0 or (not final and time.monotonic() - self._last < SAVE_INTERVAL):
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(self.folder / NAMES[self._count % 2], overwrite=True) as part:
                part.write_bytes(self._content(state, final))
        except OSError as error:
            reason = error.strerror or error
            warnings.warn(
                f"{self.folder}: no checkpoint could be written ({reason}), so the fit could not be resumed "
                "from here: free some room, or name another folder.",
                CheckpointWarning,
                stacklevel=2,
            )
        self._count += 1
        self._last = time.monotonic()

    def _content(self, state: TrainingState, finished: bool) -> bytes:
        tensors = dict(state.tensors)
        begun = state.begun
        if isinstance(begun, Tensor):
            tensors[BEGUN], begun = begun.cpu(), None
        facts = _Facts(
            schema_version=SCHEMA,
            count=self._count,
            fit=self.fit,
            seed=self.seed,
            stage=state.stage,
            epoch=state.epoch,
            begun=begun,
            slowness=state.slowness,
            finished=finished,
            history=list(state.history),
        )
        tensors[FACTS] = torch.frombuffer(bytearray(facts.model_dump_json().encode()), dtype=torch.uint8)
        content = save({name: value.contiguous() for name, value in tensors.items()})
        return content + hashlib.sha256(content).digest()

    def _read(self, path: Path) -> tuple[_Facts, TrainingState] | None:
        """The state in a file; None, and a warning, if it is not whole."""
        try:
            tensors = load(_checked(path))
            facts = _Facts.model_validate_json(bytes(tensors.pop(FACTS).tolist()))
            if facts.schema_version != SCHEMA:
                raise ValueError(f"it is of version {facts.schema_version}, and {SCHEMA} is known")
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, SafetensorError) as error:
            reason = "its fields are not those of a state" if isinstance(error, ValidationError) else error
            warnings.warn(f"{path}: {reason}, so it is not used.", CheckpointWarning, stacklevel=2)
            return None
        begun = tensors.pop(BEGUN, facts.begun)
        return facts, TrainingState(facts.stage, facts.epoch, begun, facts.slowness, facts.history, tensors)

    def _accepted(self, facts: _Facts, state: TrainingState) -> TrainingState | None:
        """The state, if it is of this fit."""
        wanted = json.loads(json.dumps(self.fit))
        other = [name for name in {**wanted, **facts.fit} if wanted.get(name) != facts.fit.get(name)]
        if other and facts.finished:
            return None
        if other:
            raise CheckpointError(
                f"{self.folder}: the fit that was stopped there had another {other[0]}: go on with that one, "
                "or name another folder, or remove this one."
            )
        self.seed, self._count = facts.seed, facts.count + 1
        return state


def fit_identity(model: Any, digest: str) -> dict[str, Any]:
    """What a fit of an estimator to data with this hash is of: all that decides its result."""
    params = model.get_params()
    seed = params.pop("random_state")
    del params["verbose"], params["view_columns"], params["config"]  # its fields are there one by one
    return {
        "estimator": type(model).__name__,
        "version of protocol_mvc": version("protocol_mvc"),
        **{name: str(value) for name, value in params.items()},
        "device": resolve_device(model.device).type,
        "random_state": int(seed) if isinstance(seed, int | np.integer) else None,
        "data": digest,
    }


def _checked(path: Path) -> bytes:
    """The content of a file without its sha256, which must be right."""
    if path.is_symlink() or path.stat().st_size > MOST_BYTES:
        raise ValueError("it is a link or far too large")
    whole = path.read_bytes()
    content, digest = whole[:-DIGEST], whole[-DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        raise ValueError("it was cut or altered")
    return content
