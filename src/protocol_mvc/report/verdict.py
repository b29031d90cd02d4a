"""The verdict: what was found and how far to trust it, in sentences that are true for any data."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from protocol_mvc.evaluation.metrics import clustering_accuracy, group_recall
from protocol_mvc.evaluation.stability import DISSOLVED_JACCARD
from protocol_mvc.partition.consensus import MIN_CLUSTER_SIZE
from protocol_mvc.report.facts import DOUBTFUL, SURE, UNCERTAIN, UNSURE, Facts
from protocol_mvc.report.words import clusters, counted, inequality, listing, percent, shortened, times


class Sentence(NamedTuple):
    """A sentence, what it is about, and whether it asks for caution."""

    topic: str
    text: str
    caution: bool = False


def headline(facts: Facts) -> str:
    """What was found, and whether anything speaks against it: all, for those who read no further."""
    return f"{counted(facts.n, 'sample')} in {_kinds(facts)}. {_trust(facts)}"


def _kinds(facts: Facts) -> str:
    if len(facts.filled) < 2:
        return "one cluster"
    rare = {0: "", 1: ", one of them rare"}.get(len(facts.rare), f", {len(facts.rare)} of them rare")
    return f"{len(facts.filled)} clusters {inequality(facts.inequality)}{rare}"


def _trust(facts: Facts) -> str:
    cautions = sum(sentence.caution for sentence in verdict(facts))
    them = "it" if len(facts.filled) == 1 else "them"
    if cautions:
        which = "the caution" if cautions == 1 else f"the {cautions} cautions"
        return f"Read {which} below before you rely on {them}."
    if facts.stability is None:
        return f"Nothing that was measured speaks against {them}; whether other fits find the same was not."
    return f"Other fits found the same, and nothing else speaks against {them}."


def verdict(facts: Facts) -> list[Sentence]:
    """All that is to be said first, from what was found to what it was found in."""
    sizes, trust = (_found, _inequality, _rare, _tiny, _perceived), (_confidence, _doubtful, _stable)
    parts = (*sizes, *trust, _training, _data, _missing, _truth)
    return [sentence for part in parts for sentence in part(facts)]


def _found(facts: Facts) -> Iterator[Sentence]:
    samples = counted(facts.n, "sample")
    if not facts.empty:
        yield Sentence(
            "Clusters", f"The {samples} fall into {facts.k} clusters, numbered from the largest, 0."
        )
        return
    into = "one cluster" if len(facts.filled) == 1 else f"{len(facts.filled)} clusters"
    yield Sentence(
        "Clusters",
        f"The {samples} fall into {into}, though {facts.k} were asked for: {clusters(facts.empty)} "
        f"{'is' if len(facts.empty) == 1 else 'are'} empty, so n_clusters is probably too large.",
        caution=True,
    )


def _inequality(facts: Facts) -> Iterator[Sentence]:
    if len(facts.filled) < 2:
        return
    large, small = (counted(int(facts.sizes[c]), "sample") for c in (facts.filled[0], facts.filled[-1]))
    ratio = facts.inequality
    if ratio == 1:
        yield Sentence("Sizes", f"The clusters are {inequality(ratio)}: {large} each.")
        return
    yield Sentence(
        "Sizes",
        f"The clusters are {inequality(ratio)}: the largest, cluster {facts.filled[0]}, has {large}, "
        f"{times(ratio)} times as many as the smallest, cluster {facts.filled[-1]}, with {small}.",
    )


def _rare(facts: Facts) -> Iterator[Sentence]:
    if len(facts.filled) < 2:
        return
    limit = f"less than half of an equal share (which is {facts.equal_part:,.1f} samples)"
    if not facts.rare:
        yield Sentence("Rare clusters", f"No cluster is rare: none has {limit}.")
        return
    rare = facts.rare[::-1]
    sizes = [int(facts.sizes[c]) for c in rare]
    notes = [f"{counted(size, 'sample')}, {percent(size / facts.n)}" for size in sizes]
    count = "One cluster is" if len(rare) == 1 else f"{len(rare)} clusters are"
    yield Sentence("Rare clusters", f"{count} rare, with {limit}: {clusters(rare, notes)}.")


def _tiny(facts: Facts) -> Iterator[Sentence]:
    if facts.tiny:
        has = "has" if len(facts.tiny) == 1 else "have"
        yield Sentence(
            "Tiny clusters",
            f"{_capital(clusters(facts.tiny))} {has} fewer than {MIN_CLUSTER_SIZE} samples, too few to be believed: "
            "n_clusters may be too large.",
            caution=True,
        )


def _perceived(facts: Facts) -> Iterator[Sentence]:
    gap, c = float(np.abs(facts.disagreement).sum() / 2), int(np.abs(facts.disagreement).argmax())
    if gap < 0.0005:
        yield Sentence("Perceived sizes", "The sizes that the method perceived are those of the labels.")
        return
    doubt = ", so the sizes are uncertain" if gap > UNCERTAIN else ""
    yield Sentence(
        "Perceived sizes",
        f"The sizes that the method perceived differ from those of the labels by {percent(gap)} of the "
        f"samples, most for cluster {c} (perceived {percent(float(facts.prior[c]))}, labelled "
        f"{percent(facts.sizes[c] / facts.n)}){doubt}.",
        caution=gap > UNCERTAIN,
    )


def _confidence(facts: Facts) -> Iterator[Sentence]:
    unsure = int((facts.confidence < UNSURE).sum())
    yield Sentence(
        "Confidence",
        f"The model is sure of {percent(facts.sure)} of the samples (confidence above {SURE}) and in "
        f"doubt about {_some(unsure, facts.n)} (below {UNSURE}).",
    )


def _some(count: int, n: int) -> str:
    return f"{percent(count / n)}, {counted(count, 'sample')}" if count else "none"


def _doubtful(facts: Facts) -> Iterator[Sentence]:
    low = facts.doubtful
    if not low:
        yield Sentence("Doubt", f"No cluster is doubtful: mean confidence is nowhere below {DOUBTFUL}.")
        return
    # Rounding must not lift a mean to the limit that it is below.
    notes = [f"{min(facts.mean_confidence[c], DOUBTFUL - 0.01):.2f}" for c in low]
    its = ("its", "it") if len(low) == 1 else ("their", "them")
    yield Sentence(
        "Doubt",
        f"Mean confidence is below {DOUBTFUL} in {clusters(low, notes)}: look at some of {its[0]} samples "
        f"before you rely on {its[1]}.",
        caution=True,
    )


def _stable(facts: Facts) -> Iterator[Sentence]:
    if facts.stability is None:
        yield Sentence("Stability", "Whether the clusters come back in other fits was not measured.")
    elif facts.loose:
        one = len(facts.loose) == 1
        yield Sentence(
            "Stability",
            f"{_capital(clusters(facts.loose))} {'comes' if one else 'come'} out differently in other fits "
            f"(mean overlap below {DISSOLVED_JACCARD}): do not build on {'it' if one else 'them'}.",
            caution=True,
        )
    elif max(facts.sizes) >= MIN_CLUSTER_SIZE:
        yield Sentence(
            "Stability",
            f"Every cluster of at least {MIN_CLUSTER_SIZE} samples came back in other fits (mean overlap of at least "
            f"{DISSOLVED_JACCARD}).",
        )


def _training(facts: Facts) -> Iterator[Sentence]:
    if facts.slowed:
        yield Sentence(
            "Training",
            f"It diverged in {listing([repr(stage) for stage in facts.slowed])} and went on at a lower rate: "
            "look for extreme values in the views, or scale them otherwise.",
            caution=True,
        )


def _data(facts: Facts) -> Iterator[Sentence]:
    views = facts.views
    named = [
        f"{shortened(name, 40)} ({counted(dim, 'feature')})"
        for name, dim in zip(views.names, views.n_features, strict=True)
    ]
    sides = "one view" if len(named) == 1 else f"{len(named)} views"
    yield Sentence("Data", f"The samples are seen from {sides}: {listing(named)}.")


def _missing(facts: Facts) -> Iterator[Sentence]:
    mask = facts.views.mask
    lacking = float(np.mean(~mask.all(axis=1)))
    if lacking == 0:
        yield Sentence("Missing views", "No sample lacks a view.")
        return
    yield Sentence(
        "Missing views",
        f"{_capital(percent(lacking))} of the samples lack at least one view; in all, "
        f"{percent(float(np.mean(~mask)))} of the pairs of sample and view are missing.",
    )


def _truth(facts: Facts) -> Iterator[Sentence]:
    if facts.truth is None:
        return
    right = percent(clustering_accuracy(facts.truth, facts.labels))
    tail = percent(group_recall(facts.truth, facts.labels).tail)
    few = len(np.unique(facts.truth)) < 3
    yield Sentence(
        "Truth",
        f"Compared with the truth that was given, {right} of the samples are in the cluster matched with "
        f"their class; of the smallest {'class' if few else 'third of the classes'}, {tail}"
        f"{'.' if few else ' (mean of these classes).'}",
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
