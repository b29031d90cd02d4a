"""Sums over the samples do not depend on storage, chunks or processes."""

import dataclasses
import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.transport.problems import few, in_threads, numbers, positive, predictions, problem, samples, seeds

from protocol_mvc.transport.chunks import CHUNK_ENTRIES, Samples, _all_reduce_logsumexp, as_tensor, row_chunks

partial = st.sampled_from([0.4, 1.0])
STORAGES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def full_logits(p, log_p, g):
    logits = log_p.double() + g[: log_p.shape[1]]
    virtual = [g[-1].expand(len(log_p), 1)] if p.virtual_mass else []
    return torch.cat([logits, *virtual], 1) / p.epsilon


def potentials(p, seed):
    return 0.3 * torch.randn(len(p.column_target), dtype=torch.float64, generator=numbers(seed + 3))


@given(seeds, partial)
@few
def test_the_sums_are_masses_logs_and_products(seed, mass):
    p, log_p = problem(seed, mass=mass), predictions(seed)
    g, r = potentials(p, seed), positive(seed, 9) / positive(seed, 9).sum()
    sums = Samples(row_chunks(log_p, 4), r, lambda x: x).sums(p, g, True)
    logits = full_logits(p, log_p, g)
    split = logits.softmax(1)
    torch.testing.assert_close(sums.mass, r @ split)
    torch.testing.assert_close(sums.log_mass, (r @ split).log())
    torch.testing.assert_close(sums.cluster_lse, logits[:, :4].logsumexp(1))
    assert sums.lse == pytest.approx(float(r @ logits.logsumexp(1)))
    assert sums.gram is not None
    torch.testing.assert_close(sums.gram, torch.einsum("i,ij,ik->jk", r, split, split))


def test_the_gram_matrix_is_computed_on_demand_alone():
    assert samples(predictions(0)).sums(problem(0), torch.zeros(5, dtype=torch.float64)).gram is None


