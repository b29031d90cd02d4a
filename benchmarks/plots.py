"""Figures of the studies, drawn from their records."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import Record
from benchmarks.studies import GRIDS
from benchmarks.tables import accuracy_grid, data_title, epoch_numbers
from protocol_mvc.report.charts import mark_stages


def draw_convergence(records: Sequence[Record], path: Path) -> None:
    """Draw ACC and NMI by epoch, one line per record, above the loss."""
    figure = _figure(9, 6)
    above, below = figure.subplots(2, 1, sharex=True)
    for record in records:
        for axes, name, style in ((above, "acc", "-"), (above, "nmi", ":"), (below, "loss", "-")):
            values = [epoch[name] for epoch in record["curve"]]
            label = f"{name.upper() if axes is above else name}, seed {record['seed']}"
            axes.plot(epoch_numbers(record["curve"]), values, style, label=label)
    mark_stages(above, stage_by_epoch(records[0]["curve"]), first_epoch=1)
    above.set(ylabel="score", ylim=(0, 1))
    below.set(xlabel="epoch", ylabel="loss", yscale="symlog")
    for axes in (above, below):
        axes.legend(fontsize=7)
    _save(figure, path, _title(records[0]))


def stage_by_epoch(curve: Sequence[Record]) -> list[str]:
    """Return the stage of every epoch; a point of the curve stands for the epochs since the one before."""
    numbers = epoch_numbers(curve)
    lengths = np.diff([0, *numbers])
    return [point["stage"] for point, n in zip(curve, lengths, strict=True) for _ in range(n)]


def draw_sensitivity(records: dict[str, list[Record]], path: Path) -> None:
    """Draw a heat map of the mean ACC for each grid."""
    figure = _figure(5.5 * len(records), 4.5)
    for axes, (name, group) in zip(np.ravel(figure.subplots(1, len(records))), records.items(), strict=True):
        _heat_map(axes, group, name)
    _save(figure, path, f"Mean ACC, {_title(next(iter(records.values()))[0])}")


def _heat_map(axes: Any, records: list[Record], name: str) -> None:
    grid = accuracy_grid(records, name)
    shown, (down, across) = grid.to_numpy(), GRIDS[name]
    axes.imshow(shown, cmap="viridis", vmin=0, vmax=1)
    for i, j in product(*map(range, shown.shape)):
        color = "white" if shown[i, j] < 0.6 else "k"
        axes.text(j, i, f"{shown[i, j]:.3f}", ha="center", va="center", color=color)
    axes.set(xlabel=across, ylabel=down, xticks=range(shown.shape[1]), yticks=range(shown.shape[0]))
    axes.set_xticklabels([f"{value:g}" for value in grid.columns])
    axes.set_yticklabels([f"{value:g}" for value in grid.index])


def draw_tsne(records: Sequence[Record], path: Path) -> None:
    """Draw the t-SNEs of several methods side by side, colored by true class."""
    figure = _figure(4 * len(records), 4.2)
    for axes, record in zip(np.ravel(figure.subplots(1, len(records))), records, strict=True):
        axes.scatter(*np.asarray(record["tsne"]).T, c=record["labels_true"], s=5, cmap="tab20")
        title = f"{record['method']} (silhouette {record['silhouette']:.2f})"
        axes.set(title=title, xticks=[], yticks=[])
    data = data_title(records[0]["dataset"], records[0]["imbalance_ratio"])
    _save(figure, path, f"t-SNE colored by true class, {data}, seed {records[0]['seed']}")


def _title(record: Record) -> str:
    return f"{data_title(record['dataset'], record['imbalance_ratio'])}, {record['method']}"


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure  # an optional dependency

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: Path, title: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
