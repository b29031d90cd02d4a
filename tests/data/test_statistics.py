"""Statistics in chunks equal statistics at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from protocol_mvc.data import checks
from protocol_mvc.data.statistics import column_moments, column_sum, profile
from protocol_mvc.data.views import as_views

tables = arrays(np.float64, (7, 3), elements=st.integers(-5, 5).map(float))


@pytest.fixture(autouse=True, scope="module")
def _small_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "CHUNK_BYTES", 50)
        yield


@pytest.mark.parametrize("make", [np.asarray, csr_array])
@given(x=tables)
def test_chunked_equals_whole(make, x):
    views = as_views([make(x)])
    stats = profile(views, 0)
    mean, deviation = column_moments(views, 0, stats)
    np.testing.assert_array_equal((stats.low, stats.high), (x.min(0), x.max(0)))
    np.testing.assert_allclose(mean * stats.peak, x.mean(0), atol=1e-12)
    np.testing.assert_allclose(deviation * stats.peak, x.std(0), atol=1e-12)
    np.testing.assert_array_equal(column_sum(views, 0, lambda v, _: 1.0 * (v > 0)), (x > 0).sum(0))
    assert stats.zeros == pytest.approx((x == 0).mean())
    assert stats.integral


@given(x=tables, missing=st.sets(st.integers(0, 6), max_size=6))
def test_missing_rows_count_for_nothing(x, missing):
    holed = x.copy()
    holed[list(missing)] = np.nan
    views = as_views([holed, np.ones((7, 1))])
    kept = as_views(np.delete(x, list(missing), axis=0))
    for one, two in zip(profile(views, 0), profile(kept, 0), strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_view_that_nobody_has():
    stats = profile(as_views([np.full((2, 3), np.nan), np.ones((2, 1))]), 0)
    assert stats.n == 0
    assert stats.low.tolist() == [0, 0, 0]


def test_halves_are_no_integers():
    assert not profile(as_views([[0.5, 1.0]]), 0).integral
