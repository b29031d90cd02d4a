"""Facts are those of the model, and data that do not belong to it are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from tests.examples import blobs, tiny, with_gaps
from tests.report.factories import facts_of_sizes, make_facts, make_stability

from protocol_mvc import Stability, as_views
from protocol_mvc.report.facts import collect_facts

VIEWS, LABELS_TRUE = blobs()
MODEL = tiny().fit(VIEWS)
LABELS = st.lists(st.integers(0, 9), min_size=1, max_size=60)


def test_facts_are_those_of_the_model():
    facts = collect_facts(MODEL, VIEWS, labels_true=LABELS_TRUE, source="a file")
    proba = MODEL.predict_proba(VIEWS)
    np.testing.assert_array_equal(facts.cluster_sizes, MODEL.cluster_sizes_)
    np.testing.assert_allclose(facts.confidence, proba.max(1))
    np.testing.assert_array_equal(facts.second_choice, np.argsort(-proba, axis=1)[:, 1])
    assert facts.sample_ids == [str(i) for i in range(90)]
    assert facts.source == "a file"


@pytest.mark.parametrize("X", [with_gaps(VIEWS), {"a": VIEWS[0]}, as_views(VIEWS)])
def test_views_in_any_container(X):
    assert collect_facts(tiny().fit(X), X).n_samples == 90


def test_columns_of_one_table_are_split_as_in_fit():
    table = np.hstack(VIEWS)
    facts = collect_facts(tiny(view_columns=[(0, 5), (5, 9)]).fit(table), table)
    assert facts.views.n_features == (5, 4)


@given(LABELS)
def test_groups_of_clusters_match_their_definitions(labels):
    facts = make_facts(labels, 10)
    found, sizes = facts.nonempty_clusters, facts.cluster_sizes
    assert sorted(found + facts.empty_clusters) == list(range(10))
    assert np.all(np.diff(sizes[found]) <= 0)
    assert all(2 * sizes[c] * len(found) < facts.n_samples for c in facts.rare_clusters)
    assert all(0 < sizes[c] < 5 for c in facts.tiny_clusters)
    assert np.isnan(facts.mean_confidence[facts.empty_clusters]).all()


def test_low_confidence_and_unstable_clusters_by_hand():
    confidence = np.repeat([0.9, 0.5, 0.6], [6, 5, 5])
    stability = make_stability([0.4, 0.9, 0.6, 0.0], 16)
    facts = facts_of_sizes([6, 5, 5, 0], confidence=confidence, stability=stability)
    assert facts.low_confidence_clusters == [1, 2]
    assert facts.unstable_clusters == [0]
    assert facts_of_sizes([6, 5]).unstable_clusters == []


def test_stages_at_a_reduced_learning_rate_have_diverged():
    model = tiny().fit(VIEWS)
    assert collect_facts(model, VIEWS).diverged_stages == ()
    model.history_[-1]["lr_factor"] = 0.1
    assert collect_facts(model, VIEWS).diverged_stages == (model.history_[-1]["stage"],)


def test_values_of_mixed_types_become_text():
    mixed = np.array([None, "a", 1] * 30, dtype=object)
    facts = collect_facts(MODEL, VIEWS, labels_true=mixed, sample_ids=[b"x", 1, None] * 30)
    assert facts.labels_true is not None
    assert set(facts.labels_true) == {"None", "a", "1"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels_true": LABELS_TRUE[:-1]}, "90 .*labels_true.* 89"),
        ({"sample_ids": ["a"]}, "90 .*sample_ids.* 1"),
        ({"labels_true": LABELS_TRUE[:, None]}, "labels_true .*2 dimensions"),
        ({"stability": Stability(np.ones(3), np.ones(5), [])}, "90 .*stability.* 5"),
        ({"stability": Stability(np.ones(4), np.ones(90), [])}, "3 clusters, stability.* 4"),
    ],
)
def test_arguments_of_another_length_are_refused(given, message: str):
    with pytest.raises(ValueError, match=message):
        collect_facts(MODEL, VIEWS, **given)


def test_other_data_and_unfitted_models_are_refused():
    with pytest.raises(ValueError, match=r"90 .*X has 10"):
        collect_facts(MODEL, [view[:10] for view in VIEWS])
    with pytest.raises(ValueError, match="same order"):
        collect_facts(MODEL, [view[::-1] for view in VIEWS])
    with pytest.raises(NotFittedError):
        collect_facts(tiny(), VIEWS)
