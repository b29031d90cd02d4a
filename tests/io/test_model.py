"""A loaded model equals the saved one to the bit, or it is refused."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file
from scipy.sparse import csr_array
from sklearn.base import clone
from tests.examples import QUICK, QUICK_PAPER, TINY, TINY_PAPER, blobs, tiny, with_gaps
from tests.io.model_folders import contents, forge_arrays, forge_record

from protocol_mvc import PROTOCOL, stability
from protocol_mvc.data import fit_scalers
from protocol_mvc.estimators import base
from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.model import _pack_ids, _unpack_ids
from protocol_mvc.io.model_folder import ARRAYS, FILES, SCHEMA_VERSION, to_json
from protocol_mvc.methods.protocol.config import PRESETS
from protocol_mvc.utils.config import update_config

VIEWS, _ = blobs()
GAPS = with_gaps(VIEWS)
A, B = VIEWS
FRAME = pd.DataFrame(np.hstack(VIEWS), columns=list("abcdefghi"), index=[f"s{i}" for i in range(90)])
IDS = FRAME.index
INFINITE = update_config(
    TINY, {"pseudo_labels__prior_strength": float("inf"), "network__hidden_dims": (8, 4)}
)

CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "complete": ({}, VIEWS),
    "missing views": ({}, {"image": GAPS[0], "text": GAPS[1]}),
    "paper": ({"config": TINY_PAPER}, GAPS),
    "infinite weight": ({"config": INFINITE, "verbose": np.int64(0)}, VIEWS),
    "sparse": ({"scaling": ["l2", "tfidf"]}, [csr_array(np.abs(x)) for x in VIEWS]),
    "one table": (
        {"view_columns": {"x": (0, 5), "y": [5, 6, 7, 8]}, "scaling": {"x": "minmax"}},
        np.hstack(VIEWS),
    ),
    "slices": ({"view_columns": [slice(None), slice(0, 2), range(3), np.array([4, 1])]}, np.hstack(VIEWS)),
    "one frame": ({"view_columns": {"x": list("abcde"), "y": list("fghi")}}, FRAME),
    "frames": ({}, {"x": pd.DataFrame(A, IDS)[:80], "y": pd.DataFrame(B, IDS, list("pqrs"))[::-1]}),
    "mixed": ({}, [pd.DataFrame(A, columns=list("abcde")), B]),
    "one view": ({"device": torch.device("cpu")}, A),
}


def same(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


STORED = Path(__file__).parents[1] / "models"
NOT_STORED = {"embedding_", "label_distributions_", "changes_", "cluster_count_"}


def check_equal(loaded: PROTOCOL, model: PROTOCOL, X: Any) -> None:
    """All that a user can see is the same, to the bit."""
    for name in ("predict", "predict_proba", "transform", "score"):
        np.testing.assert_array_equal(getattr(loaded, name)(X), getattr(model, name)(X))
    assert vars(loaded).keys() == vars(model).keys() - NOT_STORED
    fitted = {name for name in vars(model) if name.endswith("_") or name.startswith("_")}
    fitted -= {"module_", *NOT_STORED}
    assert [name for name in sorted(fitted) if not same(getattr(loaded, name), getattr(model, name))] == []
    assert (loaded.imbalance_ratio_, loaded.n_iter_) == (model.imbalance_ratio_, model.n_iter_)


@pytest.fixture(scope="module", params=CASES)
def saved(request, tmp_path_factory):
    params, X = CASES[request.param]
    model = tiny(**params).fit(X)
    folder = tmp_path_factory.mktemp("models") / "m"
    model.save(folder)
    return model, X, folder


@pytest.fixture(scope="module")
def model():
    return tiny().fit(VIEWS)


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "m")
    return tmp_path / "m"


class TestLoaded:
    def test_it_is_the_same_to_the_bit(self, saved):
        model, X, folder = saved
        check_equal(PROTOCOL.load(folder), model, X)

    def test_its_parameters_are_back(self, saved):
        model, _, folder = saved
        wanted = model.get_params()
        wanted["device"] = str(wanted["device"])
        found = PROTOCOL.load(folder).get_params()
        for params in (found, wanted):
            params.update({name: to_json(params[name]) for name in ("view_columns", "scaling")})
        assert found == wanted

    def test_saving_it_again_gives_the_same_bytes(self, saved, tmp_path):
        _, _, folder = saved
        PROTOCOL.load(folder).save(tmp_path / "again")
        assert contents(tmp_path / "again") == contents(folder)

    def test_it_can_be_fitted_again(self, saved):
        model, X, folder = saved
        np.testing.assert_array_equal(PROTOCOL.load(folder).fit_transform(X), model.embedding_)

    @pytest.mark.filterwarnings("ignore:X does not have valid feature names")
    def test_it_refuses_what_the_model_refused(self, saved):
        model, _, folder = saved
        for X in (np.zeros((4, 2)), [A[:, :2], B], {"z": A}):
            said = []
            for each in (model, PROTOCOL.load(folder)):
                with pytest.raises(ValueError, match=r"view|feature|column") as caught:
                    each.predict(X)
                said.append(str(caught.value))
            assert said[0] == said[1]


def test_the_features_and_probabilities_of_the_training_are_not_stored(model, folder):
    loaded = PROTOCOL.load(folder)
    assert not any(hasattr(loaded, name) for name in NOT_STORED)
    np.testing.assert_array_equal(loaded.predict_proba(VIEWS), model.label_distributions_)
    np.testing.assert_array_equal(loaded.transform(VIEWS), model.embedding_)


def test_new_parameters_and_the_old_fit_are_both_stored(tmp_path):
    model = tiny(config=TINY).fit(VIEWS)
    expected = model.predict_proba(VIEWS)
    model.set_params(config="paper", n_clusters=5, batch_size=7)
    model.save(tmp_path / "m")
    loaded = PROTOCOL.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(VIEWS), expected)
    assert loaded.get_params() == model.get_params()


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_stored_by_name_and_by_value(tmp_path, monkeypatch, preset: str):
    with monkeypatch.context() as patch:
        small = update_config(PRESETS[preset], QUICK_PAPER if preset in ("paper", "released") else QUICK)
        patch.setitem(PRESETS, preset, small)
        model = PROTOCOL(3, config=preset, random_state=0).fit(VIEWS)
    model.save(tmp_path / "m")  # by now a preset of that name is another
    loaded = PROTOCOL.load(tmp_path / "m")
    assert loaded.config == preset
    check_equal(loaded, model, VIEWS)


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_a_generator_is_stored_as_the_seed_it_gave(tmp_path, make):
    model = tiny(random_state=make(3)).fit(VIEWS)
    model.save(tmp_path / "m")
    loaded = PROTOCOL.load(tmp_path / "m")
    assert loaded.random_state == model.seed_
    np.testing.assert_array_equal(clone(loaded).fit(VIEWS).embedding_, model.embedding_)


def test_no_seed_stays_no_seed(tmp_path):
    model = tiny(random_state=None).fit(VIEWS)
    model.save(tmp_path / "m")
    loaded = PROTOCOL.load(tmp_path / "m")
    assert loaded.random_state is None
    assert loaded.seed_ == model.seed_


def test_the_device_is_a_choice_of_whoever_loads(folder):
    loaded = PROTOCOL.load(folder, device="cpu")
    assert loaded.device == "auto"
    assert next(loaded.module_.parameters()).device == torch.device("cpu")
    with pytest.raises(ValueError, match="device 'toaster' cannot be used"):
        PROTOCOL.load(folder, device="toaster")


def test_it_can_be_assessed(folder):
    assert stability(PROTOCOL.load(folder), VIEWS, n_resamples=1).sample_agreement.shape == (90,)


def test_a_parameter_that_is_no_value_is_refused(model, tmp_path):
    odd = clone(model).set_params(view_columns=object())
    odd.__dict__ |= {name: value for name, value in vars(model).items() if name not in vars(odd)}
    with pytest.raises(ModelFileError, match="JSON"):
        odd.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_a_model_is_replaced_and_other_folders_are_not(model, folder, tmp_path):
    other = tiny(random_state=1).fit(GAPS)
    other.save(str(folder))
    check_equal(PROTOCOL.load(str(folder)), other, GAPS)
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.tex").write_text("years")
    with pytest.raises(ModelFileError, match=r"thesis\.tex"):
        model.save(tmp_path / "papers")
    assert (tmp_path / "papers" / "thesis.tex").read_text() == "years"


def test_a_folder_without_a_model_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ModelFileError, match=re.escape(str(path))):
            PROTOCOL.load(path)


def test_a_model_of_another_class_is_refused(folder):
    class Other(PROTOCOL):
        pass

    with pytest.raises(ModelFileError, match=r"PROTOCOL\.load"):
        Other.load(folder)


def set_config(**fields: Any) -> Any:
    return lambda record: record["fitted_config"]["network"].update(fields)


@pytest.mark.parametrize(
    "change",
    [
        set_config(projection_dim=9),
        set_config(projection_dim=-1),
        set_config(projection_dim=2**62),
        set_config(hidden_dims=[2**31] * 8),
        set_config(hidden_dims=[1] * 100_000),
        set_config(surprise=1),
        set_config(dropout="0.5; import os"),
        lambda record: record.update(config={"readout": 7}),
        lambda record: record["parameters"].update(surprise=1),
        lambda record: record["parameters"].update(view_columns={"$slice": 1}),
        lambda record: record.update(estimator="os.system"),
        lambda record: record.update(label_order=[0, 1]),
        lambda record: record.update(label_order=[0, 1, 1]),
        lambda record: record.update(label_order=[0, 1, 2, 3]),
        lambda record: record.update(id_dtype="json"),
        lambda record: record.update(id_dtype="complex128"),
        lambda record: record.update(id_dtype="int32"),
        lambda record: record["views"].pop(),
        lambda record: record["views"][0].update(scaling="eval"),
        lambda record: record["views"][0].update(scaling="auto"),
    ],
    ids=range(20),
)
def test_forged_records_are_refused(folder, change):
    forge_record(folder, change)
    with pytest.raises(ModelFileError, match=r"m/model\.safetensors|m/config\.json"):
        PROTOCOL.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"labels_": np.full(90, 3)},
        {"labels_": np.full(90, -1)},
        {"labels_": np.zeros(91, dtype=np.int64)},
        {"cluster_sizes_": np.array([-1, 90, 1])},
        {"sample_ids": np.arange(89)},
        {"module.prior": np.zeros((3, 1), dtype=np.float32)},
        {"module.more": np.zeros(3, dtype=np.float32)},
        {"scalers.0.shift": np.zeros(4)},
        {"scalers.0.shift": np.zeros(5, dtype=np.float32)},
        {"scalers.0.shift": np.full(5, np.inf)},
        {"scalers.1.factor": np.full(4, np.nan)},
        {"module.prior": np.array([0.5, np.nan, 0.5], dtype=np.float32)},
        {"view_weights_": np.array([np.inf, 0], dtype=np.float32)},
        {"outliers.scales": np.array([np.nan, 1], dtype=np.float32)},
        {"outliers.totals": np.full(90, np.nan, dtype=np.float32)},
        {"outliers.distances": np.full((90, 3), np.nan, dtype=np.float32)},
        {"outlier_scores_": np.full(90, np.inf, dtype=np.float32)},
    ],
    ids=str,
)
def test_forged_arrays_are_refused(folder, change):
    forge_arrays(folder, load_file(folder / ARRAYS) | change)
    with pytest.raises(ModelFileError, match=r"model\.safetensors"):
        PROTOCOL.load(folder)


@pytest.mark.parametrize(
    "edits",
    [
        [{"kind": "merge", "clusters": [0]}] * 1000,
        [{"kind": "merge", "clusters": [0, 0]}],
        [{"kind": "merge", "clusters": [0, 3]}],
        [{"kind": "split", "clusters": [0, 1]}],
        [{"kind": "split", "clusters": [0]}],
        [{"kind": "merge", "clusters": [0, 1]}] * 2,
    ],
    ids=range(6),
)
def test_forged_edits_are_refused(folder, edits):
    forge_record(folder, lambda record: record.update(edits=edits))
    with pytest.raises(ModelFileError, match=r"m/model\.safetensors"):
        PROTOCOL.load(folder)


class TestComponents:
    @pytest.fixture
    def model(self, monkeypatch):
        """All components: as many as features, so that every network fits."""
        with_components = lambda views, scaling="auto", *_, **__: fit_scalers(views, scaling, 99)
        monkeypatch.setattr(base, "fit_scalers", with_components)
        return tiny().fit(VIEWS)

    def test_they_are_loaded_to_the_same_bits(self, model, folder):
        assert all(scaler.axes is not None for scaler in model.scalers_)
        check_equal(PROTOCOL.load(folder), model, VIEWS)

    @pytest.mark.parametrize(
        "change",
        [
            {"scalers.0.axes": np.full((5, 5), np.nan)},
            {"scalers.0.axes": np.zeros((5, 5), dtype=np.float32)},
            {"scalers.0.axes": np.zeros((4, 5))},
            {"scalers.0.axes": np.zeros(5)},
            {"scalers.0.axes": np.array(1.0)},
            {"scalers.0.axes": np.zeros((5, 0)), "scalers.0.offset": np.zeros(0)},
            {"scalers.0.axes": np.zeros((5, 3)), "scalers.0.offset": np.zeros(3)},  # the network has other
            {"scalers.1.offset": np.array([np.inf, 0, 0, 0])},
            {"scalers.1.offset": np.zeros(3)},
            {"scalers.1.mean": np.full(4, np.nan)},
            {"scalers.1.explained_variance": np.zeros(2)},
        ],
        ids=range(11),
    )
    def test_forged_ones_are_refused(self, folder, change):
        forge_arrays(folder, load_file(folder / ARRAYS) | change)
        with pytest.raises(ModelFileError, match=r"model\.safetensors"):
            PROTOCOL.load(folder)

    def test_none_may_be_lost(self, folder):
        arrays = load_file(folder / ARRAYS)
        del arrays["scalers.0.offset"]
        forge_arrays(folder, arrays)
        with pytest.raises(ModelFileError, match=r"scalers\.0\.offset"):
            PROTOCOL.load(folder)


@pytest.mark.parametrize("times", [40, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_folder_is_refused_or_equal(model, folder, name: str, times: int):
    rng = np.random.default_rng(0)
    path, good = folder / name, (folder / name).read_bytes()
    for number in range(times):  # flip one bit, or cut the file
        place = int(rng.integers(len(good)))
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(bad) if number % 2 else good[:place])
        try:
            loaded = PROTOCOL.load(folder)
        except ModelFileError:
            continue
        check_equal(loaded, model, VIEWS)


IDS_OF_TWO = [
    np.array([1, 2**64 - 1], dtype=np.uint64),
    np.array([True, False]),
    np.array([np.nan, -np.inf]),
    np.array([1, 2], dtype=">i8"),
    np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]"),
    np.array([1, 2], dtype="timedelta64[D]"),
    np.array(["x", "größer, 'quoted'\n"]),
    np.array(["x", None], dtype=object),
    pd.MultiIndex.from_product([["a"], [1, 2]]).to_numpy(),
]


@pytest.mark.parametrize("ids", IDS_OF_TWO, ids=lambda ids: str(ids.dtype))
def test_sample_ids_of_all_types_are_stored(ids):
    dtype, packed = _pack_ids(ids)
    back = _unpack_ids(dtype, packed.copy())
    np.testing.assert_array_equal(back, ids)
    assert back.dtype.kind == ("O" if ids.dtype.kind == "U" else ids.dtype.kind)


def test_other_sample_ids_become_texts():
    times = pd.date_range("2020-01-01", periods=2, tz="UTC")
    assert _unpack_ids(*_pack_ids(times.to_numpy())).tolist() == [str(time) for time in times]


def fitted_for_storage() -> PROTOCOL:
    """The model in tests/models; `python -m tests.io.test_model` stores it for a new schema version."""
    return tiny().fit({"a": A, "b": B})


@pytest.mark.parametrize("folder", sorted(STORED.iterdir()), ids=lambda folder: folder.name)
def test_models_of_every_schema_version_are_read(folder: Path, tmp_path):
    model = PROTOCOL.load(folder)
    named = {"a": A, "b": B}
    assert np.mean(model.predict(named) == model.labels_) > 0.98  # machines may differ in doubtful samples
    model.save(tmp_path / "m")
    check_equal(PROTOCOL.load(tmp_path / "m"), model, named)


if __name__ == "__main__":
    fitted_for_storage().save(STORED / f"schema_{SCHEMA_VERSION}")
