"""A matplotlib figure of a fitted model."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from protocol_mvc.report.charts import loss_names, tsne_embedding


def can_draw() -> bool:
    """Return whether matplotlib, an optional dependency, is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_fit(model: Any, labels_true: npt.NDArray[np.int64], path: Path) -> None:
    """Draw class sizes, a t-SNE map of the samples and the loss curves of a fitted model.

    Args:
        model: Fitted estimator.
        labels_true: (n,) ground truth, as class numbers from 0.
        path: The image file to write.
    """
    from matplotlib.figure import Figure  # an optional dependency

    figure = Figure(figsize=(15, 4.5), layout="constrained")
    sizes, scatter, curves = figure.subplots(1, 3)
    _draw_sizes(sizes, model, labels_true)
    _draw_map(scatter, model)
    _draw_curves(curves, model.history_)
    figure.savefig(path, dpi=120)


def mark_stages(axes: Any, stages: Sequence[str], first_epoch: int = 0) -> None:
    """Mark the start of each stage with a line, and its name above curves with a maximum of 1.

    Args:
        axes: Matplotlib axes.
        stages: Name of the stage of each epoch.
        first_epoch: Number of the first epoch on the axis.
    """
    for i, stage in enumerate(stages):
        if i == 0 or stage != stages[i - 1]:
            axes.axvline(i + first_epoch, color="0.85", zorder=0)
            axes.text(i + first_epoch, 1.02, f" {stage}", rotation=30, fontsize=7)


def _draw_sizes(axes: Any, model: Any, labels_true: npt.NDArray[np.int64]) -> None:
    true = np.sort(np.bincount(labels_true))[::-1]
    estimated = np.sort(model.class_prior_)[::-1] * len(labels_true)
    axes.bar(np.arange(len(true)) - 0.2, true, 0.4, label="ground truth", color="0.6")
    axes.bar(np.arange(len(estimated)) + 0.2, estimated, 0.4, label="estimated prior", color="tab:blue")
    axes.set(title="Class sizes", xlabel="class, largest first", ylabel="samples")
    axes.legend()


def _draw_map(axes: Any, model: Any) -> None:
    position = tsne_embedding(model.embedding_, seed=0)
    axes.scatter(*position.T, c=model.labels_, s=8, cmap="tab20")
    for label in np.unique(model.labels_):
        axes.annotate(str(label), np.median(position[model.labels_ == label], axis=0), weight="bold")
    axes.set(title="t-SNE of the learned features, colored by cluster", xticks=[], yticks=[])


def _draw_curves(axes: Any, history: list[dict[str, Any]]) -> None:
    for loss in sorted(loss_names(history)):
        values = np.array([row.get(loss, np.nan) for row in history])
        axes.plot(values / (np.nanmax(np.abs(values)) or 1.0), label=loss)
    mark_stages(axes, [row["stage"] for row in history])
    axes.set(xlabel="epoch", ylabel="loss / its maximum")
    axes.legend(fontsize=8, loc="center left")
