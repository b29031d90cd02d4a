"""The sentences of the report: headline, findings and warnings, and how numbers are written."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from protocol_mvc.evaluation.metrics import clustering_accuracy, group_recall
from protocol_mvc.evaluation.stability import DISSOLVED_JACCARD
from protocol_mvc.partition.consensus import MIN_CLUSTER_SIZE
from protocol_mvc.partition.n_clusters import ClusterCountSuggestion
from protocol_mvc.report.facts import HIGH_CONFIDENCE, LOW_CONFIDENCE, LOW_MEAN_CONFIDENCE, Facts
from protocol_mvc.utils.text import join_words

MAX_PRIOR_DIFFERENCE = 0.1  # between class prior and cluster sizes; above it the report warns
# Largest / smallest cluster, up to which sizes are called so.
BALANCE = ((1, "equal"), (1.5, "nearly equal"), (3, "somewhat unequal"), (10, "unequal"))
MAX_DOUBTS = 4  # sets of clusters that are named as parts of one group
N_FURTHER_LEVELS = 2  # numbers of clusters that are shown beyond the range
FEWER_CLUSTERS = "Try a smaller n_clusters."
NO_STABILITY = "Stability was not measured; run protocol-mvc report with --n-refits 5 to check it."


class Finding(NamedTuple):
    """A sentence of the report; a warning asks the reader for caution."""

    topic: str
    text: str
    is_warning: bool = False


def headline(facts: Facts) -> str:
    """Return a summary of one line: number and sizes of the clusters, accuracy if known, warnings."""
    k, n_warnings = len(facts.nonempty_clusters), sum(finding.is_warning for finding in findings(facts))
    balance = f" of {describe_balance(facts.size_ratio)} size" if k > 1 else ""
    shown = "" if facts.review is None else f"; the data show {describe_range(facts.review.suggestion)}"
    rare = f", {len(facts.rare_clusters)} of them rare" if facts.rare_clusters else ""
    parts = [f"{count_noun(facts.n_samples, 'sample')} in {count_noun(k, 'cluster')}{balance}{rare}{shown}."]
    if facts.labels_true is not None:
        accuracy = clustering_accuracy(facts.labels_true, facts.labels)
        parts.append(f"Accuracy against the ground truth: {format_percent(accuracy)}.")
    if n_warnings:
        parts.append(f"{count_noun(n_warnings, 'warning')}, see below.")
    else:
        stability = NO_STABILITY if facts.stability is None else "The refits found the same clusters."
        parts.append(f"No warnings. {stability}")
    return " ".join(parts)


def findings(facts: Facts) -> list[Finding]:
    """Return all findings: on sizes, estimated prior, confidence, stability, training, data, ground truth."""
    parts = (
        _size_findings,
        _count_findings,
        _rarity_findings,
        _confidence_findings,
        _stability_findings,
        _data_findings,
    )
    return [finding for part in parts for finding in part(facts)]


def _size_findings(facts: Facts) -> Iterator[Finding]:
    found, empty = facts.nonempty_clusters, facts.empty_clusters
    text = f"{count_noun(facts.n_samples, 'sample')} in {count_noun(len(found), 'cluster')}"
    if empty:
        text += f" of {facts.n_clusters}: {list_clusters(empty)} {_are(empty)} empty. {FEWER_CLUSTERS}"
        yield Finding("Clusters", text, is_warning=True)
    else:
        by_size = bool(np.all(np.diff(facts.cluster_sizes) <= 0))
        yield Finding("Clusters", text + (", numbered by size (0 is the largest)." if by_size else "."))
    most, least = (count_noun(int(facts.cluster_sizes[c]), "sample") for c in (found[0], found[-1]))
    text = f"The clusters are of {describe_balance(facts.size_ratio)} size"
    if facts.size_ratio > 1:
        ends = f"from {most} (cluster {found[0]}) to {least} (cluster {found[-1]})"
        yield Finding("Sizes", f"{text}: {ends}, ratio {format_ratio(facts.size_ratio)} : 1.")
    elif len(found) > 1:
        yield Finding("Sizes", f"{text}: {most} each.")


def _count_findings(facts: Facts) -> Iterator[Finding]:
    if facts.review is None:
        return
    found, k = facts.review.suggestion, len(facts.nonempty_clusters)
    outside = not found.low <= k <= found.high
    text = f"The data show {describe_range(found)}, {describe_certain(found)}."
    if outside:
        more = "fewer" if k < found.low else "more"
        text += f" The {k} clusters are {more}: try n_clusters={found.n_clusters}."
    yield Finding("Number of clusters", text, is_warning=outside)
    parts, divisible = facts.review.parts, facts.review.divisible
    if parts:
        text = f"{'; '.join(list_clusters(group) for group in parts[:MAX_DOUBTS])}".capitalize()
        each = "they look" if len(parts) == 1 else "each set looks"
        yield Finding("Parts of one group", f"{text}: {each} like one group.", is_warning=k > found.high)
    if divisible:
        notes = [f"{n} or more" for n in divisible.values()]
        text = f"{list_clusters(list(divisible), notes).capitalize()} may be several groups."
        yield Finding("Several groups", text, is_warning=k < found.low)


def describe_range(found: ClusterCountSuggestion) -> str:
    """Return "9 to 11 groups"."""
    low, high = found.low, found.high
    return f"{low} to {high} groups" if low < high else count_noun(high, "group")


def describe_certain(found: ClusterCountSuggestion) -> str:
    """Return how many groups are beyond doubt."""
    if found.certain < 2:
        return "no division is beyond doubt"
    return f"{found.certain} of them beyond doubt"


def count_levels(found: ClusterCountSuggestion) -> list[tuple[int, float, str]]:
    """Return number of clusters, evidence of the last split and verdict, up to just beyond the range."""
    shown = (level for level in found.path if level.n_clusters <= found.high + N_FURTHER_LEVELS)
    return [(level.n_clusters, level.evidence, found.verdict(level.n_clusters)) for level in shown]


def _rarity_findings(facts: Facts) -> Iterator[Finding]:
    rare, tiny = facts.rare_clusters[::-1], facts.tiny_clusters
    limit = f"(below half of the mean cluster size, {facts.mean_size:,.1f})"
    if rare:
        sizes = [int(facts.cluster_sizes[c]) for c in rare]
        notes = [f"{count_noun(size, 'sample')}, {format_percent(size / facts.n_samples)}" for size in sizes]
        text = f"{count_noun(len(rare), 'cluster')} {_are(rare)} rare {limit}: {list_clusters(rare, notes)}."
        yield Finding("Rare clusters", text)
    elif len(facts.nonempty_clusters) > 1:
        yield Finding("Rare clusters", f"No cluster is rare {limit}.")
    if tiny:
        have = f"{list_clusters(tiny).capitalize()} {'has' if len(tiny) == 1 else 'have'}"
        text = f"{have} fewer than {MIN_CLUSTER_SIZE} samples. {FEWER_CLUSTERS}"
        yield Finding("Tiny clusters", text, is_warning=True)


def _prior_finding(facts: Facts) -> Finding:
    shares = facts.cluster_sizes / facts.n_samples
    difference = np.abs(shares - facts.class_prior)
    total, c = float(difference.sum() / 2), int(difference.argmax())
    if total < 0.0005:
        return Finding("Estimated prior", "The estimated prior equals the shares of the clusters.")
    prior, share = format_percent(float(facts.class_prior[c])), format_percent(float(shares[c]))
    most = f", most in cluster {c} (prior {prior}, cluster {share})" if prior != share else ""
    text = f"The estimated prior and the shares of the clusters differ by {format_percent(total)}{most}."
    is_warning = total > MAX_PRIOR_DIFFERENCE
    return Finding("Estimated prior", text + " The sizes are uncertain." * is_warning, is_warning)


def _confidence_findings(facts: Facts) -> Iterator[Finding]:
    yield _prior_finding(facts)
    high = format_percent(float(np.mean(facts.confidence > HIGH_CONFIDENCE)))
    n_low = int((facts.confidence < LOW_CONFIDENCE).sum())
    low = f"{format_percent(n_low / facts.n_samples)} ({count_noun(n_low, 'sample')})" if n_low else "none"
    above = f"Confidence is above {HIGH_CONFIDENCE} for {high} of the samples"
    yield Finding("Confidence", f"{above}, below {LOW_CONFIDENCE} for {low}.")
    clusters = facts.low_confidence_clusters
    if clusters:  # rounding must not lift a mean to the limit that it is below
        means = [f"{min(facts.mean_confidence[c], LOW_MEAN_CONFIDENCE - 0.01):.2f}" for c in clusters]
        text = f"Mean confidence is below {LOW_MEAN_CONFIDENCE} in {list_clusters(clusters, means)}."
        yield Finding("Low confidence", f"{text} Inspect some of the samples.", is_warning=True)
    else:
        yield Finding("Low confidence", f"No cluster has a mean confidence below {LOW_MEAN_CONFIDENCE}.")


def _stability_findings(facts: Facts) -> Iterator[Finding]:
    unstable, overlap = facts.unstable_clusters, "mean Jaccard overlap with refits"
    if facts.stability is None:
        yield Finding("Stability", NO_STABILITY)
    elif unstable:
        names = f"{list_clusters(unstable).capitalize()} {_are(unstable)} unstable"
        text = f"{names} ({overlap} below {DISSOLVED_JACCARD}). Try another n_clusters."
        yield Finding("Stability", text, is_warning=True)
    elif max(facts.cluster_sizes) >= MIN_CLUSTER_SIZE:
        text = f"Every cluster of {MIN_CLUSTER_SIZE} or more samples is stable"
        yield Finding("Stability", f"{text} ({overlap} at least {DISSOLVED_JACCARD}).")
    if facts.diverged_stages:
        stages = join_items([repr(stage) for stage in facts.diverged_stages])
        text = f"Training diverged in {stages} and continued at a lower learning rate."
        remedy = "Check the views for extreme values, or choose another scaling."
        yield Finding("Training", f"{text} {remedy}", is_warning=True)


def _data_findings(facts: Facts) -> Iterator[Finding]:
    named = [
        f"{shorten(name, 40)} ({count_noun(n_features, 'feature')})"
        for name, n_features in zip(facts.views.names, facts.views.n_features, strict=True)
    ]
    yield Finding("Data", f"{count_noun(len(named), 'view')}: {join_items(named)}.")
    missing = ~facts.views.mask
    if missing.any():
        samples = format_percent(float(np.mean(missing.any(axis=1)))).capitalize()
        pairs = f"{format_percent(float(np.mean(missing)))} of all sample-view pairs are missing"
        yield Finding("Missing views", f"{samples} of the samples lack at least one view; {pairs}.")
    else:
        yield Finding("Missing views", "Every sample has every view.")
    if facts.labels_true is not None:
        accuracy = format_percent(clustering_accuracy(facts.labels_true, facts.labels))
        tail = format_percent(group_recall(facts.labels_true, facts.labels).tail)
        few = len(np.unique(facts.labels_true)) < 3
        group = "recall of the smallest class" if few else "mean recall of the smallest third of the classes"
        yield Finding("Ground truth", f"Accuracy against the ground truth is {accuracy}; {group} is {tail}.")


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
    return join_words(shown)


def cluster_title(facts: Facts, cluster: int) -> str:
    """Return the number of a cluster, and its name if it has one."""
    name = facts.names[cluster] if facts.names else str(cluster)
    return str(cluster) if name == str(cluster) else f"{cluster} {shorten(name, 40)}"


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
