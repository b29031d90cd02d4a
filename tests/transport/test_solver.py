"""The optimal plan: feasible, optimal, equal to that of other solvers, and finite in hard cases."""

import doctest
import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import ot
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.transport.problems import (
    dual,
    few,
    in_threads,
    kkt_error,
    knobs,
    long_tailed,
    masses,
    methods,
    positive,
    predictions,
    primal,
    seeds,
    sizes,
    wild,
    with_virtual,
)
from torch import Tensor

from protocol_mvc.transport import Transport, solve
from protocol_mvc.transport.chunks import Samples
from protocol_mvc.transport.solver import MAX_CLUSTERS_NEWTON

METHODS = ["newton", "anderson", "scaling"]
PAGE = Path(__file__).parents[2] / "docs" / "transport.md"
gentle = st.fixed_dictionaries(  # scaling gets there in some hundred passes
    {
        "mass": st.sampled_from([0.4, 0.8, 1.0]),
        "epsilon": st.sampled_from([0.1, 0.5]),
        "prior_strength": st.sampled_from([0.1, 1.0]),
    }
)


def close(one: Tensor, other: Tensor, atol: float) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=atol)


# Laws of the plan


@given(seeds, sizes, masses, knobs, methods)
@few
def test_plans_are_feasible(seed, size, mass, knob, method):
    log_p = predictions(seed, *size)
    t = solve(log_p, mass=mass, method=method, **knob)
    plan = t.plan(log_p)
    assert t.converged
    assert (plan >= 0).all()
    assert (plan.sum(1) <= 1 / len(log_p) + 1e-15).all()
    assert plan.sum().item() == pytest.approx(mass, abs=1e-9)
    close(t.column_mass, plan.sum(0), 1e-13)


@given(seeds, sizes, masses, knobs, methods)
@few
def test_rows_are_exact_with_the_virtual_column(seed, size, mass, knob, method):
    log_p = predictions(seed, *size)
    t = solve(log_p, mass=mass, method=method, **knob)
    full = with_virtual(log_p, t)
    torch.testing.assert_close(full[:, :-1], t.plan(log_p), rtol=1e-12, atol=1e-15)
    close(full.sum(1), torch.full_like(full[:, 0], 1 / size[0]), 1e-15)
    assert full[:, -1].sum().item() == pytest.approx(1 - mass, abs=1e-9)


@given(seeds, sizes, masses, knobs, methods)
@few
def test_column_potentials_are_optimal(seed, size, mass, knob, method):
    """The residual, recomputed from the optimality conditions, equals that of the result."""
    log_p, c, weight = predictions(seed, *size), positive(seed, size[1]), positive(seed + 1, size[0])
    t = solve(log_p, mass=mass, prior=c, row_marginal=weight, method=method, **knob)
    error = kkt_error(with_virtual(log_p, t, weight), t, mass * c / c.sum(), knob["prior_strength"])
    assert error <= 1.001e-9
    assert t.residual == pytest.approx(error, abs=1e-13)


@given(seeds, sizes, masses, knobs, methods, st.sampled_from([1e-3, 1e-6, 1e-9]))
@few
def test_the_gap_is_primal_minus_dual(seed, size, mass, knob, method, tolerance):
    """The plan is that of the potentials with a virtual column of exactly 1 - mass."""
    epsilon, prior_strength = knob["epsilon"], knob["prior_strength"]
    log_p, c = predictions(seed, *size), positive(seed, size[1])
    target = mass * c / c.sum()
    t = solve(log_p, mass=mass, prior=c, tol=tolerance, method=method, **knob)
    corrected = feasible(log_p, t, mass)
    difference = primal(log_p, corrected, target, epsilon, prior_strength) - dual(
        log_p, t.potentials, target, epsilon, prior_strength
    )
    assert t.gap == pytest.approx(difference, abs=1e-13, rel=1e-4)


