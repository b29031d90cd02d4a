"""Views are hidden at random, but never all of a sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import blobs, with_gaps

from protocol_mvc.data import as_views, mask_views

VIEWS = as_views(blobs(dims=(3, 2, 4))[0])
GAPS = as_views(with_gaps(blobs(dims=(3, 2, 4))[0]))


@given(st.floats(0, 1), st.integers(0, 99))
def test_every_sample_keeps_a_view_that_it_had(share: float, seed: int):
    for views in (VIEWS, GAPS):
        hidden = mask_views(views, share, seed)
        assert hidden.mask.any(1).all()
        assert not (hidden.mask & ~views.mask).any()


def test_the_share_is_about_what_was_asked_for():
    assert 1 - mask_views(VIEWS, 0.3).mask.mean() == pytest.approx(0.3, abs=0.06)
    assert mask_views(VIEWS, 0.0).is_complete
    assert mask_views(VIEWS, 1.0).mask.sum(1).tolist() == [1] * 90


def test_the_seed_decides_and_values_stay():
    a, b, c = (mask_views(VIEWS, 0.3, seed) for seed in (0, 0, 1))
    assert np.array_equal(a.mask, b.mask)
    assert not np.array_equal(a.mask, c.mask)
    assert a.arrays is VIEWS.arrays
    assert a.to_dense(0)[~a.mask[:, 0]].sum() == 0


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_other_shares_are_refused(share: float):
    with pytest.raises(ValueError, match="from 0 to 1"):
        mask_views(VIEWS, share)
