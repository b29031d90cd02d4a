"""Studies look at training without changing it, and keep test samples apart."""

import numpy as np
import pytest
from benchmarks import methods, runs, studies
from benchmarks.methods import DEFAULT, config_of
from benchmarks.runs import Unit
from tests.benchmarks.recorded import QUICK
from tests.examples import blobs

from protocol_mvc.data import as_views
from protocol_mvc.evaluation.metrics import all_scores, calibration
from protocol_mvc.methods.base import infer_all
from protocol_mvc.methods.protocol.config import PRESETS
from protocol_mvc.partition import consensus
from protocol_mvc.training.stage import EpochRecord

ARRAYS, TRUTH = blobs((60, 40, 20))
VIEWS = as_views(ARRAYS)
UNIT = Unit("protocol", "blobs", 0.5, 0)
CONFIG = config_of("protocol", QUICK)
EPOCHS = QUICK["reconstruct_length"] + QUICK["align_length"] + QUICK["rebalance_length"]


@pytest.fixture(autouse=True)
def _small_data(monkeypatch):
    monkeypatch.setattr(studies, "load_dataset", lambda name, imbalance_ratio, random_state: (VIEWS, TRUTH))


@pytest.fixture
def fit():
    return methods.fitted("protocol", VIEWS, 0, CONFIG, TRUTH)


def test_the_test_part_is_balanced_and_apart():
    test, rest = studies.balanced_split(TRUTH)
    assert np.bincount(TRUTH[test]).tolist() == [4, 4, 4]
    np.testing.assert_array_equal(np.sort(np.concatenate([test, rest])), np.arange(120))


def test_a_class_of_one_cannot_be_split():
    with pytest.raises(ValueError, match="smallest class has 1"):
        studies.balanced_split(np.array([0, 0, 1]))


@pytest.mark.parametrize(("ratio", "sizes"), [(None, [56, 36, 16]), (0.5, [36, 25, 16])])
def test_the_method_is_fitted_to_imbalanced_data_and_scored_on_both(ratio, sizes):
    found = studies.balanced(UNIT._replace(method="kmeans", ratio=ratio), {})
    assert found["class_sizes"] == sizes
    assert (found["samples"], found["test_samples"]) == (sum(sizes), 12)
    assert found["train_scores"].keys() == found["scores"].keys() == all_scores(TRUTH, TRUTH).keys()
    assert found["scores"]["tail"] == found["recalls"][-1]


def test_the_method_never_meets_the_test_part(monkeypatch):
    seen: list[np.ndarray] = []
    real = methods.fitted

    def spy(method, views, *rest):
        seen.append(views.sample_ids)
        return real(method, views, *rest)

    monkeypatch.setattr(studies, "fitted", spy)
    studies.balanced(UNIT._replace(method="kmeans"), {})
    assert not set(seen[0]) & set(VIEWS.sample_ids[studies.balanced_split(TRUTH)[0]])


def test_an_attack_is_one_on_the_model_of_a_plain_fit(fit):
    found = studies.attacked(UNIT, CONFIG, epsilon=2.0)
    assert found["scores"] == runs.scored(TRUTH, fit.labels_)
    assert found["attacked_scores"]["nmi"] < found["scores"]["nmi"]
    assert found["epsilon"] == 2


def test_confidence_is_that_of_the_labels_of_a_fit(fit):
    found = studies.calibration(UNIT, CONFIG)
    sure = fit.predict_proba(VIEWS).max(1)
    expected = calibration(TRUTH, fit.labels_, sure)
    assert found["scores"] == runs.scored(TRUTH, fit.labels_)
    assert found["calibration"] == pytest.approx(expected._asdict(), abs=1e-4, nan_ok=True)


def test_looking_changes_nothing(fit):
    curve = studies.convergence(UNIT, CONFIG)["curve"]
    assert [row["stage"] for row in curve] == [row["stage"] for row in fit.history_]
    losses = [sum(v for k, v in row.items() if k not in EpochRecord._fields) for row in fit.history_]
    np.testing.assert_allclose([row["loss"] for row in curve], losses, atol=1e-4)


def test_the_end_of_the_curve_is_the_result_of_a_fit(fit):
    curve = studies.convergence(UNIT, CONFIG)["curve"]
    expected = runs.scored(TRUTH, fit.labels_)
    assert len(curve) == EPOCHS
    assert {name: curve[-1][name] for name in ("acc", "nmi")} == {n: expected[n] for n in ("acc", "nmi")}


def test_training_that_is_watched_ends_where_a_fit_ends(fit):
    method = studies.watch(VIEWS, 3, 0, CONFIG, lambda method, source, epoch: None)
    for name, tensor in fit.module_.state_dict().items():
        np.testing.assert_array_equal(method.state_dict()[name], tensor, err_msg=name)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_method_can_be_stopped_after_every_epoch(preset: str):
    config = {**dict(PRESETS[preset]), **QUICK}
    shapes = []

    def look(method, source, epoch):
        before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
        shapes.append(studies.stopped(method, source, epoch).log_proba.shape)
        for name, tensor in method.state_dict().items():
            assert (tensor == before[name]).all(), name
        assert method.training

    studies.watch(VIEWS, 3, 0, config, look)
    assert shapes == [(120, 3)] * EPOCHS


def test_a_method_stopped_after_alignment_is_the_base_of_the_ablation():
    base = methods.fitted("base", VIEWS, 0, config_of("base", QUICK), TRUTH)
    embeddings = {}

    def look(method, source, epoch):
        embeddings[epoch.stage] = infer_all(method, source).embedding.numpy()

    studies.watch(VIEWS, 3, 0, CONFIG, look)
    np.testing.assert_array_equal(embeddings["align"], base.embedding_)


@pytest.mark.parametrize("early", [False, True])
def test_there_is_a_map_of_the_views_and_after_every_stage(monkeypatch, fit, early: bool):
    monkeypatch.setattr(studies, "MOST_POINTS", 30)
    monkeypatch.setattr(consensus, "same_partition", lambda *given: early)
    found = studies.maps(UNIT, {**CONFIG, "early_end": early})
    stages = list(dict.fromkeys(row["stage"] for row in fit.history_))
    assert list(found["maps"]) == list(found["separation"]) == ["views", *stages]
    assert {np.shape(points) for points in found["maps"].values()} == {(30, 2)}
    assert len(found["truth"]) == 30
    assert all(-1 <= value <= 1 for value in found["separation"].values())


@pytest.mark.parametrize("name", studies.GRIDS)
def test_a_grid_has_every_pair_once_and_the_default(name: str):
    cells = list(studies.grid(name))
    fields = list(studies.GRIDS[name])
    assert {field: DEFAULT[field] for field in fields} in cells
    pairs = {tuple(cell.values()) for cell in cells}
    sides = [{pair[i] for pair in pairs} for i in (0, 1)]
    assert len(cells) == len(pairs) == len(sides[0]) * len(sides[1])
    for cell in cells:
        config_of("protocol", cell)
