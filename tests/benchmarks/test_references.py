"""References predict by the nearest training sample; own classes are called as scikit-learn's."""

import numpy as np
import pytest
from benchmarks.references import Imported, Reference
from tests.examples import blobs

from protocol_mvc import as_views, compare
from protocol_mvc.data import mask_views
from protocol_mvc.evaluation import comparison

ARRAYS, LABELS = blobs(noise=0.3)
VIEWS = as_views(ARRAYS)


@pytest.mark.parametrize("method", ["kmeans", "spectral"])
def test_labels_are_those_of_compare_and_new_samples_get_those_of_their_neighbors(method: str):
    model = Reference(method, 3, 0).fit(VIEWS)
    np.testing.assert_array_equal(model.labels_, compare(VIEWS, 3, [method]).labels[method])
    moved = as_views([x[:9] + 1e-3 for x in ARRAYS])
    np.testing.assert_array_equal(model.predict(moved), model.labels_[:9])


def test_samples_may_lack_views():
    gaps = mask_views(VIEWS, 0.3)
    model = Reference("ward", 3, 0).fit(gaps)
    assert model.predict(gaps).shape == (90,)


def test_leiden_is_not_replaced_by_another_method(monkeypatch):
    monkeypatch.setattr(comparison, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="leiden-10 needs igraph: pip install"):
        Reference("leiden-10", 3, 0)


class Halves:
    """A method of one's own: samples above the mean of the first column, and the others."""

    def __init__(self, n_clusters: int, random_state: int) -> None:
        self.n_clusters = n_clusters

    def fit_predict(self, X):
        return (X[0][:, 0] > X[0][:, 0].mean()).astype(int)


def test_a_class_of_ones_own_gets_the_arrays():
    model = Imported(f"{__name__}:Halves", 2, 0).fit(VIEWS)
    np.testing.assert_array_equal(model.labels_, ARRAYS[0][:, 0] > ARRAYS[0][:, 0].mean())
