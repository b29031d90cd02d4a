"""The sentences are true for any data, and rounding does not make them false."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.factories import facts_of_sizes, make_facts, make_stability

from protocol_mvc import as_views
from protocol_mvc.evaluation.cluster_review import ClusterReview
from protocol_mvc.partition.n_clusters import ClusterCountSuggestion
from protocol_mvc.partition.rank import RankCount
from protocol_mvc.report.facts import Facts
from protocol_mvc.report.text import (
    Finding,
    compact_percent,
    count_noun,
    describe_balance,
    doubts,
    findings,
    format_percent,
    format_ratio,
    headline,
    join_items,
    list_clusters,
    shorten,
)
from protocol_mvc.report.truth import compare_labels


def by_topic(facts: Facts) -> dict[str, Finding]:
    found = findings(facts)
    topics = {finding.topic: finding for finding in found}
    assert len(topics) == len(found)
    return topics


def warnings(facts: Facts) -> set[str]:
    return {finding.topic for finding in findings(facts) if finding.is_warning}


@st.composite
def any_facts(draw):
    k = draw(st.integers(2, 200))
    labels = draw(st.lists(st.integers(0, k - 1), min_size=2, max_size=80))
    n = len(labels)
    given: dict[str, Any] = {"confidence": np.array(draw(st.lists(st.floats(0, 1), min_size=n, max_size=n)))}
    if draw(st.booleans()):
        given["labels_true"] = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    if draw(st.booleans()):
        given["stability"] = make_stability([draw(st.floats(0, 1))] * k, n)
    return make_facts(labels, k, **given)


@given(any_facts())
def test_sentences_are_complete_and_grammatical(facts):
    for sentence in [*headline(facts), *(finding.text for finding in findings(facts))]:
        assert re.match(r"[A-Z0-9]", sentence)
        assert sentence.endswith(".")
        assert not re.search(
            r"\bnan\b|\binf\b|\bNone\b|  |(?<![\d.,])1 (samples|clusters|warnings)", sentence
        )
        assert not re.search(r"\bcluster \d+ (are|have) |\bclusters \d+ (is|has) ", sentence)


@given(any_facts())
def test_cautions_are_given_exactly_when_there_is_a_reason_and_come_first(facts):
    reasons = {
        "Empty clusters": facts.empty_clusters,
        "Tiny clusters": facts.tiny_clusters,
        "Low confidence": facts.low_confidence_clusters,
        "Stability": facts.unstable_clusters,
    }
    known = {"Sizes", "Lost classes", "Found in part", "Split classes", "Confidence too high"}
    assert warnings(facts) - known == {topic for topic, reason in reasons.items() if reason}
    order = [finding.is_warning for finding in findings(facts)]
    assert order == sorted(order, reverse=True)
    assert ("--n-refits" in " ".join(f.text for f in findings(facts))) == (facts.stability is None)


@given(any_facts())
def test_the_headline_counts_clusters_and_doubts_in_at_most_three_sentences(facts):
    first, doubt, *truth = headline(facts)
    assert first.startswith(f"{facts.n_samples} sample")
    assert f" in {len(facts.nonempty_clusters)} cluster" in first
    assert ("no cluster" in doubt.lower()) == (not doubts(facts))
    assert len(truth) == (facts.labels_true is not None)
    if not truth:
        assert ("not measured" in doubt) == (not doubts(facts) and facts.stability is None)


def test_the_doubt_is_not_denied_above_a_class_that_was_lost():
    labels, labels_true = [0] * 60 + [1] * 40, np.array(["a"] * 60 + ["b"] * 35 + ["c"] * 5)
    given: dict[str, Any] = {"labels_true": labels_true, "stability": make_stability([1, 1], 100)}
    _, doubt, truth = headline(make_facts(labels, **given))
    assert doubt == "By itself, no cluster looks doubtful."
    assert truth == "But of 3 known classes, 2 found and 1 lost (c); accuracy 95.0%."


@given(any_facts())
def test_a_class_that_is_not_found_is_a_caution_and_in_the_headline(facts):
    if facts.labels_true is None:
        return
    outcomes = {row.outcome for row in compare_labels(facts.labels_true, facts.labels).classes}
    topics = {"lost": "Lost classes", "in part": "Found in part", "split": "Split classes"}
    for outcome, topic in topics.items():
        assert (topic in warnings(facts)) == (outcome in outcomes) == (outcome in headline(facts)[-1])


def test_numbers_by_hand():
    confidence, prior = np.repeat([0.95, 0.6, 0.3], [60, 30, 10]), np.array([0.6, 0.3, 0.1])
    found = by_topic(facts_of_sizes([60, 30, 10], confidence=confidence, class_prior=prior))
    expected = {
        "Low confidence": ("below 0.7", "clusters 2 (0.30) and 1 (0.60)"),
        "Stability": ("--n-refits",),
        "Confidence": ("Above 0.9 for 60.0%", "below 0.5 for 10.0% (10 samples)"),
        "Balance": ("Unequal", "60 samples to 10 samples", "6.0 : 1", "1 is rare"),
        "Data": ("2 views", "view_0 (2 features)", "view_1 (3 features)"),
    }
    assert list(found) == list(expected)
    for topic, parts in expected.items():
        assert [part for part in parts if part not in found[topic].text] == []
        assert found[topic].is_warning == (topic == "Low confidence")


@pytest.mark.parametrize(
    ("sizes", "topic", "parts"),
    [
        ([5, 5], "Balance", ["Equal", "5 samples each"]),
        ([51, 5], "Balance", ["Very unequal", "10.2 : 1"]),
        ([7, 0], "Empty clusters", ["Cluster 1 is empty", "n_clusters"]),
        ([7, 4, 0, 0], "Empty clusters", ["Clusters 2 and 3 are empty"]),
        ([7, 4], "Tiny clusters", ["Cluster 1 has fewer than 5"]),
        ([7, 1, 1], "Tiny clusters", ["Clusters 1 and 2 have fewer than 5"]),
        ([100, *[1] * 10], "Balance", ["10 are rare"]),
    ],
)
def test_sizes(sizes: list[int], topic: str, parts: list[str]):
    text = by_topic(facts_of_sizes(sizes))[topic].text
    assert [part for part in parts if part not in text] == []


def test_a_mean_just_below_the_limit_is_not_rounded_up_to_it():
    facts = facts_of_sizes([5], confidence=np.full(5, 0.6999))
    assert "cluster 0 (0.69)" in by_topic(facts)["Low confidence"].text


def test_a_prior_that_differs_from_the_shares_is_a_caution_and_none_that_looks_the_same():
    far = facts_of_sizes([6, 3, 1], class_prior=np.array([0.3, 0.5, 0.2]))
    assert "30.0%" in by_topic(far)["Sizes"].text
    near = facts_of_sizes([10] * 10, class_prior=np.full(10, 0.1) + np.tile([4e-4, -4e-4], 5))
    assert "Sizes" not in by_topic(near)


def test_stability():
    stable = facts_of_sizes([9, 6], stability=make_stability([0.5, 0.5], 15))
    unstable = facts_of_sizes([9, 6], stability=make_stability([0.49, 0.49], 15))
    assert "0.5" in by_topic(stable)["Stability"].text
    assert "Clusters 0 (0.49) and 1 (0.49) are not found again" in by_topic(unstable)["Stability"].text
    all_tiny = facts_of_sizes([3, 2], stability=make_stability([0.9, 0.9], 5))
    assert "Stability" not in by_topic(all_tiny)


def test_diverged_training_is_a_warning():
    assert "Training" not in by_topic(make_facts([0, 0, 1], 2))
    found = by_topic(make_facts([0, 0, 1], 2, diverged_stages=("align", "rebalance 1")))["Training"]
    assert found.is_warning
    assert "'align' and 'rebalance 1'" in found.text


def test_missing_views():
    one_view = facts_of_sizes([3, 1], views=as_views([np.ones((4, 1))]))
    assert "1 view: view_0 (1 feature)" in by_topic(one_view)["Data"].text
    incomplete = as_views([np.array([[np.nan], [1], [1], [1]]), np.ones((4, 2))])
    assert "25.0% of the samples lack" in by_topic(facts_of_sizes([3, 1], views=incomplete))["Data"].text


def test_known_classes_by_hand():
    labels, three = [0] * 6 + [1] * 4, np.array(["a"] * 6 + ["b"] * 3 + ["c"])
    facts = make_facts(labels, labels_true=three)
    assert headline(facts)[-1] == "Of 3 known classes, 2 found and 1 lost (c); accuracy 90.0%."
    assert by_topic(facts)["Lost classes"].text == "c (most in cluster 1)."
    two = make_facts(labels, labels_true=np.array(labels))
    assert headline(two)[-1] == "Of 2 known classes, 2 found; accuracy 100%."
    assert not by_topic(two)["Known classes"].is_warning


def test_a_confidence_far_above_the_purity_is_a_caution():
    sure = {"confidence": np.full(10, 0.99), "labels_true": np.array([0, 1] * 5)}
    assert "50.0%" in by_topic(make_facts([0] * 10, 1, **sure))["Confidence too high"].text
    modest = make_facts([0] * 10, 1, **(sure | {"confidence": np.full(10, 0.55)}))
    assert "Confidence too high" not in by_topic(modest)


def review(low: int, high: int, parts: list[list[int]]) -> ClusterReview:
    suggestion = ClusterCountSuggestion(low, low, high, low, [], [], "")
    return ClusterReview(suggestion, [], [], parts, {})


def test_too_many_clusters_are_named_with_the_parts_of_one_group():
    facts = facts_of_sizes([20, 20, 20, 20], review=review(2, 3, [[0, 2, 3]]))
    assert headline(facts)[0] == "80 samples in 4 clusters, but the data show only 2 to 3 groups."
    assert headline(facts)[1] == "3 of them look like parts of a larger group."
    assert "Clusters 0, 2 and 3" in by_topic(facts)["Parts of one group"].text
    assert warnings(facts) == {"Number of clusters", "Parts of one group"}
    fitting = facts_of_sizes([20, 20], review=review(2, 3, []))
    assert headline(fitting)[0] == "40 samples in 2 clusters; the data show 2 to 3 groups."
    assert warnings(fitting) == set()


def test_groups_that_overlap_are_explained():
    found = review(2, 3, [])
    overlap = found._replace(suggestion=found.suggestion._replace(rank=RankCount(2, 3, 3)))
    text = by_topic(facts_of_sizes([20, 20], review=overlap))["Number of clusters"].text
    assert "about 3 groups, even if some overlap" in text
    for ratio, told in [(2.13, "2.1 times the evidence of a cloud"), (1.1, "one group only")]:
        count = 2 if ratio > 2 else 1
        suggestion = found.suggestion._replace(n_clusters=count, over_cloud=ratio)
        blurred = found._replace(suggestion=suggestion)
        assert told in by_topic(facts_of_sizes([20, 20], review=blurred))["Number of clusters"].text


def test_doubts_of_single_clusters():
    facts = facts_of_sizes(
        [60, 9, 8, 4],
        confidence=np.repeat([0.9, 0.6, 0.9, 0.95], [60, 9, 8, 4]),
        stability=make_stability([0.9, 0.9, 0.4, 0.9], 81),
    )
    assert list(doubts(facts)) == [1, 2, 3]
    assert headline(facts)[1].startswith(
        "3 of them are doubtful: 1 is unstable, 1 has low confidence and 1 has"
    )


def test_names_of_clusters_replace_their_numbers():
    facts = facts_of_sizes([60, 9, 3], names=("T", "B", "pDC"), review=review(2, 2, [[0, 1]]))
    assert "pDC" in by_topic(facts)["Tiny clusters"].text
    assert "Clusters T and B" in by_topic(facts)["Parts of one group"].text


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_only_nothing_is_0_percent_and_only_everything_is_100_percent(pair):
    part, n = pair
    text = format_percent(part / n)
    assert (text == "0%") == (part == 0)
    assert (text == "100%") == (part == n)
    if text[0].isdigit():
        assert float(text.rstrip("%")) == pytest.approx(100 * part / n, abs=0.0501)
    else:
        assert part / n < 0.0005 or part / n >= 0.9995


def test_compact_percentages_have_signs_instead_of_words():
    found = [compact_percent(fraction) for fraction in (0, 1e-5, 0.25, 1 - 1e-5, 1)]
    assert found == ["0%", "<0.1%", "25.0%", ">99.9%", "100%"]


@pytest.mark.parametrize(("n", "text"), [(0, "0 samples"), (1, "1 sample"), (2000, "2,000 samples")])
def test_nouns_agree_with_their_number(n: int, text: str):
    assert count_noun(n, "sample") == text


def test_large_ratios_have_no_decimals():
    ratios = [format_ratio(ratio) for ratio in (1, 9.94, 99.94, 99.96, 12345.6)]
    assert ratios == ["1.0", "9.9", "99.9", "100", "12,346"]


def test_larger_ratios_are_never_described_as_more_equal():
    ratios = (1, 1.4, 2, 9, 1e6)
    names = ["equal", "nearly equal", "somewhat unequal", "unequal", "very unequal"]
    assert [describe_balance(ratio) for ratio in ratios] == names


@given(st.lists(st.integers(10, 99), max_size=30, unique=True))
def test_a_list_names_all_items_or_the_number_of_the_others(items):
    text = join_items(items)
    named = [item for item in items if str(item) in text.split(" more")[0].replace(",", "").split()]
    others = int(text.split()[-2]) if text.endswith(" more") else 0
    assert len(set(named) - {others}) + others >= len(items)
    assert text.count(" and ") == (len(items) > 1)


def test_lists_by_hand():
    assert [join_items("abcdefgh"[:i]) for i in (0, 1, 2, 3)] == ["", "a", "a and b", "a, b and c"]
    assert join_items("abcdef") == "a, b, c, d, e and f"
    assert join_items("abcdefg") == "a, b, c, d, e and 2 more"
    facts = facts_of_sizes([9] * 5)
    assert list_clusters(facts, [3]) == "cluster 3"
    assert list_clusters(facts, [3, 4], ["rare", "tiny"]) == "clusters 3 (rare) and 4 (tiny)"


@given(st.text(max_size=300))
def test_long_texts_lose_their_middle(text):
    assert shorten(text) == (text if len(text) <= 100 else f"{text[:50]}…{text[-49:]}")
