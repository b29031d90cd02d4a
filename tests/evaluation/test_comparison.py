"""References side by side: the same samples, scores without labels, times, bad input."""

from importlib.util import find_spec

import numpy as np
import pytest
from tests.examples import TINY, blobs, with_gaps

from protocol_mvc import as_views, compare
from protocol_mvc.estimators.cluster_count import prepare
from protocol_mvc.evaluation import comparison
from protocol_mvc.evaluation.comparison import METHODS, REFERENCES, Comparison, cluster
from protocol_mvc.evaluation.metrics import clustering_accuracy
from protocol_mvc.methods.protocol.config import PRESETS
from protocol_mvc.partition.graphs import ViewSpace

VIEWS, LABELS = blobs((40, 30, 20), noise=0.3)
QUICK = ("kmeans", "gmm", "ward", "spectral", "leiden", "leiden-10", "leiden-30")
needs_umap = pytest.mark.skipif(find_spec("umap") is None, reason="umap-learn is not installed")
needs_igraph = pytest.mark.skipif(find_spec("igraph") is None, reason="igraph is not installed")


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare(VIEWS, 3, QUICK)


def test_every_reference_finds_separated_groups(found):
    assert len(found.labels) == len(QUICK)
    for name, labels in found.labels.items():
        assert labels.shape == (90,)
        assert labels.dtype == np.int64
        assert clustering_accuracy(LABELS, labels) == 1, name


def test_good_clusterings_have_better_scores_than_random_ones(found):
    space = ViewSpace(prepare(as_views(VIEWS))[1], 15)
    chance = comparison.scores_without_labels(space, np.random.default_rng(0).permutation(LABELS))
    for scores in found.scores.values():
        assert scores.keys() == chance.keys() == {"modularity", "agreement", "silhouette"}
        assert all(scores[name] > chance[name] for name in scores)


def test_times_are_known_for_every_method(found):
    assert found.seconds.keys() == found.cpu_seconds.keys() == found.labels.keys()
    assert min(found.seconds.values()) > 0
    assert min(found.cpu_seconds.values()) >= 0


def test_it_prints_as_a_table_and_becomes_a_frame(found):
    header, *lines = str(found).splitlines()
    assert header.split() == ["method", "modularity", "agreement", "silhouette", "seconds", "cpu_seconds"]
    assert [line.split()[0] for line in lines] == list(found.labels)
    frame = found.to_frame()
    assert frame.index.tolist() == list(found.labels)
    assert frame.columns.tolist() == header.split()[1:]
    assert frame.loc["ward", "modularity"] == found.scores["ward"]["modularity"]


def test_protocol_is_among_the_methods(monkeypatch):
    monkeypatch.setitem(PRESETS, "default", TINY)
    found = compare(VIEWS, 3, ["ward", "protocol"], random_state=1)
    assert list(found.labels) == ["ward", "protocol"]
    assert set(found.labels["protocol"]) <= {0, 1, 2}


def test_one_seed_gives_one_result():
    noisy, _ = blobs((40, 30, 20), noise=4.0)
    first, second = (compare(noisy, 3, QUICK, random_state=7).labels for _ in range(2))
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


def test_samples_may_lack_views():
    views = with_gaps(VIEWS)
    for name, labels in compare(views, 3, QUICK).labels.items():
        assert clustering_accuracy(LABELS, labels) > 0.9, name


def test_one_view_has_no_agreement():
    (scores,) = compare(VIEWS[:1], 3, "ward").scores.values()
    assert np.isnan(scores["agreement"])
    assert scores["modularity"] > 0


@pytest.mark.parametrize("n_clusters", [2, 4])
def test_few_samples_can_be_clustered(n_clusters: int):
    found = compare([x[:5] for x in VIEWS], n_clusters, QUICK)
    assert {labels.shape for labels in found.labels.values()} == {(5,)}


@pytest.mark.parametrize("methods", [["kmeans", "magic"], "magic", [3]])
def test_an_unknown_method_is_refused_with_the_known_ones(methods):
    with pytest.raises(ValueError, match=r"^Unknown method ('magic'|3): use one of kmeans, .*protocol\.$"):
        compare(VIEWS, 3, methods)


@pytest.mark.parametrize("n_clusters", [1, 91, 2.5, "three"])
def test_an_impossible_number_of_clusters_is_refused(n_clusters):
    with pytest.raises(ValueError, match=r"n_clusters must be an integer from 2 to .* \(90\)"):
        compare(VIEWS, n_clusters, ["kmeans"])


def test_without_igraph_louvain_replaces_leiden(monkeypatch):
    monkeypatch.setattr(comparison, "find_spec", lambda name: None)
    found = compare(VIEWS, 3, ["leiden", "leiden-10"])
    assert list(found.labels) == ["louvain", "louvain-10"]
    assert clustering_accuracy(LABELS, found.labels["louvain"]) == 1


@needs_igraph
def test_leiden_leaves_the_random_module_alone():
    import random

    random.seed(5)
    expected = random.random()
    random.seed(5)
    compare(VIEWS, 3, ["leiden"])
    assert random.random() == expected


def test_umap_has_to_be_installed(monkeypatch):
    monkeypatch.setattr(comparison, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"'umap-gmm' needs umap-learn: pip install"):
        compare(VIEWS, 3, ["umap-gmm"])


@needs_umap
@pytest.mark.slow
@pytest.mark.parametrize("method", ["umap-gmm", "umap-hdbscan"])
def test_umap_finds_separated_groups(method: str):
    views = as_views(VIEWS)
    labels = cluster(method, views, prepare(views)[1], 3, 0)
    assert clustering_accuracy(LABELS, labels) > 0.9


def test_the_methods_are_the_references_and_protocol():
    assert (*REFERENCES, "protocol") == METHODS
