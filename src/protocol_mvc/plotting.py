"""Figures of clusters with matplotlib, which the extra `viz` installs. Each function returns the axes."""

from os import PathLike
from typing import Any

import numpy as np

from protocol_mvc.evaluation.continuity import RunComparison

GAP = 0.02  # between two clusters of the flow, as a share of its height


def plot_flow(comparison: RunComparison, ax: Any = None) -> Any:
    """Draw how samples moved between the clusters of two models.

    Args:
        comparison: result of `compare_runs`.
        ax: axes to draw on; by default new ones.
    """
    from matplotlib.patches import PathPatch, Rectangle
    from matplotlib.path import Path

    axes, colors = _axes(ax), _colors(len(comparison.names_a))
    share = comparison.counts / max(comparison.counts.sum(), 1)
    left, right = (_stack(share.sum(axis=axis)) for axis in (1, 0))
    left_top, right_top = left.copy(), right.copy()
    for i, j in zip(*np.nonzero(share), strict=True):
        a, b, height = left_top[i], right_top[j], share[i, j]
        left_top[i], right_top[j] = a - height, b - height
        upper = [(0, a), (0.5, a), (0.5, b), (1, b)]
        lower = [(1, b - height), (0.5, b - height), (0.5, a - height), (0, a - height)]
        codes = [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3]
        axes.add_patch(PathPatch(Path([*upper, *lower], codes), color=colors[i], alpha=0.45, linewidth=0))
    sides = ((comparison.names_a, left, 1, -0.02, "right"), (comparison.names_b, right, 0, 1.02, "left"))
    for names, top, axis, x, side in sides:
        for c, height in enumerate(share.sum(axis=axis)):
            if height:
                axes.add_patch(Rectangle((min(x, 1.0), top[c] - height), 0.02, height, color="0.3"))
                text = (x - 0.02 if side == "right" else x + 0.02, top[c] - height / 2, names[c])
                axes.text(*text, ha=side, va="center", fontsize=8)
    axes.set(xlim=(-0.25, 1.25), ylim=(-0.02, 1.02 + GAP * max(comparison.counts.shape)))
    axes.set_axis_off()
    return axes


def save(axes: Any, path: str | PathLike[str]) -> None:
    """Write the figure of some axes to a file; its suffix gives the format, such as .png, .pdf or .svg."""
    axes.figure.savefig(path, dpi=150, bbox_inches="tight")


def _stack(shares: Any) -> Any:
    """Return the upper ends of bars of these heights, stacked from the top with gaps."""
    total = 1 + GAP * len(shares)
    return total - np.concatenate([[0.0], np.cumsum(shares + GAP)[:-1]])


def _axes(ax: Any, size: tuple[float, float] = (6.0, 4.5)) -> Any:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").subplots()


def _colors(n: int) -> Any:
    """Return a colour for each of n clusters (n, 4)."""
    from matplotlib import colormaps

    return colormaps["tab20"](np.concatenate([np.arange(0, 20, 2), np.arange(1, 20, 2)])[np.arange(n) % 20])