def feasible(log_p: Tensor, t: Transport, mass: float) -> Tensor:
    """The plan with its virtual column, whose weight is bisected until it holds its mass."""
    if mass == 1:
        return with_virtual(log_p, t)
    real = (log_p + t.potentials[:-1]) / t.epsilon
    lse = real.logsumexp(1)
    low, high = float(lse.min()) - 100, float(lse.max()) + 100
    for _ in range(200):
        s = (low + high) / 2
        low, high = (s, high) if torch.sigmoid(s - lse).mean() < 1 - mass else (low, s)
    plan = torch.sigmoid(lse - s)[:, None] * real.softmax(1)
    return torch.cat([plan, torch.sigmoid(s - lse)[:, None]], 1) / len(log_p)


@given(seeds, sizes, masses, knobs, methods)
@few
def test_the_duality_gap_closes(seed, size, mass, knob, method):
    log_p, c = predictions(seed, *size), positive(seed, size[1])
    t = solve(log_p, mass=mass, prior=c, method=method, **knob)
    assert -1e-12 <= t.gap <= 1e-12


@given(seeds, sizes, knobs, st.sampled_from([0.3, 1.0]))
@few
def test_the_gap_is_an_upper_bound_on_the_error(seed, size, knob, mass):
    log_p = predictions(seed, *size)
    rough = solve(log_p, mass=mass, max_iter=2, **knob)
    exact = solve(log_p, mass=mass, tol=1e-12, **knob)
    target = torch.full_like(log_p[0], mass / size[1])
    least = dual(log_p, exact.potentials, target, **knob)
    assert primal(log_p, feasible(log_p, rough, mass), target, **knob) - least <= rough.gap + 1e-12


# Invariances


@given(seeds, masses, st.permutations(range(9)), st.permutations(range(4)), methods)
@few
def test_the_order_of_samples_and_clusters_is_free(seed, mass, rows, columns, method):
    log_p, c = predictions(seed), positive(seed)
    t = solve(log_p, mass=mass, prior=c, method=method)
    permuted = solve(log_p[rows][:, columns], mass=mass, prior=c[columns], method=method)
    close(permuted.plan(log_p[rows][:, columns]), t.plan(log_p)[rows][:, columns], 1e-9)


@given(seeds, gentle, methods)
@few
def test_chunks_do_not_matter(seed, case, method):
    log_p = predictions(seed)
    whole = solve(log_p, method=method, **case)
    for rows in (1, 7, 9):
        close(solve(log_p, method=method, chunk_rows=rows, **case).plan(log_p), whole.plan(log_p), 1e-12)


@given(seeds, gentle, methods, st.integers(1, 8))
@few
def test_processes_with_parts_of_the_samples_find_the_plan_of_all(seed, case, method, cut):
    log_p = predictions(seed)
    whole = solve(log_p, method=method, **case)
    parts = in_threads(
        [log_p[:cut], log_p[cut:]],
        lambda part, all_reduce: solve(part, method=method, all_reduce=all_reduce, **case),
    )
    for t in parts:
        close(t.plan(log_p), whole.plan(log_p), 1e-12)
        assert t.n_iter == whole.n_iter
        assert t.gap == pytest.approx(whole.gap, abs=1e-14)


def test_processes_agree_on_stress_as_well():
    log_p = long_tailed(0, 60, 10, scale=30, dead=2)
    whole = solve(log_p, mass=0.5, epsilon=0.05)
    parts = in_threads(
        [log_p[:20], log_p[20:25], log_p[25:]],
        lambda part, all_reduce: solve(part, mass=0.5, epsilon=0.05, all_reduce=all_reduce),
    )
    for t in parts:
        assert t.converged
        close(t.plan(log_p), whole.plan(log_p), 1e-10)


@given(seeds, gentle, methods)
@few
def test_a_sample_of_double_weight_counts_as_two(seed, case, method):
    log_p = predictions(seed)
    doubled = torch.cat([log_p, log_p[:3]])
    weight = torch.tensor([2.0] * 3 + [1.0] * 6, dtype=torch.float64)
    t = solve(log_p, row_marginal=weight, method=method, **case)
    twice = solve(doubled, method=method, **case)
    merged = twice.plan(doubled)[:9].clone()
    merged[:3] *= 2
    close(t.plan(log_p, weight / weight.sum()), merged, 1e-9)
    close(t.column_mass, twice.column_mass, 1e-9)


