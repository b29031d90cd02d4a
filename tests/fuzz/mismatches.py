"""New data that are not what the user believes: the same labels, an error, or a warning."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from tests.examples import blobs, tiny

from protocol_mvc import PROTOCOL, as_views
from protocol_mvc.exceptions import DataWarning

VIEWS, _ = blobs((12, 8, 6), (4, 4))
IDS = [f"Sample {i:03d}" for i in range(26)]
COLUMNS = [[f"{name}{i}" for i in range(4)] for name in "ab"]


def frames(ids: Any = IDS) -> dict[str, pd.DataFrame]:
    """Return the data as frames with ids and names."""
    return {
        name: pd.DataFrame(view, index=ids, columns=columns)
        for name, view, columns in zip("ab", VIEWS, COLUMNS, strict=True)
    }


@cache
def fitted() -> PROTOCOL:
    """Return a model of the frames, fitted once."""
    return tiny().fit(frames())


def _shuffled_rows(rng: np.random.Generator) -> Any:
    order = rng.permutation(26)
    return {"a": frames()["a"].iloc[order], "b": frames()["b"]}


def _arrays(rng: np.random.Generator) -> Any:
    order = rng.permutation(26)
    return [VIEWS[0][order], VIEWS[1]]


def _swapped(rng: np.random.Generator) -> Any:
    return VIEWS[::-1]


def _columns_in_another_order(rng: np.random.Generator) -> Any:
    return {name: frame[rng.permutation(frame.columns)] for name, frame in frames().items()}


def _far_away(rng: np.random.Generator) -> Any:
    v = int(rng.integers(2))
    shift = 10.0 ** rng.integers(3, 6)
    return {name: frame + (shift if i == v else 0) for i, (name, frame) in enumerate(frames().items())}


def _other_ids(rng: np.random.Generator) -> Any:
    change = [str.upper, lambda x: x + " ", lambda x: x.replace("Sample 0", "Sample "), lambda x: " " + x]
    n, chosen = int(rng.integers(1, 9)), change[int(rng.integers(4))]
    both = frames()
    both["b"] = both["b"].rename(index=dict(zip(IDS[:n], map(chosen, IDS[:n]), strict=True)))
    return both


CHANGES = [_shuffled_rows, _arrays, _swapped, _columns_in_another_order, _far_away, _other_ids]
cases = st.tuples(st.sampled_from(CHANGES), st.integers(0, 10**6))


def check(case: tuple[Any, int]) -> None:
    """Predicted labels are those of the same samples, or there is a warning or an error."""
    change, seed = case
    X = change(np.random.default_rng(seed))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            views = as_views(X)
            labels = fitted().predict(X)
        except (ValueError, TypeError):
            return
    if any(issubclass(warning.category, DataWarning) for warning in caught):
        return
    ids = [str(name) for name in views.sample_ids]
    expected = dict(zip(IDS, fitted().labels_, strict=True))
    assert set(ids) <= set(IDS), "ids were lost without a word"
    assert [expected[name] for name in ids] == labels.tolist(), f"other labels without a word: {change}"
