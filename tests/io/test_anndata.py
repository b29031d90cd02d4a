"""Only what is asked for is read from `.h5mu` and `.h5ad` files, and only from these."""

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csc_matrix, csr_matrix
from tests.io.samples import IDS, KIND, WRITERS, A, B, annotated, modalities

from protocol_mvc import as_views
from protocol_mvc.data import memmap
from protocol_mvc.data.checks import is_mapped, is_sparse
from protocol_mvc.io import limits, read_views
from protocol_mvc.io.hdf5 import list_contents


@pytest.fixture
def h5ad(tmp_path):
    return WRITERS["h5ad"](tmp_path)


@pytest.fixture
def h5mu(tmp_path):
    return WRITERS["h5mu"](tmp_path)


def assert_equal(left, right):
    np.testing.assert_array_equal(left.stack(), right.stack())
    np.testing.assert_array_equal(left.mask, right.mask)
    assert left.sample_ids.tolist() == right.sample_ids.tolist()
    assert (left.names, left.columns) == (right.names, right.columns)


@pytest.mark.parametrize("views", [None, ["a:X_twice", "b"], ["b", "a"]])
def test_a_file_reads_as_the_object_does(h5mu, views):
    assert_equal(read_views(h5mu, view_columns=views).views, as_views(modalities(), views))


def test_samples_without_any_view_are_named(h5mu):
    with pytest.raises(ValueError, match=r"set\.h5mu: Row \d \(id 's5'\)"):
        read_views(h5mu, view_columns=["b"])


@pytest.mark.parametrize("views", [None, ["X", "b"], ["obsm/a", "b"], ["X"]])
def test_a_table_reads_as_the_object_does(h5ad, views):
    assert_equal(read_views(h5ad, view_columns=views).views, as_views(annotated(), views))


@pytest.mark.parametrize("views", [["X", "b"], ["a", "b"]])
def test_large_matrices_are_mapped_and_take_no_memory(h5ad, monkeypatch, views):
    monkeypatch.setattr(memmap, "LARGE", 0)
    monkeypatch.setenv(limits.MAX_MEMORY, str(2**10))  # for ids and truth
    found = read_views(h5ad, view_columns=views).views
    assert all(map(is_mapped, found.arrays))
    assert_equal(found, as_views(annotated(), views))


def test_large_modalities_are_mapped_even_where_rows_must_move(tmp_path, monkeypatch):
    monkeypatch.setattr(memmap, "LARGE", 0)
    parts = {
        name: anndata.AnnData(
            np.nan_to_num(x),
            obs=pd.DataFrame(index=IDS),
            var=pd.DataFrame(index=[f"{name}{i}" for i in range(x.shape[1])]),
        )
        for name, x in (("a", A), ("b", B))
    }
    parts["b"] = parts["b"][::-1].copy()
    whole = mudata.MuData(parts)
    whole.write(tmp_path / "set.h5mu")
    found = read_views(tmp_path / "set.h5mu").views
    assert [is_mapped(x) for x in found.arrays] == [True, True]
    assert_equal(found, as_views(whole))


@pytest.mark.parametrize("make", [csr_matrix, csc_matrix])
def test_sparse_matrices_stay_sparse(tmp_path, make):
    x = np.where(np.nan_to_num(A) > 0, np.nan_to_num(A), 0)
    anndata.AnnData(make(x), obsm={"b": x}).write_h5ad(tmp_path / "set.h5ad")
    views = read_views(tmp_path / "set.h5ad", view_columns=["X", "b"]).views
    assert is_sparse(views.arrays[0])
    np.testing.assert_array_equal(views.to_dense(0, dtype=np.float64), x)


def test_labels_are_a_column_of_the_whole_or_of_a_modality(h5mu, h5ad):
    for path in (h5mu, h5ad):
        views, truth, _ = read_views(path, labels="labels")
        assert truth is not None
        assert dict(zip(views.sample_ids, truth, strict=True)) == dict(zip(IDS, KIND, strict=True))
    assert read_views(h5mu).y is None
    with pytest.raises(ValueError, match=r"set\.h5mu: 'kind' of 's2' is missing"):
        read_views(h5mu, labels="a:kind")
    truth = read_views(h5ad, labels="other").y
    assert truth is not None
    assert truth.tolist() == list("stuvwxyz")


def test_the_rest_of_a_file_is_not_looked_at(h5ad, monkeypatch):
    with h5py.File(h5ad, "r+") as file:
        file["layers"].create_dataset("huge", shape=(2**20, 2**20), dtype="f8", chunks=(64, 64))
        file["obsm"]["elsewhere"] = h5py.ExternalLink("secret.h5", "a")
        file["raw"] = np.arange(3)
    assert read_views(h5ad, view_columns=["a", "b"]).views.n_features == (3, 2)
    with pytest.raises(ValueError, match=r"'elsewhere' in '/obsm' is a link"):
        read_views(h5ad)
    monkeypatch.setenv(limits.MAX_MEMORY, str(8 * 8 * 3 - 1))
    with pytest.raises(ValueError, match=r"set\.h5ad: its contents take"):
        read_views(h5ad, view_columns=["a"])