@given(seeds, gentle, methods, st.sampled_from([1e-3, 7.0, 1e6]))
@few
def test_priors_and_weights_need_not_sum_to_one(seed, case, method, factor):
    log_p, c, weight = predictions(seed), positive(seed), positive(seed + 1, 9)
    t = solve(log_p, prior=c, row_marginal=weight, method=method, **case)
    scaled = solve(log_p, prior=factor * c, row_marginal=factor * weight, method=method, **case)
    close(scaled.plan(log_p), t.plan(log_p), 1e-9)


@given(seeds, gentle)
@few
def test_a_constant_added_to_a_row_of_the_whole_mass_changes_nothing(seed, case):
    case["mass"] = 1.0
    log_p = predictions(seed)
    moved = log_p + 5 * positive(seed, 9)[:, None]
    close(solve(moved, **case).plan(moved), solve(log_p, **case).plan(log_p), 1e-9)


@given(seeds, gentle)
@few
def test_methods_agree(seed, case):
    log_p, c = predictions(seed), positive(seed)
    newton, anderson, scaling = (
        solve(log_p, prior=c, tol=1e-12, method=m, **case).plan(log_p) for m in METHODS
    )
    close(anderson, newton, 1e-9)
    close(scaling, newton, 1e-9)


@pytest.mark.parametrize(
    ("k", "method"), [(MAX_CLUSTERS_NEWTON, "newton"), (MAX_CLUSTERS_NEWTON + 1, "anderson")]
)
def test_auto_is_newton_for_few_clusters(k, method):
    log_p = predictions(0, 4, k)
    close(solve(log_p).potentials, solve(log_p, method=method).potentials, 0)


# Warm starts


@given(seeds, masses, methods)
@few
def test_a_warm_start_reaches_the_same_plan(seed, mass, method):
    log_p = predictions(seed)
    earlier = solve(log_p + 0.3 * predictions(seed + 1), mass=0.4)
    cold = solve(log_p, mass=mass, tol=1e-12)
    warm = solve(log_p, mass=mass, tol=1e-11, init=earlier.potentials, method=method)
    close(warm.plan(log_p), cold.plan(log_p), 1e-8)
    again = solve(log_p, mass=mass, tol=1e-8, init=cold.potentials, method=method)
    assert again.n_iter <= 2


@given(seeds, methods, st.sampled_from([0.05, 0.5, 1 - 1e-6]))
@few
def test_a_start_from_the_whole_mass_has_no_virtual_column(seed, method, mass):
    log_p = predictions(seed)
    whole = solve(log_p).potentials
    assert whole[-1] == -math.inf
    warm = solve(log_p, mass=mass, tol=1e-11, init=whole, method=method)
    close(warm.plan(log_p), solve(log_p, mass=mass, tol=1e-12).plan(log_p), 1e-8)


def test_a_start_is_not_written_to():
    start = solve(predictions(1)).potentials
    before = start.clone()
    solve(predictions(0), mass=0.3, init=start)
    assert torch.equal(start, before)


# Other solvers


@pytest.mark.filterwarnings("ignore:If reg_type = entropy")
@pytest.mark.parametrize("prior_strength", [0.1, 1.0, 5.0])
def test_whole_mass_equals_unbalanced_sinkhorn_of_pot(prior_strength):
    log_p, c, r = predictions(3), positive(3), positive(8, 9)
    c, r = c / c.sum(), r / r.sum()
    t = solve(log_p, prior_strength=prior_strength, prior=c, row_marginal=r, tol=1e-12)
    expected = ot.unbalanced.sinkhorn_unbalanced(
        r.numpy(), c.numpy(), -log_p.numpy(), reg=0.1, reg_m=(math.inf, prior_strength),
        reg_type="entropy", numItermax=50_000, stopThr=1e-14,
    )  # fmt: skip
    np.testing.assert_allclose(t.plan(log_p, r), expected, atol=1e-9)


