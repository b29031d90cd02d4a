"""Attention over samples and the weighted consensus."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from protocol_mvc.nn.fusion import Consensus, GcfAggAttention, Projections, SampleAttention, WeightedMean
from protocol_mvc.nn.seeded import build

WIDTH = 6
few = settings(max_examples=30)
seeds = st.integers(0, 2**32)


def attention(dropout=0.0, attention_dim=None) -> SampleAttention:
    block = build(lambda: SampleAttention(WIDTH, 8, dropout, attention_dim), torch.Generator().manual_seed(0))
    return block.double()


def consensus(n_views=3) -> Consensus:
    module = build(lambda: Consensus(n_views, WIDTH), torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        module.view_logits.copy_(torch.arange(n_views))
    return module


def rows(seed, n=5) -> Tensor:
    return torch.randn(n, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def views(seed, n_views=3) -> list[Tensor]:
    return [rows(seed + v) for v in range(n_views)]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_attention_rows_are_distributions(n, training):
    s, g = attention(0.5).train(training)(rows(0, n))
    assert (s.shape, g.shape) == ((n, WIDTH), (n, n))
    assert (g >= 0).all()
    torch.testing.assert_close(g.sum(1), torch.ones_like(g[0]))


def test_squares_of_small_attention_are_normal_numbers():
    z = rows(0, 7)
    _, g = attention()(1000 * z)
    assert (g.float().square() >= torch.finfo(torch.float32).tiny).all()
    assert (g.amin(1) < 1e-12).all()  # where the formula would have zeros
    torch.testing.assert_close(g.sum(1), torch.ones_like(g[0]))


def test_attention_is_drawn_as_torch_does():
    layer = build(lambda: Projections(64, 32), torch.Generator().manual_seed(0))
    expected = math.sqrt(2 / (64 + 3 * 32))  # Xavier
    assert layer.in_proj_weight.std().item() == pytest.approx(expected, rel=0.02)
    assert (layer.in_proj_bias == 0).all()


@pytest.mark.parametrize("attention_dim", [None, 2])
def test_attention_equals_its_formula(attention_dim):
    block, z = attention(attention_dim=attention_dim), rows(0)
    q, k, v = (z @ block.attention.in_proj_weight.T + block.attention.in_proj_bias).chunk(3, dim=1)
    assert q.shape == (len(z), attention_dim or WIDTH)
    g = (q @ k.T / q.shape[1] ** 0.5).softmax(1)
    attended = block.attention.out_proj(g @ v)
    s = functional.layer_norm(z + attended, (WIDTH,))
    expected = functional.layer_norm(s + block.feedforward(s), (WIDTH,))
    torch.testing.assert_close(block(z), (expected, g))


@few
@given(seeds, st.permutations(range(5)))
def test_the_order_of_samples_is_free(seed, order):
    block, z = attention(), rows(seed)
    s, g = block(z)
    permuted = block(z[order])
    torch.testing.assert_close(permuted, (s[order], g[order][:, order]))


def test_features_depend_on_the_batch():
    block, z = attention(), rows(0)
    assert not torch.allclose(block(z)[0][0], block(z[:2])[0][0])


def test_dropout_acts_on_features_and_not_on_attention():
    z = rows(0)
    noisy, calm = attention(0.5).train()(z), attention(0.5).eval()(z)
    assert not torch.allclose(noisy[0], calm[0])
    torch.testing.assert_close(noisy[1], calm[1])


@pytest.mark.parametrize("n_views", [1, 2, 5])
def test_consensus_weights_sum_to_one_and_start_equal(n_views):
    fresh = build(lambda: Consensus(n_views, WIDTH), torch.Generator().manual_seed(0))
    torch.testing.assert_close(fresh.weights(), torch.full((n_views,), 1 / n_views))
    assert consensus(n_views).weights().sum().item() == pytest.approx(1)


@few
@given(seeds)
def test_consensus_is_the_weighted_sum(seed):
    module, s = consensus(), views(seed)
    w = module.weights().tolist()
    expected = sum(w[v] * functional.leaky_relu(module.layers[v](s[v])) for v in range(3))
    torch.testing.assert_close(module(s), expected)


def test_all_views_present_is_the_complete_case():
    module, s = consensus(), views(0)
    torch.testing.assert_close(module(s, torch.ones(5, 3, dtype=torch.bool)), module(s))


@few
@given(seeds)
def test_a_sample_of_one_view_is_that_view(seed):
    module, s = consensus(), views(seed)
    present = torch.tensor([[False, True, False]]).expand(5, 3)
    torch.testing.assert_close(module(s, present), functional.leaky_relu(module.layers[1](s[1])))


@few
@given(seeds)
def test_present_views_keep_their_proportions(seed):
    module, s = consensus(), views(seed)
    w = module.weights()
    pieces = [functional.leaky_relu(module.layers[v](s[v])) for v in range(3)]
    expected = (w[0] * pieces[0] + w[2] * pieces[2]) / (w[0] + w[2])
    present = torch.tensor([[True, False, True]]).expand(5, 3)
    torch.testing.assert_close(module(s, present), expected)


def test_the_number_of_views_must_agree():
    with pytest.raises(ValueError, match="zip"):
        consensus()(views(0, n_views=2))


def gcfagg_attention(dropout=0.0) -> GcfAggAttention:
    block = build(lambda: GcfAggAttention(WIDTH, 8, dropout), torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        block.norm_attention.weight.add_(torch.arange(WIDTH))  # else both norms would be the same
    return block


def test_gcfagg_attention_equals_its_formula():
    block, x = gcfagg_attention(), rows(0)
    u = block.norm_attention(x)
    q, k, v = (u @ block.attention.in_proj_weight.T + block.attention.in_proj_bias).chunk(3, dim=1)
    s = (q @ k.T / WIDTH**0.5).softmax(1)
    y = block.norm_attention(x + block.attention.out_proj(s @ v))
    torch.testing.assert_close(block(x), (block.norm_feedforward(y + block.feedforward(y)), s))


def test_gcfagg_attention_has_dropout_in_training_alone():
    x = rows(0)
    s = gcfagg_attention(0.5).train()(x)[1]
    assert (s == 0).any()
    torch.testing.assert_close(gcfagg_attention(0.5).eval()(x)[1].sum(1), torch.ones_like(x[:, 0]))


def test_with_anchors_a_sample_attends_to_them_and_itself_alone():
    block, x, anchors = gcfagg_attention().eval(), rows(0), rows(1, n=3)
    found, s = block(x, anchors)
    assert s.shape == (5, 4)
    for i in range(5):
        alone = block(torch.cat([x[i : i + 1], anchors]))[0][0]
        torch.testing.assert_close(found[i], alone)


def test_the_weighted_mean_is_over_the_views_that_a_sample_has():
    mean = WeightedMean(2)
    mean.view_logits.data = torch.tensor([0.0, math.log(3)])
    z = [torch.tensor([[4.0], [4.0]]), torch.tensor([[8.0], [8.0]])]
    assert mean(z)[:, 0].tolist() == pytest.approx([7, 7])
    assert mean(z, torch.tensor([[True, True], [True, False]]))[:, 0].tolist() == pytest.approx([7, 4])
