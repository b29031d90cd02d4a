"""The sentences of the report: headline, findings and warnings, and how numbers are written."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from protocol_mvc.evaluation.metrics import clustering_accuracy, group_recall
from protocol_mvc.evaluation.stability import DISSOLVED_JACCARD
from protocol_mvc.partition.consensus import MIN_CLUSTER_SIZE
from protocol_mvc.report.facts import (
    HIGH_CONFIDENCE,
    LOW_CONFIDENCE,
    LOW_MEAN_CONFIDENCE,
    MAX_PRIOR_DIFFERENCE,
    Facts,
)

# Largest / smallest cluster, up to which sizes are called so.
BALANCE = ((1, "equal"), (1.5, "nearly equal"), (3, "somewhat unequal"), (10, "unequal"))
NO_STABILITY = "Stability was not measured; run protocol-mvc report with --n-refits 5 to check it."


class Finding(NamedTuple):
    """A sentence of the report; a warning asks the reader for caution."""

    topic: str
    text: str
    is_warning: bool = False


def headline(facts: Facts) -> str:
    """Return the summary for readers of one line: clusters, sizes, accuracy if known, warnings."""
    return " ".join([_summary(facts), *_accuracy(facts), _reliability(facts)])


def _summary(facts: Facts) -> str:
    samples, k = count_noun(facts.n_samples, "sample"), len(facts.nonempty_clusters)
    if k == 1:
        return f"{samples} in 1 cluster."
    rare = f", {len(facts.rare_clusters)} of them rare" if facts.rare_clusters else ""
    return f"{samples} in {k} clusters of {describe_balance(facts.size_ratio)} size{rare}."


def _accuracy(facts: Facts) -> list[str]:
    if facts.labels_true is None:
        return []
    accuracy = clustering_accuracy(facts.labels_true, facts.labels)
    return [f"Accuracy against the ground truth: {format_percent(accuracy)}."]


def _reliability(facts: Facts) -> str:
    n_warnings = sum(finding.is_warning for finding in findings(facts))
    if n_warnings:
        return f"{count_noun(n_warnings, 'warning')}, see below."
    if facts.stability is None:
        return f"No warnings. {NO_STABILITY}"
    return "No warnings. The refits found the same clusters."


def findings(facts: Facts) -> list[Finding]:
    """Return all findings, in the order clusters, confidence, stability, data, ground truth."""
    clusters = (_clusters, _sizes, _rare_clusters, _tiny_clusters, _class_prior)
    reliability = (_confidence, _low_confidence, _stability, _training)
    data = (_views, _missing_views, _ground_truth)
    return [finding for find in (*clusters, *reliability, *data) for finding in find(facts)]


def _clusters(facts: Facts) -> Iterator[Finding]:
    found = count_noun(len(facts.nonempty_clusters), "cluster")
    text = f"{count_noun(facts.n_samples, 'sample')} in {found}"
    if facts.empty_clusters:
        empty = facts.empty_clusters
        text += (
            f" of {facts.n_clusters}: {list_clusters(empty)} {_are(empty)} empty. Try a smaller n_clusters."
        )
        yield Finding("Clusters", text, is_warning=True)
    else:
        yield Finding("Clusters", f"{text}, numbered by size (0 is the largest).")


def _sizes(facts: Facts) -> Iterator[Finding]:
    if len(facts.nonempty_clusters) < 2:
        return
    largest, smallest = facts.nonempty_clusters[0], facts.nonempty_clusters[-1]
    sizes = [count_noun(int(facts.cluster_sizes[c]), "sample") for c in (largest, smallest)]
    balance = f"The clusters are of {describe_balance(facts.size_ratio)} size"
    if facts.size_ratio == 1:
        yield Finding("Sizes", f"{balance}: {sizes[0]} each.")
        return
    yield Finding(
        "Sizes",
        f"{balance}: cluster {largest} is the largest with {sizes[0]}, cluster {smallest} the smallest with "
        f"{sizes[1]}, a ratio of {format_ratio(facts.size_ratio)} : 1.",
    )


def _rare_clusters(facts: Facts) -> Iterator[Finding]:
    if len(facts.nonempty_clusters) < 2:
        return
    limit = f"(below half of the mean cluster size, {facts.mean_size:,.1f})"
    if not facts.rare_clusters:
        yield Finding("Rare clusters", f"No cluster is rare {limit}.")
        return
    rare = facts.rare_clusters[::-1]
    sizes = [int(facts.cluster_sizes[c]) for c in rare]
    notes = [f"{count_noun(size, 'sample')}, {format_percent(size / facts.n_samples)}" for size in sizes]
    text = f"{count_noun(len(rare), 'cluster')} {_are(rare)} rare {limit}: {list_clusters(rare, notes)}."
    yield Finding("Rare clusters", text)


def _tiny_clusters(facts: Facts) -> Iterator[Finding]:
    if facts.tiny_clusters:
        have = "has" if len(facts.tiny_clusters) == 1 else "have"
        names = _capitalize(list_clusters(facts.tiny_clusters))
        text = f"{names} {have} fewer than {MIN_CLUSTER_SIZE} samples. Try a smaller n_clusters."
        yield Finding("Tiny clusters", text, is_warning=True)


def _class_prior(facts: Facts) -> Iterator[Finding]:
    shares = facts.cluster_sizes / facts.n_samples
    difference = np.abs(shares - facts.class_prior)
    total, c = float(difference.sum() / 2), int(difference.argmax())
    if total < 0.0005:
        yield Finding("Estimated prior", "The estimated prior equals the shares of the clusters.")
        return
    prior, share = format_percent(float(facts.class_prior[c])), format_percent(float(shares[c]))
    most = f", most in cluster {c} (prior {prior}, cluster {share})" if prior != share else ""
    uncertain = total > MAX_PRIOR_DIFFERENCE
    yield Finding(
        "Estimated prior",
        f"The estimated prior and the shares of the clusters differ by {format_percent(total)} of the samples"
        f"{most}.{' The cluster sizes are uncertain.' if uncertain else ''}",
        is_warning=uncertain,
    )


def _confidence(facts: Facts) -> Iterator[Finding]:
    high = float(np.mean(facts.confidence > HIGH_CONFIDENCE))
    low = int((facts.confidence < LOW_CONFIDENCE).sum())
    few = f"{format_percent(low / facts.n_samples)} ({count_noun(low, 'sample')})" if low else "none"
    yield Finding(
        "Confidence",
        f"Confidence is above {HIGH_CONFIDENCE} for {format_percent(high)} of the samples and below "
        f"{LOW_CONFIDENCE} for {few}.",
    )


def _low_confidence(facts: Facts) -> Iterator[Finding]:
    low = facts.low_confidence_clusters
    if not low:
        yield Finding("Low confidence", f"No cluster has a mean confidence below {LOW_MEAN_CONFIDENCE}.")
        return
    # Rounding must not lift a mean to the limit that it is below.
    means = [f"{min(facts.mean_confidence[c], LOW_MEAN_CONFIDENCE - 0.01):.2f}" for c in low]
    text = f"Mean confidence is below {LOW_MEAN_CONFIDENCE} in {list_clusters(low, means)}."
    yield Finding("Low confidence", f"{text} Inspect some of the samples.", is_warning=True)


def _stability(facts: Facts) -> Iterator[Finding]:
    unstable = facts.unstable_clusters
    if facts.stability is None:
        yield Finding("Stability", NO_STABILITY)
    elif unstable:
        names = f"{_capitalize(list_clusters(unstable))} {_are(unstable)} unstable"
        text = (
            f"{names} (mean Jaccard overlap with refits below {DISSOLVED_JACCARD}). Try another n_clusters."
        )
        yield Finding("Stability", text, is_warning=True)
    elif max(facts.cluster_sizes) >= MIN_CLUSTER_SIZE:
        limit = f"(mean Jaccard overlap with refits at least {DISSOLVED_JACCARD})"
        yield Finding("Stability", f"Every cluster of {MIN_CLUSTER_SIZE} or more samples is stable {limit}.")


def _training(facts: Facts) -> Iterator[Finding]:
    if facts.diverged_stages:
        stages = join_items([repr(stage) for stage in facts.diverged_stages])
        text = f"Training diverged in {stages} and continued at a lower learning rate."
        remedy = "Check the views for extreme values, or choose another scaling."
        yield Finding("Training", f"{text} {remedy}", is_warning=True)


def _views(facts: Facts) -> Iterator[Finding]:
    named = [
        f"{shorten(name, 40)} ({count_noun(n_features, 'feature')})"
        for name, n_features in zip(facts.views.names, facts.views.n_features, strict=True)
    ]
    yield Finding("Data", f"{count_noun(len(named), 'view')}: {join_items(named)}.")


def _missing_views(facts: Facts) -> Iterator[Finding]:
    missing = ~facts.views.mask
    incomplete = float(np.mean(missing.any(axis=1)))
    if incomplete == 0:
        yield Finding("Missing views", "Every sample has every view.")
        return
    samples = _capitalize(format_percent(incomplete))
    pairs = format_percent(float(np.mean(missing)))
    text = f"{samples} of the samples lack at least one view; {pairs} of all sample-view pairs are missing."
    yield Finding("Missing views", text)


def _ground_truth(facts: Facts) -> Iterator[Finding]:
    if facts.labels_true is None:
        return
    accuracy = format_percent(clustering_accuracy(facts.labels_true, facts.labels))
    tail = format_percent(group_recall(facts.labels_true, facts.labels).tail)
    few = len(np.unique(facts.labels_true)) < 3
    smallest = "recall of the smallest class" if few else "mean recall of the smallest third of the classes"
    yield Finding("Ground truth", f"Accuracy against the ground truth is {accuracy}; {smallest} is {tail}.")


def assess_cluster(facts: Facts, cluster: int) -> tuple[str, bool]:
    """Return a short assessment of one cluster, and whether it is a warning."""
    warnings = {
        f"Fewer than {MIN_CLUSTER_SIZE} samples.": facts.tiny_clusters,
        "Low confidence.": facts.low_confidence_clusters,
        "Unstable in refits.": facts.unstable_clusters,
    }
    found = [text for text, clusters in warnings.items() if cluster in clusters]
    if found:
        return " ".join(found), True
    stable = "stability was not measured" if facts.stability is None else "stable in refits"
    return f"No warnings; {stable}.", False


def format_percent(fraction: float) -> str:
    """Return a fraction as percent with one decimal; only 0 and 1 become "0%" and "100%"."""
    if fraction in (0, 1):
        return f"{fraction:.0%}"
    if fraction < 0.0005:
        return "under 0.1%"
    return "over 99.9%" if fraction >= 0.9995 else f"{fraction:.1%}"


def compact_percent(fraction: float) -> str:
    """Return `format_percent` with signs instead of words, for narrow columns."""
    return format_percent(fraction).replace("under ", "<").replace("over ", ">")


def count_noun(n: int, noun: str) -> str:
    """Return a number with its noun: "1 sample", "2,000 samples"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def format_ratio(ratio: float) -> str:
    """Return a ratio of sizes, with one decimal below 100."""
    return f"{ratio:.1f}" if ratio < 99.95 else f"{ratio:,.0f}"


