"""Copies of a training's state in memory and on disk, from which it resumes to the same bits.

A checkpoint is one file, replaced atomically: safetensors content followed by its sha256, so that a truncated
or altered file is never used.
"""

import hashlib
import json
import math
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
from torch import nn

from protocol_mvc.exceptions import CheckpointError, CheckpointWarning
from protocol_mvc.nn.seeded import Dropout
from protocol_mvc.training.adam import Adam
from protocol_mvc.training.stage import Callback, EpochRecord, Tensors, TrainingState
from protocol_mvc.utils.device import resolve_device
from protocol_mvc.utils.distributed import rank, require_equal
from protocol_mvc.utils.files import atomic_write, read_regular
from protocol_mvc.utils.random import Seed, resolve_seed

SAVE_INTERVAL = 5.0  # seconds between two checkpoints
FILE_NAME = "checkpoint.state"
FORMAT_VERSION = 3
DIGEST_SIZE = hashlib.sha256().digest_size
MAX_BYTES = 2**36
START_VALUE, METADATA = "start_value", "metadata"  # names of tensors, and prefixes of names
GENERATOR, BEST_VALUE = "generator", "best_value"
MODULE, ADAM, DROPOUT, BEST = "module.", "adam.", "dropout.", "best."


def capture(
    module: nn.Module,
    adam: Adam | None,
    generator: torch.Generator,
    buffers: Tensors | None = None,
) -> Tensors:
    """Copy the weights, the moments of the optimizer and the states of all random generators to the CPU.

    Args:
        module: module whose weights are copied.
        adam: optimizer, if there is one.
        generator: main random generator; those of the dropout layers are copied too.
        buffers: an earlier capture that is no longer needed; its memory is used again.

    Returns:
        The copies by name.
    """
    tensors = {MODULE + name: value for name, value in module.state_dict().items()}
    tensors |= {ADAM + name: value for name, value in (adam.state() if adam else {}).items()}
    for name, layer in module.named_modules():
        if isinstance(layer, Dropout) and layer.generator:
            tensors[DROPOUT + name] = layer.generator.get_state()
    tensors[GENERATOR] = generator.get_state()
    return _copies(tensors, buffers)


def restore(tensors: Tensors, module: nn.Module, adam: Adam | None, generator: torch.Generator) -> None:
    """Restore what `capture` copied.

    Raises:
        ValueError: If the tensors do not belong to this module and optimizer.
    """
    try:
        module.load_state_dict(_with_prefix(MODULE, tensors))
        if adam:
            adam.load_state(_with_prefix(ADAM, tensors))
        device = next(module.parameters()).device
        for name, layer in module.named_modules():
            if isinstance(layer, Dropout):
                state = tensors.get(DROPOUT + name)  # None: the layer has not drawn a number yet
                layer.generator = None if state is None else torch.Generator(device).set_state(state)
        generator.set_state(tensors[GENERATOR])
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"the state does not fit this network: {reason}") from error


class BestWeights:
    """The weights at which a monitored value was lowest; none until a finite value was seen."""

    def __init__(self) -> None:
        self.value = math.inf
        self.weights: Tensors = {}

    def update(self, value: float | None, module: nn.Module) -> None:
        """Copy the weights if the value is the lowest so far; None and NaN are ignored."""
        if value is not None and value < self.value:
            self.value, self.weights = value, _copies(module.state_dict())

    def load_into(self, module: nn.Module) -> None:
        """Give the module the best weights, if there are any."""
        if self.weights:
            module.load_state_dict(self.weights)

    def state(self) -> Tensors:
        """Return weights and value as named tensors, to be stored with a capture."""
        named = {BEST + name: value for name, value in self.weights.items()}
        return named | {BEST_VALUE: torch.tensor(self.value, dtype=torch.float64)} if named else {}

    def load_state(self, tensors: Tensors) -> None:
        """Restore what `state` returned."""
        self.weights = _with_prefix(BEST, tensors)
        self.value = float(tensors[BEST_VALUE]) if self.weights else math.inf


def _copies(tensors: Tensors, buffers: Tensors | None = None) -> Tensors:
    """Return copies on the CPU; those of names that the buffers have overwrite them."""
    buffers = buffers or {}
    return {
        name: buffers[name].copy_(value.detach()) if name in buffers else value.detach().to("cpu", copy=True)
        for name, value in tensors.items()
    }


