"""Every sentence of the verdict is true for any data."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.made import made, sized

from protocol_mvc import Stability, as_views
from protocol_mvc.report.facts import Facts
from protocol_mvc.report.verdict import headline, verdict


def text(facts: Facts) -> str:
    return " ".join(sentence.text for sentence in verdict(facts))


def stable(facts: Facts, overlap: float) -> Stability:
    return Stability(np.full(facts.k, overlap), np.ones(facts.n), [])


@st.composite
def any_facts(draw):
    k = draw(st.integers(2, 200))
    labels = draw(st.lists(st.integers(0, k - 1), min_size=2, max_size=80))
    confidence = draw(st.lists(st.floats(0, 1), min_size=len(labels), max_size=len(labels)))
    truth = draw(st.none() | st.lists(st.integers(0, 4), min_size=len(labels), max_size=len(labels)))
    facts = made(labels, k, confidence=np.array(confidence), truth=truth and np.array(truth))
    overlap = draw(st.none() | st.floats(0, 1))
    return facts if overlap is None else made(labels, k, stability=stable(facts, overlap))


@given(any_facts())
def test_sentences_are_whole_and_hold_no_senseless_number(facts):
    for sentence in verdict(facts):
        assert re.match(r"[A-Z0-9]", sentence.text)
        assert sentence.text.endswith(".")
        assert not re.search(r"\bnan\b|\binf\b|\bNone\b|  |\b0\.0 times|(?<![\d.,])1 samples", sentence.text)
        assert not re.search(r"\bcluster \d+ (are|have|come) |\bclusters \d+ (is|has) ", sentence.text)


@given(any_facts())
def test_the_shares_and_counts_are_those_of_the_samples(facts):
    said = text(facts)
    unsure = int((facts.confidence < 0.5).sum())
    assert (f", {unsure} sample" in said and "(below 0.5)" in said) or ("about none" in said and unsure == 0)
    assert ("No cluster is doubtful" in said) == (not facts.doubtful)
    assert ("empty" in said) == bool(facts.empty)
    assert ("too few to be believed" in said) == bool(facts.tiny)
    assert ("not measured" in said) == (facts.stability is None)
    assert ("Compared with the truth" in said) == (facts.truth is not None)
    if len(facts.filled) > 1:
        assert ("No cluster is rare" in said) == (not facts.rare)


def test_by_hand():
    sure, prior = np.repeat([0.95, 0.6, 0.3], [60, 30, 10]), np.array([0.6, 0.3, 0.1])
    facts = sized([60, 30, 10], confidence=sure, prior=prior)
    assert [(sentence.text, sentence.caution) for sentence in verdict(facts)] == [
        ("The 100 samples fall into 3 clusters, numbered from the largest, 0.", False),
        (
            "The clusters are of unequal size: the largest, cluster 0, has 60 samples, 6.0 times as many as "
            "the smallest, cluster 2, with 10 samples.",
            False,
        ),
        (
            "One cluster is rare, with less than half of an equal share (which is 33.3 samples): "
            "cluster 2 (10 samples, 10.0%).",
            False,
        ),
        ("The sizes that the method perceived are those of the labels.", False),
        (
            "The model is sure of 60.0% of the samples (confidence above 0.9) and in doubt about 10.0%, "
            "10 samples (below 0.5).",
            False,
        ),
        (
            "Mean confidence is below 0.7 in clusters 2 (0.30) and 1 (0.60): look at some of their samples "
            "before you rely on them.",
            True,
        ),
        ("Whether the clusters come back in other fits was not measured.", False),
        ("The samples are seen from 2 views: view_0 (2 features) and view_1 (3 features).", False),
        ("No sample lacks a view.", False),
    ]


@given(any_facts())
def test_the_headline_tells_what_was_found_and_counts_the_cautions(facts):
    said, cautions = headline(facts), sum(sentence.caution for sentence in verdict(facts))
    assert re.match(r"[\d,]+ samples? in (one|\d+) cluster", said)
    assert (f"{cautions} cautions" in said) == (cautions > 1)
    assert ("the caution below" in said) == (cautions == 1)
    assert ("speaks against" in said) == (cautions == 0)
    assert ("rare" in said) == (bool(facts.rare) and len(facts.filled) > 1)


def test_headlines_by_hand():
    facts = sized([60, 9], prior=np.array([60, 9]) / 69)
    assert headline(facts) == (
        "69 samples in 2 clusters of unequal size, one of them rare. Nothing that was measured speaks "
        "against them; whether other fits find the same was not."
    )
    assert headline(sized([60, 60], stability=stable(sized([60, 60]), 0.9))) == (
        "120 samples in 2 clusters of equal size. Other fits found the same, and nothing else speaks against "
        "them."
    )
    assert headline(sized([9])).startswith("9 samples in one cluster. Nothing")


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([5, 5], "of equal size: 5 samples each"),
        ([6, 5], "of nearly equal size"),
        ([10, 5], "of somewhat unequal size"),
        ([51, 5], "of very unequal size"),
        ([7, 0], "fall into one cluster, though 2 were asked for: cluster 1 is empty"),
        ([7, 4, 0, 0], "fall into 2 clusters, though 4 were asked for: clusters 2 and 3 are empty"),
        ([7, 4], "Cluster 1 has fewer than 5 samples, too few to be believed"),
        ([7, 1, 1], "Clusters 1 and 2 have fewer than 5 samples"),
        ([100, *[1] * 10], "10 clusters are rare"),
    ],
)
def test_sizes(sizes: list[int], said: str):
    assert said in text(sized(sizes))


def test_a_mean_just_below_the_limit_is_not_rounded_up_to_it():
    assert "in cluster 0 (0.69): look at some of its samples" in text(
        sized([5], confidence=np.full(5, 0.6999))
    )


@pytest.mark.parametrize(
    ("prior", "said", "caution"),
    [
        (
            [0.55, 0.33, 0.12],
            "differ from those of the labels by 5.0% of the samples, most for cluster 0",
            False,
        ),
        ([0.3, 0.5, 0.2], "(perceived 30.0%, labelled 60.0%), so the sizes are uncertain", True),
    ],
)
def test_perceived_sizes(prior: list[float], said: str, caution: bool):
    facts = sized([6, 3, 1], prior=np.array(prior))
    found = [sentence for sentence in verdict(facts) if said in sentence.text]
    assert [sentence.caution for sentence in found] == [caution]


def test_stability():
    facts = sized([9, 6])
    assert "came back in other fits" in text(sized([9, 6], stability=stable(facts, 0.5)))
    assert "Clusters 0 and 1 come out differently" in text(sized([9, 6], stability=stable(facts, 0.49)))
    assert "in other fits" not in text(sized([3, 2], stability=stable(sized([3, 2]), 0.9)))


def test_a_divergence_asks_for_caution():
    calm, slowed = made([0, 0, 1], 2), made([0, 0, 1], 2, slowed=("align", "rebalance 1"))
    assert "diverged" not in text(calm)
    (sentence,) = [sentence for sentence in verdict(slowed) if sentence.topic == "Training"]
    assert sentence.caution
    assert "'align' and 'rebalance 1'" in sentence.text


def test_one_view_and_missing_views():
    one = as_views([np.ones((4, 1))])
    assert "seen from one view: view_0 (1 feature). No sample lacks" in text(sized([3, 1], views=one))
    gaps = as_views([np.array([[np.nan], [1], [1], [1]]), np.ones((4, 2))])
    said = text(sized([3, 1], views=gaps))
    assert "25.0% of the samples lack at least one view; in all, 12.5% of the pairs" in said


def test_truth():
    truth = np.array([0] * 6 + [1] * 3 + [2])
    assert "90.0% of the samples are in the cluster" in text(made([0] * 6 + [1] * 4, truth=truth))
    assert "of the smallest class, 100%." in text(made([0] * 6 + [1] * 4, truth=np.repeat([0, 1], [6, 4])))
