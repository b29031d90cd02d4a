"""The network: views are encoded once, and absent views are as if they were not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from protocol_mvc.nn.network import Codes, MultiViewNetwork, SharedHeads, Widths, pairs, rows_of
from protocol_mvc.nn.seeded import build

DIMS, N, K = [5, 3, 4], 6, 4
few = settings(max_examples=30)
seeds = st.integers(0, 2**32)
masks = st.lists(st.lists(st.booleans(), min_size=3, max_size=3).filter(any), min_size=N, max_size=N)
latent_or_feature = pytest.mark.parametrize("classify_latent", [True, False])


def network(classify_latent=False, dims=DIMS, dropout=0.0) -> MultiViewNetwork:
    widths = Widths(hidden=(7,), latent=6, feature=3, feedforward=8, attention=5)
    return build(
        lambda: MultiViewNetwork(
            dims, K, widths, dropout=dropout, scale=10.0, classify_latent=classify_latent
        ),
        torch.Generator().manual_seed(0),
    ).double()


def data(seed=0, dims=DIMS, n=N) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, d, dtype=torch.float64, generator=generator) for d in dims]


@latent_or_feature
@pytest.mark.parametrize("dims", [[5], [5, 3], DIMS])
def test_shapes_and_unit_rows(dims, classify_latent):
    net = network(classify_latent, dims)
    codes, x_hat = net(data(dims=dims))
    fused = net.fuse(codes.z)
    assert [x.shape for x in x_hat] == [(N, d) for d in dims]
    assert {x.shape for x in codes.z + fused.s} == {(N, 6)}
    assert {x.shape for x in [*codes.logits, fused.logits]} == {(N, K)}
    assert fused.g.shape == (N, N)
    for unit in [*codes.h, fused.u]:
        assert unit.shape == (N, 3)
        torch.testing.assert_close(unit.square().sum(1), torch.ones_like(unit[:, 0]))


@latent_or_feature
def test_encode_gives_the_codes_of_forward(classify_latent):
    net = network(classify_latent)
    torch.testing.assert_close(net.encode(data()), net(data())[0], rtol=0, atol=0)


def test_reconstruct_gives_the_reconstructions_of_forward():
    net = network()
    torch.testing.assert_close(net.reconstruct(data()), net(data())[1], rtol=0, atol=0)


@latent_or_feature
def test_every_view_is_encoded_once(classify_latent):
    net, calls = network(classify_latent), []
    for v, autoencoder in enumerate(net.autoencoders):
        autoencoder.get_submodule("encoder").register_forward_hook(lambda *_, v=v: calls.append(v))
    codes, _ = net(data())
    list(pairs(codes, net.fuse(codes.z), None))
    assert calls == [0, 1, 2]
    net.encode(data())
    assert calls == [0, 1, 2] * 2


@latent_or_feature
def test_the_classifier_sees_what_it_is_told_to(classify_latent):
    net = network(classify_latent)
    codes = net.encode(data())
    seen = codes.z if classify_latent else codes.h
    torch.testing.assert_close(codes.logits, [net.classifier(x) for x in seen])
    fused = net.fuse(codes.z)
    consensus = net.consensus(fused.s)
    torch.testing.assert_close(fused.logits, net.classifier(consensus if classify_latent else fused.u))


@few
@given(seeds, masks)
def test_absent_views_have_no_influence(seed, mask):
    present = torch.tensor(mask)
    net = network()
    z, other = net.encode(data()).z, net.encode(data(seed)).z
    changed = [torch.where(here[:, None], a, b) for a, b, here in zip(z, other, present.T, strict=True)]
    torch.testing.assert_close(net.fuse(changed, present), net.fuse(z, present), rtol=0, atol=0)


def test_all_views_present_is_the_complete_case():
    net = network()
    z = net.encode(data()).z
    torch.testing.assert_close(net.fuse(z, torch.ones(N, 3, dtype=torch.bool)), net.fuse(z))


@few
@given(st.permutations(range(N)), masks)
def test_the_order_of_samples_is_free(order, mask):
    net, present = network(), torch.tensor(mask)
    z = net.encode(data()).z
    fused = net.fuse(z, present)
    permuted = net.fuse([x[order] for x in z], present[order])
    torch.testing.assert_close(permuted.g, fused.g[order][:, order])
    for ours, theirs in zip(
        [permuted.u, permuted.logits, *permuted.s], [fused.u, fused.logits, *fused.s], strict=True
    ):
        torch.testing.assert_close(ours, theirs[order])


def test_codes_of_a_sample_do_not_depend_on_its_company():
    net = network()
    alone, together = net.encode([x[2:3] for x in data()]), net.encode(data())
    torch.testing.assert_close(alone, Codes(*([x[2:3] for x in part] for part in together)))


def test_dropout_is_off_for_inference():
    net = network(dropout=0.5)
    z = net.encode(data()).z
    assert not torch.equal(net.train().fuse(z).u, net.fuse(z).u)
    assert torch.equal(net.eval().fuse(z).u, net.fuse(z).u)


@few
@given(masks)
def test_rows_of_lists_the_rows_that_have_each_view(mask):
    found = dict(rows_of(torch.tensor(mask), 3))
    for v in range(3):
        expected = [i for i in range(N) if mask[i][v]]
        rows = found.get(v)
        assert (rows.tolist() if isinstance(rows, Tensor) else []) == expected


def test_rows_of_complete_data_are_all_rows():
    assert list(rows_of(None, 2)) == [(0, slice(None)), (1, slice(None))]


@latent_or_feature
@few
@given(masks)
def test_pairs_hold_the_samples_that_have_the_view(classify_latent, mask):
    net, present = network(classify_latent), torch.tensor(mask)
    codes = net.encode(data())
    fused = net.fuse(codes.z, present)
    found = list(pairs(codes, fused, present))
    assert [x.view for x in found] == [v for v in range(3) if present[:, v].any()]
    for x in found:
        rows = present[:, x.view]
        v = x.view
        own = [codes.z[v], fused.s[v], codes.h[v], codes.logits[v], fused.u, fused.logits]
        held = [x.z, x.s, x.h, x.logits, x.u, x.consensus_logits]
        assert all(torch.equal(a, b[rows]) for a, b in zip(held, own, strict=True))
        assert torch.equal(x.g, fused.g[rows][:, rows])


def test_pairs_of_complete_data_hold_everything():
    net = network()
    codes = net.encode(data())
    fused = net.fuse(codes.z)
    for v, x in enumerate(pairs(codes, fused, None)):
        assert x.view == v
        assert torch.equal(x.g, fused.g)
        assert torch.equal(x.h, codes.h[v])


def test_the_same_seed_gives_the_same_network():
    assert all(torch.equal(a, b) for a, b in zip(network().parameters(), network().parameters(), strict=True))


def test_neither_building_nor_training_moves_the_global_generator():
    before = torch.get_rng_state()
    net = network(dropout=0.5)
    net.fuse(net(data())[0].z).logits.sum().backward()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("between", [(), (5,)], ids=["one layer", "two layers"])
@pytest.mark.parametrize("unit", [True, False])
def test_shared_heads_see_every_view(unit, between):
    net = build(lambda: SharedHeads(DIMS, K, ((7,), 6, 3), between=between, unit=unit), torch.Generator())
    codes, x_hat = net.double()(data())
    assert [x.shape for x in x_hat] == [(N, d) for d in DIMS]
    for z, h, logits in zip(*codes, strict=True):
        torch.testing.assert_close(logits, net.classifier(z))
        assert h.shape == (N, 3)
        assert torch.allclose(h.norm(dim=1), torch.ones(N).double()) == unit
