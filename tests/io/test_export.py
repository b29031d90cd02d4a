"""What is read and written comes back the same."""

from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from tests.io.samples import WRITERS, A, B, assert_same, load
from tests.io.temporary import folder

from protocol_mvc.io import convert, read_views

TARGETS = ("out.npz", "out.h5", "out.hdf5", "out")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_every_kind_becomes_every_plain_kind(tmp_path, write, target):
    source = write(tmp_path)
    named: Any = {"labels": "labels"} if str(source).endswith(("h5ad", "h5mu")) else {}
    assert convert(source, tmp_path / target, **named) == tmp_path / target
    assert_same(read_views(tmp_path / target))
    first, second = load(source).views, read_views(tmp_path / target).views
    assert first.sample_ids.tolist() == second.sample_ids.tolist()


FINITE = {"allow_nan": False, "allow_infinity": False}
kinds = st.sampled_from([np.float64, np.float32, np.int16, np.uint8, np.bool_, ">f8"])


@given(st.data(), st.sampled_from(TARGETS), st.integers(1, 6))
def test_values_types_and_gaps_come_back(data, target, n):
    views = {
        name: data.draw(arrays(data.draw(kinds), (n, width), elements=FINITE))
        for name, width in (("rna", 3), ("a-b", 1), ("a", 2))
    }
    mask = data.draw(arrays(np.bool_, (n, 3)))
    mask[:, 0] |= ~mask.any(axis=1)
    with folder() as place:
        np.savez(place / "in.npz", **views, mask=mask)
        out = read_views(convert(place / "in.npz", place / target)).views
        assert set(out.names) == set(views)
        for v, name in enumerate(out.names):
            np.testing.assert_array_equal(out.arrays[v], views[name])
            assert out.arrays[v].dtype.kind == views[name].dtype.kind
            np.testing.assert_array_equal(out.mask[:, v], mask[:, list(views).index(name)])
        if target == "out.npz":
            assert out.names == tuple(views)


def test_sparse_views_are_written_in_full(tmp_path, monkeypatch):
    anndata = pytest.importorskip("anndata")
    x = csr_array(np.random.default_rng(0).poisson(0.1, size=(30, 20)).astype(float))
    anndata.AnnData(x, obsm={"b": x.toarray()[:, :3]}).write_h5ad(tmp_path / "in.h5ad")
    monkeypatch.setattr("protocol_mvc.data.checks.CHUNK_BYTES", 100)
    for target in TARGETS:
        views = read_views(convert(tmp_path / "in.h5ad", tmp_path / target, view_columns=["X", "b"])).views
        np.testing.assert_array_equal(views.views["X"], x.toarray())


def test_names_become_names_of_files(tmp_path):
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["g/a"], file["g/a:b"] = np.nan_to_num(A), np.nan_to_num(B)
    assert read_views(convert(tmp_path / "in.h5", tmp_path / "out")).views.names == ("g_a", "g_a_b")
    assert read_views(convert(tmp_path / "in.h5", tmp_path / "out.npz")).views.names == ("g/a", "g/a:b")
    with h5py.File(tmp_path / "in.h5", "a") as file:
        file["g_a"] = np.nan_to_num(B)
    with pytest.raises(ValueError, match="'g_a'"):
        convert(tmp_path / "in.h5", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_names_with_a_meaning_are_refused(tmp_path):
    np.savez(tmp_path / "in.npz", a=np.nan_to_num(A), y=np.nan_to_num(B))
    with pytest.raises(ValueError, match=r"in\.npz .*'y'"):
        convert(tmp_path / "in.npz", tmp_path / "out.npz", view_columns=["a", "y"])


def test_other_endings_are_refused_before_anything_is_read(tmp_path):
    with pytest.raises(ValueError, match=r"out\.csv"):
        convert(tmp_path / "nothing.npz", tmp_path / "out.csv")


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_written_half(tmp_path, monkeypatch, target):
    source = WRITERS["npz"](tmp_path)
    monkeypatch.setattr("protocol_mvc.io.write._blocks", broken)
    with pytest.raises(OSError, match="disk full"):
        convert(source, tmp_path / target)
    assert [path.name for path in tmp_path.iterdir()] == ["set.npz"]


def broken(array):
    yield slice(0, 1), np.asarray(array[:1])
    raise OSError("disk full")


def test_a_folder_of_other_things_is_not_replaced(tmp_path):
    source, folder = WRITERS["masked npy"](tmp_path), tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("kept")
    with pytest.raises(FileExistsError, match="mine"):
        convert(source, folder, overwrite=True)
    assert (folder / "thesis.txt").read_text() == "kept"


def test_a_folder_may_be_replaced_by_itself(tmp_path):
    source = WRITERS["masked npy"](tmp_path)
    with pytest.raises(FileExistsError):
        convert(source, source)
    convert(source, source, overwrite=True)
    assert_same(read_views(source))


def test_a_full_disk_is_noticed_before_hdf5_is_written(tmp_path, monkeypatch):
    source = WRITERS["npz"](tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=10))
    with pytest.raises(OSError, match=r"out\.h5"):
        convert(source, tmp_path / "out.h5")
    assert [path.name for path in tmp_path.iterdir()] == ["set.npz"]
