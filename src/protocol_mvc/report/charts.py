"""The charts: the map of the samples and the loss curves; a figure of a fit."""

import importlib.util
from collections.abc import Sequence
from itertools import compress, groupby
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from protocol_mvc.data.sampling import min_rows_per_class
from protocol_mvc.report.facts import Facts, Ints
from protocol_mvc.report.text import shorten
from protocol_mvc.training.stage import EpochRecord

Features = npt.NDArray[np.floating[Any]]
History = Sequence[dict[str, Any]]

MAX_POINTS = 10_000  # on the map
MAP_SIZE = 10_000  # positions are integers from 0 to this, which keeps the file short
N_COMPONENTS = 30  # of the features that t-SNE sees
MAX_SAMPLES_FULL_TSNE = 3000  # above, t-SNE makes half the iterations: 10,000 samples take half a minute
MAX_CATEGORIES = 20  # of a column with a mark of their own
N_COLORS, N_SHAPES = 20, 6  # of the style and of the template: 60 clusters have different marks
MAX_VIEW_SETS = 6  # sets of present views with a colour of their own
CURVE_WIDTH, CURVE_HEIGHT = 320, 110  # in units of the SVG
MAX_EPOCHS = 500  # points of a curve


def map_positions(features: Features) -> Ints:
    """Return t-SNE positions (n, 2), scaled to integers from 0 to `MAP_SIZE`."""
    x = features.astype(np.float64)
    if np.ptp(x, axis=0).max() == 0:  # t-SNE divides by the spread
        return np.full((len(x), 2), MAP_SIZE // 2)
    if x.shape[1] > N_COMPONENTS:
        x = PCA(min(N_COMPONENTS, len(x)), random_state=0).fit_transform(x)
    if x.shape[1] == 1:  # t-SNE starts from two components
        x = np.hstack([x, np.zeros_like(x)])
    max_iter = 1000 if len(x) <= MAX_SAMPLES_FULL_TSNE else 500
    position = tsne_embedding(x, seed=0, max_iter=max_iter).astype(np.float64)
    position -= position.min(0)
    scaled: Ints = np.rint(position * (MAP_SIZE / position.max())).astype(np.int64)
    return scaled


def tsne_embedding(x: Features, seed: int, max_iter: int = 1000) -> Features:
    """Return t-SNE positions (n, 2); the perplexity is reduced for few samples, as t-SNE demands."""
    perplexity = min(30.0, (len(x) - 1) / 3)
    tsne = TSNE(init="pca", perplexity=perplexity, random_state=seed, max_iter=max_iter)
    position: Features = tsne.fit_transform(x)
    return position


def map_data(facts: Facts, rows: Ints, features: Features) -> dict[str, Any]:
    """Return what the template needs for the map of the samples `rows` with `features` (len(rows), d)."""
    labels, k = facts.labels[rows], facts.n_clusters
    view_sets, set_names = name_view_sets(facts.views.mask, facts.views.names)
    x, y = map_positions(features).T.tolist()
    points = {
        "x": x,
        "y": y,
        "cluster": labels.tolist(),
        "confidence": np.rint(1000 * facts.confidence[rows]).astype(int).tolist(),
        "viewSet": view_sets[rows].tolist(),
        "id": [shorten(facts.sample_ids[i]) for i in rows],
    }
    known = {} if facts.labels_true is None else {"True class": facts.labels_true.astype(str)}
    colors = {}
    for j, (name, column) in enumerate((known | facts.colors).items()):
        codes, key = color_codes(column)
        points[f"color{j}"] = codes[rows].tolist()
        colors[f"color{j}"] = {"name": shorten(name, 40), **key}
    return {
        "points": points,
        "view_sets": list(zip(map(shorten, set_names), np.bincount(view_sets).tolist(), strict=True)),
        "colors": colors,
        "min_points": min_rows_per_class(k, MAX_POINTS),
    }


def color_codes(column: npt.NDArray[Any]) -> tuple[Ints, dict[str, Any]]:
    """Return the code (n,) that colours each sample by its value in a column (n,), and the key to the codes.

    Numbers of more than `MAX_CATEGORIES` distinct values have the codes 0 for the minimum ("low") to 1000 for
    the maximum ("high"), and -1 for a missing number. Other values are "categories", pairs of name and
    size by falling size; those beyond the first `MAX_CATEGORIES` share the last code.
    """
    known = np.isfinite(column) if column.dtype.kind == "f" else np.ones(len(column), dtype=np.bool_)
    if column.dtype.kind in "iuf" and len(np.unique(column[known])) > MAX_CATEGORIES:
        number = column.astype(np.float64)
        low, high = number[known].min(), number[known].max()
        codes = np.full(len(number), -1)
        codes[known] = np.rint(1000 * ((number[known] - low) / (high - low)))
        n_missing = int((~known).sum())
        return codes, {"categories": None, "low": float(low), "high": float(high), "n_missing": n_missing}
    values, index, counts = np.unique(column, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    codes = np.minimum(np.argsort(order)[index], MAX_CATEGORIES)
    names = [_category_name(value) for value in values[order]]
    if len(names) > MAX_CATEGORIES + 1:
        names = [*names[:MAX_CATEGORIES], f"other ({len(names) - MAX_CATEGORIES} values)"]
    return codes, {"categories": list(zip(names, np.bincount(codes).tolist(), strict=True))}


def _category_name(value: Any) -> str:
    if not isinstance(value, np.floating):
        return shorten(value, 40)
    return f"{value:g}" if np.isfinite(value) else "missing"


def name_view_sets(mask: npt.NDArray[np.bool_], names: tuple[str, ...]) -> tuple[Ints, list[str]]:
    """Group the samples by the views they have.

    Args:
        mask: (n, n_views) whether a sample has a view.
        names: Names of the views.

    Returns:
        The index (n,) of each sample's set, most frequent set first, and a name for each set; sets beyond
        `MAX_VIEW_SETS` are one.
    """
    sets, index, counts = np.unique(mask, axis=0, return_inverse=True, return_counts=True)
    order, named = np.argsort(-counts, kind="stable"), list[str]()
    for present in sets[order[:MAX_VIEW_SETS]]:
        if present.all():
            named.append("all views")
        elif 2 * present.sum() <= len(names):
            named.append(f"only {', '.join(compress(names, present))}")
        else:
            named.append(f"without {', '.join(compress(names, ~present))}")
    if len(sets) > MAX_VIEW_SETS:
        named.append("other combinations")
    return np.minimum(np.argsort(order)[index.ravel()], len(named) - 1), named


def training_data(history: History) -> dict[str, Any]:
    """Return what the template needs for the table of stages and the loss curves.

    A stage has its losses in the first and last epoch; a curve is one SVG polyline for each run of epochs
    that have the loss.
    """
    n, stages, stage_starts, n_before = len(history), [], [], 0
    for name, group in groupby(history, key=lambda row: str(row["stage"])):
        rows = list(group)
        values = {loss: [float(row[loss]) for row in rows if loss in row] for loss in loss_names(rows)}
        stage = {"name": name, "n_epochs": len(rows), "seconds": sum(float(row["seconds"]) for row in rows)}
        stages.append(stage | {"losses": {loss: (value[0], value[-1]) for loss, value in values.items()}})
        stage_starts.append(_curve_x(n_before, n))
        n_before += len(rows)
    curves, step = [], ceil(n / MAX_EPOCHS)
    for loss in loss_names(history):
        found, lines = [row[loss] for row in history if loss in row], []
        low, high = min(found), max(found)
        for has_loss, run in groupby(enumerate(history), key=lambda item: loss in item[1]):
            if has_loss:
                heights = ((i, (high - row[loss]) / (high - low) if high > low else 0.5) for i, row in run)
                points = [f"{_curve_x(i, n)},{CURVE_HEIGHT * y:.1f}" for i, y in list(heights)[::step]]
                lines.append(" ".join([*points, points[-1]]))  # twice: a single point is drawn as a dot
        curves.append({"loss": loss, "lines": lines, "low": low, "high": high})
    return {
        "losses": loss_names(history),
        "stages": stages,
        "stage_starts": stage_starts,
        "curves": curves,
        "curve_size": (CURVE_WIDTH, CURVE_HEIGHT),
    }


def loss_names(history: History) -> list[str]:
    """Return the names of the losses, in order of appearance."""
    names = dict.fromkeys(name for row in history for name in row)
    return [name for name in names if name not in EpochRecord._fields]


def _curve_x(epoch: int, n_epochs: int) -> float:
    return round(CURVE_WIDTH * (epoch + 0.5) / n_epochs, 1)


def can_draw() -> bool:
    """Return whether matplotlib, an optional dependency, is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_fit(model: Any, labels_true: Ints, path: Path) -> None:
    """Draw class sizes, a t-SNE map of the samples and the loss curves of a fitted model to an image file.

    The ground truth `labels_true` (n,) has class numbers from 0.
    """
    from matplotlib.figure import Figure  # an optional dependency

    figure = Figure(figsize=(15, 4.5), layout="constrained")
    sizes, scatter, curves = figure.subplots(1, 3)
    true = np.sort(np.bincount(labels_true))[::-1]
    estimated = np.sort(model.class_prior_)[::-1] * len(labels_true)
    sizes.bar(np.arange(len(true)) - 0.2, true, 0.4, label="ground truth", color="0.6")
    sizes.bar(np.arange(len(estimated)) + 0.2, estimated, 0.4, label="estimated prior", color="tab:blue")
    sizes.set(title="Class sizes", xlabel="class, largest first", ylabel="samples")
    sizes.legend()
    position = tsne_embedding(model.embedding_, seed=0)
    scatter.scatter(*position.T, c=model.labels_, s=8, cmap="tab20")
    for label in np.unique(model.labels_):
        scatter.annotate(str(label), np.median(position[model.labels_ == label], axis=0), weight="bold")
    scatter.set(title="t-SNE of the learned features, colored by cluster", xticks=[], yticks=[])
    for loss in sorted(loss_names(model.history_)):
        values = np.array([row.get(loss, np.nan) for row in model.history_])
        curves.plot(values / (np.nanmax(np.abs(values)) or 1.0), label=loss)
    mark_stages(curves, [row["stage"] for row in model.history_])
    curves.set(xlabel="epoch", ylabel="loss / its maximum")
    curves.legend(fontsize=8, loc="center left")
    figure.savefig(path, dpi=120)


def mark_stages(axes: Any, stages: Sequence[str], first_epoch: int = 0) -> None:
    """Mark the start of each stage with a line, and its name above curves with a maximum of 1.

    `stages` has the name of the stage of each epoch; `first_epoch` is the first number on the axis.
    """
    for i, stage in enumerate(stages):
        if i == 0 or stage != stages[i - 1]:
            axes.axvline(i + first_epoch, color="0.85", zorder=0)
            axes.text(i + first_epoch, 1.02, f" {stage}", rotation=30, fontsize=7)
