"""The networks: views are encoded once, and absent views have no influence."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import seeded
from torch import Tensor

from protocol_mvc.nn.network import (
    MeanConsensusNetwork,
    MultiViewNetwork,
    ViewOutputs,
    present_rows,
    view_consensus_pairs,
)
from protocol_mvc.nn.seeded import build

DIMS, N, K = [5, 3, 4], 6, 4
few = settings(max_examples=30)
seeds = st.integers(0, 2**32)
masks = st.lists(st.lists(st.booleans(), min_size=3, max_size=3).filter(any), min_size=N, max_size=N)
both_inputs = pytest.mark.parametrize("classifier_input", ["latent", "projection"])


def network(classifier_input="projection", dims=DIMS, dropout=0.0) -> MultiViewNetwork:
    sizes: dict[str, Any] = {
        "hidden_dims": (7,),
        "latent_dim": 6,
        "projection_dim": 3,
        "dim_feedforward": 8,
        "attention_dim": 5,
    }
    options: dict[str, Any] = {"dropout": dropout, "logit_scale": 10.0, "classifier_input": classifier_input}
    return build(lambda: MultiViewNetwork(dims, K, **sizes, **options), seeded()).double()


def data(seed=0, dims=DIMS, n=N) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, d, dtype=torch.float64, generator=generator) for d in dims]


@both_inputs
@pytest.mark.parametrize("dims", [[5], [5, 3], DIMS])
def test_shapes_and_unit_rows(dims, classifier_input):
    net = network(classifier_input, dims)
    codes, x_hat = net(data(dims=dims))
    fused = net.fuse(codes.z)
    assert [x.shape for x in x_hat] == [(N, d) for d in dims]
    assert {x.shape for x in codes.z + fused.s} == {(N, 6)}
    assert {x.shape for x in [*codes.logits, fused.logits]} == {(N, K)}
    assert fused.g.shape == (N, N)
    for unit in [*codes.h, fused.u]:
        assert unit.shape == (N, 3)
        torch.testing.assert_close(unit.square().sum(1), torch.ones_like(unit[:, 0]))


@both_inputs
def test_encode_gives_the_outputs_of_forward(classifier_input):
    net = network(classifier_input)
    torch.testing.assert_close(net.encode(data()), net(data())[0], rtol=0, atol=0)


def test_reconstruct_gives_the_reconstructions_of_forward():
    net = network()
    torch.testing.assert_close(net.reconstruct(data()), net(data())[1], rtol=0, atol=0)


@both_inputs
def test_every_view_is_encoded_once(classifier_input):
    net, calls = network(classifier_input), []
    for v, autoencoder in enumerate(net.autoencoders):
        autoencoder.get_submodule("encoder").register_forward_hook(lambda *_, v=v: calls.append(v))
    codes, _ = net(data())
    list(view_consensus_pairs(codes, net.fuse(codes.z), None))
    assert calls == [0, 1, 2]
    net.encode(data())
    assert calls == [0, 1, 2] * 2


@both_inputs
def test_the_classifier_is_applied_to_its_input(classifier_input):
    net = network(classifier_input)
    codes = net.encode(data())
    seen = codes.z if classifier_input == "latent" else codes.h
    torch.testing.assert_close(codes.logits, [net.classifier(x) for x in seen])
    fused = net.fuse(codes.z)
    consensus = net.consensus(fused.s)
    torch.testing.assert_close(
        fused.logits, net.classifier(consensus if classifier_input == "latent" else fused.u)
    )


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


def test_outputs_of_a_view_do_not_depend_on_the_batch():
    net = network()
    alone, together = net.encode([x[2:3] for x in data()]), net.encode(data())
    torch.testing.assert_close(alone, ViewOutputs(*([x[2:3] for x in part] for part in together)))


def test_dropout_is_off_for_inference():
    net = network(dropout=0.5)
    z = net.encode(data()).z
    assert not torch.equal(net.train().fuse(z).u, net.fuse(z).u)
    assert torch.equal(net.eval().fuse(z).u, net.fuse(z).u)


@few
@given(masks)
def test_present_rows_are_the_rows_that_have_each_view(mask):
    found = dict(present_rows(torch.tensor(mask), 3))
    for v in range(3):
        expected = [i for i in range(N) if mask[i][v]]
        rows = found.get(v)
        assert (rows.tolist() if isinstance(rows, Tensor) else []) == expected


def test_present_rows_of_complete_data_are_all_rows():
    assert list(present_rows(None, 2)) == [(0, slice(None)), (1, slice(None))]


@both_inputs
@few
@given(masks)
def test_pairs_hold_the_samples_that_have_the_view(classifier_input, mask):
    net, present = network(classifier_input), torch.tensor(mask)
    codes = net.encode(data())
    fused = net.fuse(codes.z, present)
    found = list(view_consensus_pairs(codes, fused, present))
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
    for v, x in enumerate(view_consensus_pairs(codes, fused, None)):
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


class TestMeanConsensusNetwork:
    """Projections with a mean, and a classifier of both; nothing depends on other samples."""

    def network(self, dims=DIMS, hidden_dims=(7,)) -> MeanConsensusNetwork:
        make = lambda: MeanConsensusNetwork(
            dims, K, hidden_dims=hidden_dims, projection_dim=3, logit_scale=10.0
        )
        return build(make, seeded()).double()

    @pytest.mark.parametrize("dims", [[5], [5, 3], DIMS])
    @pytest.mark.parametrize("hidden_dims", [(), (7,), (7, 6)])
    def test_shapes_and_unit_rows(self, dims, hidden_dims):
        net = self.network(dims, hidden_dims)
        codes, x_hat = net(data(dims=dims))
        fused = net.fuse(codes.z)
        assert x_hat == []
        assert {x.shape for x in [*codes.logits, fused.logits]} == {(N, K)}
        for unit in [*codes.h, fused.u]:
            assert unit.shape == (N, 3)
            torch.testing.assert_close(unit.square().sum(1), torch.ones_like(unit[:, 0]))

    @few
    @given(masks)
    def test_consensus_is_the_mean_of_the_views_that_a_sample_has(self, mask):
        net, present = self.network(), torch.tensor(mask)
        h = net.encode(data()).h
        fused = net.fuse(h, present)
        for i in range(N):
            mean = torch.stack([h[v][i] for v in range(3) if mask[i][v]]).mean(0)
            torch.testing.assert_close(fused.u[i], mean / mean.norm())
        torch.testing.assert_close(fused.logits, net.classifier(fused.u))

    def test_consensus_of_a_single_view_is_the_view(self):
        net = self.network()
        h = net.encode(data()).h
        only = torch.tensor([[False, True, False]] * N)
        torch.testing.assert_close(net.fuse(h, only).u, h[1])

    def test_all_views_present_is_the_complete_case(self):
        net = self.network()
        h = net.encode(data()).h
        torch.testing.assert_close(net.fuse(h, torch.ones(N, 3, dtype=torch.bool)), net.fuse(h))

    @few
    @given(seeds, masks)
    def test_outputs_of_a_sample_depend_on_its_views_alone(self, seed, mask):
        net, present = self.network(), torch.tensor(mask)
        other = data(seed)
        changed = [
            torch.where((present[:, [v]] & (torch.arange(N) == 2)[:, None]), x, other[v])
            for v, x in enumerate(data())
        ]
        first, second = (net.fuse(net.encode(views).h, present) for views in (data(), changed))
        torch.testing.assert_close(first.u[2], second.u[2])
        torch.testing.assert_close(first.logits[2], second.logits[2])

    def test_every_encoder_gets_a_gradient_from_the_consensus(self):
        net = self.network()
        net.fuse(net.encode(data()).h).logits.square().sum().backward()
        assert all(p.grad is not None and p.grad.any() for p in net.parameters())
