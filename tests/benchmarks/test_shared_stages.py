"""Runs that share stages end like runs that do not."""

from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.methods import config_of, fit_method, get_field
from benchmarks.shared_stages import FIRST_USED, SharedStages, acting_parts, is_long
from tests.benchmarks.recorded import quick
from tests.examples import blobs

from protocol_mvc.data import as_views
from protocol_mvc.training.stage import Callback, TrainingState

ARRAYS, LABELS = blobs((30, 20, 10))
VIEWS = as_views(ARRAYS)
OTHER_VALUES: dict[str, Any] = {
    "pseudo_labels": {"kind": "batch"},
    "readout": "classifier",
    "schedule.lr_scheduler": "constant",
    "structure.guidance": "attention",
    "losses.pseudo_label_loss": "per_head",
    "losses.rebalanced": False,
    "losses.positive_sample_weight": 0.5,
    "losses.positive_prototype_weight": 0.5,
}


class StageEnds(Callback):
    """Keeps the weights at the end of every stage."""

    def __init__(self) -> None:
        self.weights: list[dict[str, torch.Tensor]] = []

    def on_stage_end(self, state: TrainingState) -> None:
        self.weights.append({name: x.clone() for name, x in state.tensors.items() if "module" in name})


def fit(method: str, *callbacks: Callback, **changes: Any) -> Any:
    config = config_of(method, {**quick(method), **{k.replace("__", "."): v for k, v in changes.items()}})
    return fit_method(method, VIEWS, 0, config, LABELS, callbacks)


def shared(folder, method: str) -> SharedStages:
    return SharedStages(folder, {"seed": 0}, config_of(method, quick(method)))


@pytest.mark.parametrize("first", ["protocol-paper", "paper-base"])
@pytest.mark.parametrize("second", ["protocol-paper", "paper-base", "paper-base+pot"])
def test_a_run_from_shared_stages_ends_with_the_same_bits(tmp_path, first, second):
    fit(first, shared(tmp_path, first))
    stages = shared(tmp_path, second)
    found, expected = fit(second, stages), fit(second)
    assert stages.inherited["cpu_seconds"] > 0
    np.testing.assert_array_equal(found.label_distributions_, expected.label_distributions_)
    np.testing.assert_array_equal(found.embedding_, expected.embedding_)
    assert [row["stage"] for row in found.history_] == [row["stage"] for row in expected.history_]


@pytest.mark.parametrize("method", ["mflvc", "sem", "ardmvc"])
def test_other_methods_continue_after_their_last_stage(tmp_path, method):
    expected = fit(method, shared(tmp_path, method))
    found = fit(method, shared(tmp_path, method))
    np.testing.assert_array_equal(found.label_distributions_, expected.label_distributions_)


@pytest.mark.parametrize(("stage", "field"), [(s, f) for s, fields in FIRST_USED.items() for f in fields])
def test_a_field_does_not_act_before_its_stage(stage, field):
    config = config_of("protocol-paper", quick("protocol-paper"))
    value = OTHER_VALUES[field] if field in OTHER_VALUES else 2 * get_field(config, field) or 1.0
    ends, other = StageEnds(), StageEnds()
    fit("protocol-paper", ends)
    fit("protocol-paper", other, **{field.replace(".", "__"): value})
    n_before = {"align": 1, "rebalance": 2}[stage]
    assert len(ends.weights) == 3
    for a, b in zip(ends.weights[:n_before], other.weights[:n_before], strict=True):
        assert all(torch.equal(a[name], b[name]) for name in a)


def test_parts_grow_to_the_whole_config():
    config = config_of("protocol-paper")
    first, second, last = acting_parts(config)
    assert last == config
    assert set(first["schedule"]) < set(second["schedule"]) < set(config["schedule"])
    assert acting_parts(config_of("sem")) == [config_of("sem")]


@pytest.mark.parametrize(("method", "long"), [("protocol", False), ("leiden", False), ("sem", True)])
def test_only_long_runs_are_stored(method, long):
    assert is_long(config_of(method)) is long