def _with_prefix(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


class _Metadata(BaseModel):
    """The part of a checkpoint that is not a tensor."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format_version: int
    fit: dict[str, JsonValue]
    seed: int
    stage: int
    epoch: int
    lr_factor: float
    finished: bool
    threads: int  # of torch
    history: list[EpochRecord]


class Checkpoint(Callback):
    """Writes the state of a fit to a folder every few seconds, and resumes from it.

    Args:
        folder: folder of the checkpoint; it is created if needed.
        fit: JSON description of the fit (`fit_identity`); the state of another, unfinished fit is refused.

    Raises:
        CheckpointError: If the folder holds the state of another fit that is not finished.
        OSError: If the folder cannot be read.
    """

    def __init__(self, folder: str | os.PathLike[str], fit: Mapping[str, Any]) -> None:
        self.folder, self.fit, self.seed = Path(folder), dict(fit), 0
        self._state: TrainingState | None = None
        self._saved_at = time.monotonic()
        found = self._read()
        if found is not None:
            meta, state = found
            wanted = json.loads(json.dumps(self.fit))
            different = [name for name in {**wanted, **meta.fit} if wanted.get(name) != meta.fit.get(name)]
            if not different:
                self.seed, self._state = meta.seed, state
                self._compare_threads(meta)
            elif not meta.finished:
                raise CheckpointError(
                    f"{self.folder}: the interrupted fit in this folder had another {different[0]}: resume "
                    "that fit, choose another folder, or remove this one."
                )
        require_equal("checkpoints", self._state and self._state[:2])

    def _compare_threads(self, meta: _Metadata) -> None:
        """Warn if the rest of a fit would run with another number of threads."""
        now = torch.get_num_threads()
        if meta.threads != now and not meta.finished:
            warnings.warn(
                f"{self.folder}: the fit began with {meta.threads} threads and resumes with {now}, so its "
                "bits may differ from those of an uninterrupted fit: set OMP_NUM_THREADS to get the same.",
                CheckpointWarning,
                stacklevel=3,
            )

    def seed_or(self, random_state: Seed) -> int:
        """Return the seed of the stored fit, or a new one that is stored with every state."""
        if self._state is None:
            self.seed = resolve_seed(random_state)
        return self.seed

    def load_state(self) -> TrainingState | None:
        """Return the state from which the fit resumes."""
        return self._state

    def on_epoch_start(self, state: TrainingState) -> None:
        """Write the state, if the last one is old enough."""
        if time.monotonic() - self._saved_at >= SAVE_INTERVAL:
            self.write(state, finished=False)

    def on_train_end(self, state: TrainingState) -> None:
        """Write the final state."""
        self.write(state, finished=True)

    def write(self, state: TrainingState, *, finished: bool) -> None:
        """Write a state from the main process; a failure is a warning, and the fit continues."""
        if rank() > 0:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(self.folder / FILE_NAME, overwrite=True) as path:
                path.write_bytes(self._encode(state, finished))
        except OSError as error:
            warnings.warn(
                f"{self.folder}: the checkpoint could not be written ({error.strerror or error}), so the fit "
                "cannot be resumed from here: free some disk space, or choose another folder.",
                CheckpointWarning,
                stacklevel=2,
            )
        self._saved_at = time.monotonic()

    def _encode(self, state: TrainingState, finished: bool) -> bytes:
        """Return the content of the file; one of its tensors holds the other fields as JSON."""
        fields = state._asdict()
        tensors, start_value = dict(fields.pop("tensors")), fields.pop("start_value")
        if start_value is not None:
            tensors[START_VALUE] = start_value.cpu()
        meta = _Metadata(
            format_version=FORMAT_VERSION,
            fit=self.fit,
            seed=self.seed,
            finished=finished,
            threads=torch.get_num_threads(),
            **fields,
        )
        text = bytearray(meta.model_dump_json().encode())
        tensors[METADATA] = torch.frombuffer(text, dtype=torch.uint8)
        content = save({name: value.contiguous() for name, value in tensors.items()})
        return content + hashlib.sha256(content).digest()

    def _read(self) -> tuple[_Metadata, TrainingState] | None:
        """Return the stored state; None, with a warning, if the file is damaged."""
        path = self.folder / FILE_NAME
        try:
            data = read_regular(path, MAX_BYTES)
            content, digest = data[:-DIGEST_SIZE], data[-DIGEST_SIZE:]
            if hashlib.sha256(content).digest() != digest:
                raise ValueError("it is truncated or altered")
            tensors = load(content)
            meta = _Metadata.model_validate_json(bytes(tensors.pop(METADATA).tolist()))
            if meta.format_version != FORMAT_VERSION:
                raise ValueError(f"its format version is {meta.format_version}, not {FORMAT_VERSION}")
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, SafetensorError) as error:
            reason = "its fields are not those of a state" if isinstance(error, ValidationError) else error
            warnings.warn(f"{path}: {reason}, so it is not used.", CheckpointWarning, stacklevel=2)
            return None
        value = tensors.pop(START_VALUE, None)
        return meta, TrainingState(meta.stage, meta.epoch, value, meta.lr_factor, meta.history, tensors)


def fit_identity(model: Any, data_hash: str) -> dict[str, Any]:
    """Return everything that decides the result of a fit: estimator, version, parameters, seed and data."""
    params = model.get_params()
    seed = params.pop("random_state")
    del (
        params["verbose"],
        params["n_jobs"],
        params["view_columns"],
        params["config"],
    )  # its fields are in `params` one by one
    return {
        "estimator": type(model).__name__,
        "version of protocol_mvc": version("protocol_mvc"),
        **{name: str(value) for name, value in params.items() if not isinstance(value, BaseModel)},
        "device": resolve_device(model.device).type,
        "random_state": int(seed) if isinstance(seed, int | np.integer) else None,
        "data": data_hash,
    }
