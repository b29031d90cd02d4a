"""The sentences of the report: headline, cautions and facts, and how numbers are written."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, get_args

import numpy as np

from protocol_mvc.evaluation.metrics import clustering_accuracy, purity
from protocol_mvc.evaluation.stability import DISSOLVED_JACCARD
from protocol_mvc.partition.consensus import MIN_CLUSTER_SIZE
from protocol_mvc.partition.n_clusters import ClusterCountSuggestion
from protocol_mvc.report.facts import HIGH_CONFIDENCE, LOW_CONFIDENCE, LOW_MEAN_CONFIDENCE, Facts
from protocol_mvc.report.truth import Comparison, KnownClass, Outcome, compare_labels
from protocol_mvc.utils.text import join_words

MAX_PRIOR_DIFFERENCE = 0.1  # between class prior and cluster sizes; above it the report warns
MAX_OVERCONFIDENCE = 0.1  # mean confidence above the purity
# Largest / smallest cluster, up to which sizes are called so.
BALANCE = ((1, "equal"), (1.5, "nearly equal"), (3, "somewhat unequal"), (10, "unequal"))
MAX_SETS = 4  # sets of clusters that are named as parts of one group
N_FURTHER_LEVELS = 2  # numbers of clusters that are shown beyond the range
NO_STABILITY = "Stability was not measured; protocol-mvc report --n-refits 5 does it."


class Finding(NamedTuple):
    """A sentence of the report; a warning asks the reader for caution."""

    topic: str
    text: str
    is_warning: bool = False

    def __str__(self) -> str:
        """Return topic and text on one line."""
        topic = f"Caution, {self.topic[:1].lower()}{self.topic[1:]}" if self.is_warning else self.topic
        return f"{topic}: {self.text}"


def headline(facts: Facts) -> list[str]:
    """Return at most three sentences: the number of clusters, the doubt, and the known classes if given."""
    n, k = facts.n_samples, len(facts.nonempty_clusters)
    text = f"{count_noun(n, 'sample')} in {count_noun(k, 'cluster')}"
    if facts.review is not None:
        found = facts.review.suggestion
        link = "; the data show" if found.low <= k <= found.high else ", but the data show"
        text += f"{link}{' only' if k > found.high else ''} {describe_range(found)}"
    if facts.labels_true is None:
        return [f"{text}.", _doubt_sentence(facts)]
    compared = compare_labels(facts.labels_true, facts.labels)
    all_found, doubted = len(compared.having("found")) == len(compared.classes), bool(doubts(facts))
    doubt = _doubt_sentence(facts) if all_found or doubted else "By itself, no cluster looks doubtful."
    known = _truth_sentence(compared, clustering_accuracy(facts.labels_true, facts.labels))
    return [f"{text}.", doubt, known if all_found or doubted else f"But o{known[1:]}"]


def _doubt_sentence(facts: Facts) -> str:
    doubted = doubts(facts)
    if not doubted:
        again = "stability was not measured" if facts.stability is None else "refits found all of them again"
        return f"No cluster is doubtful, {'but' if facts.stability is None else 'and'} {again}."
    kinds = (
        (
            {c for group in _parts(facts) for c in group},
            "looks like part",
            "look like parts",
            "of a larger group",
        ),
        (facts.unstable_clusters, "is", "are", "unstable"),
        (facts.low_confidence_clusters, "has", "have", "low confidence"),
        (facts.tiny_clusters, "has", "have", f"fewer than {MIN_CLUSTER_SIZE} samples"),
    )
    reasons = [
        f"{len(found)} {singular if len(found) == 1 else plural} {rest}"
        for found, singular, plural, rest in kinds
        if found
    ]
    if len(reasons) == 1:
        number, words = reasons[0].split(" ", 1)
        return f"{number} of them {words}."
    who = "All" if len(doubted) == len(facts.nonempty_clusters) else str(len(doubted))
    return f"{who} of them {_are(list(doubted))} doubtful: {join_words(reasons)}."


def _truth_sentence(compared: Comparison, accuracy: float) -> str:
    parts = []
    for outcome in get_args(Outcome):
        rows = compared.having(outcome)
        which = f" ({join_items([shorten(row.name, 30) for row in rows], 3)})" if outcome == "lost" else ""
        if rows:
            parts.append(f"{len(rows)} {'found in part' if outcome == 'in part' else outcome}{which}")
    classes = "class" if len(compared.classes) == 1 else "classes"
    found = f"Of {len(compared.classes)} known {classes}, {join_words(parts)}"
    return f"{found}; accuracy {format_percent(accuracy)}."


def doubts(facts: Facts) -> dict[int, list[str]]:
    """Return the reasons for doubt of every cluster that has any."""
    found: dict[int, list[str]] = {c: [] for c in range(facts.n_clusters)}
    for group in _parts(facts):
        for c in group:
            found[c].append(f"hardly different from {list_clusters(facts, [b for b in group if b != c])}")
    for c in facts.unstable_clusters:
        found[c].append("unstable in refits")
    for c in facts.low_confidence_clusters:
        found[c].append("low confidence")
    for c in facts.tiny_clusters:
        found[c].append(f"fewer than {MIN_CLUSTER_SIZE} samples")
    return {c: reasons for c, reasons in found.items() if reasons}


def _parts(facts: Facts) -> list[list[int]]:
    return [] if facts.review is None else facts.review.parts


def findings(facts: Facts) -> list[Finding]:
    """Return all findings, cautions first."""
    parts = (
        _truth_findings,
        _count_findings,
        _stability_findings,
        _confidence_findings,
        _size_findings,
        _data_findings,
    )
    found = [finding for part in parts for finding in part(facts)]
    return sorted(found, key=lambda finding: not finding.is_warning)


def _truth_findings(facts: Facts) -> Iterator[Finding]:
    if facts.labels_true is None:
        return
    compared = compare_labels(facts.labels_true, facts.labels)

    describe: dict[Outcome, tuple[str, Callable[[KnownClass], str]]] = {
        "lost": ("Lost classes", lambda row: f"most in {list_clusters(facts, [row.clusters[0][0]])}"),
        "in part": ("Found in part", lambda row: f"recall {format_percent(row.recall)}"),
        "split": ("Split classes", lambda row: list_clusters(facts, [c for c, _ in row.clusters])),
    }
    for outcome, (topic, note) in describe.items():
        rows = [f"{shorten(row.name, 40)} ({note(row)})" for row in compared.having(outcome)]
        if rows:
            yield Finding(topic, f"{join_items(rows)}.", is_warning=True)
    if not any(row.outcome != "found" for row in compared.classes):
        yield Finding("Known classes", "Every known class is found.")
    confidence, pure = float(facts.confidence.mean()), purity(facts.labels_true, facts.labels)
    if confidence > pure + MAX_OVERCONFIDENCE:
        text = (
            f"Its mean is {confidence:.2f}, but only {format_percent(pure)} of the samples are in a cluster"
        )
        yield Finding("Confidence too high", f"{text} whose majority is their class.", is_warning=True)


def _count_findings(facts: Facts) -> Iterator[Finding]:
    if facts.review is None:
        return
    found, k, parts = facts.review.suggestion, len(facts.nonempty_clusters), _parts(facts)
    outside = not found.low <= k <= found.high
    text = f"The data show {describe_range(found)}, {describe_certain(found)}."
    text = " ".join([text, *explain_count(found)])
    if outside:
        too = "too few" if k < found.low else "too many"
        text += f" {count_noun(k, 'cluster')} {'is' if k == 1 else 'are'} {too}:"
        text += f" try n_clusters={found.n_clusters}."
    yield Finding("Number of clusters", text, is_warning=outside)
    if parts:
        sets = [list_clusters(facts, group, max_items=12) for group in parts]
        each = "they look" if len(sets) == 1 else "each set looks"
        text = f"{'; '.join(sets[:MAX_SETS])}{_and_more(sets, MAX_SETS)}: {each} like one group."
        yield Finding("Parts of one group", _capital(text), is_warning=True)
    if facts.review.divisible:
        clusters = list(facts.review.divisible)
        notes = [f"{n} or more" for n in facts.review.divisible.values()]
        text = f"{list_clusters(facts, clusters, notes)} may be several groups."
        yield Finding("Several groups", _capital(text), is_warning=k < found.low)


def describe_range(found: ClusterCountSuggestion) -> str:
    """Return "9 to 11 groups"."""
    low, high = found.low, found.high
    return f"{low} to {high} groups" if low < high else count_noun(high, "group")


def describe_certain(found: ClusterCountSuggestion) -> str:
    """Return how many groups are beyond doubt."""
    if found.certain < 2:
        return "no division is beyond doubt"
    return f"{found.certain} of them beyond doubt"


def explain_count(found: ClusterCountSuggestion) -> list[str]:
    """Return the reasons for the number of groups besides the evidence of the splits."""
    reasons = []
    if found.overlap:
        times = f"{found.over_cloud:.1f} times the evidence of a cloud without groups"
        reasons.append(
            f"No division is clear, but the first ones have {times}: there are groups that overlap."
        )
    elif found.over_cloud is not None and found.n_clusters == 1:
        reasons.append(
            "The first divisions look like those of a cloud without groups, so there may be one group only."
        )
    if found.rank is not None:
        reason = "The views of a sample have nothing in common but its group, and their correlations show"
        reasons.append(f"{reason} about {found.rank.n_clusters} groups, even if some overlap.")
    return reasons


def count_levels(found: ClusterCountSuggestion) -> list[tuple[int, float, str]]:
    """Return number of clusters, evidence of the last split and verdict, up to just beyond the range."""
    shown = (level for level in found.path if level.n_clusters <= found.high + N_FURTHER_LEVELS)
    return [(level.n_clusters, level.evidence, found.verdict(level.n_clusters)) for level in shown]


def _stability_findings(facts: Facts) -> Iterator[Finding]:
    unstable, overlap = facts.unstable_clusters, "mean Jaccard index with refits on subsamples"
    if facts.stability is None:
        yield Finding("Stability", NO_STABILITY)
    elif unstable:
        notes = [f"{facts.stability.cluster_jaccard[c]:.2f}" for c in unstable]
        text = f"{_capital(list_clusters(facts, unstable, notes))} {_are(unstable)} not found again"
        yield Finding("Stability", f"{text} ({overlap} below {DISSOLVED_JACCARD}).", is_warning=True)
    elif max(facts.cluster_sizes) >= MIN_CLUSTER_SIZE:
        text = f"Every cluster of {MIN_CLUSTER_SIZE} or more samples is found again"
        yield Finding("Stability", f"{text} ({overlap} at least {DISSOLVED_JACCARD}).")
    if facts.diverged_stages:
        stages = join_items([repr(stage) for stage in facts.diverged_stages])
        text = f"Training diverged in {stages} and continued at a lower learning rate."
        remedy = "Check the views for extreme values, or choose another scaling."
        yield Finding("Training", f"{text} {remedy}", is_warning=True)


def _confidence_findings(facts: Facts) -> Iterator[Finding]:
    clusters = facts.low_confidence_clusters
    if clusters:  # rounding must not lift a mean to the limit that it is below
        means = [f"{min(facts.mean_confidence[c], LOW_MEAN_CONFIDENCE - 0.01):.2f}" for c in clusters]
        text = f"Mean confidence is below {LOW_MEAN_CONFIDENCE} in {list_clusters(facts, clusters, means)}."
        yield Finding("Low confidence", text, is_warning=True)
    high = format_percent(float(np.mean(facts.confidence > HIGH_CONFIDENCE)))
    n_low = int((facts.confidence < LOW_CONFIDENCE).sum())
    low = f"{format_percent(n_low / facts.n_samples)} ({count_noun(n_low, 'sample')})" if n_low else "none"
    above = f"Above {HIGH_CONFIDENCE} for {high} of the samples"
    yield Finding("Confidence", f"{above}, below {LOW_CONFIDENCE} for {low}.")


def _size_findings(facts: Facts) -> Iterator[Finding]:
    found, rare = facts.nonempty_clusters, facts.rare_clusters
    if facts.empty_clusters:
        text = f"{_capital(list_clusters(facts, facts.empty_clusters))} {_are(facts.empty_clusters)} empty."
        yield Finding("Empty clusters", f"{text} Try a smaller n_clusters.", is_warning=True)
    if facts.tiny_clusters:
        have = "has" if len(facts.tiny_clusters) == 1 else "have"
        text = f"{list_clusters(facts, facts.tiny_clusters)} {have} fewer than {MIN_CLUSTER_SIZE} samples."
        yield Finding("Tiny clusters", _capital(text), is_warning=True)
    shares = facts.cluster_sizes / facts.n_samples
    difference = float(np.abs(shares - facts.class_prior).sum() / 2)
    if difference > MAX_PRIOR_DIFFERENCE:
        text = "The estimated prior and the shares of the clusters differ by"
        yield Finding(
            "Sizes", f"{text} {format_percent(difference)}: the sizes are uncertain.", is_warning=True
        )
    most, least = (count_noun(int(facts.cluster_sizes[c]), "sample") for c in (found[0], found[-1]))
    balance = _capital(describe_balance(facts.size_ratio))
    ends = (
        f"{most} each"
        if facts.size_ratio == 1
        else f"{most} to {least}, {format_ratio(facts.size_ratio)} : 1"
    )
    few = f"; {len(rare)} {_are(rare)} rare (below half of the mean size)" if rare else ""
    yield Finding("Balance", f"{balance}: {ends}{few}.")


def _data_findings(facts: Facts) -> Iterator[Finding]:
    named = [
        f"{shorten(name, 40)} ({count_noun(n_features, 'feature')})"
        for name, n_features in zip(facts.views.names, facts.views.n_features, strict=True)
    ]
    text, missing = f"{count_noun(len(named), 'view')}: {join_items(named)}", ~facts.views.mask
    if missing.any():
        samples = format_percent(float(np.mean(missing.any(axis=1))))
        text += f"; {samples} of the samples lack at least one"
    yield Finding("Data", f"{text}.")


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
    """Return the name of a cluster, which is its number unless another was given."""
    return shorten(facts.names[cluster], 40) if facts.names else str(cluster)


def list_clusters(
    facts: Facts, clusters: Sequence[int], notes: Sequence[str] = (), max_items: int = 5
) -> str:
    """Return "cluster 3" or "clusters 3 (note) and 4 (note)", with names where they were given."""
    titles = [cluster_title(facts, c) for c in clusters]
    items = [f"{title} ({note})" for title, note in zip(titles, notes, strict=True)] if notes else titles
    return f"cluster{'' if len(clusters) == 1 else 's'} {join_items(items, max_items)}"


def shorten(text: object, max_length: int = 100) -> str:
    """Return a text without its middle if it is too long; long names often differ at the end."""
    whole, head = str(text), max_length // 2
    return whole if len(whole) <= max_length else f"{whole[:head]}…{whole[head + 1 - max_length :]}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _and_more(items: Sequence[str], n_shown: int) -> str:
    return f"; {len(items) - n_shown} more" if len(items) > n_shown else ""


def _are(clusters: Sequence[int]) -> str:
    return "is" if len(clusters) == 1 else "are"
