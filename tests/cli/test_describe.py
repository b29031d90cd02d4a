"""A look counts what is there, in full and sparse matrices alike, and sees groups of unequal size."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tests.examples import blobs, with_gaps

from protocol_mvc.cli import describe
from protocol_mvc.cli.describe import (
    forgotten_ids,
    notes,
    quick_sizes,
    sample_facts,
    size,
    stored_bytes,
    view_facts,
)
from protocol_mvc.data import as_views

X = np.array([[0.0, 5, 1], [2, 5, 0], [0, 5, 1], [np.nan] * 3, [0, 5, 1]])
Y = np.array([[1], [2], [1], [1], [3]])


def test_a_view_is_counted():
    found = view_facts(as_views({"x": X, "y": Y}), 0)
    assert found | {"zeros": round(found["zeros"], 4)} == {
        "view": "x",
        "features": 3,
        "dtype": "float64",
        "sparse": False,
        "scaling": found["scaling"],
        "low": 0.0,
        "high": 5.0,
        "zeros": 0.3333,
        "constant_columns": 1,
        "missing_rows": 1,
        "repeated_rows": 2,
    }


def test_samples_are_repeated_only_if_all_their_views_are():
    found = sample_facts(as_views({"x": X, "y": Y}))
    assert (found["samples"], found["complete_samples"], found["repeated_samples"]) == (5, 4, 1)
    assert found["data_bytes"] == X.nbytes + Y.nbytes


@given(st.integers(0, 99))
def test_sparse_views_look_as_full_ones(seed: int):
    x = np.random.default_rng(seed).integers(0, 2, (8, 3)).astype(float)
    full, sparse = (view_facts(as_views([form]), 0) for form in (x, csr_array(x)))
    assert full | {"sparse": True} == sparse
    assert sparse["repeated_rows"] == len(x) - len(np.unique(x, axis=0))
    assert stored_bytes(csr_array(x)) > 0


def test_notes_tell_what_is_odd(monkeypatch):
    views = as_views({"x": X, "y": Y})
    each, samples = [view_facts(views, v) for v in range(2)], sample_facts(views)
    found = notes(each, samples)
    assert [text.split(":")[0].split(" for ")[0] for text in found] == [
        "View 'x' has 1 constant columns",
        "View 'x' is missing",
        "1 samples repeat another in all views",
    ]
    monkeypatch.setattr(describe, "_memory", lambda: 1000)
    assert "A fit may take 2 KB of memory, but this machine has 1 KB." in notes(
        each, samples | {"fit_bytes": 2000}
    )


def test_a_number_that_names_the_samples_is_no_feature():
    a = pd.DataFrame({"customer": [7, 3, 5], "size": [1.5, 2, 3], "rank": [1, 2, 3]})
    b = pd.DataFrame({"customer": [3, 5, 7], "size": [1, 1, 2]})
    (said,) = forgotten_ids(as_views({"a": a, "b": b}))
    assert "--id customer" in said
    assert forgotten_ids(as_views({"a": a})) == []
    assert forgotten_ids(as_views({"a": a, "b": b.drop(columns="customer")})) == []
    assert forgotten_ids(as_views([X, Y])) == []


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 KB"), (3e15, "3e+03 TB")]
)
def test_sizes_are_readable(n: float, text: str):
    assert size(n) == text


def test_groups_of_unequal_size_are_seen_without_training():
    views, _ = blobs((120, 40, 20), (6, 5), noise=0.3)
    assert quick_sizes(as_views(views), 3, 0) == [120, 40, 20]
    most, _, least = quick_sizes(as_views(with_gaps(views)), 3, 0)
    assert most > 3 * least


@pytest.mark.parametrize("x", [np.ones((6, 2)), np.arange(6.0)[:, None], np.eye(6)])
def test_a_quick_look_bears_poor_data(x):
    assert sum(quick_sizes(as_views([x, x]), 3, 0)) == 6


def test_more_groups_than_samples_are_refused():
    with pytest.raises(ValueError, match="7 groups cannot be seen in 5 samples"):
        quick_sizes(as_views({"x": X, "y": Y}), 7, 0)
