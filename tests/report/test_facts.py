"""What is counted, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from tests.examples import blobs, tiny, with_gaps
from tests.report.made import made, sized

from protocol_mvc import Stability, as_views
from protocol_mvc.report.facts import collect_facts

VIEWS, TRUTH = blobs()
MODEL = tiny().fit(VIEWS)
LABELS = st.lists(st.integers(0, 9), min_size=1, max_size=60)


def test_the_facts_are_those_of_the_model():
    facts = collect_facts(MODEL, VIEWS, truth=TRUTH, source="a file")
    proba = MODEL.predict_proba(VIEWS)
    np.testing.assert_array_equal(facts.sizes, MODEL.cluster_sizes_)
    np.testing.assert_allclose(facts.confidence, proba.max(1))
    np.testing.assert_array_equal(facts.runner_up, np.argsort(-proba, axis=1)[:, 1])
    assert facts.ids == [str(i) for i in range(90)]
    assert facts.source == "a file"


@pytest.mark.parametrize("X", [with_gaps(VIEWS), {"a": VIEWS[0]}, as_views(VIEWS)])
def test_views_of_any_kind_are_taken(X):
    assert collect_facts(tiny().fit(X), X).n == 90


def test_the_columns_of_one_table_are_split_as_in_the_fit():
    table = np.hstack(VIEWS)
    facts = collect_facts(tiny(view_columns=[(0, 5), (5, 9)]).fit(table), table)
    assert facts.views.n_features == (5, 4)


@given(LABELS)
def test_every_cluster_is_filled_or_empty_and_the_kinds_mean_what_they_say(labels):
    facts = made(labels, 10)
    assert sorted(facts.filled + facts.empty) == list(range(10))
    assert np.all(np.diff(facts.sizes[facts.filled]) <= 0)
    assert all(2 * facts.sizes[c] * len(facts.filled) < facts.n for c in facts.rare)
    assert all(0 < facts.sizes[c] < 5 for c in facts.tiny)
    assert facts.filled[len(facts.filled) - len(facts.smallest_third) :] == facts.smallest_third
    assert max(len(facts.filled) // 3, 1) == len(facts.smallest_third)
    assert np.isnan(facts.mean_confidence[facts.empty]).all()


def test_doubtful_and_loose_clusters_by_hand():
    sure = np.repeat([0.9, 0.5, 0.6], [6, 5, 5])
    stable = Stability(np.array([0.4, 0.9, 0.6, 0.0]), np.ones(16), [])
    facts = sized([6, 5, 5, 0], confidence=sure, stability=stable)
    assert facts.doubtful == [1, 2]
    assert facts.loose == [0]
    assert sized([6, 5]).loose == []


def test_mixed_values_become_text():
    facts = collect_facts(
        MODEL, VIEWS, truth=np.array([None, "a", 1] * 30, dtype=object), ids=[b"x", 1, None] * 30
    )
    assert facts.truth is not None
    assert set(facts.truth) == {"None", "a", "1"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"truth": TRUTH[:-1]}, "fitted to 90 samples, truth has 89"),
        ({"ids": ["a"]}, "fitted to 90 samples, ids has 1"),
        ({"truth": TRUTH[:, None]}, "truth has 2 dimensions"),
        ({"stability": Stability(np.ones(3), np.ones(5), [])}, "stability has 5"),
        ({"stability": Stability(np.ones(4), np.ones(90), [])}, "of 4 clusters, the model has 3"),
    ],
)
def test_what_does_not_fit_is_refused(given, message: str):
    with pytest.raises(ValueError, match=message):
        collect_facts(MODEL, VIEWS, **given)


def test_other_data_and_models_without_a_fit_are_refused():
    with pytest.raises(ValueError, match="fitted to 90 samples, X has 10"):
        collect_facts(MODEL, [view[:10] for view in VIEWS])
    with pytest.raises(ValueError, match="in the same order"):
        collect_facts(MODEL, [view[::-1] for view in VIEWS])
    with pytest.raises(NotFittedError):
        collect_facts(tiny(), VIEWS)
