"""Figures show what the results hold, on given or new axes, and need no display."""

import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.examples import blobs, tiny

from protocol_mvc import compare_runs, explain, plotting

VIEWS, TRUTH = blobs((30, 15, 10))


@pytest.fixture(scope="module")
def model():
    return tiny().fit(VIEWS).rename_clusters({2: "rare"})


@pytest.fixture(scope="module")
def explanation(model):
    return explain(model, VIEWS)


def words(axes) -> set[str]:
    return {text.get_text() for text in axes.figure.findobj(matplotlib.text.Text)}


def test_the_map_shows_every_sample_and_names_the_clusters(model):
    axes = plotting.plot_map(model, VIEWS)
    assert sum(len(points.get_offsets()) for points in axes.collections) == len(TRUTH)
    assert {"0", "1", "rare"} <= words(axes)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["0", "1", "rare"]


@pytest.mark.parametrize(
    "color", ["confidence", "outlier_score", TRUTH / 2, TRUTH, TRUTH.astype(str).tolist()]
)
def test_the_map_is_coloured_by_numbers_or_categories(model, color):
    axes = plotting.plot_map(model, VIEWS, color)
    is_number = isinstance(color, str) or np.asarray(color).dtype.kind == "f"
    assert (axes.get_legend() is None) == is_number
    assert len(axes.collections) == (1 if is_number else 3)


def test_colours_that_do_not_fit_are_refused(model):
    for wrong in ("colour", TRUTH[:5]):
        with pytest.raises(ValueError, match="color"):
            plotting.plot_map(model, VIEWS, wrong)


def test_sizes_confidence_and_tree(model, explanation):
    axes = plotting.plot_sizes(model)
    assert [bar.get_width() for bar in axes.patches] == model.cluster_sizes_.tolist()
    for drawn in (axes, plotting.plot_confidence(model, VIEWS), plotting.plot_tree(explanation)):
        assert "rare" in words(drawn)


def test_markers_are_dots_at_the_clusters_that_they_belong_to(explanation):
    axes = plotting.plot_markers(explanation, n_markers=2)
    names = [text.get_text() for text in axes.get_xticklabels()]
    pairs = {(names[int(x)], int(y)) for x, y in axes.collections[0].get_offsets()}
    found = explanation.to_frame()
    titles = found.feature + " (" + found.view + ")"
    assert pairs == {pair for pair in zip(titles, found.cluster, strict=True) if pair[0] in names}
    assert len(pairs) >= len(names)


def test_the_flow_has_a_band_for_each_pair_and_a_bar_for_each_cluster(model):
    comparison = compare_runs(model, model.merge_clusters([0, 1]))
    axes = plotting.plot_flow(comparison)
    assert len(axes.patches) == np.count_nonzero(comparison.counts) + 3 + 2
    assert "rare" in words(axes)


def test_given_axes_are_used_and_all_figures_are_written(model, explanation, tmp_path):
    axes = Figure().subplots()
    assert plotting.plot_sizes(model, ax=axes) is axes
    paths = plotting.save_all(model, VIEWS, explanation, tmp_path / "figures", "svg", TRUTH)
    assert {path.stem for path in paths} >= {"map", "sizes", "markers", "confidence", "tree", "map_truth"}
    assert all("<svg" in path.read_text() for path in paths)


def test_without_matplotlib_the_message_names_the_extra(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match="viz"):
        plotting.plot_sizes(model)
