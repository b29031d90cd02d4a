"""What SiMVC, CoMVC, AECoDDC and ARDMVC share: weights of the best epoch of the best run, without labels."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.examples import blobs, seeded, source
from tests.methods.small import made, small, small_config

from protocol_mvc.evaluation import metrics
from protocol_mvc.exceptions import DivergenceError, DivergenceWarning
from protocol_mvc.losses.clustering import ddc
from protocol_mvc.methods.base import infer_all, sum_of
from protocol_mvc.methods.ddc import HEAD_DIM, DdcConfig, DeepDdcConfig, FusionNetwork
from protocol_mvc.nn.seeded import build
from protocol_mvc.training import loop
from protocol_mvc.training.stage import Callback, EpochRecord

NAMES = ["simvc", "comvc", "aecoddc", "ardmvc"]
every = pytest.mark.parametrize("name", NAMES)
VIEWS, _ = blobs(dims=(5, 4, 3))


def test_the_published_values():
    c = DdcConfig()
    assert (c.hidden_dims, c.latent_dim, c.batch_norm) == ((512, 512), 256, False)
    assert (c.n_epochs, c.lr, c.max_grad_norm, c.rel_sigma) == (100, 1e-3, 5, 0.15)
    assert (c.eval_interval, c.monitor, c.n_init) == (4, "ddc1", 1)
    c = DeepDdcConfig()
    assert (c.hidden_dims, c.batch_norm, c.max_grad_norm, c.monitor) == ((1024,) * 4, True, 10, "total")


def fusion_network(batch_norm: bool) -> FusionNetwork:
    config = DdcConfig(hidden_dims=(8, 8), latent_dim=6, batch_norm=batch_norm)
    return build(lambda: FusionNetwork(config, [5, 4], 3), seeded())


@pytest.mark.parametrize("batch_norm", [True, False])
def test_the_fusion_network_clusters_the_mean_code(batch_norm: bool):
    module = fusion_network(batch_norm).double().eval()
    found = module([torch.randn(6, dim, dtype=torch.float64, generator=seeded()) for dim in (5, 4)])
    z = found.views.z
    assert [x.shape for x in z] == [(6, 6), (6, 6)]
    assert found.hidden.shape == (6, HEAD_DIM)
    fused = (z[0] + z[1]) / 2  # the weights are equal at first
    torch.testing.assert_close(module.output(module.head(fused)), found.logits)
    assert all(bool((x >= 0).all()) is not batch_norm for x in z)  # ReLU follows the layers without norm
    for code, feature in zip(z, found.views.h, strict=True):
        torch.testing.assert_close(feature, code / code.norm(dim=1, keepdim=True))


@pytest.mark.parametrize(("batch_norm", "linear"), [(True, "Linear"), (False, "HeLinear")])
def test_the_head_of_the_fusion_network(batch_norm: bool, linear: str):
    module = fusion_network(batch_norm)
    kinds = [type(part).__name__ for part in [*module.head, module.output]]
    assert kinds == [linear, "ReLU", "BatchNorm", linear]


@every
def test_every_run_has_stages_with_names_of_their_own(name: str):
    one, three = (made(name, [5, 4], n_init=n).stages() for n in (1, 3))
    names = [stage.name for stage in three]
    assert len(three) == 3 * (len(one) - 1) + 1
    assert len(set(names)) == len(names)
    assert names[: len(one) - 1] == [stage.name for stage in one[:-1]]
    assert names[-1] == "read out"
    assert [stage.name for stage in three if stage.monitor] == ["cluster", "cluster 2", "cluster 3"]


@every
def test_every_run_starts_with_new_weights(name: str):
    method, generator = made(name, [5, 4, 3]), seeded(1)
    before = {k: x.clone() for k, x in method.state_dict().items()}
    method.reinitialize(source(VIEWS), generator)
    after = method.state_dict()
    assert not torch.equal(before["network.encoders.0.0.weight"], after["network.encoders.0.0.weight"])
    other = made(name, [5, 4, 3])
    other.reinitialize(source(VIEWS), seeded(1))
    assert all(torch.equal(x, after[k]) for k, x in other.state_dict().items())


@every
def test_the_best_epoch_of_the_best_run_gives_the_labels(name: str):
    method, generator = made(name, [5, 4, 3], n_init=2, eval_interval=1, n_epochs=3), seeded()
    data, evaluated = source(VIEWS), []

    class Observer(Callback):
        def on_epoch_end(self, record: EpochRecord) -> None:
            if "monitor" in record.losses:
                evaluated.append((record.losses["monitor"], infer_all(method, data).log_proba))

    loop.train(method, method.stages(), data, generator, [Observer()])
    assert len(evaluated) == 6
    best = min(evaluated, key=lambda seen: seen[0])[1]
    assert torch.equal(infer_all(method, data).log_proba, best)


@every
@pytest.mark.parametrize("monitor", ["ddc1", "total"])
def test_the_monitor_is_a_mean_over_batches_in_evaluation_mode(name: str, monitor: str):
    method, data = made(name, [5, 4, 3], monitor=monitor), source(VIEWS)
    before = {k: x.clone() for k, x in method.state_dict().items()}
    value = method.evaluate(data, seeded())
    assert method.training
    assert all(torch.equal(x, before[k]) for k, x in method.state_dict().items())
    method.eval()
    generator, expected = seeded(), []
    for batch in data.shuffled(generator):
        losses = method.objective(batch, method.network(batch.views), generator)
        expected.append((losses["ddc1"] if monitor == "ddc1" else sum_of(losses.values())).item())
    assert value == pytest.approx(np.mean(expected), rel=1e-5)


@every
def test_a_diverged_run_is_never_used(name: str, monkeypatch):
    """Restarts whose monitored loss is no number are left behind; the labels are those of the first run."""
    config = small_config(name, n_init=2)
    model = small(name, config=config)
    evaluate, calls = model._method.evaluate, []

    def broken(self: Any, data: Any, generator: Any, start: Any) -> float:
        calls.append(1)
        value: float = evaluate(self, data, generator, start)
        return value if len(calls) <= 2 - (config.eval_interval is None) else float("nan")

    monkeypatch.setattr(model._method, "evaluate", broken)
    with pytest.warns(DivergenceWarning, match="monitor"):
        model.fit(VIEWS)
    monkeypatch.undo()
    found = model.predict_proba(VIEWS)
    assert np.array_equal(found, small(name).fit(VIEWS).predict_proba(VIEWS))


def failing(batch: Any, progress: float, context: Any) -> dict[str, torch.Tensor]:
    return {"loss": torch.tensor(torch.nan, requires_grad=True)}


@every
def test_the_next_run_starts_after_a_run_diverged(name: str):
    method, data = made(name, [5, 4, 3], n_init=2, n_epochs=2), source(VIEWS)
    skipped: list[str] = []

    class Observer(Callback):
        def on_epochs_skipped(self, stage: str, n_epochs: int) -> None:
            skipped.append(stage)

    first, *others = method.stages()
    stages = [first._replace(step=failing), *others]
    warned = [pytest.warns(DivergenceWarning, match=text) for text in ("repeated", "another run")]
    with warned[0], warned[1]:
        history = loop.train(method, stages, data, seeded(), [Observer()])
    second = next(number for number, stage in enumerate(others) if stage.reinitialize)
    assert skipped == [stage.name for stage in others[:second]]  # the rest of the first run
    assert {epoch.stage for epoch in history} == {stage.name for stage in others[second:-1]}
    assert infer_all(method, data).log_proba.isfinite().all()


@every
def test_it_is_an_error_if_every_run_diverges(name: str):
    method = made(name, [5, 4, 3], n_init=2, n_epochs=2)
    stages = [stage._replace(step=failing) if stage.monitor else stage for stage in method.stages()]
    with pytest.warns(DivergenceWarning), pytest.raises(DivergenceError):
        loop.train(method, stages, source(VIEWS), seeded())


@every
def test_the_terms_are_those_of_the_prediction(name: str):
    method, data = made(name, [5, 4, 3]).eval(), source(VIEWS)
    batch = data.take(torch.arange(20))
    found = method.network(batch.views)
    losses = method.objective(batch, found, seeded())
    for term, value in ddc(found.hidden, found.logits.softmax(1)).items():
        assert torch.equal(losses[term], value)
    inferred = method.infer(batch)
    torch.testing.assert_close(inferred.log_proba.exp(), found.logits.softmax(1))
    assert inferred.embedding.norm(dim=1).max() <= np.sqrt(3) + 1e-5  # a unit row for each view
    assert method.view_weights().tolist() == pytest.approx([1 / 3] * 3)


@every
def test_separated_clusters_are_found(name: str):
    views, truth = blobs((40, 40, 40), (6, 5), noise=0.2, seed=1)
    longer = small_config(name, n_epochs=20, hidden_dims=(64,), latent_dim=32, n_init=2, eval_interval=2)
    found = small(name, config=longer).fit(views).labels_
    assert metrics.nmi(truth, found) > 0.7


@every
def test_batches_of_one_sample_give_finite_predictions(name: str):
    model = small(name, 2, batch_size=2).fit([view[:5] for view in VIEWS])  # batches of 2, 2 and 1
    assert np.isfinite(model.predict_proba(VIEWS)).all()
