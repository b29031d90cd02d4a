"""Missing views are taken from samples that are alike in the others."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import blobs, source, with_gaps
from torch import Tensor

from protocol_mvc.methods.imputation import NO_DONOR, impute_from_donors, nearest_donors


def features(seed: int, n: int = 12, n_views: int = 3) -> list[Tensor]:
    return list(torch.randn(n_views, n, 4, generator=torch.Generator().manual_seed(seed)))


def masks(n: int = 12, n_views: int = 3):
    row = st.lists(st.booleans(), min_size=n_views, max_size=n_views).filter(any)
    return st.lists(row, min_size=n - 1, max_size=n - 1).map(lambda rows: [*rows, [True] * n_views])


def expected(x: list[Tensor], mask: list[list[bool]], i: int, v: int, count: int) -> list[int]:
    """One sample and view after the other."""
    found: list[int] = []
    for w in range(len(x)):
        if not mask[i][w]:
            continue
        givers = [j for j in range(len(mask)) if mask[j][v] and mask[j][w]]
        alike = sorted(givers, key=lambda j: -float(x[w][i] @ x[w][j]))
        found += alike[: 1 if found else count]
    return found


@settings(max_examples=30)
@given(st.integers(0, 1000), masks(), st.integers(1, 4))
def test_donors_are_those_of_the_loop(seed: int, mask: list[list[bool]], count: int):
    x = features(seed)
    donors = nearest_donors(x, torch.tensor(mask), count)
    assert donors.shape == (12, 3, count + 1)
    for i in range(12):
        for v in range(3):
            here = [j for j in donors[i, v].tolist() if j != NO_DONOR]
            assert here == ([] if mask[i][v] else expected(x, mask, i, v, count))


def test_filled_views_are_means_of_donors_and_others_stay():
    data = source(with_gaps(blobs()[0]))
    x = [data.take(torch.arange(90)).views[v] for v in range(2)]
    donors = nearest_donors(x, torch.from_numpy(data.views.mask), 3)
    rows = torch.arange(40)
    batch = impute_from_donors(data, data.take(rows), donors)
    assert batch.present is None
    for v in range(2):
        for i in rows.tolist():
            own = x[v][i] if data.views.mask[i, v] else x[v][donors[i, v]].mean(0)
            np.testing.assert_allclose(batch.views[v][i], own, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_is_missing(count: int):
    donors = nearest_donors(features(0, n_views=1), torch.ones(12, 1, dtype=torch.bool), count)
    assert (donors == NO_DONOR).all()
