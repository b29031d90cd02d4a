"""Reference methods: K-means of concatenated views, K-means of the best view, spectral clustering."""

import numpy as np
from benchmarks.classical import (
    BestViewKMeans,
    ViewKMeans,
    ViewSpectral,
    concatenate_views,
    neighbor_graph,
)
from scipy.sparse import issparse
from tests.examples import blobs

from protocol_mvc.data import as_views
from protocol_mvc.evaluation.metrics import clustering_accuracy
from protocol_mvc.partition.graphs import kmeans

ARRAYS, LABELS = blobs()
VIEWS = as_views(ARRAYS)


def test_the_best_view_is_at_least_as_good_as_each():
    best = clustering_accuracy(LABELS, BestViewKMeans(3, 0).fit(VIEWS, LABELS).labels_)
    for v in range(2):
        assert best >= clustering_accuracy(LABELS, ViewKMeans(3, 0, [v]).fit(VIEWS).labels_)


def test_one_view_alone_is_plain_kmeans():
    model = ViewKMeans(3, 0, [1]).fit(VIEWS)
    x = concatenate_views(VIEWS, model.scalers_, [1])
    np.testing.assert_array_equal(model.labels_, kmeans(x, 3, 0))
    assert x.shape == (90, 4)


def test_new_samples_are_scaled_like_the_training_samples():
    scalers = ViewKMeans(3, 0).fit(VIEWS).scalers_
    np.testing.assert_array_equal(
        concatenate_views(VIEWS[:2], scalers), concatenate_views(VIEWS, scalers)[:2]
    )


def test_an_empty_cluster_is_never_predicted():
    points = as_views([np.repeat([[0.0, 1.0], [5.0, 2.0]], 5, axis=0)])
    model = ViewKMeans(3, 0).fit(points)
    assert len(np.unique(model.labels_)) == 2
    np.testing.assert_array_equal(model.predict(points), model.labels_)


def test_spectral_clustering_finds_separated_groups():
    views, labels = blobs((30, 20, 10), noise=0.1)
    model = ViewSpectral(3, 0).fit(as_views(views))
    assert clustering_accuracy(labels, model.labels_) == 1
    moved = as_views([x + 1e-3 for x in views])
    np.testing.assert_array_equal(model.predict(moved), model.labels_)


def test_neighbor_graphs_are_sparse_and_symmetric():
    found = neighbor_graph(np.arange(40, dtype=np.float32)[:, None] ** 1.1)
    assert issparse(found)
    dense = found.toarray()
    np.testing.assert_array_equal(dense, dense.T)
    assert dense[0, 1] == 1
    assert dense[0, -1] == dense[0, 0] == 0
    assert set(np.unique(dense)) == {0, 0.5, 1}


def test_few_samples_have_few_neighbors():
    views = as_views([x[:4] for x in ARRAYS])
    assert ViewSpectral(2, 0).fit(views).labels_.shape == (4,)