def set_key(file, name, value):
    if name in file:
        del file[name]
    file[name] = value


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f["X"]["indices"].__setitem__(0, 10**6), "'/X'"),
        (lambda f: f["X"]["indptr"].__setitem__(1, -5), "'/X'"),
        (lambda f: f["X"].attrs.__setitem__("shape", (2**40, 2**40)), "GiB"),
        (lambda f: set_key(f, "X/data", h5py.ExternalLink("s.h5", "a")), "'data' in '/X' is a link"),
        (lambda f: set_key(f, "X", h5py.SoftLink("/obsm/b")), "'X' in '/' is a link"),
        (lambda f: set_key(f, "X/more", f["X"]), "recursion"),
        (lambda f: f["obs"].attrs.__delitem__("_index"), "'obs'"),
        (lambda f: f.__delitem__("obs"), "'obs' in '/'"),
        (lambda f: f.__delitem__("X"), "no X in the AnnData.*b"),
        (lambda f: set_key(f, "obs/_index", ["x"]), "do not match 1 ids"),
        (lambda f: f["X"].attrs.__setitem__("encoding-version", "9"), "'/X'"),
        (lambda f: set_key(f, "obsm/b", np.array([[b"x"]] * 8)), "View 'b'"),
    ],
)
def test_damaged_files_are_refused(tmp_path, spoil, message):
    path = tmp_path / "set.h5ad"
    anndata.AnnData(csr_matrix(np.eye(8)), obsm={"b": np.nan_to_num(B)}).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        spoil(file)
    with pytest.raises(ValueError, match=rf"^File {path}.*{message}"):
        read_views(path, view_columns=["X", "b"])


def test_modalities_of_a_file_are_checked(h5mu):
    with h5py.File(h5mu, "r+") as file:
        file.attrs["axis"] = 1
    with pytest.raises(ValueError, match=r"set\.h5mu: .*axis=1"):
        read_views(h5mu)
    with h5py.File(h5mu, "r+") as file:
        file.attrs["axis"] = 0
        set_key(file, "mod/b", h5py.ExternalLink("secret.h5", "b"))
    with pytest.raises(ValueError, match="'b' in '/mod' is a link"):
        read_views(h5mu)


def test_ids_that_occur_twice_cannot_be_matched_to_labels(tmp_path):
    obs = pd.DataFrame({"kind": [0, 1]}, index=["x", "x"])
    data = anndata.AnnData(np.eye(2), obs=pd.DataFrame(index=["x", "y"]), obsm={"b": np.eye(2)})
    data.obs = obs.set_axis(["x", "y"])
    data.write_h5ad(tmp_path / "set.h5ad")
    with h5py.File(tmp_path / "set.h5ad", "r+") as file:
        file["obs/_index"][1] = "x"
    assert read_views(tmp_path / "set.h5ad", view_columns=["X"]).views.sample_ids.tolist() == ["x", "x"]
    with pytest.raises(ValueError, match="'x' occurs twice"):
        read_views(tmp_path / "set.h5ad", view_columns=["X"], labels="kind")


def test_layers_are_views_with_the_names_of_the_features(tmp_path):
    a, b = np.nan_to_num(A), np.nan_to_num(B)
    rna = anndata.AnnData(pd.DataFrame(a, IDS, [*"pqr"]), layers={"counts": a + 1})
    prot = anndata.AnnData(pd.DataFrame(b, IDS, [*"st"]), obsm={"X_clr": b + 2})
    rna.write_h5ad(tmp_path / "a.h5ad")
    whole = mudata.MuData({"rna": rna, "prot": prot})
    whole.write(tmp_path / "a.h5mu")
    keys = ["rna:layers/counts", "prot:obsm/X_clr", "prot"]
    found = read_views(tmp_path / "a.h5mu", view_columns=keys).views
    assert found.names == tuple(keys)
    np.testing.assert_array_equal(found.stack(), np.hstack([a + 1, b + 2, b]))
    assert found.columns == (("p", "q", "r"), None, ("s", "t"))
    assert_equal(found, as_views(whole, keys))
    views = read_views(tmp_path / "a.h5ad", view_columns=["layers/counts", "X"]).views
    assert views.columns == (("p", "q", "r"),) * 2
    with pytest.raises(ValueError, match=r"no layers/raw in modality 'rna', only X, layers/counts"):
        read_views(tmp_path / "a.h5mu", view_columns=["rna:layers/raw"])


def test_the_contents_of_a_file_are_listed(h5mu, h5ad):
    assert list_contents(h5ad) == (["labels", "other"], ["X", "a", "b"])
    found = list_contents(h5mu)
    assert found.matrices == ["a", "a:X_twice", "b", "b:X_twice"]
    assert {"labels", "a:kind", "b:kind"} <= set(found.obs_columns)
