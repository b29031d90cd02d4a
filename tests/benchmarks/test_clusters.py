"""Planted features are where they are said to be, and the records of the studies meet the stated results."""

import numpy as np
import pytest
from benchmarks import clusters
from benchmarks.records import RESULTS, read
from tests.examples import blobs

from protocol_mvc import as_views

RECORDS = read(RESULTS / "clusters.jsonl")


def test_planted_features_are_larger_in_their_group():
    views, group, planted = clusters.plant(5.0, 0)
    assert np.bincount(group).tolist() == list(clusters.SIZES)
    for (view, g), features in planted.items():
        columns = sorted(map(int, features))
        difference = views[view][group == g].mean(0) - views[view][group != g].mean(0)
        assert len(columns) == clusters.N_INFORMATIVE
        assert set(np.argsort(-difference)[: len(columns)]) == set(columns)


def test_a_class_that_was_held_out_is_told_from_the_others():
    views, truth = blobs((60, 50, 40), noise=0.5)
    found = clusters.held_out_class(as_views(views), truth, 2)
    assert found["auc"] > 0.95


@pytest.mark.skipif(not RECORDS, reason="the records are not in this copy")
def test_the_recorded_results_are_those_that_the_guide_states():
    by_study = {name: [r for r in RECORDS if r["study"] == name] for name in {r["study"] for r in RECORDS}}
    assert min(r["found"] for r in by_study["planted-markers"]) >= 0.9
    assert max(r["n_noise_markers"] for r in by_study["planted-markers"]) == 0
    assert all(rank for r in by_study["textbook-markers"] for rank in r["ranks"].values())
    for name in clusters.HELD_OUT:
        own = [r for r in by_study["unseen-class"] if r["dataset"] == name]
        assert np.mean([r["auc"] for r in own]) >= 0.95
        assert np.mean([r["known_rejected"] for r in own]) <= 0.05
