"""Figures of clusters with matplotlib, which the extra `viz` installs; every function returns the axes."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.hierarchy import dendrogram

from protocol_mvc.data.sampling import stratified_rows
from protocol_mvc.estimators.base import MultiViewClusterer
from protocol_mvc.evaluation.continuity import RunComparison
from protocol_mvc.evaluation.explanation import Explanation
from protocol_mvc.report.charts import MAX_POINTS, map_positions

GAP = 0.02  # between two clusters of the flow, as a share of its height
MAX_CATEGORIES = 30  # of a legend


def plot_map(model: MultiViewClusterer, X: Any, color: str | ArrayLike = "cluster", ax: Any = None) -> Any:
    """Draw a t-SNE map of the embedding; of more than 10,000 samples, a random part.

    Args:
        model: fitted model.
        X: samples, as the model takes them.
        color: "cluster", "confidence", "outlier_score", or one value per sample (n,), such as known classes
            or a column of the data: numbers with a fraction get a colour bar, all else a legend.
        ax: axes to draw on; by default new ones.
    """
    proba, embedding = model.predict_and_transform(X)
    labels = proba.argmax(axis=1)
    rows = stratified_rows(labels, MAX_POINTS)
    x, y = map_positions(embedding[rows]).T
    axes, named = _axes(ax), np.array(model.cluster_names_)[labels]
    if isinstance(color, str):
        known = {"cluster": lambda: named, "confidence": lambda: proba.max(axis=1)}
        known["outlier_score"] = lambda: model.outlier_score(X)
        if color not in known:
            raise ValueError(f"color must be one of {', '.join(known)}, or values, got {color!r}")
        values, title, order = known[color](), color.replace("_", " "), list(model.cluster_names_)
    else:
        values, title, order = np.asarray(color), "", []
    if values.shape != labels.shape:
        raise ValueError(f"color has shape {values.shape}, but there are {len(labels)} samples")
    _scatter(axes, x, y, values[rows], order)
    for name in np.unique(named[rows]):
        place = [float(np.median(part[named[rows] == name])) for part in (x, y)]
        axes.annotate(name, place, ha="center", weight="bold", fontsize=8)
    axes.set(title=title, xticks=[], yticks=[])
    return axes


def _scatter(axes: Any, x: Any, y: Any, values: NDArray[Any], order: Sequence[str]) -> None:
    """Draw points coloured by numbers or by categories."""
    if values.dtype.kind == "f":
        points = axes.scatter(x, y, c=values, s=5, cmap="viridis", linewidths=0)
        axes.figure.colorbar(points, ax=axes)
        return
    text = values.astype(str)
    categories = [name for name in order if name in set(text)] or sorted(set(text))
    for name, color in zip(categories, _colors(len(categories)), strict=True):
        chosen = text == name
        axes.scatter(x[chosen], y[chosen], color=color, s=5, linewidths=0, label=name)
    if len(categories) <= MAX_CATEGORIES:
        axes.legend(fontsize=7, markerscale=2.5, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def plot_sizes(model: MultiViewClusterer, ax: Any = None) -> Any:
    """Draw the sizes of the clusters as bars, and the estimated prior as lines."""
    axes, k = _axes(ax), len(model.cluster_sizes_)
    axes.barh(range(k), model.cluster_sizes_, color=_colors(k))
    prior = model.class_prior_ * model.cluster_sizes_.sum()
    axes.vlines(prior, np.arange(k) - 0.4, np.arange(k) + 0.4, color="black", label="estimated prior")
    axes.set(xlabel="samples", yticks=range(k), yticklabels=model.cluster_names_)
    axes.invert_yaxis()
    axes.legend(frameon=False)
    return axes


def plot_confidence(model: MultiViewClusterer, X: Any, ax: Any = None) -> Any:
    """Draw the confidence of the samples of each cluster as box plots."""
    axes, proba = _axes(ax), model.predict_proba(X)
    labels, k = proba.argmax(axis=1), proba.shape[1]
    axes.boxplot([proba[labels == c, c] for c in range(k)], orientation="horizontal", sym=".", whis=(5, 95))
    axes.set(xlabel="confidence", xlim=(0, 1.02), yticks=range(1, k + 1), yticklabels=model.cluster_names_)
    axes.invert_yaxis()
    return axes


def plot_markers(explanation: Explanation, n_markers: int = 4, ax: Any = None) -> Any:
    """Draw the first markers of each cluster as dots: size is the share of members, colour the effect.

    Args:
        explanation: result of `explain`.
        n_markers: number of markers of each cluster; a dot shows every cluster that a feature is a marker of.
        ax: axes to draw on; by default new ones.
    """
    found, k = explanation.markers, len(explanation.names)
    titles = np.array([f"{name} ({view})" for name, view in zip(found.feature, found.view, strict=True)])
    first = [np.flatnonzero((found.cluster == c) & (found.direction == "up"))[:n_markers] for c in range(k)]
    shown = list(dict.fromkeys(titles[np.concatenate(first)].tolist()))
    axes = _axes(ax, (max(6.0, 0.25 * len(shown) + 2), 0.35 * k + 2))
    rows = np.flatnonzero(np.isin(titles, shown))
    x, effect = [shown.index(titles[row]) for row in rows], found.effect[rows]
    limit = float(np.abs(effect).max(initial=1.0))
    style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "edgecolors": "0.6", "linewidths": 0.5}
    points = axes.scatter(x, found.cluster[rows], s=90 * found.share[rows] + 5, c=effect, **style)
    axes.figure.colorbar(points, ax=axes, label="effect (standard deviations)")
    axes.set(yticks=range(k), yticklabels=explanation.names, ylim=(k - 0.5, -0.5))
    axes.set_xticks(range(len(shown)), shown, rotation=90, fontsize=7)
    return axes


def plot_tree(explanation: Explanation, ax: Any = None) -> Any:
    """Draw the tree over the clusters; the x axis is the distance of centres in the prepared views."""
    axes, names = _axes(ax), [explanation.names[c] for c in explanation.leaves]
    if len(names) > 1:
        dendrogram(explanation.tree, labels=names, orientation="left", ax=axes, color_threshold=0)
    axes.set(xlabel="distance")
    return axes


def plot_flow(comparison: RunComparison, ax: Any = None) -> Any:
    """Draw how samples moved between the clusters of two models, the result of `compare_runs`."""
    axes, colors = _axes(ax), _colors(len(comparison.names_a))
    share = comparison.counts / max(comparison.counts.sum(), 1)
    left, right = (_stack(share.sum(axis=axis)) for axis in (1, 0))
    _label_bars(axes, comparison.names_a, left, share.sum(axis=1), -0.02)
    _label_bars(axes, comparison.names_b, right, share.sum(axis=0), 1.0)
    for i, j in zip(*np.nonzero(share), strict=True):
        axes.add_patch(_ribbon(left[i], right[j], share[i, j], colors[i]))
        left[i], right[j] = left[i] - share[i, j], right[j] - share[i, j]
    axes.set(xlim=(-0.25, 1.25), ylim=(-0.02, 1.02 + GAP * max(comparison.counts.shape)))
    axes.set_axis_off()
    return axes


def _stack(shares: NDArray[Any]) -> NDArray[Any]:
    """Return the upper ends of bars of these heights, stacked from the top with gaps."""
    ends: NDArray[Any] = 1 + GAP * len(shares) - np.concatenate([[0.0], np.cumsum(shares + GAP)[:-1]])
    return ends


def _label_bars(axes: Any, names: Sequence[str], top: NDArray[Any], heights: NDArray[Any], x: float) -> None:
    """Draw the clusters of one model as bars with their names."""
    from matplotlib.patches import Rectangle

    place, side = (x - 0.02, "right") if x < 0 else (x + 0.04, "left")
    for name, upper, height in zip(names, top, heights, strict=True):
        if height:
            axes.add_patch(Rectangle((x, upper - height), 0.02, height, color="0.3"))
            axes.text(place, upper - height / 2, name, ha=side, va="center", fontsize=8)


def _ribbon(left: float, right: float, height: float, color: Any) -> Any:
    """Return a band from one bar to another, given the upper ends of both sides."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    upper = [(0, left), (0.5, left), (0.5, right), (1, right)]
    lower = [(x, y - height) for x, y in reversed(upper)]
    codes = [Curve.MOVETO, *[Curve.CURVE4] * 3, Curve.LINETO, *[Curve.CURVE4] * 3]
    return PathPatch(Curve([*upper, *lower], codes), color=color, alpha=0.45, linewidth=0)


