"""The optimal plan: feasible, optimal, equal to what other solvers find, and finite whatever comes."""

import math

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from protocol_mvc.transport import Transport, solve

few = settings(max_examples=30)
seeds = st.integers(0, 2**32)
masses = st.sampled_from([0.05, 0.3, 0.7, 1 - 1e-6, 1.0])
sizes = st.tuples(st.integers(1, 12), st.integers(1, 5))
knobs = st.fixed_dictionaries(
    {"epsilon": st.sampled_from([0.05, 0.1, 0.5]), "kl_weight": st.sampled_from([0.1, 1.0, 3.0])}
)


def predictions(seed, n=9, k=4, spread=1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.log_softmax(spread * torch.randn(n, k, dtype=torch.float64, generator=generator), dim=1)


def prior(seed, k=4) -> Tensor:
    return torch.rand(k, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.2


def with_virtual(log_p: Tensor, t: Transport, epsilon: float) -> Tensor:
    """The plan with its virtual column, from the potentials alone."""
    n = len(log_p)
    logits = torch.cat([log_p, torch.zeros(n, 1, dtype=torch.float64)], dim=1) + t.potentials
    return (logits / epsilon).softmax(1) / n


def entropy(plan: Tensor) -> float:
    return -torch.xlogy(plan, plan).sum().item()


def objective(log_p, plan, virtual, target, epsilon, kl_weight) -> float:
    """Eq. 15 with the entropy of Eq. 37."""
    column = plan.sum(0)
    kl = torch.xlogy(column, column / target).sum().item()
    return float(-(plan * log_p).sum() - epsilon * (entropy(plan) + entropy(virtual)) + kl_weight * kl)


@given(seeds, sizes, masses, knobs)
@few
def test_plans_are_feasible(seed, size, mass, knob):
    log_p = predictions(seed, *size)
    t = solve(log_p, mass=mass, **knob)
    assert t.converged
    assert (t.plan >= 0).all()
    assert (t.plan.sum(1) <= 1 / len(log_p) + 1e-15).all()
    assert t.plan.sum().item() == pytest.approx(mass, abs=1e-7)
    torch.testing.assert_close(t.column_mass, t.plan.sum(0))


@given(seeds, sizes, masses, knobs)
@few
def test_rows_are_exact_with_the_virtual_column(seed, size, mass, knob):
    log_p = predictions(seed, *size)
    t = solve(log_p, mass=mass, **knob)
    full = with_virtual(log_p, t, knob["epsilon"])
    torch.testing.assert_close(full[:, :-1], t.plan, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(full.sum(1), torch.full_like(full[:, 0], 1 / size[0]), rtol=0, atol=1e-15)
    assert full[:, -1].sum().item() == pytest.approx(1 - mass, abs=1e-7)


@given(seeds, sizes, masses, knobs)
@few
def test_column_potentials_are_optimal(seed, size, mass, knob):
    c = prior(seed, size[1])
    t = solve(predictions(seed, *size), mass=mass, prior=c, tolerance=1e-10, **knob)
    wanted = mass * c / c.sum() * torch.exp(-t.potentials[:-1] / knob["kl_weight"])
    torch.testing.assert_close(t.column_mass, wanted, rtol=0, atol=1e-9)


@given(seeds, sizes, st.sampled_from([0.05, 0.3, 0.7]), knobs)
@few
def test_the_duality_gap_closes(seed, size, mass, knob):
    epsilon, kl_weight = knob["epsilon"], knob["kl_weight"]
    log_p, c = predictions(seed, *size), prior(seed, size[1])
    target = mass * c / c.sum()
    t = solve(log_p, mass=mass, prior=c, tolerance=1e-10, **knob)
    primal = objective(log_p, t.plan, 1 / size[0] - t.plan.sum(1), target, epsilon, kl_weight)
    g, real = t.potentials, t.potentials[:-1]
    logits = torch.cat([log_p + real, g[-1].expand(size[0], 1)], dim=1) / epsilon
    dual = -epsilon * (math.log(size[0]) + logits.logsumexp(1).mean()) + (1 - mass) * g[-1]
    dual = dual - kl_weight * (target * (torch.exp(-real / kl_weight) - 1)).sum()
    assert primal == pytest.approx(dual.item(), abs=1e-7)


@given(seeds, masses, st.permutations(range(9)), st.permutations(range(4)))
@few
def test_the_order_of_samples_and_clusters_is_free(seed, mass, rows, columns):
    log_p, c = predictions(seed), prior(seed)
    t = solve(log_p, mass=mass, prior=c, tolerance=1e-10)
    permuted = solve(log_p[rows][:, columns], mass=mass, prior=c[columns], tolerance=1e-10)
    torch.testing.assert_close(permuted.plan, t.plan[rows][:, columns], rtol=0, atol=1e-9)


@given(seeds, masses)
@few
def test_a_warm_start_reaches_the_same_plan(seed, mass):
    log_p = predictions(seed)
    earlier = solve(log_p + 0.3 * predictions(seed + 1), mass=0.4)
    cold = solve(log_p, mass=mass, tolerance=1e-10)
    warm = solve(log_p, mass=mass, tolerance=1e-10, start=earlier.potentials)
    torch.testing.assert_close(warm.plan, cold.plan, rtol=0, atol=1e-8)
    again = solve(log_p, mass=mass, tolerance=1e-8, start=cold.potentials)
    assert again.passes <= 2


@pytest.mark.filterwarnings("ignore:If reg_type = entropy")
@pytest.mark.parametrize("kl_weight", [0.1, 1.0, 5.0])
def test_whole_mass_equals_unbalanced_sinkhorn_of_pot(kl_weight):
    log_p, c = predictions(3), prior(3)
    c = c / c.sum()
    t = solve(log_p, kl_weight=kl_weight, prior=c, tolerance=1e-12)
    expected = ot.unbalanced.sinkhorn_unbalanced(
        np.full(9, 1 / 9), c.numpy(), -log_p.numpy(), reg=0.1, reg_m=(math.inf, kl_weight),
        reg_type="entropy", numItermax=50_000, stopThr=1e-14,
    )  # fmt: skip
    np.testing.assert_allclose(t.plan, expected, atol=1e-9)


@pytest.mark.parametrize("mass", [0.2, 0.6, 0.9])
def test_a_hard_prior_equals_balanced_sinkhorn_of_pot(mass):
    log_p, c = predictions(4), prior(4)
    c = c / c.sum()
    t = solve(log_p, mass=mass, kl_weight=math.inf, prior=c, tolerance=1e-12)
    cost = np.hstack([-log_p.numpy(), np.zeros((9, 1))])
    columns = np.append(mass * c.numpy(), 1 - mass)
    expected = ot.sinkhorn(np.full(9, 1 / 9), columns, cost, reg=0.1, numItermax=50_000, stopThr=1e-14)
    np.testing.assert_allclose(t.plan, expected[:, :-1], atol=1e-9)
    np.testing.assert_allclose(t.column_mass, columns[:-1], atol=1e-9)


@pytest.mark.parametrize(
    ("mass", "kl_weight", "epsilon"), [(0.5, 1.0, 0.1), (0.1, 0.1, 0.1), (0.9, 3.0, 0.1), (0.3, 0.5, 0.05)]
)
def test_a_tiny_case_equals_a_convex_solver(mass, kl_weight, epsilon):
    cp = pytest.importorskip("cvxpy")
    n, k = 5, 3
    log_p, c = predictions(5, n, k), prior(5, k)
    target = mass * c / c.sum()
    plan, virtual = cp.Variable((n, k), nonneg=True), cp.Variable(n, nonneg=True)
    loss = -cp.sum(cp.multiply(plan, log_p.numpy())) - epsilon * (
        cp.sum(cp.entr(plan)) + cp.sum(cp.entr(virtual))
    )
    loss += kl_weight * cp.sum(cp.rel_entr(cp.sum(plan, axis=0), target.numpy()))
    constraints = [cp.sum(plan, axis=1) + virtual == 1 / n, cp.sum(virtual) == 1 - mass]
    least = cp.Problem(cp.Minimize(loss), constraints).solve(solver=cp.CLARABEL)
    t = solve(log_p, mass=mass, epsilon=epsilon, kl_weight=kl_weight, prior=c, tolerance=1e-11)
    np.testing.assert_allclose(t.plan, plan.value, atol=1e-5)
    ours = objective(log_p, t.plan, 1 / n - t.plan.sum(1), target, epsilon, kl_weight)
    assert ours == pytest.approx(least, abs=1e-7)


@pytest.mark.parametrize("mass", [0.1, 0.5, 1.0])
@pytest.mark.parametrize(
    ("logits", "epsilon"),
    [
        (1e-3 * predictions(0, 60, 300), 0.01),  # near-uniform, M = P^(1 / epsilon) is 1e-248
        (30 * predictions(1, 60, 10), 0.05),
        (30 * predictions(2, 60, 30), 0.01),
        (30 * (predictions(3, 60, 5) - torch.tensor([6.0, 0, 0, 0, 0])), 0.05),  # a dead cluster
        (100 * torch.eye(4, dtype=torch.float64)[torch.zeros(60, dtype=torch.long)], 0.01),  # three of them
    ],
    ids=["near-uniform", "confident", "small epsilon", "dead", "one cluster has all"],
)
def test_hard_cases_stay_finite(logits, epsilon, mass):
    t = solve(logits.log_softmax(1), mass=mass, epsilon=epsilon, max_passes=300)
    assert t.plan.isfinite().all()
    assert t.potentials[:-1].isfinite().all()
    assert math.isfinite(t.residual)
    assert (t.plan.sum(1) <= (1 + 1e-12) / 60).all()
    assert t.plan.sum().item() == pytest.approx(mass, abs=t.residual + 1e-12)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 4), (5, 1), (3, 7)])