@pytest.mark.parametrize("mass", [0.2, 0.6, 0.9])
def test_a_hard_prior_equals_balanced_sinkhorn_of_pot(mass):
    log_p, c = predictions(4), positive(4)
    c = c / c.sum()
    t = solve(log_p, mass=mass, prior_strength=math.inf, prior=c, tol=1e-12)
    cost = np.hstack([-log_p.numpy(), np.zeros((9, 1))])
    columns = np.append(mass * c.numpy(), 1 - mass)
    expected = ot.sinkhorn(np.full(9, 1 / 9), columns, cost, reg=0.1, numItermax=50_000, stopThr=1e-14)
    np.testing.assert_allclose(t.plan(log_p), expected[:, :-1], atol=1e-9)
    np.testing.assert_allclose(t.column_mass, columns[:-1], atol=1e-9)


def test_a_hard_prior_of_the_whole_mass_is_balanced_transport():
    log_p, c = predictions(4), positive(4)
    c = c / c.sum()
    t = solve(log_p, prior_strength=math.inf, prior=c, tol=1e-12)
    expected = ot.sinkhorn(
        np.full(9, 1 / 9), c.numpy(), -log_p.numpy(), reg=0.1, numItermax=50_000, stopThr=1e-14
    )
    np.testing.assert_allclose(t.plan(log_p), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("mass", "prior_strength", "epsilon"),
    [(0.5, 1.0, 0.1), (0.1, 0.1, 0.1), (0.9, 3.0, 0.1), (0.3, 0.5, 0.05), (1.0, 1.0, 0.1)],
)
def test_a_tiny_case_equals_a_convex_solver(mass, prior_strength, epsilon):
    cp = pytest.importorskip("cvxpy")
    n, k = 5, 3
    log_p, c = predictions(5, n, k), positive(5, k)
    target = mass * c / c.sum()
    costs = np.hstack([-log_p.numpy(), np.zeros((n, int(mass < 1)))])
    full = cp.Variable(costs.shape, nonneg=True)
    loss = cp.sum(cp.multiply(full, costs)) - epsilon * (cp.sum(cp.entr(full)) + 1)
    loss += prior_strength * cp.sum(cp.kl_div(cp.sum(full[:, :k], axis=0), target.numpy()))
    marginals = [cp.sum(full, axis=1) == 1 / n, cp.sum(full[:, k:]) == 1 - mass]
    least = cp.Problem(cp.Minimize(loss), marginals[: costs.shape[1] - k + 1]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    t = solve(log_p, mass=mass, epsilon=epsilon, prior_strength=prior_strength, prior=c, tol=1e-12)
    np.testing.assert_allclose(t.plan(log_p), full.value[:, :k], atol=1e-6)
    ours = primal(log_p, with_virtual(log_p, t), target, epsilon, prior_strength)
    assert ours == pytest.approx(least, abs=1e-8)


# Limits


@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 4), (5, 1), (3, 7)])
@pytest.mark.parametrize("mass", [0.3, 1.0])
@pytest.mark.parametrize("method", METHODS)
def test_few_samples_and_clusters(n, k, mass, method):
    log_p = predictions(0, n, k)
    t = solve(log_p, mass=mass, method=method)
    assert t.converged
    assert t.plan(log_p).shape == (n, k)
    assert t.potentials.shape == (k + 1,)


def test_whole_mass_leaves_nothing_behind():
    t = solve(predictions(0), mass=1.0)
    close(t.row_probabilities(predictions(0)).sum(1), torch.ones(9, dtype=torch.float64), 1e-15)
    assert t.potentials[-1] == -math.inf


