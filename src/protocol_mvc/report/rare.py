"""The rare clusters one by one: what speaks for each or against it, and which samples to look at."""

from typing import NamedTuple

import numpy as np

from protocol_mvc.partition.consensus import MIN_CLUSTER_SIZE
from protocol_mvc.report.facts import Facts, Floats
from protocol_mvc.report.tables import ClusterRow, cluster_rows, number_or_none

MOST_CARDS = 12  # clusters that are told of at length; all are in the table
TYPICAL = 3  # samples that are named


class RareRow(NamedTuple):
    """One cluster among the smallest."""

    cluster: ClusterRow
    judgement: str
    caution: bool
    view: str | None  # that tells it apart best, and how well
    chance: float | None
    chances: list[float | None]  # in every view
    rival: int | None  # the cluster that most of its samples would be in otherwise, and their share
    rival_share: float
    typical: list[str]  # ids of the samples that the model is surest of


def rare_rows(facts: Facts, chances: Floats) -> list[RareRow]:
    """The rare clusters or, if none is rare, the smallest third; the smallest first.

    Args:
        facts: what is known.
        chances: how well each view tells each cluster apart, as `told_apart` gives it.
    """
    rows = cluster_rows(facts)
    return [_row(facts, rows[c], chances[:, c]) for c in reversed(facts.rare or facts.smallest_third)]


def _row(facts: Facts, cluster: ClusterRow, chances: Floats) -> RareRow:
    members = np.flatnonzero(facts.labels == cluster.number)
    own = [number_or_none(chance) for chance in chances]
    best = int(np.nanargmax(chances)) if any(chance is not None for chance in own) else None
    rivals = np.bincount(facts.runner_up[members], minlength=facts.k) * (facts.sizes > 0)
    surest = members[np.argsort(-facts.confidence[members], kind="stable")][:TYPICAL]
    doubts = _doubts(facts, cluster.number)
    return RareRow(
        cluster=cluster,
        judgement=" ".join(doubts) or _praise(facts),
        caution=bool(doubts),
        view=None if best is None else facts.views.names[best],
        chance=None if best is None else own[best],
        chances=own,
        rival=int(rivals.argmax()) if rivals.any() else None,
        rival_share=float(rivals.max() / len(members)),
        typical=[facts.ids[i] for i in surest],
    )


def _doubts(facts: Facts, c: int) -> list[str]:
    kinds = {
        f"It has fewer than {MIN_CLUSTER_SIZE} samples, too few to be believed.": facts.tiny,
        "The model is not sure of it.": facts.doubtful,
        "It comes out differently in other fits.": facts.loose,
    }
    return [text for text, found in kinds.items() if c in found]


def _praise(facts: Facts) -> str:
    if facts.stability is None:
        return "The model is sure of it; whether other fits find it was not measured."
    return "The model is sure of it, and other fits find it again."
