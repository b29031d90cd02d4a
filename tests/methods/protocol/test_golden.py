"""One batch through Algorithm 1 of the paper, against its formulas written out here in double precision.

Nothing of the library but the weights of the network enters the expected values: encoders, attention,
consensus, predictions, all losses, the POT labels and the first step of Adam are computed again.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.examples import TINY_PAPER, blobs, seeded
from torch import Tensor

from protocol_mvc import as_views
from protocol_mvc.data.batches import Batch, Source
from protocol_mvc.data.scaling import fit_scalers
from protocol_mvc.methods.protocol.algorithm import Protocol
from protocol_mvc.methods.protocol.config import PAPER
from protocol_mvc.nn.seeded import build
from protocol_mvc.training.loop import train
from protocol_mvc.training.stage import Stage
from protocol_mvc.utils.config import update_config

VIEWS, _ = blobs((12, 7, 5))
N, V, K = 24, 2, 3
TAU_F, TAU_L, EPSILON, ALPHA, SCALE = 0.5, 1.0, 0.1, 0.5, 10.0
CONFIG = update_config(TINY_PAPER, {"structure__dropout": 0.0, "structure__precision": "float32"})
BETA = CONFIG.pseudo_labels.prior_strength
SHARPNESS = PAPER.structure.alignment_sharpness  # type: ignore[union-attr]
STAGES = ["reconstruct", "align", "rebalance"]
FIRST_MASS = 0.1 + 0.9 * np.exp(-5)  # Eq. 16 at the start of stage 3


class DoubleSource(Source):
    """Batches in double precision."""

    def _batch(self, *args: Any) -> Batch:
        batch = super()._batch(*args)
        return batch._replace(views=[x.double() for x in batch.views])


class Expected(NamedTuple):
    """Outputs of the network, computed from its weights alone."""

    x_hat: list[Tensor]
    z: list[Tensor]
    h: list[Tensor]
    p_views: list[Tensor]
    g: Tensor
    consensus: Tensor
    u: Tensor
    p: Tensor


def data() -> Source:
    views = as_views(VIEWS)
    return DoubleSource(views, fit_scalers(views), batch_size=N, device=torch.device("cpu"))


def protocol() -> Protocol:
    method = build(lambda: Protocol(CONFIG, [5, 4], K), seeded()).double()
    with torch.no_grad():  # different weights of the views, biases and norms
        for parameter in method.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=seeded(1)).double())
    return method


def unit(x: Tensor) -> Tensor:
    return x / x.square().sum(1, keepdim=True).sqrt()


def expected_outputs(w: dict[str, Tensor], x: list[Tensor]) -> Expected:
    """The networks of the paper: autoencoders, attention between samples, consensus and cosine classifier."""

    def linear(name: str, y: Tensor) -> Tensor:
        return y @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def perceptron(name: str, y: Tensor) -> Tensor:
        return linear(f"{name}.2", linear(f"{name}.0", y).clamp_min(0))

    def norm(name: str, y: Tensor) -> Tensor:
        centered = y - y.mean(1, keepdim=True)
        deviation = (centered.square().mean(1, keepdim=True) + 1e-5).sqrt()
        return centered / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]

    def softmax(y: Tensor) -> Tensor:
        return y.exp() / y.exp().sum(1, keepdim=True)

    def classify(y: Tensor) -> Tensor:
        return softmax(SCALE * unit(y) @ unit(w["classifier.prototypes"]).T)

    z = [perceptron(f"autoencoders.{v}.encoder", x[v]) for v in range(V)]
    x_hat = [perceptron(f"autoencoders.{v}.decoder", z[v]) for v in range(V)]
    joined = torch.cat(z, dim=1)
    qkv = joined @ w["attention.attention.in_proj_weight"].T + w["attention.attention.in_proj_bias"]
    q, k, v = qkv.split(qkv.shape[1] // 3, dim=1)
    g = softmax(q @ k.T / q.shape[1] ** 0.5)
    y = norm("attention.norm_attention", joined + linear("attention.attention.out_proj", g @ v))
    s = norm("attention.norm_feedforward", y + perceptron("attention.feedforward", y))
    weight = softmax(w["consensus.view_logits"][None])[0]
    consensus = torch.zeros_like(z[0])
    for view, part in enumerate(s.split(z[0].shape[1], dim=1)):
        r = linear(f"consensus.layers.{view}", part)
        consensus = consensus + weight[view] * torch.where(r > 0, r, 0.01 * r)
    u = unit(linear("project_consensus", consensus))
    h = [unit(linear("project", part)) for part in z]
    return Expected(x_hat, z, h, [classify(part) for part in z], g, consensus, u, classify(consensus))


def nt_xent(
    a: Tensor, b: Tensor, tau: float, scale: Tensor | None = None, shift: Tensor | None = None
) -> Tensor:
    """Every row of a and b finds its partner among all other rows, in two loops."""
    rows, n = torch.cat([a, b]), len(a)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(2 * n):
        partner = (i + n) % (2 * n)
        positive = rows[i] @ rows[partner] / tau + (0.0 if shift is None else shift[i % n])
        denominator = positive.exp()
        for j in range(2 * n):
            if j not in (i, partner):
                factor = 1.0 if scale is None else scale[i % n, j % n]
                denominator = denominator + (factor * (rows[i] @ rows[j]) / tau).exp()
        total = total - (positive - denominator.log())
    return total / (2 * n)


def supervised_contrast(p: Tensor, t: "Labels") -> Tensor:
    """Eqs. 21-24: positives are samples with the same POT label (0.8) and its prototype (0.2)."""
    total = torch.zeros((), dtype=torch.float64)
    for i in range(N):
        others = [j for j in range(N) if j != i]
        to_samples = {j: p[i] @ p[j] / TAU_L for j in others}
        to_prototypes = t.soft[i] + t.log_frequency
        logits = torch.stack([*to_samples.values(), *to_prototypes])
        log_total = logits.exp().sum().log()
        same = [j for j in others if t.hard[j] == t.hard[i]]
        positive = sum((0.8 * (to_samples[j] - log_total) for j in same), torch.zeros(()))
        positive = positive + 0.2 * (to_prototypes[t.hard[i]] - log_total)
        total = total - positive / (0.8 * len(same) + 0.2)
    return total / N


class Labels(NamedTuple):
    """POT labels: N T, the largest entry of every row, log of the shares of the clusters."""

    soft: Tensor
    hard: Tensor
    log_frequency: Tensor


def expected_labels(p_hat: np.ndarray[Any, Any], mass: float) -> Labels:
    """Algorithm 2 of the appendix: scaling of M = P_hat^(1 / epsilon) with a virtual cluster."""
    m = np.hstack([p_hat ** (1 / EPSILON), np.ones((N, 1))])
    goal = np.append(np.full(K, mass / K), 1 - mass)
    f, b = np.append(np.full(K, BETA / (BETA + EPSILON)), 1.0), np.ones(K + 1)
    for _ in range(20_000):
        a = 1 / N / (m @ b)
        b = (goal / (m.T @ a)) ** f
    plan = ((1 / N / (m @ b))[:, None] * m * b)[:, :K]
    share = plan.sum(0) / plan.sum()
    return Labels(*map(torch.from_numpy, (N * plan, plan.argmax(1), np.log(np.maximum(share, 0.5 / N)))))


def mixed(e: Expected) -> Tensor:
    return ALPHA * e.p + (1 - ALPHA) / V * (e.p_views[0] + e.p_views[1])


def softer(p: Tensor) -> Tensor:
    """Predictions whose logits are multiplied by the sharpness of stage 2."""
    return p**SHARPNESS / (p**SHARPNESS).sum(1, keepdim=True)


def expected_losses(stage: str, w: dict[str, Tensor], x: list[Tensor]) -> dict[str, Tensor]:
    """The losses of a stage of Algorithm 1."""
    e = expected_outputs(w, x)
    errors = [(x[v] - e.x_hat[v]).square().mean() for v in range(V)]
    terms = {"reconstruction": torch.stack(errors).sum()}
    if stage == "reconstruct":
        return terms
    weight = V * w["consensus.view_logits"].detach().softmax(0)
    t, shift, g = None, None, e.g
    if stage == "rebalance":
        t = expected_labels(mixed(e).detach().numpy(), FIRST_MASS)
        shift = t.log_frequency[t.hard]
        q = t.soft / t.soft.sum(1, keepdim=True)
        g = (q[:, None] * q[None]).sum(2)  # probability of the same label
        terms["label"] = -(t.soft * mixed(e).log()).sum() / N
    terms["feature"], terms["class"] = torch.zeros(2, dtype=torch.float64)
    for v in range(V):
        contrast = nt_xent(e.h[v], e.u, TAU_F, 1 - g**2, shift)
        columns, other = (unit(softer(p).T) for p in (e.p_views[v], e.p))
        classes = nt_xent(columns, other, TAU_L) if t is None else supervised_contrast(e.p_views[v], t)
        terms["feature"] = terms["feature"] + weight[v] * contrast
        terms["class"] = terms["class"] + weight[v] * classes
    return terms


def weights(method: Protocol) -> dict[str, Tensor]:
    return {name: x.detach().clone().requires_grad_() for name, x in method.network.named_parameters()}


def stage_of(method: Protocol, name: str) -> Stage:
    return next(stage for stage in method.stages() if stage.name == name)


def whole(source: Source) -> Batch:
    return source.take(torch.arange(N))


def test_outputs_are_those_of_the_formulas():
    method, batch = protocol(), whole(data())
    out, x_hat = method(batch)
    e = expected_outputs(weights(method), batch.views)
    pairs: list[tuple[list[Tensor], list[Tensor]]] = [
        (x_hat, e.x_hat),
        (out.codes.z, e.z),
        (out.codes.h, e.h),
        ([x.softmax(1) for x in out.codes.logits], e.p_views),
        ([out.fused.g, out.fused.u, out.fused.logits.softmax(1)], [e.g, e.u, e.p]),
    ]
    for found, expected in pairs:
        for mine, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def started(method: Protocol, name: str) -> Any:
    """The context of the first epoch of a stage."""
    stage = stage_of(method, name)
    start = stage.on_start(data(), seeded()) if stage.on_start else None
    return stage.on_epoch_start(data(), seeded(), 0.0, start) if stage.on_epoch_start else None


def test_prototypes_start_at_the_mean_features_of_the_clusters():
    method, batch = protocol(), whole(data())
    e = expected_outputs(weights(method), batch.views)
    labels = method.pseudo_labels.start(data(), seeded())
    both = ALPHA * unit(e.consensus) + (1 - ALPHA) / V * (unit(e.z[0]) + unit(e.z[1]))
    assert set(labels.tolist()) == set(range(K))
    for cluster, prototype in enumerate(method.network.classifier.prototypes):
        torch.testing.assert_close(prototype, both[labels == cluster].mean(0))
    torch.testing.assert_close(method.prior, torch.full((K,), 1 / K, dtype=torch.float64))


def test_labels_are_those_of_algorithm_2():
    method = protocol()
    found = started(method, "rebalance").labels
    e = expected_outputs(weights(method), whole(data()).views)
    expected = expected_labels(mixed(e).detach().numpy(), FIRST_MASS)
    assert float(found.soft.sum()) == pytest.approx(N * FIRST_MASS)
    for mine, theirs in zip((found.soft, found.hard, found.log_frequency), expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", STAGES)
def test_losses_are_those_of_the_formulas(name: str):
    method, batch = protocol(), whole(data())
    context = started(method, name)
    step = stage_of(method, name).step
    assert step is not None
    found, expected = step(batch, 0.0, context), expected_losses(name, weights(method), batch.views)
    assert found.keys() == expected.keys()
    for term, value in expected.items():
        torch.testing.assert_close(found[term], value, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", STAGES)
def test_the_first_step_is_that_of_adam_on_the_sum_of_the_losses(name: str):
    trained, method = protocol(), protocol()
    train(trained, [stage_of(trained, name)._replace(n_epochs=1)], data(), seeded())
    started(method, name)
    before = weights(method)
    torch.stack(list(expected_losses(name, before, whole(data()).views).values())).sum().backward()
    lr, moved = stage_of(method, name).optimizer.lr, 0
    for parameter, after in trained.network.named_parameters():
        gradient = before[parameter].grad
        if gradient is None:
            torch.testing.assert_close(after, before[parameter])
            continue
        clear = gradient.abs() > 1e-6  # below, the sign of the gradient is a matter of rounding
        step = lr * gradient / (gradient.abs() + 1e-8)
        torch.testing.assert_close(after[clear], (before[parameter] - step)[clear], rtol=0, atol=1e-2 * lr)
        moved += int(clear.sum())
    assert moved > 100
