"""Exports hold one row per sample, with the results of the model, in the layout of each program."""

import anndata
import numpy as np
import pandas as pd
import pytest
from tests.examples import blobs, tiny, with_gaps

from protocol_mvc.report import charts
from protocol_mvc.report import export as module
from protocol_mvc.report.export import export

VIEWS, _ = blobs((30, 15, 10))
IDS = [f"s{i}" for i in range(55)]
FRAMES = {f"v{i}": pd.DataFrame(x, index=IDS) for i, x in enumerate(VIEWS)}


@pytest.fixture(scope="module")
def model():
    return tiny().fit(FRAMES).rename_clusters({2: "rare"})


def check(frame, model):
    np.testing.assert_array_equal(frame.label, model.labels_)
    np.testing.assert_allclose(frame.confidence, model.predict_proba(FRAMES).max(axis=1))
    np.testing.assert_allclose(frame.outlier_score, model.outlier_scores_)
    np.testing.assert_allclose(frame.weight_v0 + frame.weight_v1, 1)


def test_parquet(model, tmp_path):
    export(model, FRAMES, tmp_path / "a.parquet", "parquet")
    frame = pd.read_parquet(tmp_path / "a.parquet")
    columns = ["id", "x", "y", "label", "name", "confidence", "outlier_score", "weight_v0", "weight_v1"]
    assert list(frame.columns) == columns
    assert frame.id.tolist() == IDS
    assert set(frame.name[frame.label == 2]) == {"rare"}
    check(frame, model)
    with pytest.raises(FileExistsError):
        export(model, FRAMES, tmp_path / "a.parquet", "parquet")


def test_h5ad(model, tmp_path):
    export(model, FRAMES, tmp_path / "a.h5ad", "h5ad")
    found = anndata.read_h5ad(tmp_path / "a.h5ad")
    assert found.obs_names.tolist() == IDS
    assert found.obsm["X_tsne"].shape == (55, 2)
    np.testing.assert_array_equal(found.X, model.transform(FRAMES))
    assert list(found.obs.protocol_mvc.cat.categories) == ["0", "1", "rare"]
    check(found.obs, model)


def test_projector(model, tmp_path):
    export(model, FRAMES, tmp_path / "p", "projector")
    tensors = np.loadtxt(tmp_path / "p" / "tensors.tsv", delimiter="\t")
    np.testing.assert_allclose(tensors, model.transform(FRAMES), rtol=1e-4, atol=1e-5)
    check(pd.read_csv(tmp_path / "p" / "metadata.tsv", sep="\t"), model)


def test_samples_beyond_the_map_are_beside_their_nearest_and_absent_views_weigh_nothing(monkeypatch):
    monkeypatch.setattr(module, "MAX_POINTS", 30)
    gaps = with_gaps(VIEWS)
    model = tiny().fit(gaps)
    columns, _ = module.sample_columns(model, gaps)
    assert np.isfinite(columns["x"]).all()
    assert columns["x"].max() <= charts.MAP_SIZE
    missing = np.isnan(gaps[0]).all(axis=1)
    np.testing.assert_array_equal(columns["weight_view_0"][missing], 0)
    np.testing.assert_allclose(columns["weight_view_1"][missing], 1)