@pytest.mark.parametrize("mass", [0.3, 1.0])
def test_few_samples_and_clusters(n, k, mass):
    t = solve(predictions(0, n, k), mass=mass)
    assert t.converged
    assert t.plan.shape == (n, k)
    assert t.potentials.shape == (k + 1,)


def test_impossible_entries_get_no_mass():
    t = solve(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]).log(), mass=0.8)
    assert t.converged
    assert t.plan[0, 1] == t.plan[1, 0] == 0


def test_confident_samples_are_transported_first():
    t = solve(torch.tensor([[0.99, 0.01], [0.6, 0.4], [0.02, 0.98]]).log(), mass=0.5)
    assert t.plan.sum(1).argmin() == 1


def test_whole_mass_leaves_nothing_behind():
    t = solve(predictions(0), mass=1.0)
    torch.testing.assert_close(t.plan.sum(1), torch.full_like(t.plan[:, 0], 1 / 9), rtol=0, atol=1e-15)
    assert t.potentials[-1] == -math.inf


def test_the_plan_is_continuous_at_the_whole_mass():
    whole = solve(predictions(0), mass=1.0, tolerance=1e-11)
    nearly = solve(predictions(0), mass=1 - 1e-7, tolerance=1e-11)
    torch.testing.assert_close(nearly.plan, whole.plan, rtol=0, atol=1e-6)