@given(seeds, partial, st.sampled_from([1, 2, 7, 9, 100]))
@few
def test_sums_do_not_depend_on_the_chunks(seed, mass, rows):
    p, log_p = problem(seed, mass=mass), predictions(seed)
    g = potentials(p, seed)
    whole, cut = samples(log_p).sums(p, g, True), samples(log_p, rows).sums(p, g, True)
    for field in ("mass", "log_mass", "lse", "cluster_lse"):
        torch.testing.assert_close(getattr(whole, field), getattr(cut, field), rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(whole.gram, cut.gram, rtol=1e-6, atol=0)  # in single precision


@given(seeds, partial, st.integers(1, 8))
@few
def test_sums_do_not_depend_on_the_processes(seed, mass, cut):
    p, log_p = problem(seed, mass=mass), predictions(seed)
    g = potentials(p, seed)
    whole = samples(log_p).sums(p, g, True)
    first, second = in_threads(
        [log_p[:cut], log_p[cut:]],
        lambda part, all_reduce: samples(part, all_reduce=all_reduce, total=9).sums(p, g, True),
    )
    torch.testing.assert_close(first.mass, whole.mass, rtol=1e-13, atol=0)
    torch.testing.assert_close(first.gram, whole.gram, rtol=1e-6, atol=0)
    assert first.lse == second.lse == pytest.approx(whole.lse, rel=1e-13)
    torch.testing.assert_close(torch.cat([first.cluster_lse, second.cluster_lse]), whole.cluster_lse)


@pytest.mark.parametrize("depth", [50.0, 1e3, 1e6])
@pytest.mark.parametrize("rows", [1, 4, 9])
def test_logs_of_masses_are_right_far_below_the_smallest_number(depth, rows):
    p, log_p = problem(0), predictions(0)
    log_p[:, 1] -= depth
    g = torch.zeros(5, dtype=torch.float64)
    sums = samples(log_p, rows).sums(p, g)
    exact = (full_logits(p, log_p, g).log_softmax(1) - math.log(9)).logsumexp(0)
    assert depth < 100 or sums.mass[1] == 0
    torch.testing.assert_close(sums.log_mass, exact, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("depth", [100.0, 3e3, 1e9, math.inf])
@pytest.mark.parametrize("processes", [2, 3])
def test_logs_of_masses_are_right_where_processes_differ_much(depth, processes):
    p, log_p = problem(0), predictions(0)
    log_p[:, 1] -= 200
    log_p[:3, 1] -= depth
    g = torch.zeros(5, dtype=torch.float64)
    whole = samples(log_p).sums(p, g).log_mass
    for sums in in_threads(
        log_p.chunk(processes),
        lambda part, all_reduce: samples(part, all_reduce=all_reduce, total=9).sums(p, g),
    ):
        torch.testing.assert_close(sums.log_mass, whole, rtol=1e-12, atol=1e-12)


@given(
    st.integers(2, 4),
    st.lists(st.sampled_from([0.0, -1.0, -400.0, -1e3, -1e6, -1e30]), min_size=8, max_size=8),
)
@few
def test_the_log_of_a_sum_over_processes_is_found_from_sums_alone(processes, logs):
    """The first column is the same everywhere, where there is nothing to scale by."""
    parts = torch.tensor([-500.0, *logs], dtype=torch.float64)[: 2 * processes + 1]
    rows = [torch.stack([parts[0], *pair]) for pair in parts[1:].split(2)]
    expected = torch.stack(rows).logsumexp(0)
    for found in in_threads(rows, _all_reduce_logsumexp):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_cluster_lse_is_precise_next_to_a_large_virtual_column():
    p, log_p = problem(0), predictions(0)
    g = torch.tensor([0.0, 0.0, 0.0, 0.0, 900.0], dtype=torch.float64)
    real = (log_p / p.epsilon).logsumexp(1)
    torch.testing.assert_close(samples(log_p).sums(p, g).cluster_lse, real)


@given(seeds)
@few
def test_a_corrected_plan_differs_in_the_virtual_column_alone(seed):
    p, log_p, s = problem(seed), predictions(seed), 0.3
    g = potentials(p, seed)
    real = (log_p + g[:4]) / p.epsilon
    new, old = (
        torch.cat([real, torch.full_like(real[:, :1], virtual)], 1).softmax(1)
        for virtual in (s, float(g[4]) / p.epsilon)
    )
    mass, divergence = samples(log_p, 2).corrected_plan(p, g, s)
    torch.testing.assert_close(mass, new[:, :4].mean(0))
    assert divergence == pytest.approx(float((new * (new / old).log()).sum(1).mean()), abs=1e-12)


@pytest.mark.parametrize("storage", STORAGES, ids=str)
def test_sums_are_in_double_precision_whatever_the_storage(storage):
    p, stored = problem(0), predictions(0).to(storage)
    g = potentials(p, 0)
    torch.testing.assert_close(
        samples(stored).sums(p, g).mass, samples(stored.double()).sums(p, g).mass, rtol=0, atol=0
    )


@pytest.mark.parametrize("rows", [1, 4, 9, 20])
def test_chunks_make_up_the_matrix(rows):
    log_p = predictions(0)
    chunks = list(row_chunks(log_p, rows)())
    assert [len(chunk) for chunk in chunks[:-1]] == [rows] * (len(chunks) - 1)
    torch.testing.assert_close(torch.cat(chunks), log_p)


@pytest.mark.parametrize("k", [1, 1000, 2 * CHUNK_ENTRIES])
def test_default_chunks_are_of_bounded_size_and_not_empty(k):
    first = next(row_chunks(torch.zeros(1, 1).expand(CHUNK_ENTRIES + 1, k), None)())
    assert len(first) == max(1, CHUNK_ENTRIES // k)


def test_a_read_only_memory_map_is_read_chunk_by_chunk(tmp_path):
    values = predictions(0).numpy().astype(np.float32)
    values.tofile(tmp_path / "log_p")
    mapped = np.memmap(tmp_path / "log_p", np.float32, "r", shape=values.shape)
    np.testing.assert_array_equal(torch.cat(list(row_chunks(mapped, 2)())), values)


def test_other_types_are_refused():
    with pytest.raises(ValueError, match=r"log_p.*list"):
        row_chunks([[0.0, 0.0]], None)


def test_a_callable_makes_its_own_chunks_each_time():
    log_p, calls = predictions(0), []

    def factory():
        calls.append(1)
        return iter([log_p[:2].numpy(), log_p[2:]])

    chunks = row_chunks(factory, None)
    for _ in range(2):
        torch.testing.assert_close(torch.cat(list(chunks())), log_p)
    assert len(calls) == 2


def test_chunks_stay_on_their_device():
    assert as_tensor(torch.zeros(2, 3, device="meta")).device.type == "meta"


def test_chunks_have_no_gradient():
    assert not as_tensor(predictions(0).requires_grad_()).requires_grad


def test_a_change_of_the_number_of_rows_is_refused():
    log_p = predictions(0)
    changed = Samples(lambda: iter([log_p[:5]]), torch.full((9,), 1 / 9, dtype=torch.float64), lambda x: x)
    with pytest.raises(ValueError, match=r"5 rows.*9"):
        changed.sums(problem(0), torch.zeros(5, dtype=torch.float64))


def test_the_samples_are_not_written_to():
    p, log_p = problem(0), predictions(0)
    before = log_p.clone()
    s = samples(log_p)
    s.sums(p, potentials(p, 0), True)
    s.corrected_plan(p, potentials(p, 0), 0.5)
    assert torch.equal(log_p, before)


@pytest.mark.parametrize("shape", [(), (5,), (0,), (0, 3), (3, 0), (2, 2, 2)], ids=str)
def test_other_shapes_are_refused(shape: tuple[int, ...]):
    with pytest.raises(ValueError, match=rf"non-empty \(n, k\) matrix, got shape {re.escape(str(shape))}"):
        row_chunks(torch.zeros(shape), None)


def test_samples_are_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        samples(predictions(0)).weight = torch.ones(9)  # type: ignore[misc]


@pytest.mark.parametrize(("depth", "passes"), [(0.0, 1), (1e6, 2)])
def test_only_masses_that_underflow_need_a_second_pass(depth: float, passes: int):
    p, log_p, calls = problem(0), predictions(0), []
    log_p[:, 1] -= depth

    def chunks():
        calls.append(1)
        return iter([log_p])

    counted = Samples(chunks, torch.full((9,), 1 / 9, dtype=torch.float64), lambda x: x)
    assert counted.sums(p, potentials(p, 0)).log_mass.isfinite().all()
    assert len(calls) == passes
