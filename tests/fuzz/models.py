"""Saved models, damaged or forged."""

import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.examples import blobs, tiny, with_gaps
from tests.fuzz.files import Damage, damages
from tests.fuzz.law import harmless, outcome
from tests.fuzz.rubbish import NUMBERS, TEXTS
from tests.io.model_folders import forge
from tests.io.temporary import folder

from protocol_mvc import PROTOCOL
from protocol_mvc.exceptions import ModelFileError
from protocol_mvc.io.model import CONFIG, FILES, HISTORY

VIEWS = with_gaps(blobs((12, 6, 4))[0])
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
