"""Saved models, damaged or forged."""

import json
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import safetensors.numpy
from hypothesis import strategies as st
from tests.examples import blobs, tiny, with_gaps
from tests.fuzz.files import Damage, damages
from tests.fuzz.law import harmless, outcome
from tests.fuzz.rubbish import NUMBERS, TEXTS
from tests.io.model_folders import forge, forge_arrays, forge_record
from tests.io.temporary import folder

from protocol_mvc import PROTOCOL
from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.model_folder import ARRAYS, CONFIG, FILES, HISTORY

VIEWS = with_gaps(blobs((12, 6, 4))[0])
ROOM = 2**29  # bytes that a refused model may take
_store = TemporaryDirectory()

damage_cases = st.tuples(st.sampled_from(FILES), damages)


@cache
def saved() -> tuple[Path, PROTOCOL]:
    """A model and its folder, made once."""
    model = tiny().fit(VIEWS)
    place = Path(_store.name) / "model"
    model.save(place)
    return place, model


def load(place: Path) -> tuple[Any, Exception | None]:
    """The model, or what is wrong with it, while nothing else happens."""
    with harmless():
        return outcome(lambda: PROTOCOL.load(place, "cpu"))


def check_damage(case: tuple[str, Damage]) -> None:
    """A damaged model is refused, or it is the same."""
    name, damage = case
    place, model = saved()
    content = (place / name).read_bytes()
    try:
        (place / name).write_bytes(damage(content))
        loaded, refused = load(place)
    finally:
        (place / name).write_bytes(content)
    if refused is not None:
        assert isinstance(refused, ModelFileError)
        return
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    np.testing.assert_array_equal(loaded.predict_proba(VIEWS), model.predict_proba(VIEWS))


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([x for x in NUMBERS if isinstance(x, int | float)])
    | st.sampled_from(TEXTS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["$tuple", "$slice", "$float", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)
# Where in a document, as the number of the branch to take at each step, and what stands there instead.
forgeries = st.tuples(
    st.sampled_from([CONFIG, HISTORY]),
    st.lists(st.integers(0, 30), min_size=1, max_size=4),
    json_values,
)


def _changed(document: Any, path: list[int], value: Any) -> Any:
    """The document with one value replaced, at the end of the path or where it meets no branch."""
    if not path or not isinstance(document, dict | list) or not document:
        return value
    key = list(document)[path[0] % len(document)] if isinstance(document, dict) else path[0] % len(document)
    document[key] = _changed(document[key], path[1:], value)
    return document


# Name of an array, the place of a number in it as a share of its length, and the number.
number_cases = st.tuples(
    st.integers(0, 100),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from([float("nan"), float("inf"), float("-inf"), 1e30, -1e30]),
)


def check_number(case: tuple[int, float, float]) -> None:
    """A model with a number that no fit produces is refused, or it predicts finite numbers."""
    which, where, value = case
    with folder() as place:
        shutil.copytree(saved()[0], place / "model")
        arrays = safetensors.numpy.load((place / "model" / ARRAYS).read_bytes())
        names = sorted(name for name, x in arrays.items() if x.dtype.kind == "f" and x.size)
        array = arrays[names[which % len(names)]] = arrays[names[which % len(names)]].copy()
        array.reshape(-1)[int(where * array.size)] = value
        forge_arrays(place / "model", arrays)
        loaded, refused = load(place / "model")
        if refused is not None:
            assert isinstance(refused, ModelFileError)
            return
        proba, refused = outcome(lambda: loaded.predict_proba(VIEWS))
        assert refused is not None or np.isfinite(proba).all()


# Fields of a record that decide about the size of a network or of labels, and a number for them.
size_cases = st.tuples(
    st.sampled_from(["hidden_dims", "projection_dim", "label_order", "n_features"]),
    st.sampled_from([0, 10**5, 10**7, 10**9, 10**18]),
)


def check_size(case: tuple[str, int]) -> None:
    """A model that claims to be huge is refused before it takes memory or time."""
    name, size = case

    def change(fields: dict[str, Any]) -> None:
        if name == "label_order":
            fields[name] = list(range(min(size, 10**6)))
        elif name == "n_features":
            fields["views"][0][name] = size
        else:
            network = fields["fitted_config"]["network"]
            network[name] = {"$tuple": [size] * 3} if name == "hidden_dims" else size

    with folder() as place:
        shutil.copytree(saved()[0], place / "model")
        forge_record(place / "model", change)
        with limited(ROOM):
            _, refused = load(place / "model")
        assert isinstance(refused, ModelFileError)


@contextmanager
def limited(n_bytes: int) -> Iterator[None]:
    """Refuse more memory to this process than it has, and these bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def check_forgery(case: tuple[str, list[int], Any]) -> None:
    """A forged model, whose digests agree, is refused or usable; it never does anything else."""
    name, path, value = case
    with folder() as place:
        shutil.copytree(saved()[0], place / "model")
        document = json.loads((place / "model" / CONFIG).read_text())
        content = value if name == HISTORY else _changed(document, path, value)
        forge(place / "model", name, json.dumps(content).encode())
        loaded, refused = load(place / "model")
        if refused is not None:
            assert isinstance(refused, ModelFileError)
            return
        labels, _ = outcome(lambda: loaded.predict(VIEWS))
        assert labels is None or set(labels) <= set(range(3))
        outcome(lambda: repr(loaded))
        outcome(lambda: loaded.save(place / "again"))
