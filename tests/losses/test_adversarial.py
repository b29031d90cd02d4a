"""PGD stays within its limits and raises the loss; the divergence of equal predictions is zero."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import seeded
from torch import Tensor
from torch.autograd import gradcheck

from protocol_mvc.losses.adversarial import Bounds, projected_ascent, smoothed_divergence

UNIT = (0.0, 1.0)


def views(seed: int = 0) -> list[Tensor]:
    generator = seeded(seed)
    return [torch.rand(6, d, generator=generator) for d in (3, 4)]


def distance(x: list[Tensor]) -> Tensor:
    """Something that grows as the views move away from the middle."""
    return torch.stack([(v - 0.5).square().sum() for v in x]).sum()


def attack(
    x: list[Tensor], bounds: Bounds | None = UNIT, steps: int = 10, epsilon: float = 0.2
) -> list[Tensor]:
    return projected_ascent(
        distance, x, eps=epsilon, step_size=0.2, n_steps=steps, bounds=[bounds] * len(x), generator=seeded()
    )


@given(st.integers(0, 2**32), st.sampled_from([0.01, 0.2, 3.0]), st.integers(0, 4))
def test_the_views_stay_within_epsilon_and_bounds(seed: int, epsilon: float, steps: int):
    x = views(seed)
    for before, after in zip(x, attack(x, epsilon=epsilon, steps=steps), strict=True):
        assert (after - before).abs().max() <= epsilon + 1e-6
        assert -1e-6 <= after.min() <= after.max() <= 1 + 1e-6


def test_without_bounds_epsilon_is_in_standard_deviations():
    x = [10 * v for v in views()]
    for before, after in zip(x, attack(x, bounds=None), strict=True):
        share = (after - before).abs() / before.std(0, unbiased=False)
        assert share.max() == pytest.approx(0.2, rel=1e-4)


def test_each_view_has_its_own_bounds():
    x = [views()[0], 10 * views()[1]]
    found = projected_ascent(
        distance, x, eps=0.2, step_size=0.2, n_steps=10, bounds=[UNIT, None], generator=seeded()
    )
    assert found[0].max() <= 1 < found[1].max()


def test_the_start_is_anywhere_within_epsilon():
    x = [torch.full((4000, 2), 0.5)]
    (start,) = attack(x, bounds=(-9.0, 9.0), steps=0)
    moved = (start - 0.5) / 0.2
    assert moved.mean().item() == pytest.approx(0, abs=0.05)
    assert moved.square().mean().item() == pytest.approx(1 / 3, abs=0.03)  # of the uniform distribution


def test_a_step_follows_the_sign_of_the_gradient():
    x = torch.full((50, 3), 0.5)
    slope = torch.tensor([2.0, -3.0, 0.0])
    start, moved = (
        projected_ascent(
            lambda x: (x[0] * slope).sum(), [x], eps=0.2, step_size=0.3, n_steps=steps, bounds=[UNIT],
            generator=seeded(),
        )[0]
        for steps in (0, 1)
    )  # fmt: skip
    expected = (start + 0.3 * 0.2 * slope.sign()).clamp(0.3, 0.7)
    torch.testing.assert_close(moved, expected)


def test_the_loss_increases():
    x = views()
    values = [distance(attack(x, steps=steps)).item() for steps in (0, 1, 10)]
    assert values == sorted(values)
    assert values[0] < values[1]


def test_the_given_views_and_the_gradients_of_others_are_untouched():
    x, w = views(), torch.ones((), requires_grad=True)
    copies = [v.clone() for v in x]
    found = projected_ascent(
        lambda x: w * distance(x), x, eps=0.2, step_size=0.5, n_steps=2, bounds=[UNIT] * 2, generator=seeded()
    )
    assert w.grad is None
    assert not any(v.requires_grad for v in found)
    assert all(torch.equal(a, b) for a, b in zip(x, copies, strict=True))


@pytest.mark.parametrize("count", [1, 3])
def test_every_view_needs_bounds_or_none(count: int):
    with pytest.raises(ValueError, match="zip"):
        projected_ascent(
            distance, views(), eps=0.1, step_size=0.5, n_steps=1, bounds=[UNIT] * count, generator=seeded()
        )


def test_divergence_by_hand():
    p, q = torch.tensor([[1.0, 0.0]], dtype=torch.float64), torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    expected = 1.0001 * math.log(1.0001 / 0.5001) + 1e-4 * math.log(1e-4 / 0.5001)
    assert smoothed_divergence(p, q).item() == pytest.approx(expected)
    assert smoothed_divergence(p, p).item() == 0


def test_gradient_of_divergence_flows_through_both():
    p, q = torch.rand(2, 4, 3, dtype=torch.float64, generator=seeded()).softmax(2)
    assert gradcheck(smoothed_divergence, (p.requires_grad_(), q.requires_grad_()))
