"""Every rare cluster is told of once, the smallest first, with what speaks against it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.report.made import made, sized

from protocol_mvc import Stability
from protocol_mvc.report.rare import TYPICAL, rare_rows

LABELS = st.lists(st.integers(0, 7), min_size=1, max_size=60)


@given(LABELS)
def test_they_are_the_rare_ones_or_else_the_smallest_third(labels):
    facts = made(labels, 8)
    rows = rare_rows(facts, np.full((2, 8), 0.7))
    assert [row.cluster.number for row in rows] == (facts.rare or facts.smallest_third)[::-1]
    for row in rows:
        own = {facts.ids[i] for i in np.flatnonzero(facts.labels == row.cluster.number)}
        assert set(row.typical) <= own
        assert len(row.typical) == min(TYPICAL, row.cluster.size)
        assert row.rival is None or facts.sizes[row.rival] > 0
        assert 0 <= row.rival_share <= 1
        assert row.caution == (row.cluster.number in facts.tiny)


def test_the_smallest_come_first_with_their_best_view():
    chances = np.array([[0.9, 0.8, 0.7, np.nan], [0.5, 0.9, np.nan, np.nan]])
    rows = rare_rows(sized([9, 7, 5, 1]), chances)
    assert [(row.cluster.number, row.view, row.chance) for row in rows] == [(3, None, None)]
    (row,) = rare_rows(sized([9, 7]), chances[:, :2])
    assert (row.cluster.number, row.view, row.chance, row.chances) == (1, "view_1", 0.9, [0.8, 0.9])


def test_what_speaks_against_a_cluster():
    sure, chances = np.repeat([0.9, 0.6, 0.9, 0.95], [60, 9, 8, 4]), np.full((2, 4), 0.9)
    overlap = Stability(np.array([0.9, 0.9, 0.4, 0.9]), np.ones(81), [])
    said = [
        row.judgement for row in rare_rows(sized([60, 9, 8, 4], confidence=sure, stability=overlap), chances)
    ]
    assert said == [
        "It has fewer than 5 samples, too few to be believed.",
        "It comes out differently in other fits.",
        "The model is not sure of it.",
    ]


def test_what_speaks_for_a_cluster():
    chances = np.full((2, 2), 0.9)
    (plain,) = rare_rows(sized([60, 9]), chances)
    (again,) = rare_rows(sized([60, 9], stability=Stability(np.ones(2), np.ones(69), [])), chances)
    assert "was not measured" in plain.judgement
    assert "other fits find it again" in again.judgement
    assert (plain.caution, again.caution) == (False, False)


def test_the_surest_samples_are_typical_and_the_next_likely_cluster_is_the_rival():
    sure = np.r_[np.full(60, 0.9), 0.8, 0.99, 0.7, 0.9, 0.95]
    facts = sized([60, 5], confidence=sure, runner_up=np.zeros(65, dtype=np.int64))
    (row,) = rare_rows(facts, np.full((2, 2), 0.9))
    assert row.typical == ["61", "64", "63"]
    assert (row.rival, row.rival_share) == (0, 1.0)
