"""MuData and AnnData are views of the same samples, matched by the names of these."""

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from tests.examples import blobs, tiny, with_gaps

from protocol_mvc import as_views
from protocol_mvc.data.anndata import is_annotated
from protocol_mvc.data.checks import is_sparse

(RNA, PROT), TRUTH = blobs()
CELLS = np.array([f"cell{i}" for i in range(len(TRUTH))])


RNA_FRAME = pd.DataFrame(RNA, CELLS, [f"5gene{i}" for i in range(5)])


def table(x, cells=CELLS, **obsm):
    names = [f"{x.shape[1]}gene{i}" for i in range(x.shape[1])]
    frames = {"obs": pd.DataFrame(index=cells), "var": pd.DataFrame(index=names)}
    return anndata.AnnData(x, **frames, obsm=obsm)


def whole(**parts):
    with mudata.set_options(pull_on_update=False):
        return mudata.MuData(parts)


def partial():
    """Modalities that lack some cells, in another order, and the same as arrays with gaps."""
    gaps = with_gaps([RNA, PROT])
    rows = [np.flatnonzero(~np.isnan(x[:, 0])) for x in gaps]
    parts = [table(x[kept], CELLS[kept]) for x, kept in zip(gaps, (rows[0], rows[1][::-1]), strict=True)]
    return whole(rna=parts[0], prot=parts[1]), gaps


@pytest.mark.parametrize("keys", [None, ["rna", "prot:X_pca"], {"r": "rna", "p": "prot"}])
def test_a_modality_may_be_absent_from_predict(keys):
    data = whole(rna=table(RNA), prot=table(PROT, X_pca=PROT[:, :2]))
    model = tiny(view_columns=keys).fit(data)
    name = model.view_names_in_[0]
    np.testing.assert_array_equal(model.predict(whole(rna=table(RNA))), model.predict({name: RNA_FRAME}))
    with pytest.raises(ValueError, match="modality"):
        model.predict(whole(atac=table(RNA)))


def test_other_matrices_of_an_anndata_are_not_looked_at():
    data = table(RNA, one=RNA, two=PROT)
    model = tiny().fit(data)
    data.obsm["later"] = PROT
    np.testing.assert_array_equal(model.predict(data), model.labels_)
    del data.obsm["two"]
    assert model.predict(data).shape == (90,)


def test_they_are_known_without_their_packages():
    assert is_annotated(table(RNA))
    assert is_annotated(whole(rna=table(RNA)))
    assert is_annotated(table(RNA)[:5])
    assert not any(map(is_annotated, (RNA, pd.DataFrame(RNA), [RNA], {"a": RNA}, as_views([RNA]), None)))


def test_modalities_are_views_with_the_order_of_the_whole():
    data, gaps = partial()
    views = as_views(data)
    assert views.names == ("rna", "prot")
    assert views.sample_ids.tolist() == data.obs_names.tolist()
    rows = [int(name.removeprefix("cell")) for name in views.sample_ids]
    np.testing.assert_array_equal(views.stack(), np.hstack(gaps)[rows])
    assert views.columns[1] == tuple(data["prot"].var_names)


@pytest.mark.parametrize("view_columns", [["X_pca", "obsm/prot"], {"X_pca": "X_pca", "prot": "prot"}, None])
def test_keys_choose_among_the_matrices_of_a_table(view_columns):
    frame = pd.DataFrame(PROT, columns=list("pqrs"), index=CELLS)
    data = table(csr_matrix(RNA), X_pca=RNA[:, :2], prot=frame, X_umap=RNA[:, :2], words=frame.astype(str))
    views = as_views(data, view_columns)
    assert views.names == ("X_pca", "prot")
    assert views.columns == (None, tuple("pqrs"))
    assert views.sample_ids.tolist() == CELLS.tolist()
    np.testing.assert_array_equal(views.stack(), np.hstack([RNA[:, :2], PROT]))
    assert is_sparse(as_views(data, ["X"]).arrays[0])


def test_keys_choose_within_modalities():
    data = whole(rna=table(RNA, X_pca=RNA[:, :2]), prot=table(PROT))
    assert as_views(data, ["prot", "rna:X_pca"]).n_features == (4, 2)
    views = as_views(data, {"genes": "rna:X_pca", "proteins": "prot", "all": "rna:X"})
    assert as_views(data, "prot").names == ("prot",)
    assert (views.names, views.n_features) == (("genes", "proteins", "all"), (2, 4, 5))