@pytest.mark.parametrize("rest", [1e-3, 1e-6, 1e-9, 1e-12])
def test_the_plan_is_continuous_at_the_whole_mass(rest):
    log_p = predictions(0)
    whole = solve(log_p, mass=1.0, tol=1e-12)
    nearly = solve(log_p, mass=1 - rest, tol=1e-12)
    assert nearly.converged
    close(nearly.plan(log_p), whole.plan(log_p), 2 * rest + 1e-11)


@pytest.mark.parametrize("mass", [1e-3, 1e-6])
def test_little_mass_is_sent_in_full(mass):
    log_p = predictions(0)
    t = solve(log_p, mass=mass, tol=1e-12)
    assert t.plan(log_p).sum().item() == pytest.approx(mass, abs=1e-12)


def test_confident_samples_are_transported_first():
    log_p = torch.tensor([[0.99, 0.01], [0.6, 0.4], [0.02, 0.98]]).log()
    assert solve(log_p, mass=0.5).plan(log_p).sum(1).argmin() == 1


def test_a_weak_prior_leaves_the_predictions_alone():
    log_p = predictions(0)
    t = solve(log_p, prior_strength=1e-9)
    close(t.plan(log_p), (log_p / 0.1).softmax(1) / 9, 1e-6)
    assert t.potentials[:-1].abs().max() < 1e-6


def test_a_strong_prior_is_obeyed():
    c = torch.tensor([4.0, 3.0, 2.0, 1.0])  # need not sum to one
    t = solve(predictions(0), mass=0.5, prior_strength=1e4, prior=c)
    close(t.column_mass, 0.5 * c.double() / 10, 1e-4)


def test_much_entropy_forgets_the_predictions():
    log_p = predictions(0)
    plan = solve(log_p, mass=0.5, epsilon=1e4).plan(log_p)
    torch.testing.assert_close(plan, torch.full_like(plan, 0.5 / 36), rtol=1e-3, atol=0)


def test_unseen_rows_are_split_like_seen_ones():
    log_p = predictions(0)
    t = solve(log_p, mass=0.5)
    close(t.row_probabilities(log_p[2:5]), t.row_probabilities(log_p)[2:5], 0)
    close(t.plan(log_p), t.row_probabilities(log_p) / 9, 1e-16)


# Inputs


def stored(log_p: Tensor, folder: Path) -> dict[str, object]:
    """The same values in every form that `solve` reads."""
    values = log_p.numpy()
    np.save(folder / "log_p.npy", values)
    return {
        "array": values,
        "read-only array": np.lib.stride_tricks.as_strided(values, writeable=False),
        "Fortran order": np.asfortranarray(values),
        "memory map": np.load(folder / "log_p.npy", mmap_mode="r"),
        "transposed view": log_p.T.contiguous().T,
        "factory of tensors": lambda: iter(log_p.split(4)),
        "factory of arrays": lambda: (values[i : i + 2] for i in range(0, len(values), 2)),
    }


@pytest.mark.parametrize("storage", [torch.float16, torch.float32, torch.float64], ids=str)
def test_every_kind_of_input_gives_the_same_plan(storage, tmp_path):
    log_p = predictions(0).to(storage)
    weight = positive(1, 9)
    expected = solve(log_p.double(), mass=0.5, row_marginal=weight)
    for name, held in {"tensor": log_p, **stored(log_p, tmp_path)}.items():
        t = solve(held, mass=0.5, row_marginal=weight)
        assert t.potentials.dtype == torch.float64, name
        close(t.plan(log_p), expected.plan(log_p.double()), 1e-14)


def test_rows_can_be_split_from_an_array(tmp_path):
    log_p = predictions(0)
    t = solve(log_p)
    mapped = stored(log_p, tmp_path)["memory map"]
    close(t.plan(mapped), t.plan(log_p), 0)


