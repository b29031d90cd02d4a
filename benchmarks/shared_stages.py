"""Long runs store the state at the end of every stage, and start from the last one that is stored.

Runs of PROTOCOL that begin alike share their first stages: a state is stored under the data and the part of
the config that has acted until then. A run that starts from a stored state ends with the same bits as a run
from the beginning.
"""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

from torch import nn

from benchmarks.methods import Config
from benchmarks.records import Record, commit
from protocol_mvc.data.batches import Source
from protocol_mvc.training.checkpoint import ADAM, Checkpoint
from protocol_mvc.training.stage import Callback, TrainingState

CHECKPOINTS = Path("benchmarks/checkpoints")
COST = "cost.json"  # file beside a checkpoint: what it took to reach it
# Fields of PROTOCOL's config that act in a stage for the first time; the others act from the start.
FIRST_USED = {
    "align": (
        *("losses.temperature_feature", "losses.temperature_class", "losses.structure_weight"),
        *(
            "structure.base_width",
            "structure.alignment_sharpness",
            "schedule.n_epochs_align",
            "schedule.lr_align",
        ),
        "schedule.lr_scheduler",
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
    """Stores the state at the end of every stage, and starts from the last one that is stored.

    Args:
        folder: folder of all stored states.
        run: what decides the result besides the config: estimator, data, seed and number of clusters.
        config: config of the run.
        resume: whether to start from a stored state; without it the run makes all its epochs.

    Attributes:
        inherited: CPU seconds of the stages that were not run again, and the commit at which they ran.
    """

    def __init__(self, folder: Path, run: Record, config: Config, *, resume: bool = True) -> None:
        self.resume = resume
        self.parts = [{**run, "config": part} for part in acting_parts(config)]
        self.folders = [folder / _digest(part) for part in self.parts]
        self.inherited: Record = {}
        self._started = time.process_time()

    def on_train_start(self, module: nn.Module, source: Source) -> None:
        """Note which stages start with the moments of the stage before."""
        self.keeps_moments = [stage.optimizer.reset == "never" for stage in module.stages()]  # type: ignore[operator]

    def load_state(self) -> TrainingState | None:
        """Return the stored state of the latest stage."""
        if not self.resume:
            return None
        for part, folder in reversed(list(zip(self.parts, self.folders, strict=True))):
            state = Checkpoint(folder, part).load_state()
            if state is not None:
                self.inherited = json.loads((folder / COST).read_text())
                return state
        return None

    def on_stage_end(self, state: TrainingState) -> None:
        """Store the state, without the moments of Adam if the next stage resets them."""
        number = min(state.stage, len(self.parts) - 1)  # the last part is the whole config
        if not self.keeps_moments[state.stage + 1]:
            kept = {name: value for name, value in state.tensors.items() if not name.startswith(ADAM)}
            state = state._replace(tensors=kept)
        folder = self.folders[number]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / COST).write_text(json.dumps({"cpu_seconds": self.cpu_seconds(), "commit": commit()}))
        Checkpoint(folder, self.parts[number]).write(state, finished=False)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the training so far, with those of the stages that were not run again."""
        before = float(self.inherited.get("cpu_seconds", 0))
        return round(before + time.process_time() - self._started, 2)


def is_long(config: Config) -> bool:
    """Return whether a fit with this config takes minutes: all methods but the default of PROTOCOL."""
    return bool(config) and config.get("structure", {}).get("kind") != "neighbors"


def acting_parts(config: Config) -> list[Config]:
    """Return the parts of a config that have acted at the end of its stages; the last is the whole config."""
    if "structure" not in config:
        return [config]
    until_align = _without(config, FIRST_USED["rebalance"])
    return [_without(until_align, FIRST_USED["align"]), until_align, config]


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
