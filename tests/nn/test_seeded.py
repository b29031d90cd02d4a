"""Every random number of a network comes from the generator it is given."""

import copy
import math
import pickle

import pytest
import torch
from torch import nn

from protocol_mvc.nn.seeded import Dropout, Seeded, build


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def make() -> nn.Sequential:
    block = nn.TransformerEncoderLayer(8, 1, 16)
    return nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), block, Dropout(0.5))


def weights(seed):
    return build(make, generator(seed)).state_dict()


def dropout(probability=0.3, seed=0) -> Dropout:
    return build(lambda: Dropout(probability), generator(seed))


def test_the_global_generator_is_neither_read_nor_moved():
    before = torch.get_rng_state()
    first = weights(0)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    assert all(torch.equal(first[name], w) for name, w in weights(0).items())


def test_noise_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    dropout()(torch.ones(100))
    assert torch.equal(torch.get_rng_state(), before)


def test_another_seed_gives_other_weights():
    assert not torch.equal(weights(0)["0.weight"], weights(1)["0.weight"])


def test_every_weight_is_set_on_the_cpu():
    for name, w in weights(0).items():
        assert w.device.type == "cpu", name
        assert w.isfinite().all(), name
        assert w.abs().max() <= 1, name


def test_linear_layers_are_drawn_as_torch_does():
    layer = build(lambda: nn.Linear(64, 500), generator())
    bound = 1 / math.sqrt(64)
    assert layer.weight.abs().max() <= bound
    assert layer.bias.abs().max() <= bound
    assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)


def test_norms_start_as_the_identity_and_buffers_at_zero():
    norm = build(lambda: nn.LayerNorm(4), generator())
    assert norm.weight.tolist() == [1] * 4
    assert norm.bias.tolist() == [0] * 4
    module = nn.Module()
    module.register_buffer("counts", torch.ones(3))
    assert (build(lambda: module.to("meta"), generator()).get_buffer("counts") == 0).all()


def test_a_seeded_module_must_implement_draw():
    with pytest.raises(NotImplementedError):
        build(Seeded, generator())


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(probability):
    out = dropout(probability)(torch.ones(200_000))
    assert out.mean().item() == pytest.approx(1, abs=0.03)
    assert (out == 0).float().mean().item() == pytest.approx(probability, abs=0.01)
    kept = out[out > 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - probability)), rtol=1e-3, atol=0)


def test_dropout_is_off_for_inference_and_at_zero():
    x = torch.randn(50, generator=generator())
    assert torch.equal(dropout().eval()(x), x)
    assert torch.equal(dropout(0.0)(x), x)


def test_dropout_repeats_with_its_seed_and_changes_from_call_to_call():
    x = torch.ones(50)
    first, second = dropout(), dropout()
    outputs = [first(x), first(x)]
    assert torch.equal(outputs[0], second(x))
    assert torch.equal(outputs[1], second(x))
    assert not torch.equal(*outputs)
    assert not torch.equal(outputs[0], dropout(seed=1)(x))


def test_inference_does_not_consume_noise():
    first, second = dropout(), dropout()
    first.eval()(torch.ones(5))
    assert torch.equal(first.train()(torch.ones(50)), second(torch.ones(50)))


def test_two_dropouts_of_a_network_make_different_noise():
    pair = build(lambda: nn.ModuleList([Dropout(0.5), Dropout(0.5)]), generator())
    assert not torch.equal(pair[0](torch.ones(50)), pair[1](torch.ones(50)))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_continue_with_the_same_noise(duplicate):
    original = dropout()
    original(torch.ones(5))
    other = duplicate(original)
    assert torch.equal(other(torch.ones(50)), original(torch.ones(50)))


def test_dropout_passes_gradients_where_it_keeps():
    x = torch.ones(50, requires_grad=True)
    out = dropout()(x)
    out.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, out.detach())