@pytest.mark.parametrize("mass", [0.5, 1.0])
@pytest.mark.parametrize("method", METHODS)
def test_single_precision_in_same_plan_out(mass, method):
    log_p = predictions(0)
    single = log_p.float()
    expected = solve(log_p, mass=mass, method=method).plan(log_p)
    close(solve(single, mass=mass, method=method).plan(single), expected, 1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mass", [0.8, 1.0])
def test_impossible_entries_get_no_mass(method, mass):
    log_p = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]).log()
    t = solve(log_p, mass=mass, method=method)
    plan = t.plan(log_p)
    assert t.converged
    assert math.isfinite(t.gap)
    assert plan[0, 1] == plan[1, 0] == 0
    assert plan.sum().item() == pytest.approx(mass, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mass", [0.5, 1.0])
def test_an_impossible_cluster_stays_empty(method, mass):
    log_p = predictions(0)
    log_p[:, 2] = -math.inf
    t = solve(log_p, mass=mass, method=method)
    assert t.converged
    assert t.column_mass[2] == 0
    assert -1e-12 <= t.gap <= 1e-12


@pytest.mark.parametrize("method", METHODS)
def test_a_sample_that_no_cluster_can_take_is_left_behind(method):
    log_p = predictions(0)
    log_p[3] = -math.inf
    t = solve(log_p, mass=0.5, method=method)
    assert t.converged
    assert -1e-12 <= t.gap <= 1e-12
    assert t.plan(log_p)[3].sum() == 0
    assert t.plan(log_p).sum().item() == pytest.approx(0.5, abs=1e-9)
    whole = solve(log_p, method=method)  # there is nowhere to leave it
    close(whole.plan(log_p).sum(1), torch.full((9,), 1 / 9, dtype=torch.float64), 1e-15)


def test_labels_carry_no_gradient():
    log_p = predictions(0).requires_grad_()
    t = solve(log_p, mass=0.5)
    for tensor in (t.potentials, t.column_mass, t.row_probabilities(log_p), t.plan(log_p)):
        assert not tensor.requires_grad


def test_arguments_may_carry_a_gradient():
    c, weight = positive(0).requires_grad_(), positive(1, 9).requires_grad_()
    start = torch.zeros(5).requires_grad_()
    t = solve(predictions(0), mass=0.5, prior=c, row_marginal=weight, init=start)
    assert not t.potentials.requires_grad
    assert not t.column_mass.requires_grad


@pytest.mark.parametrize("method", METHODS)
def test_inputs_are_not_written_to(method):
    inputs: dict[str, Any] = {"log_p": predictions(0), "prior": positive(0), "row_marginal": positive(1, 9)}
    before = {name: tensor.clone() for name, tensor in inputs.items()}
    solve(mass=0.5, method=method, **inputs).plan(inputs["log_p"], inputs["row_marginal"])
    assert all(torch.equal(inputs[name], before[name]) for name in before)


# Stress: section 5 of what plain scaling cannot do

DEAD = {"n": 256, "k": 10, "dead": 1}
CROWD = {"n": 256, "k": 100, "scale": 30}
STRESS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "crowded": (CROWD, {"epsilon": 0.05}),
    "crowded, weak prior": (CROWD, {"epsilon": 0.1, "prior_strength": 0.1}),
    "dead": (DEAD, {}),
    "dead x3": (DEAD | {"scale": 3}, {}),
    "dead x10": (DEAD | {"scale": 10}, {}),
    "dead x10, weak prior": (DEAD | {"scale": 10}, {"prior_strength": 0.1}),
    "dead x30": (DEAD | {"scale": 30}, {"epsilon": 0.05}),
    "dead x30, strong prior": (DEAD | {"scale": 30}, {"epsilon": 0.05, "prior_strength": 10.0}),
    "populated": ({"n": 2000, "k": 10, "scale": 30}, {"epsilon": 0.05}),
    "populated, many clusters": ({"n": 2000, "k": 100, "scale": 30}, {"epsilon": 0.05}),
    "near-uniform": ({"n": 400, "k": 600, "scale": 1e-3}, {"epsilon": 0.05}),
    "small epsilon": ({"n": 60, "k": 30, "scale": 30}, {"epsilon": 0.01}),
    "dead, hard prior": (DEAD | {"scale": 30}, {"epsilon": 0.05, "prior_strength": math.inf}),
}