def test_a_weak_prior_leaves_the_predictions_alone():
    t = solve(predictions(0), kl_weight=1e-9)
    torch.testing.assert_close(t.plan, (predictions(0) / 0.1).softmax(1) / 9, rtol=0, atol=1e-6)


def test_a_strong_prior_is_obeyed():
    c = torch.tensor([4.0, 3.0, 2.0, 1.0])  # need not sum to one
    t = solve(predictions(0), mass=0.5, kl_weight=1e4, prior=c)
    torch.testing.assert_close(t.column_mass, 0.5 * c.double() / 10, rtol=0, atol=1e-4)


def test_much_entropy_forgets_the_predictions():
    t = solve(predictions(0), mass=0.5, epsilon=1e4)
    torch.testing.assert_close(t.plan, torch.full_like(t.plan, 0.5 / 36), rtol=1e-3, atol=0)


def test_single_precision_in_same_plan_out():
    log_p = predictions(0)
    torch.testing.assert_close(solve(log_p.float()).plan, solve(log_p).plan, rtol=0, atol=1e-6)


def test_labels_carry_no_gradient():
    assert not solve(predictions(0).requires_grad_()).plan.requires_grad


def test_running_out_of_passes_is_told():
    t = solve(predictions(0), mass=0.5, kl_weight=3.0, max_passes=2)
    assert (t.passes, t.converged) == (2, False)
    assert t.residual > 1e-7
    torch.testing.assert_close(with_virtual(predictions(0), t, 0.1)[:, :-1], t.plan)


def test_no_number_in_no_number_out_at_once():
    log_p = predictions(0)
    log_p[0, 0] = math.nan
    t = solve(log_p)
    assert (t.passes, t.converged) == (1, False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mass": 0.0},
        {"mass": 1.1},
        {"mass": math.nan},
        {"epsilon": 0.0},
        {"epsilon": math.inf},
        {"epsilon": math.nan},
        {"kl_weight": 0.0},
        {"kl_weight": -1.0},
        {"prior": torch.ones(3)},
        {"prior": torch.tensor([1.0, 1.0, 1.0, 0.0])},
        {"prior": torch.tensor([1.0, 1.0, 1.0, math.inf])},
        {"start": torch.zeros(4)},
        {"start": torch.full((5,), math.nan)},
        {"max_passes": 0},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        solve(predictions(0), **wrong)


@pytest.mark.parametrize("shape", [(4,), (0, 3), (3, 0), (2, 3, 4)])
def test_wrong_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="log_p"):
        solve(torch.zeros(shape))
