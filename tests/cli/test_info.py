"""Descriptions of data before a fit: counts, duplicates, notes and estimates; nothing is written."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tests.cli.running import QUICK, VIEWS, document, error_line, run, save
from tests.examples import blobs, with_gaps

from protocol_mvc.cli.info import (
    data_notes,
    describe_samples,
    describe_view,
    estimate_cluster_sizes,
)
from protocol_mvc.data import as_views

X = np.array([[0.0, 5, 1], [2, 5, 0], [0, 5, 1], [np.nan] * 3, [0, 5, 1]])
Y = np.array([[1], [2], [1], [1], [3]])


def described(views):
    return [describe_view(views, v) for v in range(views.n_views)]


def test_info_prints_a_table_and_an_estimate(tmp_path):
    result = run("info", save(tmp_path / "v.npz"), "-k", 3, *QUICK)
    assert result.exit_code == 0, result.output
    for part in ("image", "float64", "View 'image': 5 features", "55 samples", "cluster sizes", "0:00:"):
        assert part in result.stdout
    assert list(tmp_path.iterdir()) == [tmp_path / "v.npz"]


def test_the_document_has_the_numbers(tmp_path):
    gaps = with_gaps(VIEWS)
    found = document(run("info", save(tmp_path / "v.npz", image=gaps[0], text=gaps[1]), *QUICK, "--json"))
    assert [view["name"] for view in found["views"]] == ["image", "text"]
    assert found["views"][0]["n_missing"] == np.isnan(gaps[0][:, 0]).sum()
    assert found["n_complete_samples"] < found["n_samples"] == len(gaps[0])
    assert found["clusters"] is None
    assert found["fit_seconds"] > 0
    assert found["fit_bytes"] > found["data_bytes"]
    assert any("'image'" in note for note in found["notes"])


def test_the_number_of_clusters_gives_an_estimate_of_their_sizes(tmp_path):
    found = document(run("info", save(tmp_path / "v.npz"), "-k", 3, *QUICK, "--json"))["clusters"]
    assert sum(found["sizes"]) == found["n_samples"] == 55
    assert found["max_to_min"] > 1


def test_brackets_in_names_are_printed(tmp_path):
    save(tmp_path / "v.npz", **{"[red]a": VIEWS[0]})
    assert "[red]a" in run("info", tmp_path / "v.npz", *QUICK).stdout


def test_a_single_sample_can_be_described(tmp_path):
    np.savez(tmp_path / "v.npz", a=VIEWS[0][:1])
    assert document(run("info", tmp_path / "v.npz", "--json"))["fit_seconds"] is None


def test_unreadable_data_and_too_many_clusters_are_refused(tmp_path):
    (tmp_path / "v.npz").write_text("a letter")
    error_line(run("info", tmp_path / "v.npz"), 3)
    assert "99" in error_line(run("info", save(tmp_path / "w.npz"), "-k", 99), 3)


def test_a_view_is_described():
    views = as_views({"x": X, "y": Y})
    found = describe_view(views, 0)
    assert found | {"zero_share": round(found["zero_share"], 4)} == {
        "name": "x",
        "n_features": 3,
        "dtype": "float64",
        "sparse": False,
        "min": 0.0,
        "max": 5.0,
        "zero_share": 0.3333,
        "n_constant_columns": 1,
        "n_missing": 1,
        "n_duplicates": 2,
    }


def test_a_sample_is_a_duplicate_only_if_all_views_are():
    found = describe_samples(as_views({"x": X, "y": Y}))
    assert (found["n_samples"], found["n_complete_samples"], found["n_duplicate_samples"]) == (5, 4, 1)
    assert found["data_bytes"] == X.nbytes + Y.nbytes


@given(st.integers(0, 99))
def test_sparse_and_dense_views_have_the_same_description(seed: int):
    x = np.random.default_rng(seed).integers(0, 2, (8, 3)).astype(float)
    dense, sparse = (described(as_views([form]))[0] for form in (x, csr_array(x)))
    assert dense | {"sparse": True} == sparse
    assert sparse["n_duplicates"] == len(x) - len(np.unique(x, axis=0))


def test_notes_name_the_view_and_the_number(monkeypatch):
    views = as_views({"x": X, "y": Y})
    found, samples = described(views), describe_samples(views)
    constant, missing, duplicate = data_notes(found, samples)
    assert "'x'" in constant
    assert "20.0%" in missing
    assert "1 samples" in duplicate
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 10, "SC_PHYS_PAGES": 100}.get)
    memory = data_notes(found, samples | {"fit_bytes": 2000})[-1]
    assert "2.0 kB" in memory
    assert "1.0 kB" in memory


def test_clusters_of_unequal_size_are_found_without_training():
    views, _ = blobs((120, 40, 20), (6, 5), noise=0.3)
    assert estimate_cluster_sizes(as_views(views), 3, 0) == [120, 40, 20]
    largest, _, smallest = estimate_cluster_sizes(as_views(with_gaps(views)), 3, 0)
    assert largest > 3 * smallest


@pytest.mark.parametrize("x", [np.ones((6, 2)), np.arange(6.0)[:, None], np.eye(6)])
def test_cluster_sizes_of_degenerate_data(x):
    assert sum(estimate_cluster_sizes(as_views([x, x]), 3, 0)) == 6


def test_more_clusters_than_samples_are_refused():
    with pytest.raises(ValueError, match=r"7.*5 samples"):
        estimate_cluster_sizes(as_views({"x": X, "y": Y}), 7, 0)
