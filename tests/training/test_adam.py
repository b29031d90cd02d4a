"""Adam makes the steps of torch's, without moments that slow it down."""

import pytest
import torch
from torch import nn

from protocol_mvc.training.adam import FLUSH_INTERVAL, TINY, Adam


def weights() -> nn.Parameter:
    return nn.Parameter(torch.linspace(-1, 1, 6))


@pytest.fixture(scope="module")
def trained() -> tuple[nn.Parameter, Adam, nn.Parameter]:
    """Weights of which half get no gradient after the tenth step, trained by our Adam and by torch's."""
    mine, other = weights(), weights()
    adam, reference = Adam([mine], lr=0.01), torch.optim.Adam([other], lr=0.01, fused=True)
    generator = torch.Generator().manual_seed(0)
    for step in range(12 * FLUSH_INTERVAL):
        gradient = torch.randn(6, generator=generator)
        gradient[3:] *= step < 10
        mine.grad, other.grad = gradient.clone(), gradient.clone()
        adam.step()
        reference.step()
    return mine, adam, other


def test_steps_are_those_of_torch(trained):
    mine, _, other = trained
    assert torch.equal(mine, other)


def test_moments_of_weights_without_gradients_become_zero_not_denormal(trained):
    _, adam, _ = trained
    moments = adam.moments[0]
    assert (moments.exp_avg[3:] == 0).all()
    for moment in (moments.exp_avg, moments.exp_avg_sq):
        assert not ((moment != 0) & (moment.abs() < torch.finfo(torch.float32).tiny)).any()
    assert (moments.exp_avg[:3].abs() > TINY).all()
