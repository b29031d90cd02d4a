"""A loaded model is the one that was saved, to the bit; or it is refused."""

import json
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
from tests.examples import SMALL, TINY, TINY_PAPER, blobs, tiny, with_gaps
from tests.io.model_folders import contents, forge_arrays, forge_facts, forge_json

from protocol_mvc import PROTOCOL, stability
from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.json_codec import encode
from protocol_mvc.io.model_schema import ARRAYS, CONFIG, MANIFEST, NAMES
from protocol_mvc.methods.protocol.config import PRESETS

VIEWS, _ = blobs()
GAPS = with_gaps(VIEWS)
A, B = VIEWS
FRAME = pd.DataFrame(np.hstack(VIEWS), columns=list("abcdefghi"), index=[f"s{i}" for i in range(90)])
IDS = FRAME.index
INFINITE = TINY.model_copy(update={"kl_weight": float("inf"), "hidden": (8, 4)})

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
    "one view": ({"device": torch.device("cpu")}, [A]),
}


def same(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


NOT_STORED = {"embedding_", "label_distributions_"}


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
        assert encode(PROTOCOL.load(folder).get_params()) == encode(wanted)  # arrays are lists there

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


def test_new_parameters_and_the_old_fit_are_both_kept(tmp_path):
    model = tiny(config=TINY).fit(VIEWS)
    expected = model.predict_proba(VIEWS)
    model.set_params(config="paper", n_clusters=5, batch_size=7)
    model.save(tmp_path / "m")
    loaded = PROTOCOL.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(VIEWS), expected)
    assert loaded.get_params() == model.get_params()


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_kept_by_name_and_by_what_they_were(tmp_path, monkeypatch, preset: str):
    with monkeypatch.context() as patch:
        patch.setitem(PRESETS, preset, PRESETS[preset].model_copy(update=SMALL))
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
    assert stability(PROTOCOL.load(folder), VIEWS, n_resamples=1).samples.shape == (90,)


def test_a_parameter_that_is_no_value_is_refused(model, tmp_path):
    odd = clone(model).set_params(view_columns=object())
    odd.__dict__ |= {name: value for name, value in vars(model).items() if name not in vars(odd)}
    with pytest.raises(ModelFileError, match="has no form as JSON: give the estimator plain parameters"):
        odd.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_a_model_is_replaced_and_a_stranger_is_not(model, folder, tmp_path):
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

    with pytest.raises(ModelFileError, match=r"a model of PROTOCOL: load it with PROTOCOL\.load"):
        Other.load(folder)


def set_config(**fields: Any) -> Any:
    return lambda said: said["fitted"].update(fields)


@pytest.mark.parametrize(
    "change",
    [
        set_config(latent=9),
        set_config(latent=-1),
        set_config(latent=2**62),
        set_config(hidden=[2**31] * 8),
        set_config(hidden=[1] * 65),
        set_config(surprise=1),
        set_config(mix="0.5; import os"),
        lambda said: said.update(config={"mix": 7}),
        lambda said: said["parameters"].update(surprise=1),
        lambda said: said["parameters"].update(view_columns={"eval": "1"}),
        lambda said: said["parameters"].update(view_columns={"dict": [[[], 1]]}),
        lambda said: said.update(estimator="os.system"),
        lambda said: said.update(schema_version=2),
    ],
    ids=range(13),
)
def test_forged_settings_are_refused(folder, change):
    forge_json(folder, CONFIG, change)
    with pytest.raises(ModelFileError):
        PROTOCOL.load(folder)


@pytest.mark.parametrize(
    "facts",
    [
        {"samples": 91},
        {"samples": 10**15},
        {"label_order": [0, 1]},
        {"label_order": [0, 1, 2, 3]},
        {"ids": "object"},
        {"ids": "complex128"},
        {"ids": "float64"},
        {"ids_length": 89},
        {"views": [{"name": "a", "features": 5, "columns": None, "scaling": "none"}]},
    ],
    ids=str,
)
def test_forged_facts_are_refused(folder, facts):
    forge_facts(folder, **facts)
    with pytest.raises(ModelFileError, match=r"m/model\.safetensors|m/config\.json"):
        PROTOCOL.load(folder)


def test_an_unknown_scaling_is_refused(folder):
    views = json.loads((folder / MANIFEST).read_text())["facts"]["views"]
    forge_facts(folder, views=[view | {"scaling": "eval"} for view in views])
    with pytest.raises(ModelFileError, match="there is no scaling 'eval'"):
        PROTOCOL.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": np.full(90, 3)},
        {"labels": np.full(90, -1)},
        {"labels": np.zeros(91, dtype=np.int64)},
        {"cluster_sizes": np.array([-1, 90, 1])},
        {"method.prior": np.zeros(3)},
        {"method.prior": np.zeros((3, 1), dtype=np.float32)},
        {"method.more": np.zeros(3, dtype=np.float32)},
        {"scaling.0.shift": np.zeros(4)},
    ],
    ids=lambda change: f"{next(iter(change))}",
)
def test_forged_arrays_are_refused(folder, change):
    forge_arrays(folder, load_file(folder / ARRAYS) | change)
    with pytest.raises(ModelFileError, match=r"model\.safetensors"):
        PROTOCOL.load(folder)


def test_ids_of_another_number_are_refused(folder):
    text = np.frombuffer(b"[1, 2]", np.uint8)
    forge_arrays(folder, load_file(folder / ARRAYS) | {"ids": text})
    forge_facts(folder, ids="object", ids_length=len(text))
    with pytest.raises(ModelFileError, match="2 ids do not fit 90 labels"):
        PROTOCOL.load(folder)


def spoil(folder: Path, name: str, times: int) -> list[PROTOCOL]:
    """Flip one bit or cut the file, many times; return what could still be loaded."""
    rng = np.random.default_rng(0)
    path, good, loaded = folder / name, (folder / name).read_bytes(), []
    for number in range(times):
        place = int(rng.integers(len(good)))
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(bad) if number % 2 else good[:place])
        try:
            loaded.append(PROTOCOL.load(folder))
        except ModelFileError:
            continue
    return loaded


@pytest.mark.parametrize("times", [40, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_a_spoiled_folder_is_refused_or_means_the_same(model, folder, name: str, times: int):
    for loaded in spoil(folder, name, times):
        check_equal(loaded, model, VIEWS)
