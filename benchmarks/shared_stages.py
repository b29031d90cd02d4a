"""Runs that begin alike share their first stages: variants of the presets `paper` and `released`.

The state at the end of a stage is stored under the data and the part of the config that has acted until then.
A run starts from the last such state that exists, and ends with the same bits as a run from the beginning.
"""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.methods import Config
from benchmarks.records import Record, commit
from protocol_mvc.training.checkpoint import ADAM, Checkpoint
from protocol_mvc.training.stage import Callback, TrainingState

CHECKPOINTS = Path("benchmarks/checkpoints")
COST = "cost.json"  # file beside a checkpoint: what it took to reach it
# Fields that act in a stage for the first time; the other fields act from the start.
FIRST_USED = {
    "align": (
        *("losses.temperature_feature", "losses.temperature_class", "losses.structure_weight"),
        *("structure.alignment_sharpness", "schedule.n_epochs_align", "schedule.lr_align"),
    ),
    "rebalance": (
        *("pseudo_labels", "readout", "structure.guidance"),
        *("schedule.n_epochs_rebalance", "schedule.lr_rebalance"),
        *("losses.pseudo_label_weight", "losses.pseudo_label_loss", "losses.pseudo_label_logit_adjustment"),
        *("losses.rebalanced", "losses.logit_adjustment", "losses.class_loss_weight"),
        *("losses.positive_sample_weight", "losses.positive_prototype_weight"),
    ),
}


class SharedStages(Callback):
    """Stores the state at the end of stages 1 and 2, and starts from the last one that is stored.

    Args:
        folder: folder of all stored states.
        run: what decides the result besides the config: data, seed, number of clusters.
        config: config of the run.

    Attributes:
        inherited: CPU seconds of the stages that were not run again, and the commit at which they ran.
    """

    def __init__(self, folder: Path, run: Record, config: Config) -> None:
        self.parts = [{**run, "config": part} for part in acting_parts(config)]
        self.folders = [folder / _digest(part) for part in self.parts]
        self.inherited: Record = {}
        self._started = time.process_time()

    def load_state(self) -> TrainingState | None:
        """Return the stored state of the latest stage."""
        for part, folder in reversed(list(zip(self.parts, self.folders, strict=True))):
            state = Checkpoint(folder, part).load_state()
            if state is not None:
                self.inherited = json.loads((folder / COST).read_text())
                return state
        return None

    def on_stage_end(self, state: TrainingState) -> None:
        """Store the state of a stage that later runs may share; the next stage needs no moments of Adam."""
        if state.stage >= len(self.folders):
            return
        folder = self.folders[state.stage]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / COST).write_text(json.dumps({"cpu_seconds": self.cpu_seconds(), "commit": commit()}))
        tensors = {name: value for name, value in state.tensors.items() if not name.startswith(ADAM)}
        Checkpoint(folder, self.parts[state.stage]).write(state._replace(tensors=tensors), finished=False)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the training so far, with those of the stages that were not run again."""
        before = float(self.inherited.get("cpu_seconds", 0))
        return round(before + time.process_time() - self._started, 2)


def can_share(config: Config) -> bool:
    """Return whether a config has stages that other runs may share."""
    return bool(config.get("structure", {}).get("kind") == "attention")


def acting_parts(config: Config) -> list[Config]:
    """Return the parts of a config that have acted at the end of stages 1 and 2."""
    until_2 = _without(config, FIRST_USED["rebalance"])
    return [_without(until_2, FIRST_USED["align"]), until_2]


def _without(config: Config, fields: tuple[str, ...]) -> Config:
    """Return a config without the given fields, which are named with dots."""
    groups = {name.partition(".")[0] for name in fields if "." in name}
    kept: dict[str, Any] = {name: value for name, value in config.items() if name not in fields}
    for group in groups:
        members = config[group].items()
        kept[group] = {name: value for name, value in members if f"{group}.{name}" not in fields}
    return kept


def _digest(part: Record) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:16]
