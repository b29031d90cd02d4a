"""DSIMVC: filled-in samples, their weights, and a weigher that learns from complete samples alone."""

import pytest
import torch
from tests.examples import blobs, seeded, source, with_gaps
from tests.methods.small import made, small
from torch.func import functional_call

from protocol_mvc.losses.contrastive import class_contrast, spectral_contrast
from protocol_mvc.methods.base import sum_of
from protocol_mvc.training.loop import train

VIEWS = blobs(dims=(5, 4, 3))[0]
WHOLE, GAPS = source(VIEWS, batch_size=30), source(with_gaps(VIEWS), batch_size=30)
DIMS = [5, 4, 3]


def drawn(method):
    donors = method.find_donors(GAPS, seeded())
    return method.draw(GAPS, seeded(), 0.0, donors)


def test_a_step_sees_complete_and_filled_in_samples():
    complete, filled = drawn(made("dsimvc", DIMS))
    assert filled is not None
    mask = torch.from_numpy(GAPS.views.mask).all(1)
    assert mask[complete.rows].all()
    assert not mask[filled.rows].any()
    assert filled.present is None


def test_the_loss_of_complete_samples():
    method = made("dsimvc", DIMS)
    codes = method(next(WHOLE.shuffled(seeded())).views)
    losses = {name: value.item() for name, value in method._agree(codes).items()}
    p = [x.softmax(1) for x in codes.logits]
    pairs = ((0, 1), (0, 2), (1, 2))
    feature = sum(spectral_contrast(codes.h[v], codes.h[w]).sum().item() for v, w in pairs)
    label = sum(class_contrast(p[v], p[w], temperature=1.0, own_negatives=True).item() for v, w in pairs)
    assert losses["feature"] == pytest.approx(feature, rel=1e-4)
    assert losses["label"] == pytest.approx(label, rel=1e-4)


@pytest.mark.parametrize(("rescale", "factor"), [(False, 1 / 30), (True, 1.0)])
def test_samples_of_equal_weight_count_as_their_mean(rescale: bool, factor: float):
    method = made("dsimvc", DIMS, rescale_incomplete=rescale)
    codes = method(next(WHOLE.shuffled(seeded())).views)
    plain = method._agree(codes)
    weighed = method._agree(codes, torch.full((30,), 0.3))
    assert weighed["feature"].item() == pytest.approx(factor * plain["feature"].item(), rel=1e-4)
    assert weighed["label"].item() == pytest.approx(plain["label"].item())


def test_only_the_weigher_learns_from_the_judgement():
    method = made("dsimvc", DIMS)
    complete, filled = drawn(method)
    losses = method.safe(next(GAPS.shuffled(seeded())), 0.0, (complete, filled))
    losses["weights"].backward()
    learning = {name for name, x in method.named_parameters() if x.grad is not None and x.grad.any()}
    assert learning
    assert all(name.startswith("weigher") for name in learning)


def test_the_judgement_is_the_loss_after_the_step_and_its_slope():
    method = made("dsimvc", DIMS, virtual_rate=0.5).double()
    double = lambda batch: batch._replace(views=[x.double() for x in batch.views])
    complete, filled = map(double, drawn(made("dsimvc", DIMS)))

    def after() -> torch.Tensor:
        codes = method(filled.views)
        weight = method.weigher(torch.stack([x.softmax(1) for x in codes.logits]).mean(0))[:, 0]
        tried = [*method._agree(method(complete.views)).values(), *method._agree(codes, weight).values()]
        parameters = dict(method.network.named_parameters(prefix="network"))
        slopes = torch.autograd.grad(sum(tried), list(parameters.values()), allow_unused=True)
        named = zip(parameters.items(), slopes, strict=True)
        moved = {name: x - 0.5 * slope for (name, x), slope in named if slope is not None}
        return sum_of(method._agree(functional_call(method, moved, (complete.views,))).values())

    judged = method.safe(complete, 0.0, (complete, filled))["weights"]
    assert judged.item() == pytest.approx(after().item())
    judged.backward()
    bias = method.weigher[0][2].bias
    step = 1e-4
    with torch.no_grad():
        bias.add_(step)
    above = after().item()
    with torch.no_grad():
        bias.sub_(2 * step)
    assert bias.grad.item() == pytest.approx((above - after().item()) / (2 * step), rel=1e-3, abs=1e-12)


def test_complete_data_need_no_helper():
    method = made("dsimvc", DIMS)
    history = train(method, method.stages(), WHOLE, seeded())
    assert {epoch.stage for epoch in history} == {"reconstruct", "safe"}
    assert "weights" not in history[-1].losses


def test_gaps_are_filled_with_the_help_of_a_network_of_its_own():
    method = made("dsimvc", DIMS)
    history = train(method, method.stages(), GAPS, seeded())
    assert {epoch.stage for epoch in history} == {
        "reconstruct",
        "helper reconstruct",
        "helper contrast",
        "safe",
    }
    assert "weights" in history[-1].losses


def test_neighbours_may_be_found_anew_in_every_step():
    method = made("dsimvc", DIMS, dynamic_imputation=True)
    assert method.draw(GAPS, seeded(), 0.0, torch.zeros(90, 3, 4, dtype=torch.int64))[1] is not None


def test_there_must_be_complete_samples():
    gaps = with_gaps(VIEWS, share=1.1)
    with pytest.raises(ValueError, match="DSIMVC learns from samples that have all views"):
        small("dsimvc").fit(gaps)