@pytest.mark.parametrize("storage", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("mass", [0.1, 0.5, 1 - 1e-9, 1.0])
@pytest.mark.parametrize("case", STRESS)
def test_hard_cases_stay_finite(case, mass, storage):
    shape, knob = STRESS[case]
    log_p = long_tailed(0, **shape).to(storage)
    check(log_p, solve(log_p, mass=mass, **knob), mass)


@pytest.mark.parametrize("mass", [0.5, 1.0])
def test_a_thousand_undecided_clusters(mass):
    """P^(1 / epsilon) is 1e-60 everywhere."""
    log_p = predictions(0, 2000, 1000, spread=1e-3).float()
    check(log_p, solve(log_p, mass=mass, epsilon=0.05), mass)


@pytest.mark.parametrize("prior_strength", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("mass", [0.1, 0.5, 1.0])
def test_softmax_applied_twice(prior_strength, mass):
    log_p = long_tailed(0, 256, 10).exp().log_softmax(1)
    t = solve(log_p, mass=mass, prior_strength=prior_strength)
    check(log_p, t, mass)
    assert t.n_iter <= 11


@pytest.mark.parametrize("mass", [0.1, 0.5, 1.0])
def test_one_cluster_takes_everything(mass):
    log_p = torch.tensor([[100.0, 0.0, 0.0, 0.0]], dtype=torch.float64).expand(60, 4).log_softmax(1)
    check(log_p, solve(log_p, mass=mass, epsilon=0.01), mass)


@pytest.mark.parametrize("seed", range(300))
def test_wild_problems_are_solved(seed):
    log_p, case = wild(seed)
    check(log_p, solve(log_p, **case), case["mass"])


def check(log_p: Tensor, t: Transport, mass: float) -> None:
    plan = t.plan(log_p)
    assert t.converged
    assert t.potentials[:-1].isfinite().all()
    assert plan.isfinite().all()
    assert (plan.sum(1) <= (1 + 1e-12) / len(log_p)).all()
    assert plan.sum().item() == pytest.approx(mass, abs=1.001e-9)
    assert -1e-12 <= t.gap < 1e-6  # of a hard prior it is a first-order term: residual times potential


# Refusals


def test_running_out_of_iterations_is_reported():
    log_p = predictions(0)
    t = solve(log_p, mass=0.5, prior_strength=3.0, max_iter=2)
    assert (t.n_iter, t.converged) == (2, False)
    assert t.residual > 1e-7
    assert t.gap > 1e-7
    torch.testing.assert_close(with_virtual(log_p, t)[:, :-1], t.plan(log_p))


@pytest.mark.parametrize(
    "wrong",
    [
        {"mass": 0.0},
        {"mass": -0.5},
        {"mass": 1.1},
        {"mass": math.nan},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.inf},
        {"epsilon": math.nan},
        {"prior_strength": 0.0},
        {"prior_strength": -1.0},
        {"prior_strength": math.nan},
        {"prior": torch.ones(3)},
        {"prior": torch.ones(4, 1)},
        {"prior": torch.tensor([1.0, 1.0, 1.0, 0.0])},
        {"prior": torch.tensor([1.0, 1.0, 1.0, -1.0])},
        {"prior": torch.tensor([1.0, 1.0, 1.0, math.inf])},
        {"prior": torch.tensor([1.0, 1.0, 1.0, math.nan])},
        {"row_marginal": torch.ones(8)},
        {"row_marginal": torch.ones(9, 1)},
        {"row_marginal": torch.zeros(9)},
        {"row_marginal": torch.tensor([-1.0] + [1.0] * 8)},
        {"row_marginal": torch.tensor([math.nan] + [1.0] * 8)},
        {"row_marginal": torch.tensor([math.inf] + [1.0] * 8)},
        {"init": torch.zeros(4)},
        {"init": torch.full((5,), math.nan)},
        {"max_iter": 0},
        {"chunk_rows": 0},
        {"chunk_rows": -1},
        {"method": "magic"},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        solve(predictions(0), **wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"prior": torch.ones(3)}, "prior must hold 4 positive"),
        ({"row_marginal": torch.ones(8)}, "row_marginal must hold 9 positive"),
        ({"init": torch.zeros(4)}, "init must hold 5 potentials"),
    ],
    ids=str,
)
def test_errors_name_the_expected_length(wrong, message):
    with pytest.raises(ValueError, match=message):
        solve(predictions(0), **wrong)


