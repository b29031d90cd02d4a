"""DSIMVC: imputed views, weights of imputed samples, and donors of missing views."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import blobs, seeded, source, with_gaps
from tests.methods.small import made, small
from torch import Tensor
from torch.func import functional_call

from protocol_mvc.losses.contrastive import class_contrast, spectral_contrast
from protocol_mvc.methods.base import sum_of
from protocol_mvc.methods.dsimvc import NO_DONOR, impute_from_donors, nearest_donors
from protocol_mvc.training.loop import train

VIEWS = blobs(dims=(5, 4, 3))[0]
WHOLE, GAPS = source(VIEWS, batch_size=30), source(with_gaps(VIEWS), batch_size=30)
DIMS = [5, 4, 3]


def drawn(method):
    donors = method.find_donors(GAPS, seeded())
    return method.draw(GAPS, seeded(), 0.0, donors)


def test_a_step_uses_complete_and_imputed_samples():
    complete, imputed = drawn(made("dsimvc", DIMS))
    assert imputed is not None
    mask = torch.from_numpy(GAPS.views.mask).all(1)
    assert mask[complete.rows].all()
    assert not mask[imputed.rows].any()
    assert imputed.present is None


def test_the_loss_of_complete_samples():
    method = made("dsimvc", DIMS)
    codes = method(next(WHOLE.shuffled(seeded())).views)
    losses = {name: value.item() for name, value in method.agreement(codes).items()}
    p = [x.softmax(1) for x in codes.logits]
    pairs = ((0, 1), (0, 2), (1, 2))
    feature = sum(spectral_contrast(codes.h[v], codes.h[w]).sum().item() for v, w in pairs)
    label = sum(class_contrast(p[v], p[w], temperature=1.0, own_negatives=True).item() for v, w in pairs)
    assert losses["feature"] == pytest.approx(feature, rel=1e-4)
    assert losses["label"] == pytest.approx(label, rel=1e-4)


def test_a_contrast_with_equal_weights_is_the_mean_over_samples():
    method = made("dsimvc", DIMS)
    outputs = method(next(WHOLE.shuffled(seeded())).views)
    plain, weighted = method.agreement(outputs), method.agreement(outputs, torch.full((30,), 0.3))
    assert weighted["feature"].item() == pytest.approx(plain["feature"].item() / 30, rel=1e-4)
    assert weighted["label"].item() == pytest.approx(plain["label"].item())


def test_only_the_weight_network_learns_from_the_outer_loss():
    method = made("dsimvc", DIMS)
    complete, imputed = drawn(method)
    losses = method.safe(next(GAPS.shuffled(seeded())), 0.0, (complete, imputed))
    losses["weights"].backward()
    learning = {name for name, x in method.named_parameters() if x.grad is not None and x.grad.any()}
    assert learning
    assert all(name.startswith("weight_net") for name in learning)


def test_the_outer_loss_and_its_gradient_are_those_after_the_inner_step():
    method = made("dsimvc", DIMS, inner_lr=0.5).double()
    double = lambda batch: batch._replace(views=[x.double() for x in batch.views])
    complete, imputed = map(double, drawn(made("dsimvc", DIMS)))

    def outer_loss() -> torch.Tensor:
        codes = method(imputed.views)
        weight = method.weight_net(torch.stack([x.softmax(1) for x in codes.logits]).mean(0))[:, 0]
        inner = [
            *method.agreement(method(complete.views)).values(),
            *method.agreement(codes, weight).values(),
        ]
        parameters = dict(method.network.named_parameters(prefix="network"))
        slopes = torch.autograd.grad(sum(inner), list(parameters.values()), allow_unused=True)
        named = zip(parameters.items(), slopes, strict=True)
        moved = {name: x - 0.5 * slope for (name, x), slope in named if slope is not None}
        return sum_of(method.agreement(functional_call(method, moved, (complete.views,))).values())

    outer = method.safe(complete, 0.0, (complete, imputed))["weights"]
    assert outer.item() == pytest.approx(outer_loss().item())
    outer.backward()
    bias = method.weight_net[0][2].bias
    step = 1e-4
    with torch.no_grad():
        bias.add_(step)
    above = outer_loss().item()
    with torch.no_grad():
        bias.sub_(2 * step)
    assert bias.grad.item() == pytest.approx((above - outer_loss().item()) / (2 * step), rel=1e-3, abs=1e-12)


def test_complete_data_need_no_imputer():
    method = made("dsimvc", DIMS)
    history = train(method, method.stages(), WHOLE, seeded())
    assert {epoch.stage for epoch in history} == {"reconstruct", "safe"}
    assert "weights" not in history[-1].losses


def test_missing_views_are_imputed_by_a_network_of_its_own():
    method = made("dsimvc", DIMS)
    history = train(method, method.stages(), GAPS, seeded())
    assert {epoch.stage for epoch in history} == {
        "reconstruct",
        "imputer reconstruct",
        "imputer contrast",
        "safe",
    }
    assert "weights" in history[-1].losses


def test_there_must_be_complete_samples():
    gaps = with_gaps(VIEWS, share=1.1)
    with pytest.raises(ValueError, match="all views"):
        small("dsimvc").fit(gaps)


def features(seed: int, n: int = 12, n_views: int = 3) -> list[Tensor]:
    return list(torch.randn(n_views, n, 4, generator=torch.Generator().manual_seed(seed)))


def masks(n: int = 12, n_views: int = 3):
    row = st.lists(st.booleans(), min_size=n_views, max_size=n_views).filter(any)
    return st.lists(row, min_size=n - 1, max_size=n - 1).map(lambda rows: [*rows, [True] * n_views])


def expected(x: list[Tensor], mask: list[list[bool]], i: int, v: int, count: int) -> list[int]:
    """One sample and view after the other."""
    found: list[int] = []
    for w in range(len(x)):
        if not mask[i][w]:
            continue
        candidates = [j for j in range(len(mask)) if mask[j][v] and mask[j][w]]
        similar = sorted(candidates, key=lambda j: -float(x[w][i] @ x[w][j]))
        found += similar[: 1 if found else count]
    return found


@settings(max_examples=30)
@given(st.integers(0, 1000), masks(), st.integers(1, 4))
def test_donors_are_those_of_the_loop(seed: int, mask: list[list[bool]], count: int):
    x = features(seed)
    donors = nearest_donors(x, torch.tensor(mask), count)
    assert donors.shape == (12, 3, count + 1)
    for i in range(12):
        for v in range(3):
            here = [j for j in donors[i, v].tolist() if j != NO_DONOR]
            assert here == ([] if mask[i][v] else expected(x, mask, i, v, count))


def test_imputed_views_are_means_of_donors_and_others_stay():
    data = source(with_gaps(blobs()[0]))
    x = [data.take(torch.arange(90)).views[v] for v in range(2)]
    donors = nearest_donors(x, torch.from_numpy(data.views.mask), 3)
    rows = torch.arange(40)
    batch = impute_from_donors(data, data.take(rows), donors)
    assert batch.present is None
    for v in range(2):
        for i in rows.tolist():
            own = x[v][i] if data.views.mask[i, v] else x[v][donors[i, v]].mean(0)
            np.testing.assert_allclose(batch.views[v][i], own, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [1, 3])
def test_complete_data_have_no_donors(count: int):
    donors = nearest_donors(features(0, n_views=1), torch.ones(12, 1, dtype=torch.bool), count)
    assert (donors == NO_DONOR).all()
