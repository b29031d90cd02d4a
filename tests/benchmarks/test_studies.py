"""Studies observe a training without changing it, and hold test samples out."""

import numpy as np
import pytest
from benchmarks import methods, runs, studies
from benchmarks.methods import config_of, get_field
from benchmarks.runs import Unit
from tests.benchmarks.recorded import QUICK, quick
from tests.examples import blobs

from protocol_mvc.data import as_views
from protocol_mvc.evaluation.metrics import all_scores, calibration
from protocol_mvc.methods.base import infer_all
from protocol_mvc.training.stage import EpochRecord

ARRAYS, LABELS = blobs((60, 40, 20))
VIEWS = as_views(ARRAYS)
UNIT = Unit("protocol", "blobs", 0.5, 0)
CONFIG = config_of("protocol", QUICK)


@pytest.fixture(autouse=True)
def _small_data(monkeypatch):
    for module in (runs, studies):
        monkeypatch.setattr(module, "load_dataset", lambda *args, **options: (VIEWS, LABELS))


@pytest.fixture(scope="module")
def fit():
    return methods.fit_method("protocol", VIEWS, 0, CONFIG, LABELS)


def test_the_test_part_is_balanced_and_held_out():
    test, rest = studies.balanced_split(LABELS)
    assert np.bincount(LABELS[test]).tolist() == [4, 4, 4]
    np.testing.assert_array_equal(np.sort(np.concatenate([test, rest])), np.arange(120))


def test_a_class_of_one_sample_cannot_be_split():
    with pytest.raises(ValueError, match="1 samples"):
        studies.balanced_split(np.array([0, 0, 1]))


@pytest.mark.parametrize(("ratio", "sizes"), [(None, [56, 36, 16]), (0.5, [36, 25, 16])])
def test_the_method_is_fitted_to_imbalanced_data_and_scored_on_both(ratio, sizes):
    found = studies.balanced_test(UNIT._replace(method="kmeans", imbalance_ratio=ratio), {})
    assert found["class_sizes"] == sizes
    assert (found["n_samples"], found["n_test_samples"]) == (sum(sizes), 12)
    assert found["train_scores"].keys() == found["scores"].keys() == all_scores(LABELS, LABELS).keys()
    assert found["scores"]["tail"] == found["class_recalls"][-1]


def test_the_method_is_not_fitted_to_the_test_part(monkeypatch):
    seen: list[np.ndarray] = []

    def spy(method, views, *rest):
        seen.append(views.sample_ids)
        return methods.fit_method(method, views, *rest)

    monkeypatch.setattr(studies, "fit_method", spy)
    studies.balanced_test(UNIT._replace(method="kmeans"), {})
    assert not set(seen[0]) & set(VIEWS.sample_ids[studies.balanced_split(LABELS)[0]])


def test_an_attack_is_on_the_model_of_a_plain_fit(fit):
    found = studies.attack(UNIT, CONFIG, eps=2.0)
    assert found["scores"] == runs.rounded_scores(LABELS, fit.labels_)
    assert found["attacked_scores"]["nmi"] < found["scores"]["nmi"]


def test_confidence_is_that_of_the_labels_of_a_fit(fit):
    found = runs.cluster(UNIT, CONFIG)
    expected = calibration(LABELS, fit.labels_, fit.predict_proba(VIEWS).max(1))
    assert found["scores"] == runs.rounded_scores(LABELS, fit.labels_)
    assert found["calibration"] == pytest.approx(expected._asdict(), abs=1e-4, nan_ok=True)


def test_a_curve_has_the_epochs_and_losses_of_a_fit_and_its_final_scores(fit):
    curve = studies.convergence(UNIT, CONFIG)["curve"]
    assert [row["stage"] for row in curve] == [row["stage"] for row in fit.history_]
    losses = [sum(v for k, v in row.items() if k not in EpochRecord._fields) for row in fit.history_]
    np.testing.assert_allclose([row["loss"] for row in curve], losses, atol=1e-4)
    expected = runs.rounded_scores(LABELS, fit.labels_)
    assert {name: curve[-1][name] for name in ("acc", "nmi")} == {n: expected[n] for n in ("acc", "nmi")}


def test_the_curve_of_a_long_run_has_some_epochs_and_its_stages_are_shared(monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "CHECKPOINTS", tmp_path)
    monkeypatch.setattr(studies, "LONG_INTERVAL", 2)
    lengths = {"schedule.n_epochs_reconstruct": 3, "schedule.n_epochs_align": 2}
    changes = {**quick("protocol-paper"), **lengths, "schedule.n_epochs_rebalance": 1}
    unit, config = UNIT._replace(method="protocol-paper"), config_of("protocol-paper", changes)
    for _ in range(2):  # a stored state does not shorten the curve
        curve = studies.convergence(unit, config)["curve"]
        assert [row["epoch"] for row in curve] == [2, 3, 4, 5, 6]
    run = runs.cluster(unit, config)
    assert "inherited" in run
    assert run["scores"]["acc"] == curve[-1]["acc"]


@pytest.mark.parametrize("method", ["protocol", "protocol-paper"])
def test_labels_after_every_epoch_leave_the_method_as_it_is(method: str):
    shapes = []

    def observe(method, source, epoch):
        before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
        shapes.append(studies.infer_early(method, source, epoch.stage).log_proba.shape)
        for name, tensor in method.state_dict().items():
            assert (tensor == before[name]).all(), name
        assert method.training

    config = config_of(method, quick(method))
    methods.fit_method(method, VIEWS, 0, config, LABELS, [studies.Observer(observe)])
    assert set(shapes) == {(120, 3)}
    assert len(shapes) >= 4


def test_a_training_observed_after_alignment_is_the_base_of_the_ablation():
    base = methods.fit_method("base", VIEWS, 0, config_of("base", QUICK), LABELS)
    embeddings = {}

    def observe(method, source, epoch):
        embeddings[epoch.stage] = infer_all(method, source).embedding.numpy()

    methods.fit_method("protocol", VIEWS, 0, CONFIG, LABELS, [studies.Observer(observe)])
    last = [stage for stage in embeddings if stage.startswith("align")][-1]
    np.testing.assert_array_equal(embeddings[last], base.embedding_)


def test_a_tsne_shows_a_sample_of_the_embedding(monkeypatch, fit):
    monkeypatch.setattr(studies, "MAX_POINTS", 30)
    found = studies.tsne(UNIT, CONFIG)
    assert np.shape(found["tsne"]) == (30, 2)
    assert len(found["labels_true"]) == 30
    assert -1 <= found["silhouette"] <= 1
    assert found["scores"] == runs.rounded_scores(LABELS, fit.labels_)


@pytest.mark.parametrize("name", studies.GRIDS)
def test_a_grid_has_every_pair_once_and_the_default(name: str):
    cells = list(studies.grid(name))
    assert {field: get_field(config_of("protocol"), field) for field in studies.GRIDS[name]} in cells
    pairs = {tuple(cell.values()) for cell in cells}
    sides = [{pair[i] for pair in pairs} for i in (0, 1)]
    assert len(cells) == len(pairs) == len(sides[0]) * len(sides[1])
    for cell in cells:
        config_of("protocol", cell)


def test_a_grid_can_vary_one_field_at_a_time():
    cells, default = list(studies.grid("pseudo-labels", one_at_a_time=True)), config_of("protocol")
    assert len(cells) == 9
    for cell in cells:
        assert sum(value != get_field(default, field) for field, value in cell.items()) <= 1