def test_one_pass_and_one_row_at_a_time_are_allowed():
    t = solve(predictions(0), max_iter=1, chunk_rows=1)
    assert t.n_iter == 1
    assert not t.converged


def test_the_defaults_are_those_of_the_method():
    log_p = predictions(0)
    whole: dict[str, Any] = {
        "mass": 1.0,
        "epsilon": 0.1,
        "prior_strength": 1.0,
        "tol": 1e-9,
        "max_iter": 10_000,
    }
    given = solve(log_p, prior=torch.ones(4), row_marginal=torch.ones(9), method="newton", **whole)
    assert torch.equal(solve(log_p).potentials, given.potentials)
    assert {name: inspect.signature(solve).parameters[name].default for name in whole} == whole


@pytest.mark.parametrize("mass", [0.5, 1.0])
def test_the_gap_of_a_hard_prior_closes_where_sizes_are_met(mass):
    log_p, prior = predictions(0), torch.tensor([1.0, 2.0, 3.0, 10.0])
    t = solve(log_p, mass=mass, prior_strength=math.inf, prior=prior)
    torch.testing.assert_close(t.column_mass, mass * prior.double() / 16)
    assert 0 <= t.gap < 1e-8
    early = solve(log_p, mass=mass, prior_strength=math.inf, prior=prior, method="scaling", max_iter=2)
    assert early.gap > 1e-3


@pytest.mark.parametrize("prior_strength", [1.0, math.inf])
def test_the_correction_of_the_virtual_column_widens_the_gap(monkeypatch, prior_strength):
    real = Samples.corrected_plan
    gaps = []
    for more in (0.0, 1.0):
        monkeypatch.setattr(Samples, "corrected_plan", lambda *given, more=more: (real(*given)[0], more))
        gaps.append(solve(predictions(0), mass=0.5, epsilon=0.25, prior_strength=prior_strength).gap)
    assert gaps[1] - gaps[0] == pytest.approx(0.25)


@pytest.mark.parametrize("shape", [(4,), (0, 3), (3, 0), (2, 3, 4)])
@pytest.mark.parametrize("make", [torch.zeros, np.zeros])
def test_wrong_shapes_are_refused(shape, make):
    with pytest.raises(ValueError, match="log_p"):
        solve(make(shape))


@pytest.mark.parametrize(
    "chunks",
    [[], [torch.zeros(0, 3)], [torch.zeros(3)], [torch.zeros(2, 3), torch.zeros(2, 4)]],
    ids=["none", "no rows", "no columns", "widths differ"],
)
def test_callables_with_wrong_chunks_are_refused(chunks):
    with pytest.raises(ValueError, match="log_p"):
        solve(lambda: iter(chunks))


def test_a_callable_that_can_be_read_only_once_is_refused():
    chunks = iter(predictions(0).split(3))
    with pytest.raises(ValueError, match="log_p"):
        solve(lambda: chunks)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("mass", [0.5, 1.0])
@pytest.mark.parametrize("method", METHODS)
def test_nan_and_infinity_are_refused(wrong, mass, method):
    log_p = predictions(0)
    log_p[0, 0] = wrong
    with pytest.raises(ValueError, match="log_p holds NaN"):
        solve(log_p, mass=mass, method=method)


# The page for users


def test_the_examples_of_the_page_work():
    text = "\n".join("" if line.startswith("```") else line for line in PAGE.read_text().splitlines())
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 5
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert result.failed == 0
