"""Every sample and cluster is counted once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import blobs, tiny
from tests.report.factories import make_facts

from protocol_mvc.evaluation.explanation import explain
from protocol_mvc.report.facts import collect_facts
from protocol_mvc.report.page import N_BINS, N_MARKERS, cluster_rows, confidence_histogram, described_clusters

LABELS = st.lists(st.integers(0, 7), min_size=1, max_size=60)


@given(LABELS)
def test_every_cluster_has_a_row(labels):
    facts = make_facts(labels, 8)
    rows = cluster_rows(facts)
    assert [row["cluster"] for row in rows] == list(range(8))
    assert sum(row["size"] for row in rows) == len(labels)
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert all(np.isnan(row["confidence"]) == (row["size"] == 0) for row in rows)
    assert [row["cluster"] for row in described_clusters(facts)] == sorted(facts.nonempty_clusters)


@given(LABELS, st.integers(0, 99))
def test_the_histogram_counts_every_sample_once(labels, seed):
    confidence = np.random.default_rng(seed).choice([0, 0.1, 0.5, 0.99, 1.0], len(labels))
    counts = np.array(confidence_histogram(make_facts(labels, 8, confidence=confidence)))
    assert (len(counts), counts.sum()) == (N_BINS, len(labels))
    assert counts[-1] == np.sum(confidence >= 0.9)


def test_clusters_are_described_by_their_own_markers_and_samples():
    views, _ = blobs((30, 12, 8), noise=0.2)
    X = {"image": views[0], "text": views[1]}
    model = tiny().fit(X)
    facts = collect_facts(model, X)
    facts.explanation = explain(model, X)
    found = facts.explanation.markers
    for row in described_clusters(facts):
        members = set(np.flatnonzero(facts.labels == row["cluster"]).tolist())
        assert set(row["exemplars"].typical) <= members
        for view, features in row["markers"]:
            own = (found.cluster == row["cluster"]) & (found.view == view)
            assert [name for name, _, _ in features] == found.feature[own][:N_MARKERS].tolist()
