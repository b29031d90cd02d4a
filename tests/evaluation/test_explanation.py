"""An explanation names the planted features, samples that exist, and a tree over the clusters."""

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from scipy.cluster.hierarchy import is_valid_linkage
from scipy.sparse import csr_array
from tests.examples import tiny

from protocol_mvc import explain

SIZES = (80, 50, 30)
KIND = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], SIZES))
IDS = np.array([f"s{i}" for i in range(len(KIND))])
COLUMNS = ["cluster", "view", "feature", "effect", "auc", "auc_nearest", "share", "direction"]


def planted(seed: int, width: int) -> pd.DataFrame:
    """Features named after the group that they are large in, and features without information."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(len(KIND), width))
    x[:, :6] += 5 * np.eye(3)[KIND].repeat(2, axis=1)
    names = [f"{c}{letter}" for c in "abc" for letter in "xy"] + [f"noise{i}" for i in range(width - 6)]
    return pd.DataFrame(x, index=IDS, columns=names)


FRAMES = {"left": planted(0, 12), "right": planted(1, 9)}


@pytest.fixture(scope="module")
def model():
    return tiny().set_params(config__schedule__n_epochs_rebalance=10).fit(FRAMES)


@pytest.fixture(scope="module")
def found(model):
    return explain(model, FRAMES)


def test_the_planted_features_are_the_first_markers(model, found):
    frame = found.to_frame()
    assert list(frame.columns) == COLUMNS
    for c in range(3):
        kind = np.bincount(KIND[model.labels_ == c]).argmax()
        up = frame[(frame.cluster == c) & (frame.direction == "up")]
        for view in FRAMES:
            assert set(up[up.view == view].feature.head(2)) == {f"{'abc'[kind]}x", f"{'abc'[kind]}y"}
    assert not frame.feature.str.startswith("noise").any()
    assert frame.auc.between(0, 1).all()
    assert frame.share.between(0, 1).all()
    np.testing.assert_array_equal(frame.direction == "up", frame.auc > 0.5)


def test_exemplars_are_members_and_the_tree_joins_all_clusters(model, found):
    label = dict(zip(IDS, model.labels_, strict=True))
    for c, exemplars in enumerate(found.exemplars):
        assert len(exemplars.typical) == len(exemplars.borderline) == 5
        assert {label[i] for i in exemplars.typical + exemplars.borderline} == {c}
    assert is_valid_linkage(found.tree)
    assert found.leaves == [0, 1, 2]
    assert all(near != c for c, near in enumerate(found.nearest))
    assert set(found.best_view) <= set(FRAMES)


def test_numbers_of_markers_and_exemplars(model):
    few = explain(model, FRAMES, n_markers=1, n_exemplars=2)
    assert few.to_frame().groupby(["cluster", "view"]).size().max() == 1
    assert len(few.exemplars[0].typical) == 2
    with pytest.raises(ValueError, match="n_markers"):
        explain(model, FRAMES, n_markers=0)


def test_a_view_that_the_model_has_not_seen_is_explained_too(model):
    other = planted(2, 8)
    found = explain(
        model, FRAMES | {"other": other, "noise": other.sample(frac=1.0, random_state=0).set_axis(IDS)}
    )
    assert found.held_out == ("other", "noise")
    assert "other" in set(found.markers.view)
    assert "noise" not in set(found.markers.view)
    auc = dict(zip(found.view_names, found.view_auc, strict=True))
    assert auc["other"].min() > 0.95
    assert auc["noise"].max() < 0.7
    assert "p-values" in found.caution
    assert "other" in found.caution
    with pytest.raises(ValueError, match="left"):
        explain(model, {"other": other})


def test_sparse_counts_have_the_markers_of_dense_ones():
    rng = np.random.default_rng(0)
    rates = 0.1 + 4 * np.eye(3)[KIND].repeat(3, axis=1)
    counts = [rng.poisson(np.hstack([rates, np.full((len(KIND), 20), 0.1)])) for _ in range(2)]
    model = tiny().fit([csr_array(x) for x in counts])
    sparse, dense = (explain(model, [make(x) for x in counts]) for make in (csr_array, np.asarray))
    assert len(sparse.markers.cluster) > 6
    for ours, theirs in zip(sparse.markers, dense.markers, strict=True):
        if ours.dtype.kind == "f":
            np.testing.assert_allclose(ours.astype(float), theirs.astype(float), atol=1e-9)
        else:
            np.testing.assert_array_equal(ours, theirs)


def test_annotated_data_get_the_markers_where_scanpy_looks_for_them():
    frames = {name: frame.add_prefix(name) for name, frame in FRAMES.items()}
    cells = mudata.MuData({name: anndata.AnnData(frame) for name, frame in frames.items()})
    model = tiny().fit(cells)
    found = explain(model, cells)
    for name in FRAMES:
        part = cells.mod[name]
        ranking = part.uns["rank_genes_groups"]
        groups = ranking["names"].dtype.names
        assert set(groups) <= set(part.obs[ranking["params"]["groupby"]].cat.categories)
        assert set(ranking["names"][groups[0]]) <= set(part.var_names)
        assert np.all(np.diff(ranking["scores"][groups[0]]) <= 0)
        assert np.isnan(ranking["pvals"][groups[0]]).all()
    assert cells.obs["protocol_mvc"].astype(int).tolist() == model.predict(cells).tolist()
    assert len(str(found).splitlines()) == 4
