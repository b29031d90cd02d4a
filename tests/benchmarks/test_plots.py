"""Figures are drawn from records alone."""

from pathlib import Path
from typing import Any

import pytest
from benchmarks import plots
from benchmarks.methods import config_of
from tests.benchmarks.recorded import record

CURVE = [
    {"stage": "align", "loss": 3.0, "acc": 0.2, "nmi": 0.1},
    {"stage": "rebalance", "loss": -1.0, "acc": 0.6, "nmi": 0.5},
]
CELLS = (
    {"pseudo_labels.consensus_weight": 0.25, "pseudo_labels.min_mass": 0.5},
    {"pseudo_labels.consensus_weight": 0.75, "pseudo_labels.min_mass": 1.0},
)


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


def test_curves_of_several_seeds_are_drawn(tmp_path):
    path = tmp_path / "deep" / "c.png"
    plots.draw_convergence([record(seed=seed, curve=CURVE) for seed in (0, 1)], path)
    assert is_png(path)


def test_a_point_of_a_curve_stands_for_the_epochs_since_the_one_before():
    points = [
        {"stage": "align", "epoch": 2},
        {"stage": "align", "epoch": 3},
        {"stage": "rebalance", "epoch": 5},
    ]
    assert plots.stage_by_epoch(points) == ["align"] * 3 + ["rebalance"] * 2
    assert plots.stage_by_epoch(CURVE) == ["align", "rebalance"]


@pytest.mark.parametrize("names", [["pseudo-labels"], ["pseudo-labels", "temperatures"]])
def test_grids_are_drawn_even_with_missing_cells(tmp_path, names):
    rows = [record(config=config_of("protocol", cell)) for cell in CELLS]
    plots.draw_sensitivity(dict.fromkeys(names, rows), tmp_path / "s.png")
    assert is_png(tmp_path / "s.png")


@pytest.mark.parametrize("ratio", [0.1, None])
@pytest.mark.parametrize("methods", [["protocol"], ["sem", "protocol"]])
def test_tsnes_are_drawn_side_by_side(tmp_path, methods, ratio):
    parts: dict[str, Any] = {"tsne": [[0.0, 1.0], [2.0, 3.0], [4.0, 0.0]], "labels_true": [0, 1, 1]}
    rows = [record(name, imbalance_ratio=ratio, silhouette=0.5, **parts) for name in methods]
    plots.draw_tsne(rows, tmp_path / "m.png")
    assert is_png(tmp_path / "m.png")
