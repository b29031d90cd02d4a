"""The same data in files of every kind read to the same views."""

import contextlib
import os
import sys
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat
from tests.io.mat_writers import WRITERS as MATLAB
from tests.io.samples import KIND, VIEWS, WRITERS, A, B, assert_same, frame, load

from protocol_mvc.io import read_views

CUT = ("npz", "compressed npz", "h5", "h5ad", "h5mu")


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_every_kind_holds_the_same(tmp_path, write):
    path = write(tmp_path)
    loaded = load(path)
    assert_same(loaded)
    assert loaded.info.path == (path if not isinstance(path, list) else tmp_path)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_views_are_chosen_by_name_and_in_order(tmp_path, write):
    loaded = load(
        [*write(tmp_path)] if write is WRITERS["mixed"] else write(tmp_path), view_columns=["b", "a"]
    )
    assert loaded.views.names == ("b", "a")
    assert_same(loaded)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_view_that_is_not_there_is_named_with_those_that_are(tmp_path, write):
    with pytest.raises(ValueError, match=r"no (view|'c'|modality 'c').*\ba\b.*\bb\b"):
        load(write(tmp_path), view_columns=["c"])


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_labels_that_do_not_exist_are_named(tmp_path, write):
    with pytest.raises(ValueError, match=r"'nothing'.*label"):
        load(write(tmp_path), labels="nothing")


@pytest.mark.parametrize("write", MATLAB.values(), ids=MATLAB)
def test_matlab_files_have_no_ids(tmp_path, write):
    path = write(tmp_path / "set.mat", {"X": [A, B], "Y": KIND.astype(float)})
    loaded = read_views(path)
    assert loaded.views.names == ("X{1}", "X{2}")
    np.testing.assert_array_equal(loaded.views.stack(), np.hstack([A, B]))
    assert loaded.y is not None
    assert loaded.y.tolist() == KIND.tolist()
    assert read_views(path, view_columns=["X{2}", "X{1}"]).views.n_features == (2, 3)
    with pytest.raises(ValueError, match=r"set\.mat: .*'b', only X\{1\}"):
        read_views(path, view_columns=["b"])
    with pytest.raises(ValueError, match=r"set\.mat: .*'Y'"):
        read_views(path, labels="Y")


def test_a_damaged_matlab_file_is_named_once(tmp_path):
    savemat(tmp_path / "set.mat", {"X1": A, "Y": KIND})
    (tmp_path / "set.mat").write_bytes((tmp_path / "set.mat").read_bytes()[:150])
    with pytest.raises(ValueError, match=r"^File (?!.*File).*set\.mat cannot be read as \.mat data"):
        read_views(tmp_path / "set.mat")


@pytest.mark.parametrize("kind", CUT)
def test_files_cut_short_are_refused_with_their_name(tmp_path, kind):
    path = WRITERS[kind](tmp_path)
    whole = path.read_bytes()
    for length in (0, 1, 20, 100, len(whole) // 3, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=rf"^File {path}"):
            load(path)


@pytest.mark.parametrize("kind", ["npz", "compressed npz", "npy", "csv", "parquet"])
def test_altered_files_are_read_or_refused(tmp_path, kind):
    path = WRITERS[kind](tmp_path)
    rng = np.random.default_rng(0)
    for file in [path] if path.is_file() else [*path.iterdir()]:
        whole = file.read_bytes()
        for at in rng.integers(len(whole), size=15):
            file.write_bytes(whole[:at] + bytes([rng.integers(256)]) + whole[at + 1 :])
            with contextlib.suppress(ValueError):
                load(path)
        file.write_bytes(whole)
    assert_same(load(path))


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".mat", ".h5", ".h5ad", ".h5mu", ".parquet", ".csv"])
@pytest.mark.parametrize("junk", [b"", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), b"PK\x03\x04 and no more"])
def test_files_that_are_something_else_are_refused(tmp_path, suffix, junk):
    path = tmp_path / f"junk{suffix}"
    path.write_bytes(junk)
    with pytest.raises(ValueError, match=rf"^File {path}"):
        read_views(path)


def test_the_ending_decides_and_its_case_does_not_matter(tmp_path):
    path = WRITERS["npz"](tmp_path)
    assert_same(read_views(str(path.rename(tmp_path / "SET.NPZ"))))
    with pytest.raises(ValueError, match=r"set\.zip"):
        read_views((tmp_path / "SET.NPZ").rename(tmp_path / "set.zip"))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"set\.npz"):
        read_views(tmp_path / "set.npz")


def test_folders_hold_arrays_or_tables(tmp_path):
    with pytest.raises(ValueError, match=rf"Folder {tmp_path} .*empty"):
        read_views(tmp_path)
    (tmp_path / "README").write_text("words")
    with pytest.raises(ValueError, match="README"):
        read_views(tmp_path)
    np.save(tmp_path / "a.npy", np.nan_to_num(A))
    (tmp_path / "._b.npy").write_bytes(b"what some systems leave behind")
    assert read_views(tmp_path).views.names == ("a",)
    frame("b").to_csv(tmp_path / "b.csv")
    with pytest.raises(ValueError, match="both arrays and tables"):
        read_views(tmp_path)


def test_several_files_are_one_view_each(tmp_path):
    for name, array in VIEWS.items():
        np.save(tmp_path / f"{name}.npy", array)
    loaded = read_views([tmp_path / "b.npy", str(tmp_path / "a.npy")])
    assert loaded.views.names == ("b", "a")
    assert loaded.info.path == tmp_path
    np.savez(tmp_path / "c.npz", c=A)
    with pytest.raises(ValueError, match=r"\.npy, \.npz"):
        read_views([tmp_path / "a.npy", tmp_path / "c.npz"])
    with pytest.raises(ValueError, match="0 files"):
        read_views([])
    with pytest.raises(ValueError, match="unknown format"):
        read_views([tmp_path, tmp_path / "a.npy"])


def test_two_files_of_one_name_are_refused(tmp_path):
    frame("a").to_csv(tmp_path / "a.csv")
    frame("a").to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="'a'"):
        read_views(tmp_path)


def test_a_column_of_ids_is_for_tables(tmp_path):
    with pytest.raises(ValueError, match=r"set\.npz .*id column"):
        read_views(WRITERS["npz"](tmp_path), id_column="id")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_called_so(tmp_path):
    path = WRITERS["npz"](tmp_path)
    path.chmod(0)
    with pytest.raises(PermissionError):
        read_views(path)


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [
        ("h5", "h5py", "data"),
        ("csv", "pandas", "data"),
        ("parquet", "pyarrow.parquet", "data"),
        ("h5ad", "anndata.io", "omics"),
        ("h5mu", "h5py", "omics"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, kind, module, extra):
    path = WRITERS[kind](tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    package = module.partition(".")[0]
    with pytest.raises(ModuleNotFoundError, match=rf"needs {package}: pip .*protocol-mvc\[{extra}\]"):
        load(path)


def test_reading_changes_nothing(tmp_path):
    path = WRITERS["npy"](tmp_path)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    read_views(path)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_a_file_given_twice_is_refused(tmp_path):
    frame("a").to_csv(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="'a'"):
        read_views([tmp_path / "a.csv"] * 3)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"a\.npz"):
        read_views(tmp_path / "a.npz")


def test_names_from_files_command_no_terminal(tmp_path):
    arrays: dict[str, Any] = {"\x1b[31m\nred": np.ones(3)}
    np.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(ValueError, match=r"\\x1b\[31m red float64 \(3,\)\.$"):
        read_views(tmp_path / "set.npz")
