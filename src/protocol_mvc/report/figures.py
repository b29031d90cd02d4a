"""Results as people want them: tables and a picture."""

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.box import SIMPLE_HEAD
from rich.table import Table
from sklearn.manifold import TSNE

from protocol_mvc.training.stage import EpochRecord

Labels = npt.NDArray[np.int64]
Features = npt.NDArray[np.floating]
Record = dict[str, Any]

COLUMNS = {"acc": "ACC", "nmi": "NMI", "pur": "PUR", "recall": "recall", "tail": "tail"}


def score_table(scores: Mapping[str, Mapping[str, float]], title: str) -> Table:
    """One row of scores and seconds for each method."""
    table = Table("method", *COLUMNS.values(), "seconds", title=title, box=SIMPLE_HEAD)
    for method, values in scores.items():
        table.add_row(method, *(f"{values[name]:.3f}" for name in COLUMNS), f"{values['seconds']:.1f}")
    return table


def size_table(perceived: Iterable[float], found: Iterable[int], true: Iterable[int]) -> Table:
    """Class sizes, largest first: what the transport perceived, what the labels have, what is true."""
    labelled = sorted(found, reverse=True)
    table = Table(
        "class sizes", *(str(i + 1) for i in range(len(labelled))), title="Perceived and true class sizes"
    )
    table.add_row("perceived", *(f"{size:.0f}" for size in sorted(perceived, reverse=True)))
    table.add_row("labelled", *(str(size) for size in labelled))
    table.add_row("true", *(str(size) for size in sorted(true, reverse=True)))
    return table


def can_draw() -> bool:
    """Whether matplotlib, an optional dependency, is there."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_fit(model: Any, truth: Labels, path: Path) -> None:
    """A picture of a fitted estimator beside the truth: class sizes, a 2-D map and the training curves."""
    from matplotlib.figure import Figure  # an optional dependency

    figure = Figure(figsize=(15, 4.5), layout="constrained")
    sizes, map_, curves = figure.subplots(1, 3)
    _draw_sizes(sizes, model, truth)
    _draw_map(map_, model)
    _draw_curves(curves, model.history_)
    figure.savefig(path, dpi=120)


def tsne_embedding(x: Features, seed: int, steps: int = 1000) -> Features:
    """Places (n, 2) of the samples in a map by t-SNE, which refuses a perplexity of n and more."""
    place: Features = TSNE(
        init="pca", perplexity=min(30.0, (len(x) - 1) / 3), random_state=seed, max_iter=steps
    ).fit_transform(x)
    return place


def mark_stages(axes: Any, stages: Sequence[str], first: int = 0) -> None:
    """A line and a name above curves that end at 1, where each stage begins; `first` is the first epoch."""
    for i, stage in enumerate(stages):
        if i == 0 or stage != stages[i - 1]:
            axes.axvline(i + first, color="0.85", zorder=0)
            axes.text(i + first, 1.02, f" {stage}", rotation=30, fontsize=7)


def _draw_sizes(axes: Any, model: Any, truth: Labels) -> None:
    true = np.sort(np.bincount(truth))[::-1]
    perceived = np.sort(model.class_prior_)[::-1] * len(truth)
    axes.bar(np.arange(len(true)) - 0.2, true, 0.4, label="true", color="0.6")
    axes.bar(np.arange(len(perceived)) + 0.2, perceived, 0.4, label="perceived", color="tab:blue")
    axes.set(title="Class sizes", xlabel="class, largest first", ylabel="samples")
    axes.legend()


def _draw_map(axes: Any, model: Any) -> None:
    place = tsne_embedding(model.embedding_, seed=0)
    axes.scatter(*place.T, c=model.labels_, s=8, cmap="tab20")
    for label in np.unique(model.labels_):
        axes.annotate(str(label), np.median(place[model.labels_ == label], axis=0), weight="bold")
    axes.set(title="The samples, coloured by cluster (t-SNE of the features)", xticks=[], yticks=[])


def _draw_curves(axes: Any, history: Sequence[Record]) -> None:
    terms = sorted({name for row in history for name in row} - set(EpochRecord._fields))
    for term in terms:
        values = np.array([row.get(term, np.nan) for row in history])
        axes.plot(values / (np.nanmax(np.abs(values)) or 1.0), label=term)
    mark_stages(axes, [row["stage"] for row in history])
    axes.set(xlabel="epoch", ylabel="loss / its largest value")
    axes.legend(fontsize=8, loc="center left")
