"""`suggest-k` and `-k auto`: the same number, told with its range."""

import numpy as np
import pytest
from tests.cli.running import QUICK, document, error_line, run, save
from tests.examples import overlapping_groups

from protocol_mvc import load_model


@pytest.fixture
def data(tmp_path):
    return save(tmp_path / "v.npz")


def test_suggestion_has_a_message_a_path_and_a_tree(data):
    found = document(run("suggest-k", data, "--json"))
    assert found["low"] <= found["n_clusters"] <= found["high"]
    assert [level["n_clusters"] for level in found["path"]] == list(range(1, len(found["path"]) + 1))
    assert str(found["n_clusters"]) in found["message"]
    assert found["message"] in run("suggest-k", data).stdout


def test_groups_that_overlap_are_explained(tmp_path):
    views, _ = overlapping_groups((700, 500, 300, 100), n_views=2, seed=0)
    np.savez(tmp_path / "v.npz", a=views[0], b=views[1])
    assert document(run("suggest-k", tmp_path / "v.npz", "--json"))["rank"]["n_clusters"] == 4
    assert "nothing in common but its group" in run("suggest-k", tmp_path / "v.npz").stdout


def test_fit_without_a_number_uses_the_suggestion(data, tmp_path):
    found = document(run("suggest-k", data, "--json"))
    fitted = document(run("fit", data, "-o", tmp_path / "run", *QUICK, "--json"))
    assert len(fitted["clusters"]) == found["n_clusters"]
    assert fitted["n_clusters"]["message"] == found["message"]
    assert load_model(tmp_path / "run" / "model").n_clusters_ == found["n_clusters"]


def test_bounds_are_kept(data, tmp_path):
    assert document(run("suggest-k", data, "-k", "auto:5-6", "--json"))["n_clusters"] in (5, 6)
    fitted = document(run("fit", data, "-k", "auto:5-6", "-o", tmp_path / "run", *QUICK, "--json"))
    assert len(fitted["clusters"]) in (5, 6)


@pytest.mark.parametrize("wrong", ["auto:6-5", "many", "1", "2.5", "-3"])
@pytest.mark.parametrize("verb", ["fit", "info"])
def test_other_numbers_are_refused(data, tmp_path, verb: str, wrong: str):
    words = [verb, data, *(("-o", tmp_path / "run") if verb == "fit" else ()), "--n-clusters", wrong]
    assert "n_clusters" in error_line(run(*words), 2)
