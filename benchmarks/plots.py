"""Pictures of the studies, drawn from their records."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import Record
from benchmarks.studies import GRIDS
from benchmarks.study_tables import accuracies
from benchmarks.tables import title
from protocol_mvc.report.figures import mark_stages


def draw_convergence(records: Sequence[Record], path: Path) -> None:
    """ACC and NMI by epoch, one line per record, and the loss below them."""
    figure = _figure(9, 6)
    above, below = figure.subplots(2, 1, sharex=True)
    for record in records:
        for axes, name, style in ((above, "acc", "-"), (above, "nmi", ":"), (below, "loss", "-")):
            values = [epoch[name] for epoch in record["curve"]]
            label = f"{name.upper() if axes is above else name}, seed {record['seed']}"
            axes.plot(range(1, len(values) + 1), values, style, label=label)
    mark_stages(above, [epoch["stage"] for epoch in records[0]["curve"]], first_epoch=1)
    above.set(ylabel="score", ylim=(0, 1))
    below.set(xlabel="epoch", ylabel="loss", yscale="symlog")
    for axes in (above, below):
        axes.legend(fontsize=7)
    _save(figure, path, _title(records[0]))


def draw_sensitivity(records: dict[str, list[Record]], path: Path) -> None:
    """A heat map of mean accuracies for each pair of fields."""
    figure = _figure(5.5 * len(records), 4.5)
    for axes, (name, group) in zip(np.ravel(figure.subplots(1, len(records))), records.items(), strict=True):
        _heat_map(axes, accuracies(group, name), *GRIDS[name])
    _save(figure, path, f"Mean ACC, {_title(next(iter(records.values()))[0])}")


def _heat_map(axes: Any, values: dict[tuple[str, str], list[float]], down: str, across: str) -> None:
    left, top = (sorted({cell[i] for cell in values}, key=float) for i in (0, 1))
    shown = np.array([[np.mean(values.get((i, j), [np.nan])) for j in top] for i in left])
    axes.imshow(shown, cmap="viridis", vmin=0, vmax=1)  # one scale, so that small changes look small
    for i, j in product(range(len(left)), range(len(top))):
        axes.text(
            j, i, f"{shown[i, j]:.3f}", ha="center", va="center", color="white" if shown[i, j] < 0.6 else "k"
        )
    axes.set(xlabel=across, ylabel=down, xticks=range(len(top)), yticks=range(len(left)))
    axes.set_xticklabels(top)
    axes.set_yticklabels(left)


def draw_maps(record: Record, path: Path) -> None:
    """The maps of one record side by side, coloured by truth."""
    figure = _figure(4 * len(record["maps"]), 4.2)
    panels = np.ravel(figure.subplots(1, len(record["maps"])))
    for axes, (name, points) in zip(panels, record["maps"].items(), strict=True):
        axes.scatter(*np.asarray(points).T, c=record["truth"], s=5, cmap="tab20")
        axes.set(title=f"{name} (separation {record['separation'][name]:.2f})", xticks=[], yticks=[])
    _save(figure, path, f"t-SNE coloured by truth, {_title(record)}, seed {record['seed']}")


def _title(record: Record) -> str:
    return f"{title(record['dataset'], record['ratio'])}, {record['method']}"


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure  # an optional dependency

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: Path, title: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
