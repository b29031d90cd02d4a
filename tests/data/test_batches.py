"""Batches: every row once, of nearly equal size, scaled, and without labels."""

import tracemalloc
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array
from tests.examples import blobs, seeded, source, with_gaps

from protocol_mvc import as_views
from protocol_mvc.data.batches import BLOCK, Batch, Source
from protocol_mvc.data.scaling import fit_scalers, scaled_rows

VIEWS, _ = blobs((15, 5))


def test_a_batch_has_no_place_for_labels():
    assert Batch._fields == ("views", "rows", "present")


@given(st.integers(1, 60), st.integers(1, 70), st.integers(0, 3))
def test_an_epoch_is_a_partition_into_nearly_equal_batches(n: int, batch_size: int, seed: int):
    batches = list(source(np.arange(2.0 * n).reshape(n, 2), batch_size).shuffled(seeded(seed)))
    sizes = [len(batch.rows) for batch in batches]
    assert sorted(row for batch in batches for row in batch.rows.tolist()) == list(range(n))
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= batch_size
    assert len(sizes) == -(-n // batch_size)


def test_no_batch_is_tiny():
    assert [len(batch.rows) for batch in source(np.zeros((33, 1)), 32).shuffled(seeded())] == [17, 16]


def test_the_order_follows_the_generator():
    orders = [[batch.rows.tolist() for batch in source(VIEWS, 8).shuffled(seeded(s))] for s in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


def test_rows_carry_their_scaled_values():
    views = as_views(with_gaps(VIEWS))
    scalers = fit_scalers(views)
    for batch in source(views, 8).shuffled(seeded()):
        for v, x in enumerate(batch.views):
            assert x.dtype == torch.float32
            np.testing.assert_array_equal(x, scaled_rows(views, v, batch.rows.numpy(), scalers[v]))


@pytest.mark.parametrize("n", [1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_blocks_are_of_one_height_and_in_order(n: int):
    rows = [batch.rows for batch in source(np.arange(n, dtype=float)[:, None]).blocks()]
    assert {len(block) for block in rows} == {BLOCK}
    assert torch.equal(torch.cat(rows)[:n], torch.arange(n))
    assert bool((torch.cat(rows)[n:] == n - 1).all())


def test_complete_views_need_no_mask():
    assert all(batch.present is None for batch in source(VIEWS).shuffled(seeded()))


def test_missing_rows_are_zero_and_marked():
    views = as_views(with_gaps(VIEWS))
    assert not views.is_complete
    for batch in source(views, 8).shuffled(seeded()):
        assert batch.present is not None
        np.testing.assert_array_equal(batch.present, views.mask[batch.rows])
        for v, x in enumerate(batch.views):
            assert bool((x[~batch.present[:, v]] == 0).all())
            assert bool((x[batch.present[:, v]] != 0).any(1).all())


def test_sparse_views_give_the_batches_of_dense_ones():
    views = as_views([np.round(x) for x in VIEWS])
    scalers = fit_scalers(views)
    dense, thin = source(views, 8), source([csr_array(x) for x in views.arrays], 8)
    thin.scalers = scalers  # the same to the last bit, however they were summed
    for a, b in zip(dense.shuffled(seeded()), thin.shuffled(seeded()), strict=True):
        assert torch.equal(a.rows, b.rows)
        assert all(torch.equal(x, y) for x, y in zip(a.views, b.views, strict=True))


def test_components_are_kept_and_are_the_same_to_the_bit_when_they_are_not():
    views = as_views([x - x.min() for x in VIEWS])
    for arrays in (views.arrays, [csr_array(x) for x in views.arrays]):
        trained = source(arrays, 8)
        trained.scalers = fit_scalers(trained.views, "none", 2)
        fresh = Source(trained.views, trained.scalers, batch_size=8, device=trained.device)
        assert all(x.shape[1] == 2 for batch in trained.shuffled(seeded()) for x in batch.views)
        assert trained._scaled.keys() == {0, 1}
        for one, other in zip(trained.blocks(), fresh.blocks(), strict=True):
            assert all(torch.equal(x, y) for x, y in zip(one.views, other.views, strict=True))
        single = fresh.take(torch.tensor([7])).views
        assert all(torch.equal(x[0], trained._scaled[v][7]) for v, x in enumerate(single))


def test_a_source_is_as_long_as_its_data():
    assert len(source(VIEWS)) == 20


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 3))
def test_a_subsample_depends_on_the_seed_alone_and_small_data_are_used_whole(n: int, most: int, seed: int):
    whole = source(np.arange(2.0 * n).reshape(n, 2))
    part, again = whole.subsample(most, (seed, 0)), whole.subsample(most, (seed, 0))
    assert len(part) == min(n, most)
    assert (part is whole) == (n <= most)
    np.testing.assert_array_equal(part.views.sample_ids, again.views.sample_ids)
    assert len(set(part.views.sample_ids.tolist())) == len(part)
    rows = torch.from_numpy(part.views.sample_ids)
    assert torch.equal(part.take(torch.arange(len(part))).views[0], whole.take(rows).views[0])


def test_mapped_views_stay_on_the_disk_and_give_the_same_batches(tmp_path: Path):
    for v, x in enumerate(VIEWS):
        np.save(tmp_path / f"{v}.npy", x)
    maps = [np.load(tmp_path / f"{v}.npy", mmap_mode="r") for v in range(2)]
    mapped, held = source(maps, 8), source(VIEWS, 8)
    for one, other in zip(mapped.shuffled(seeded()), held.shuffled(seeded()), strict=True):
        assert all(torch.equal(x, y) for x, y in zip(one.views, other.views, strict=True))
    assert mapped._scaled == {}
    assert held._scaled.keys() == {0, 1}


@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_cycle_passes_over_all_rows_again_and_again(size: int):
    rows = torch.tensor([1, 4, 9, 11, 13])
    batches = list(islice(source(VIEWS, size).cycle(rows, seeded()), 12))
    seen = torch.cat([batch.rows for batch in batches])
    assert max(len(batch.rows) for batch in batches) == min(size, 5)
    for first in range(0, len(seen) - 5, 5):  # every order has all of them
        assert sorted(seen[first : first + 5].tolist()) == rows.tolist()
    assert torch.equal(batches[0].views[0], source(VIEWS).take(batches[0].rows).views[0])


@pytest.mark.parametrize("most", [1, 5, 100])
def test_a_sample_is_random_rows_with_their_data(most: int):
    data = source(VIEWS)
    rows, views = data.sample(most, seed=3)
    assert len(rows) == len(np.unique(rows)) == min(most, len(data))
    for x, y in zip(views, data.take(torch.from_numpy(rows)).views, strict=True):
        np.testing.assert_array_equal(x, y.numpy())
    np.testing.assert_array_equal(rows, data.sample(most, seed=3)[0])
    assert (data.sample(100, seed=4)[0] != data.sample(100, seed=3)[0]).any()


def test_wide_sparse_features_are_never_dense_for_all_samples_at_once():
    x = random_array((3000, 4000), density=1e-3, rng=np.random.default_rng(0), format="csr")
    batches = source([x, np.ones((3000, 2)) * np.arange(3000)[:, None]])
    tracemalloc.start()
    wide, narrow = batches.compact_views()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (wide.shape, narrow.shape) == ((3000, 50), (3000, 2))
    assert peak < 3000 * 4000 * 4 / 2
    np.testing.assert_array_equal(narrow, batches.take(torch.arange(3000)).views[1].numpy())
