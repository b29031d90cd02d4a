"""The public suggestion takes what estimators take, and refuses bounds that make no sense."""

import numpy as np
import pytest
from tests.examples import blobs, overlapping_groups

from protocol_mvc import ClusterCountSuggestion, as_views, suggest_n_clusters
from protocol_mvc.estimators import cluster_count


def test_groups_of_raw_data_are_found():
    views, truth = blobs((80, 40, 15), dims=(8, 6), seed=1)
    found = suggest_n_clusters(views)
    assert isinstance(found, ClusterCountSuggestion)
    assert found.n_clusters == len(set(truth))
    assert found.path[2].sizes == (80, 40, 15)


def test_samples_may_lack_views():
    views, _ = blobs((80, 40, 15), dims=(8, 6), seed=1)
    views[1][:10] = np.nan
    assert suggest_n_clusters(views).n_clusters == 3


def test_groups_that_overlap_are_counted_in_the_samples_that_have_all_views():
    """Imputed rows depend on the other views, so that they say nothing about the groups."""
    views, truth = overlapping_groups((900, 600, 400, 200), n_views=2, seed=0)
    views[1][::5] = np.nan
    found = suggest_n_clusters(views)
    assert found.rank is not None
    assert found.rank.n_clusters == len(set(truth))
    assert found.low <= len(set(truth)) <= found.high


def test_large_data_are_subsampled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster_count, "MAX_SAMPLES", 90)
    views, _ = blobs((80, 70), dims=(8, 6), seed=1)
    found = suggest_n_clusters(as_views(views))
    assert found.path[0].sizes == (90,)
    assert found.n_clusters == 2


@pytest.mark.parametrize("bounds", [(0, 5), (6, 5), (2.0, 5), ("2", 5), (1, None)])
def test_bounds_out_of_order_are_refused(bounds):
    low, high = bounds
    with pytest.raises(ValueError, match="min_clusters"):
        suggest_n_clusters(blobs()[0], min_clusters=low, max_clusters=high)