def save(axes: Any, path: str | PathLike[str]) -> None:
    """Write the figure of some axes to a file; its suffix gives the format, such as .png, .pdf or .svg."""
    axes.figure.savefig(path, dpi=150, bbox_inches="tight")


def save_all(
    model: MultiViewClusterer,
    X: Any,
    explanation: Explanation,
    folder: Path,
    suffix: str,
    labels_true: Any = None,
) -> list[Path]:
    """Write all figures of a model to a folder, and return their paths."""
    figures = {
        "map": plot_map(model, X),
        "map_confidence": plot_map(model, X, "confidence"),
        "sizes": plot_sizes(model),
        "confidence": plot_confidence(model, X),
        "markers": plot_markers(explanation),
        "tree": plot_tree(explanation),
    }
    if labels_true is not None:
        figures["map_truth"] = plot_map(model, X, np.asarray(labels_true).astype(str))
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{suffix}" for name in figures]
    for axes, path in zip(figures.values(), paths, strict=True):
        save(axes, path)
    return paths


def _axes(ax: Any, size: tuple[float, float] = (6.0, 4.5)) -> Any:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError("figures need matplotlib: pip install 'protocol-mvc[viz]'") from None
    return Figure(figsize=size, layout="constrained").subplots()


def _colors(n: int) -> Any:
    """Return a colour for each of n clusters (n, 4)."""
    from matplotlib import colormaps

    return colormaps["tab20"](np.concatenate([np.arange(0, 20, 2), np.arange(1, 20, 2)])[np.arange(n) % 20])
