"""Training curves: what the records of the epochs say, as stages and as lines to draw."""

from collections.abc import Sequence
from itertools import groupby
from math import ceil
from typing import Any, NamedTuple

from protocol_mvc.training.stage import EpochRecord

Record = dict[str, Any]

WIDTH, HEIGHT = 320, 110  # of a drawing, in its own units
NO_TERMS = EpochRecord._fields
MOST_EPOCHS = 500  # drawn; of longer trainings every so-manieth


class StageSummary(NamedTuple):
    """One stage of the training."""

    name: str
    epochs: int
    seconds: float
    losses: dict[str, tuple[float, float]]  # of its first and of its last epoch


class Curve(NamedTuple):
    """One loss over all epochs."""

    term: str
    lines: list[str]  # of a drawing: one for every run of epochs that have the loss
    low: float
    high: float


def terms(history: Sequence[Record]) -> list[str]:
    """Names of the losses, in the order in which they appear."""
    return [name for name in dict.fromkeys(name for row in history for name in row) if name not in NO_TERMS]


def stages(history: Sequence[Record]) -> list[StageSummary]:
    """The stages in order."""
    found = []
    for name, group in groupby(history, key=lambda row: str(row["stage"])):
        rows = list(group)
        having = {term: [float(row[term]) for row in rows if term in row] for term in terms(rows)}
        losses = {term: (values[0], values[-1]) for term, values in having.items()}
        found.append(StageSummary(name, len(rows), sum(float(row["seconds"]) for row in rows), losses))
    return found


def beginnings(history: Sequence[Record]) -> list[float]:
    """Where on a drawing each stage begins."""
    first, found = 0, []
    for stage in stages(history):
        found.append(_x(first, len(history)))
        first += stage.epochs
    return found


def curves(history: Sequence[Record]) -> list[Curve]:
    """A drawing for every loss."""
    return [_curve(history, term) for term in terms(history)]


def _curve(history: Sequence[Record], term: str) -> Curve:
    values = [row[term] for row in history if term in row]
    low, high = min(values), max(values)
    step, lines = ceil(len(history) / MOST_EPOCHS), []
    for has, run in groupby(enumerate(history), key=lambda item: term in item[1]):
        if has:
            drawn = [(i, row[term]) for i, row in run][::step]
            drawn += drawn[-1:]  # a lone point twice is a line of no length, which is drawn as a dot
            lines.append(" ".join(f"{_x(i, len(history))},{_y(y, low, high)}" for i, y in drawn))
    return Curve(term, lines, low, high)


def _x(epoch: int, n: int) -> float:
    return round(WIDTH * (epoch + 0.5) / n, 1)


def _y(value: float, low: float, high: float) -> float:
    return round(HEIGHT * (1 - (value - low) / (high - low)), 1) if high > low else HEIGHT / 2