def describe_balance(ratio: float) -> str:
    """Return "equal", "unequal" and the like for a ratio of largest to smallest size."""
    return next((name for limit, name in BALANCE if ratio <= limit), "very unequal")


def join_items(items: Iterable[object], max_items: int = 5) -> str:
    """Return "a, b and c"; of more than `max_items` + 1 the first ones and the number of the others."""
    shown = [str(item) for item in items]
    if len(shown) > max_items + 1:
        shown = [*shown[:max_items], f"{len(shown) - max_items:,} more"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def list_clusters(clusters: Sequence[int], notes: Sequence[str] = ()) -> str:
    """Return "cluster 3" or "clusters 3 (note) and 4 (note)"."""
    named = [f"{c} ({note})" for c, note in zip(clusters, notes, strict=True)] if notes else clusters
    return f"cluster{'' if len(clusters) == 1 else 's'} {join_items(named)}"


def shorten(text: object, max_length: int = 100) -> str:
    """Return a text without its middle if it is too long; long names often differ at the end."""
    whole, head = str(text), max_length // 2
    return whole if len(whole) <= max_length else f"{whole[:head]}…{whole[head + 1 - max_length :]}"


def _are(clusters: Sequence[int]) -> str:
    return "is" if len(clusters) == 1 else "are"


def _capitalize(text: str) -> str:
    return text[0].upper() + text[1:]