@pytest.mark.parametrize("make", [csr_matrix, np.asarray])
def test_matrices_of_a_file_that_is_open_are_fetched(tmp_path, make):
    table(make(RNA), b=PROT).write_h5ad(tmp_path / "x.h5ad")
    for data in (anndata.read_h5ad(tmp_path / "x.h5ad", backed="r"), anndata.read_h5ad(tmp_path / "x.h5ad")):
        np.testing.assert_array_equal(as_views(data, ["X"]).to_dense(0, dtype=np.float64), RNA)


@pytest.mark.parametrize(
    ("data", "view_columns", "message"),
    [
        (table(RNA), None, r"obsm .* no matrix .* X as views"),
        (table(RNA, X_pca=RNA), None, r"\['X_pca'\]"),
        (table(RNA, b=PROT), ["c"], r"'c' .* X, b"),
        (table(RNA, b=PROT), [(0, 2)], r"\(0, 2\)"),
        (table(RNA, b=PROT), {}, "empty"),
        (whole(rna=table(RNA)), ["atac"], r"'atac', only \['rna'\]"),
        (whole(rna=table(RNA)), ["rna:X_pca"], r"'X_pca' in modality 'rna'"),
        (whole(rna=anndata.AnnData(obs=pd.DataFrame(index=CELLS))), None, "no X in modality 'rna'"),
    ],
)
def test_missing_elements_are_named(data, view_columns, message):
    with pytest.raises(ValueError, match=message):
        as_views(data, view_columns)


def test_modalities_must_share_samples():
    others = table(RNA, np.char.add(CELLS, "x"))
    with mudata.set_options(pull_on_update=False):
        data = mudata.MuData({"a": table(RNA), "b": others}, axis=1)
    with pytest.raises(ValueError, match="axis=1"):
        as_views(data)
    data = whole(rna=table(RNA), prot=table(PROT, np.char.add(CELLS, "x")))
    with pytest.raises(ValueError, match="'rna' shares no id with any other view"):
        as_views(data)


def test_parts_out_of_step_with_the_whole_are_refused():
    data = whole(rna=table(RNA), prot=table(PROT))
    data["prot"].obs_names = ["new", *CELLS[1:]]
    with pytest.raises(ValueError, match=r"'prot' .* 'new'.* `update"):
        as_views(data)


def test_fit_takes_them_and_labels_belong_to_the_samples():
    data, gaps = partial()
    model = tiny().fit(data)
    rows = [int(name.removeprefix("cell")) for name in model.sample_ids_]
    twin = tiny().fit({"rna": gaps[0][rows], "prot": gaps[1][rows]})
    np.testing.assert_array_equal(model.labels_, twin.labels_)
    assert model.n_features_in_ == twin.n_features_in_ == 9
    np.testing.assert_array_equal(model.predict(data), model.labels_)
    np.testing.assert_array_equal(model.predict({"rna": RNA_FRAME}), twin.predict({"rna": RNA}))


def test_fit_takes_a_table_with_keys():
    data = table(RNA, X_pca=RNA[:, :2], prot=PROT)
    model = tiny(view_columns={"rna": "X_pca", "prot": "obsm/prot"}).fit(data)
    assert model.view_names_in_ == ("rna", "prot")
    assert model.n_features_in_ == 6
    assert model.sample_ids_.tolist() == CELLS.tolist()
    np.testing.assert_array_equal(model.predict(data[::-1]), model.labels_[::-1])
    model = tiny(view_columns={"all": "X", "prot": "prot"}).fit(data)
    np.testing.assert_array_equal(model.predict(data[:, ::-1]), model.labels_)


def test_several_tables_are_views_matched_by_the_names_of_the_samples():
    tables = {"rna": table(csr_matrix(RNA)), "prot": table(PROT[::-1], CELLS[::-1])}
    views = as_views(tables)
    assert views.sample_ids.tolist() == CELLS.tolist()
    assert views.columns[1] == tuple(tables["prot"].var_names)
    np.testing.assert_array_equal(views.stack(), np.hstack([RNA, PROT]))
    with pytest.raises(ValueError, match="'rna' is an AnnData beside"):
        as_views({**tables, "array": PROT})
    model = tiny().fit(whole(**tables))
    np.testing.assert_array_equal(model.predict({"rna": tables["rna"]}), model.predict({"rna": RNA_FRAME}))
